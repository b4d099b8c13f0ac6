"""F5: do the directions of eq. (3) cause what they stand for? Features of one layer are moved along them
while sampling.

Directions are specific to a noise level: they are measured at each level that a sampler visits, on the states
of sampling without conditions.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lcs_utils.checks import (
    check_call,
    check_choice,
    check_count,
    check_counts,
    check_generator,
    check_kind,
    check_number,
    check_tensor,
    check_text,
)
from lcs_utils.diffusion import SOLVERS, Denoiser, check_schedule, final, sample
from lcs_utils.features.capture import capture, find_layers

# Judges an intervention: (changed, plain, full, j, sign) -> effect and leak of each image, where `full` was
# sampled with condition j (sign 1), or `plain` was (sign -1).
Judge = Callable[[Tensor, Tensor, Tensor, int, int], tuple[Float[Tensor, "batch"], Float[Tensor, "batch"]]]


def one_layer(net: nn.Module, layer: str) -> str:
    """The name of the one layer that `layer` matches. Raises ValueError as `find_layers`, and if several
    match.
    """
    check_text("layer", layer)
    names = list(find_layers(net, layer))
    if len(names) > 1:
        raise ValueError(f"an intervention is on one layer, {layer!r} is {len(names)}: {', '.join(names)}")
    return names[0]


@contextmanager
def changed(net: nn.Module, layer: str, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Replace the layer's output by change(output) while the context lasts. Raises as `one_layer`."""
    check_call("change", change)
    check_kind("net", net, nn.Module, "a module")
    handle = net.get_submodule(one_layer(net, layer)).register_forward_hook(
        lambda module, inputs, output: change(output)
    )
    try:
        yield
    finally:
        handle.remove()


@dataclass(frozen=True, eq=False)
class Directions:
    """d_j of one layer at every noise level of a sampler, and the mean features without conditions
    (`baseline`), which removals are measured from.
    """

    layer: str
    sigmas: Float[Tensor, "levels"]
    d: Float[Tensor, "levels n ..."]
    baseline: Float[Tensor, "levels ..."]

    def at(self, sigma: float) -> int:
        """Index of the level nearest to `sigma` on a log scale. Raises ValueError unless sigma > 0."""
        check_number("sigma", sigma, 0, above=True)
        return int(
            (self.sigmas.log() - torch.tensor(float(sigma), dtype=self.sigmas.dtype).log()).abs().argmin()
        )

    def scaled_as(self, other: "Directions") -> "Directions":
        """These directions with the lengths and baseline of `other`, level by level and condition by
        condition, so that a removal keeps the mean features of the net of `other`.

        Raises ValueError if levels or conditions differ.
        """
        check_kind("other", other, Directions, "Directions")
        check_tensor("the other directions", other.d, self.d.shape, False)
        dims = tuple(range(2, self.d.ndim))

        def length(d):
            return d.square().sum(dims, keepdim=True).sqrt()

        scaled = self.d / length(self.d).clamp(min=1e-12) * length(other.d)
        return Directions(self.layer, self.sigmas, scaled, other.baseline)

    def at_random(self, generator: torch.Generator) -> "Directions":
        """Random vectors of the same lengths, one per condition, the same at every level."""
        check_generator(generator)
        noise = torch.randn(self.d.shape[1:], generator=generator).to(self.d).expand_as(self.d)
        return Directions(self.layer, self.sigmas, noise, self.baseline).scaled_as(self)


@torch.no_grad()
def directions(
    denoise: Denoiser,
    net: nn.Module,
    layer: str,
    singles: Float[Tensor, "n cond"],
    noise: Float[Tensor, "batch ..."],
    sigmas: Float[Tensor, "levels"],
    solver: str = "dpmpp_2m",
) -> Directions:
    """Mean differences of one layer, eq. (3), on states of sampling without conditions from unit `noise`, at
    all `sigmas` > 0.

    Raises ValueError as `one_layer` and `diffusion.sample`, and for conditions without effect on the layer.
    """
    check_call("denoise", denoise)
    check_tensor("singles", singles, ("n", "cond"), False)
    check_tensor("noise", noise, None, False, "float")
    check_schedule(sigmas)
    check_choice("solver", solver, SOLVERS)
    layer, nothing = one_layer(net, layer), torch.zeros_like(singles[:1])
    steps, x = (
        sample(denoise, noise, sigmas, nothing.expand(len(noise), -1), solver),
        noise * float(sigmas[0]),
    )
    found, baseline = [], []
    for sigma in sigmas[:-1].tolist():
        means = []
        for cond in (nothing[0], *singles):
            with capture(net, layer) as outputs:
                denoise(x, x.new_full((len(x),), sigma), cond.expand(len(x), -1))
            means.append(outputs[layer][0].mean(0))
        found.append(torch.stack(means[1:]) - means[0])
        baseline.append(means[0])
        x = next(steps).x_t
    d = torch.stack(found)
    silent = (d.flatten(2).norm(dim=2) == 0).any(0).nonzero().flatten().tolist()
    if silent:
        raise ValueError(
            f"layer {layer!r} does not hear conditions {silent}: their mean difference vectors are zero"
        )
    return Directions(layer, sigmas[:-1], d, torch.stack(baseline))


def check_direction(denoise: Denoiser, net: nn.Module, found: Directions, j: int) -> None:
    """Raise TypeError or ValueError unless these are a denoiser, its net, and directions with a j-th."""
    check_call("denoise", denoise)
    check_kind("net", net, nn.Module, "a torch module")
    check_kind("found", found, Directions, "Directions")
    check_count("condition j", j, 0, found.d.shape[1] - 1)


