"""Changes to a net at sampling time, without training: controls, counted like any net under the name
NET/CHANGE.
"""

import hashlib
from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lcs_utils import checkpoints, nets
from lcs_utils.diffusion import SDE, SDE_STEPS, Denoiser
from lcs_utils.evaluation.rows import STANDARD, Sampler
from lcs_utils.models.composition import (
    LinearComposition,
    LocalCondition,
    SplitByNoise,
    UnitCondition,
    nearest,
    swapped,
)

if TYPE_CHECKING:
    from lcs_utils.models.pipeline import ConditionalPipeline


class Change(NamedTuple):
    """A change of a denoiser, given those of the checkpoints in `also`, and the sampler that draws with it;
    `nets.CHANGED` describes it in words.

    Add yours: CHANGES["name"] = Change(...). If you edit a change, rename it: rows and samples are stored
    under its name.
    """

    change: Callable[..., Denoiser]
    also: tuple[str, ...] = ()
    sampler: Sampler = STANDARD

    def apply(
        self, denoise: Denoiser, preset: str = "tiny", device: str = "cpu", dtype: str | None = None
    ) -> Denoiser:
        """The changed denoiser; the nets of `also` are loaded onto `device` too, and compute in `dtype` if it
        is given. Raises CheckpointError if one is missing.
        """
        return self.change(denoise, *(_loaded(name, preset, device, dtype).denoiser for name in self.also))


def _loaded(name: str, preset: str, device: str, dtype: str | None) -> "ConditionalPipeline":
    pipeline = checkpoints.load(name, preset, device)
    if dtype is not None and "dtype_inside" in pipeline.net.config:
        pipeline.net.register_to_config(dtype_inside=dtype)
    return pipeline


CHANGES = {
    "unit": Change(UnitCondition),
    "near": Change(LocalCondition),
    "nearest": Change(lambda denoise: LocalCondition(denoise, nearest)),
    "swapped": Change(lambda denoise: LocalCondition(denoise, swapped)),
    "low_noise": Change(SplitByNoise, ("low_noise",)),
    "stochastic": Change(SplitByNoise, ("low_noise",), Sampler(STANDARD.seed, SDE, SDE_STEPS)),
    "flow": Change(SplitByNoise, ("low_noise",), STANDARD._replace(steps=SDE_STEPS)),
    "linear": Change(LinearComposition),
    "linear_empty": Change(LinearComposition, ("background_empty",)),
    "linear_one": Change(LinearComposition, ("background_one",)),
    "linear_cluttered": Change(LinearComposition, ("background_cluttered",)),
}
OURS = MappingProxyType(dict(CHANGES))


def split(net: str) -> tuple[str, Change | None]:
    """("exp2", its Change) of "exp2/unit"; (net, None) of a net without a change or a folder of that name.

    Raises ValueError listing the allowed names for NAME/SOMETHING that is neither, and for one of our names
    with another change, since stored rows were drawn with ours.
    """
    change = nets.parts(net)[-1]
    if change is None or (change not in CHANGES and nets.folder(net).exists()):
        return net, None
    if change not in CHANGES:
        raise ValueError(f"unknown change {change!r} in {net!r}; allowed: {', '.join(CHANGES)}")
    if OURS.get(change, CHANGES[change]) is not CHANGES[change]:
        raise ValueError(f"{change!r} in {net!r} is one of our changes; give yours a name of its own")
    return net.removesuffix(f"/{change}"), CHANGES[change]


def sampler(net: str) -> Sampler:
    """How NET or NET/CHANGE is sampled unless something else is asked for. Raises as `split`."""
    change = split(net)[1]
    return change.sampler if change else STANDARD


def weights(net: str, preset: str = "tiny") -> str:
    """A 12-digit hash of all weights behind NET or NET/CHANGE. Raises as `split` and `nets.row`."""
    base, change = split(net)
    names = (base, *(change.also if change else ()))
    found = [nets.row(name, preset)["sha256"] for name in names]
    return (found[0] if len(found) == 1 else hashlib.sha256("".join(found).encode()).hexdigest())[:12]


def denoiser(
    net: str, preset: str = "tiny", device: str = "cpu", dtype: str | None = None
) -> tuple[Denoiser, int]:
    """The denoiser of NET or NET/CHANGE, and its resolution. Raises as `split` and `checkpoints.load`.

    `dtype` is the dtype that the nets compute in, by default the one that each was trained in.
    """
    base, change = split(net)
    pipeline = _loaded(base, preset, device, dtype)
    own = pipeline.denoiser
    return change.apply(own, preset, device, dtype) if change else own, pipeline.config.resolution
