"""Features of a net's layers: hooks that raise where nothing matches, and a net's responses to many sets of
conditions at once.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lcs_utils.checks import (
    check_call,
    check_count,
    check_counts,
    check_kind,
    check_list,
    check_number,
    check_tensor,
    shown,
)
from lcs_utils.diffusion import Denoiser

Layers = str | type | Sequence[str | type]
Sets = Sequence[frozenset[int]]  # sets J of conditions, each condition by its number
SHOWN = 40  # names in an error


def find_layers(net: nn.Module, layers: Layers) -> dict[str, nn.Module]:
    """{name: module}, in the order of the net, of the layers with this name, class, or class name (App. E.4:
    "MCScale").

    Raises ValueError, naming the classes and modules that exist, for one that matches nothing.
    """
    check_kind("net", net, nn.Module, "a torch module")
    wanted = [layers] if isinstance(layers, (str, type)) else check_list("layers", layers)
    for want in wanted:
        if not isinstance(want, (str, type)):
            raise TypeError(f"a layer is a name or a class, got {shown(want)}")
    modules = {name: module for name, module in net.named_modules() if name}

    def matches(name, module, want):
        if isinstance(want, type):
            return isinstance(module, want)
        return want in (name, type(module).__name__)

    for want in wanted:
        if not any(matches(name, module, want) for name, module in modules.items()):
            given = want.__name__ if isinstance(want, type) else want
            classes = Counter(type(module).__name__ for module in modules.values())
            more = f", ... ({len(modules)} in all)" if len(modules) > SHOWN else ""
            raise ValueError(
                f"{type(net).__name__} has no layer {given!r}; classes: "
                f"{', '.join(f'{name} ({n})' for name, n in sorted(classes.items()))}; layers: "
                f"{', '.join(list(modules)[:SHOWN])}{more}"
            )
    if not wanted:
        raise ValueError("no layer was asked for; name at least one, or a class such as MCScale")
    return {
        name: module
        for name, module in modules.items()
        if any(matches(name, module, want) for want in wanted)
    }


@contextmanager
def capture(net: nn.Module, layers: Layers) -> Iterator[dict[str, list[Tensor]]]:
    """Collect {layer: its outputs, one for each forward pass of the net} while the context lasts; layers as
    `find_layers`.

    The hooks are removed afterwards, even after an exception. Raises as `find_layers`, and TypeError for an
    output that is not a tensor.
    """
    found = find_layers(net, layers)
    outputs: dict[str, list[Tensor]] = {name: [] for name in found}

    def keep(name):
        def hook(module, inputs, output):
            if not torch.is_tensor(output):
                raise TypeError(
                    f"layer {name!r} yields a {type(output).__name__}, only tensors can be captured"
                )
            outputs[name].append(output.detach())

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in found.items()]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


class Space(NamedTuple):
    """A feature space: a layer, or "denoiser" for D itself, and how it is read (eq. (3) does not say).

    flat: every channel and place; mean: channels averaged over places; scale: the factors of an MCScale, one
    per channel.
    """

    layer: str
    reading: str = "flat"


@dataclass(frozen=True)
class NetResponse:
    """respond(x_t, sigma, sets) -> {Space: features [sets features]}: features of a net's layers and of its
    denoiser under sets of conditions.

    `singles` [n cond] are the conditions one by one; a set is their sum. `denoise` may wrap the net, as long
    as it calls it once per evaluation. For a layer with a child `linear` (MCScale) the scale is read too.
    `chunk` images run together. Raises ValueError for conditions that the net does not take, for layers as
    `find_layers`, and, when called, for an unknown condition and for a denoiser that calls the net more than
    once.
    """

    denoise: Denoiser
    net: nn.Module
    singles: Float[Tensor, "n cond"]
    layers: Layers = "MCScale"
    chunk: int = 32

    def __post_init__(self):
        check_call("denoise", self.denoise)
        check_tensor("singles", self.singles, ("n", "cond"), False)
        check_count("chunk", self.chunk, 1)
        takes = getattr(getattr(self.net, "config", None), "cond_dim", None)
        if takes is not None and takes != self.singles.shape[1]:
            raise ValueError(
                f"the net takes conditions of {takes} numbers, those given have {self.singles.shape[1]}"
            )
        object.__setattr__(self, "layers", list(find_layers(self.net, self.layers)))

    @property
    def scales(self) -> dict[str, str]:
        """{child that computes a layer's factors: the layer}, for the layers that have one."""
        return {
            f"{name}.linear": name for name in self.layers if hasattr(self.net.get_submodule(name), "linear")
        }

    def condition(self, sets: Sets) -> Float[Tensor, "sets cond"]:
        """The condition of each set. Raises ValueError naming an unknown condition."""
        sets = [check_counts("a set of conditions", J, None) for J in check_list("sets", sets, 1)]
        unknown = sorted({j for J in sets for j in J} - set(range(len(self.singles))))
        if unknown:
            raise ValueError(
                f"conditions {unknown} are not among the {len(self.singles)} given, "
                f"0..{len(self.singles) - 1}"
            )
        return torch.stack([self.singles[sorted(set(J))].sum(0) for J in sets])

    @torch.no_grad()
    def __call__(
        self, x_t: Float[Tensor, "channels height width"], sigma: float, sets: Sets
    ) -> dict[Space, Tensor]:
        check_tensor("x_t", x_t, ("channels", "height", "width"), False, "float")
        check_number("sigma", sigma, 0, above=True)
        cond = self.condition(sets)
        parts = []
        for some in cond.split(self.chunk):
            with capture(self.net, [*self.layers, *self.scales]) as outputs:
                x = x_t.expand(len(some), *x_t.shape)
                x0_hat = self.denoise(x, x_t.new_full((len(some),), float(sigma)), some)
            check_tensor("what denoise returns", x0_hat, x.shape, False, "float")
            parts.append(self._spaces(outputs, x0_hat, len(some)))
        return {space: torch.cat([part[space] for part in parts]) for space in parts[0]}

    def _spaces(self, outputs: dict[str, list[Tensor]], x0_hat: Tensor, batch: int) -> dict[Space, Tensor]:
        spaces = {}
        for name, passes in outputs.items():
            if len(passes) != 1 or len(passes[0]) != batch:
                given = f"{len(passes)} passes of {[len(z) for z in passes]} images for {batch} conditions"
                raise ValueError(
                    f"the denoiser must call its net once for all conditions; layer {name!r} saw {given}"
                )
            z = passes[0] if passes[0].dtype == torch.float64 else passes[0].float()
            if name in self.scales:
                spaces[Space(self.scales[name], "scale")] = z
            else:
                spaces[Space(name)] = z.flatten(1)
                if z.ndim == 4:
                    spaces[Space(name, "mean")] = z.mean((2, 3))
        spaces[Space("denoiser")] = x0_hat.flatten(1)
        return spaces
