"""Three lines from a checkpoint to samples: a diffusers pipeline around any net of this package."""

from dataclasses import dataclass
from pathlib import Path

import torch
from diffusers import DiffusionPipeline, ModelMixin
from diffusers.utils import BaseOutput
from diffusers.utils.torch_utils import randn_tensor
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils.checks import (
    check_choice,
    check_count,
    check_generator,
    check_number,
    check_tensor,
)
from lcs_utils.diffusion import SIGMA_DATA, SOLVERS, Denoiser, karras_sigmas, sample
from lcs_utils.models.classes import check_net, known
from lcs_utils.models.local_patch import LocalPatchDenoiser
from lcs_utils.models.precond import EDMDenoiser
from lcs_utils.progress import quiet


@dataclass
class SampleOutput(BaseOutput):
    """`images`: float [batch 3 resolution resolution] in [-1, 1]."""

    images: Tensor


class ConditionalPipeline(DiffusionPipeline):
    """A net and what its denoiser needs: resolution, grid, sigma_data, and the radius of a patch net (None:
    whole image).

    Load it by this class: diffusers' own `DiffusionPipeline.from_pretrained` does not know it.

    >>> pipeline = ConditionalPipeline.from_pretrained("data/checkpoints/tiny/exp1")
    >>> images = pipeline(cond).images
    """

    def __init__(
        self,
        net: ModelMixin,
        resolution: int = 128,
        radius: int | None = None,
        grid_size: int = 16,
        sigma_data: float = SIGMA_DATA,
    ):
        check_net("net", net)
        check_count("resolution", resolution, 1)
        check_count("grid_size", grid_size, 1)
        if radius is not None:
            check_count("radius", radius)
        check_number("sigma_data", sigma_data, 0, above=True)
        super().__init__()
        self.register_modules(net=net)
        self.register_to_config(
            resolution=resolution, radius=radius, grid_size=grid_size, sigma_data=sigma_data
        )

    @classmethod
    def from_pretrained(cls, folder) -> "ConditionalPipeline":
        """The pipeline that `save_pretrained` wrote; no code that the folder names is run. Raises ValueError
        for a net of an unknown class or with other weights than its class has, OSError without a file.
        """
        stored = cls.load_config(folder)
        if (name := stored["net"][-1]) not in known():
            raise ValueError(
                f"{folder} holds a net of class {name}, which the file that LCS_EXPERIMENTS names must add "
                f"to architectures.ARCHITECTURES; known: {', '.join(known())}"
            )
        how = {"use_safetensors": True, "output_loading_info": True}
        net, found = known()[name].from_pretrained(Path(folder) / "net", **how)
        if wrong := sorted({*found["missing_keys"], *found["unexpected_keys"]}):
            raise ValueError(
                f"{folder} holds a net of another {name}: its weights differ in {', '.join(wrong)}"
            )
        return cls(
            net, **{name: stored[name] for name in ("resolution", "radius", "grid_size", "sigma_data")}
        )

    @property
    def denoiser(self) -> Denoiser:
        """The net as `denoise(x_t, sigma, cond)` of images of its resolution."""
        side, wide = self.config.resolution, self.config.sigma_data
        if self.config.radius is None:
            return EDMDenoiser(self.net, wide, side)
        return LocalPatchDenoiser(self.net, self.config.radius, self.config.grid_size, wide, side=side)

    @torch.no_grad()
    def __call__(
        self,
        cond: Tensor,
        num_inference_steps: int = 32,
        solver: str = "heun",
        generator: torch.Generator | None = None,
    ) -> SampleOutput:
        """One image per row of `cond` [batch cond_dim]; no guidance (App. E.1). Raises ValueError for a bad
        cond.
        """
        check_tensor("cond", cond, None, False)
        check_count("num_inference_steps", num_inference_steps, 1)
        check_choice("solver", solver, SOLVERS)
        if generator is not None:
            check_generator(generator)
        cond_dim = self.net.config.cond_dim if self.config.radius is None else self.config.grid_size**2
        if cond.ndim != 2 or cond.shape[1] != cond_dim:
            raise ValueError(f"cond must have shape [batch, {cond_dim}], got {list(cond.shape)}")
        counts = (cond >= 0) & (cond < torch.inf)
        if not bool(counts.all()):
            raise ValueError(f"cond holds counts, which are >= 0; got {float(cond[~counts][0]):g}")
        side = self.config.resolution
        noise = randn_tensor((len(cond), 3, side, side), generator=generator, device=self.device)
        steps = sample(self.denoiser, noise, karras_sigmas(num_inference_steps), cond.to(self.device), solver)
        for step in tqdm(steps, total=num_inference_steps, desc="sampling", disable=quiet(), leave=False):
            pass
        return SampleOutput(images=step.x_t.clamp(-1, 1))
