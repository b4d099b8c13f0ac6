"""The local patch denoiser of App. E.3: a local conditional score by architecture (Exp. 3).

The image is a grid of cells. Each cell is denoised from the (2r+1)^2 cells around it, given only the
conditions inside that patch and the patch's position; only the central cell of the result is kept.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

from lcs_utils.checks import check_call, check_count, check_generator, check_number, check_tensor
from lcs_utils.diffusion import SIGMA_DATA, expand
from lcs_utils.models.precond import precondition

# most patches, and most pixels in them, per forward pass: bounds memory for any batch and r
CHUNK, CHUNK_PIXELS = (2048, 2**21)


def cell_size(resolution: int, grid_size: int) -> int:
    """m = resolution / grid_size, pixels per cell (App. E.3). Raises ValueError when it is not a whole
    number.
    """
    check_count("resolution", resolution, 1)
    check_count("grid_size", grid_size, 1)
    if resolution % grid_size:
        raise ValueError(f"grid_size {grid_size} does not divide resolution {resolution}")
    return resolution // grid_size


def _windows(images: Float[Tensor, "batch c height width"], radius: int, grid_size: int) -> Tensor:
    """Every cell's patch as a view [batch row column c side side], 0 outside the image: nothing is copied
    until indexed.
    """
    m = cell_size(images.shape[-1], grid_size)
    side = (2 * radius + 1) * m
    return rearrange(
        F.pad(images, [radius * m] * 4).unfold(2, side, m).unfold(3, side, m), "b c i j y x -> b i j c y x"
    )


def check_square(name: str, images: Tensor, side: int | None = None) -> None:
    """Raise TypeError or ValueError unless they are square images [batch 3 side side], of `side` if given."""
    check_tensor(name, images, ("batch", 3, side or "height", side or "width"), False, "float")
    if images.shape[2] != images.shape[3]:
        raise ValueError(f"{name} must be square, got {list(images.shape)}")


def check_cells(cells: Tensor, batch: int, grid_size: int) -> None:
    """Raise TypeError or ValueError unless these are cells [batch n] of the grid."""
    check_tensor("cells", cells, (batch, "n"), False, "whole")
    least, most = cells.aminmax() if cells.numel() else (0, 0)
    if least < 0 or most >= grid_size**2:
        raise ValueError(f"cells must be in 0..{grid_size**2 - 1}, got {int(least)} to {int(most)}")


def check_grid(grid: Tensor, radius: int, grid_size: int) -> None:
    """Raise TypeError or ValueError unless `grid` holds [batch, grid_size^2] counts >= 0."""
    check_count("radius", radius)
    check_count("grid_size", grid_size, 1)
    check_tensor("cond", grid, None, False)
    if grid.ndim != 2 or grid.shape[1] != grid_size**2:
        raise ValueError(f"cond must have shape [batch, {grid_size**2}], got {list(grid.shape)}")
    if not bool(((grid >= 0) & (grid < torch.inf)).all()):
        wrong = grid[~((grid >= 0) & (grid < torch.inf))]
        raise ValueError(f"cond holds counts, which are >= 0; got {float(wrong[0]):g}")


def extract_patches(
    images: Float[Tensor, "batch 3 height width"],
    radius: int,
    grid_size: int,
    cells: Int[Tensor, "batch n"] | None = None,
) -> tuple[Float[Tensor, "batch n 3 side side"], Float[Tensor, "batch n 1 side side"]]:
    """Patches of side (2r+1) m around `cells` (row * grid_size + column; default all), and their validity
    (0 outside the image).

    Choice: noisy pixels outside the image are 0, and EDM2's ones channel is 0 there too.
    Raises ValueError for images that are not square and for cells outside the grid.
    """
    check_square("images", images)
    check_count("radius", radius)
    cell_size(images.shape[-1], grid_size)
    if cells is not None:
        check_cells(cells, len(images), grid_size)
    else:
        cells = torch.arange(grid_size**2, device=images.device).expand(len(images), -1)
    image, row, column = (
        torch.arange(len(cells), device=cells.device)[:, None],
        cells // grid_size,
        cells % grid_size,
    )
    patches = _windows(images, radius, grid_size)[image, row, column]
    return patches, _windows(torch.ones_like(images[:1, :1]), radius, grid_size)[0, row, column]


def patch_conditions(
    grid: Real[Tensor, "batch cells"], radius: int, grid_size: int
) -> Float[Tensor, "batch cells cond"]:
    """Per cell: the (2r+1)^2 sub-grid of counts, flattened, and the patch center (x, y) in [-1, 1] (App.
    E.3).

    Choice: centers are scaled to [-1, 1], about the size of the counts beside them; the paper gives no scale.
    Raises ValueError unless `grid` has grid_size^2 non-negative counts.
    """
    check_grid(grid, radius, grid_size)
    grid = grid if grid.is_floating_point() else grid.float()  # centers lie between whole numbers
    side = 2 * radius + 1
    padded = F.pad(grid.reshape(-1, 1, grid_size, grid_size), [radius] * 4)
    subgrids = rearrange(padded.unfold(2, side, 1).unfold(3, side, 1), "b 1 i j y x -> b (i j) (y x)")
    line = (torch.arange(grid_size, device=grid.device) + 0.5) * (2 / grid_size) - 1
    y, x = torch.meshgrid(line, line, indexing="ij")
    centers = torch.stack([x, y], dim=-1).reshape(1, -1, 2).expand(len(grid), -1, -1)
    return torch.cat([subgrids, centers.to(grid.dtype)], dim=-1)


def choose_patches(
    grid: Float[Tensor, "batch cells"], radius: int, grid_size: int, generator: torch.Generator
) -> Int[Tensor, "batch 2"]:
    """Two training cells per image: one whose patch holds an active condition, one whose patch holds none
    (App. E.3).

    Choice: where an image has no cell of the wanted kind, any cell is taken. Raises as `patch_conditions`.
    """
    check_grid(grid, radius, grid_size)
    check_generator(generator)
    active = F.max_pool2d(grid.reshape(-1, 1, grid_size, grid_size), 2 * radius + 1, 1, radius).flatten(1) > 0

    def pick(mask):
        return torch.multinomial(
            torch.where(mask.any(1, keepdim=True), mask.float(), torch.ones_like(grid)),
            1,
            generator=generator,
        )

    return torch.cat([pick(active), pick(~active)], dim=1)


@dataclass(frozen=True)
class LocalPatchDenoiser:
    """denoise(x_t, sigma, cond) of a patch net: all cells of all images in batched passes, central cells
    kept (App. E.3).
    """

    net: nn.Module
    radius: int
    grid_size: int = 16
    sigma_data: float = SIGMA_DATA
    chunk: int = CHUNK
    side: int | None = None  # of the images that it was trained on; None: any

    def __post_init__(self):
        check_call("net", self.net)
        check_count("radius", self.radius)
        check_count("grid_size", self.grid_size, 1)
        check_number("sigma_data", self.sigma_data, 0, above=True)
        check_count("chunk", self.chunk, 1)

    def __call__(self, x_t, sigma, cond):
        check_square("x_t", x_t, self.side)
        expand(sigma, x_t)  # only for its checks
        check_tensor("cond", cond, None, False)
        cond = cond.expand(len(x_t), -1) if cond.ndim == 1 else cond
        conditions = patch_conditions(cond, self.radius, self.grid_size)
        b, cells = conditions.shape[:2]
        if b != len(x_t):
            raise ValueError(f"cond must have shape {[len(x_t), cells]}, got {list(cond.shape)}")
        m = cell_size(x_t.shape[-1], self.grid_size)
        center = slice(self.radius * m, (self.radius + 1) * m)
        patches, valid = (
            _windows(x, self.radius, self.grid_size) for x in (x_t, torch.ones_like(x_t[:1, :1]))
        )
        most = max(min(self.chunk, CHUNK_PIXELS // patches[0, 0, 0, 0].numel()), 1)
        # Patches of all images form one list; each pass takes as many as memory holds.
        kept = []
        for index in torch.arange(b * cells, device=x_t.device).split(most):
            image, cell = index // cells, index % cells
            row, column = cell // self.grid_size, cell % self.grid_size
            x0_hat = precondition(
                self.net,
                patches[image, row, column],
                sigma[image],
                conditions[image, cell],
                self.sigma_data,
                valid=valid[0, row, column],
            )
            kept.append(x0_hat[:, :, center, center])
        return rearrange(torch.cat(kept), "(b i j) c y x -> b c (i y) (j x)", b=b, i=self.grid_size)