def adding(denoise: Denoiser, net: nn.Module, found: Directions, j: int, alpha: float = 1.0) -> Denoiser:
    """The denoiser with alpha d_j added to the layer's output at every noise level. Raises ValueError for a j
    without a direction.
    """
    check_direction(denoise, net, found, j)
    check_number("alpha", alpha)

    def run(x_t, sigma, cond):
        shift = alpha * found.d[found.at(float(sigma[0])), j]
        with changed(net, found.layer, lambda z: z + shift.to(z)):
            return denoise(x_t, sigma, cond)

    return run


def removing(denoise: Denoiser, net: nn.Module, found: Directions, j: int) -> Denoiser:
    """The denoiser without the component of the layer's output along d_j: z - d ((z - baseline) . d) / |d|^2.

    Choice: measured from the mean features without conditions, so that what every image has along d_j stays.
    Raises as `adding`.
    """
    check_direction(denoise, net, found, j)

    def run(x_t, sigma, cond):
        level = found.at(float(sigma[0]))
        unit = torch.nn.functional.normalize(found.d[level, j].flatten(), dim=0)

        def project(z):
            along = (z - found.baseline[level].to(z)).flatten(1) @ unit.to(z)
            return z - (along[:, None] * unit.to(z)).reshape(z.shape)

        with changed(net, found.layer, project):
            return denoise(x_t, sigma, cond)

    return run


class Effect(NamedTuple):
    """What one intervention did to each image: its effect on the condition it stands for, and its leak into
    everything else.
    """

    intervention: str
    control: str
    effect: Float[Tensor, "batch"]
    leak: Float[Tensor, "batch"]


def interventions(
    denoise: Denoiser,
    net: nn.Module,
    found: Directions,
    singles: Float[Tensor, "n cond"],
    context: Sequence[int],
    j: int,
    noise: Float[Tensor, "batch ..."],
    sigmas: Float[Tensor, "levels"],
    judge: Judge,
    alpha: float = 1.0,
    untrained: Directions | None = None,
    solver: str = "dpmpp_2m",
    seed: int = 0,
) -> list[Effect]:
    """Add alpha d_j while sampling under `context` without j, and remove span(d_j) under `context`, from the
    same noise.

    Controls: "condition" gives or withholds j itself; "random" a vector of d_j's length; "another" the
    direction of a condition outside `context`; "untrained" the directions of an untrained net, as long as the
    net's own (`Directions.scaled_as`). A removal is judged against withholding j. Raises ValueError for j
    outside `context`, and where no condition lies outside it.
    """
    check_kind("found", found, Directions, "Directions")
    check_tensor("singles", singles, ("n", "cond"), False)
    check_tensor("noise", noise, None, False, "float")
    context = check_counts("context", context)
    check_count("condition j", j)
    check_call("judge", judge)
    if untrained is not None:
        check_kind("untrained", untrained, Directions, "Directions")
    check_count("seed", seed)
    context, others = sorted(set(context)), sorted(set(range(len(singles))) - set(context))
    if j not in context:
        raise ValueError(f"condition {j} is not active and cannot be removed; active are {context}")
    if not others or max(context) >= len(singles):
        raise ValueError(
            f"the context must leave out one of the {len(singles)} conditions, 0..{len(singles) - 1}; got "
            f"{context}"
        )
    generator = torch.Generator().manual_seed(seed)
    random = found.at_random(generator)

    def draw(denoise, members):
        cond = singles[sorted(members)].sum(0).expand(len(noise), -1)
        return final(sample(denoise, noise, sigmas, cond, solver)).clamp(-1, 1)

    without = [c for c in context if c != j]
    plain, full = draw(denoise, without), draw(denoise, context)

    def add(of, c):
        return draw(adding(denoise, net, of, c, alpha), without)

    def remove(of, c):
        return draw(removing(denoise, net, of, c), context)

    adds = {"": (found, j), "random": (random, j), "another": (found, others[0])} | (
        {"untrained": (untrained, j)} if untrained is not None else {}
    )
    results = [Effect("add", "condition", *judge(full, plain, full, j, 1))]
    results += [Effect("add", name, *judge(add(*which), plain, full, j, 1)) for name, which in adds.items()]
    results.append(Effect("remove", "condition", *judge(plain, full, plain, j, -1)))
    return results + [
        Effect("remove", name, *judge(remove(*which), full, plain, j, -1)) for name, which in adds.items()
    ]


def near_places(places: Bool[Tensor, "n height width"]) -> Judge:
    """A judge by pixels: `places[j]` are the pixels near condition j's place.

    effect: the change there along the change that giving (or withholding) j makes, 1 if they are the same;
    leak: the change of all other pixels, relative to the size of that one.
    """
    check_tensor("places", places, ("n", "height", "width"), False, "bool")

    def judge(image, plain, full, j, sign):  # `true` already has the sign
        inside = places[j].to(image.dtype)
        change, true = image - plain, full - plain
        size = (inside * true.square()).flatten(1).sum(1).clamp(min=1e-12)
        effect = (inside * change * true).flatten(1).sum(1) / size
        leak = (((1 - inside) * change.square()).flatten(1).sum(1) / size).sqrt()
        return effect, leak

    return judge


def by_counts(count: Callable[[Tensor], Float[Tensor, "batch n"]]) -> Judge:
    """A judge by objects: `count` returns how many of each condition, such as a color, an image shows.

    effect: the change of j's count, in objects (of a removal, whose `sign` is -1: how many fewer); leak: the
    sum of the absolute changes of all others.
    """
    check_call("count", count)

    def judge(image, plain, full, j, sign):
        change = count(image).double() - count(plain).double()
        return sign * change[:, j], change.abs().sum(1) - change[:, j].abs()

    return judge
