"""Our nets as ONNX graphs for a browser: denoisers with preconditioning, and the counter (App. E.1 to E.3).

Weights stay in half precision, as they are shipped; the graph casts and normalizes them once, when a runtime
loads it, so that the browser computes with exactly the float32 weights that torch uses.
"""

import copy
import io
import warnings
from functools import partial

import torch
from torch import Tensor, nn

from lcs_utils.counter.net import ObjectCounter, enlarged, expected_objects
from lcs_utils.models.magnitude_preserving import MPConv, normalize
from lcs_utils.models.pipeline import ConditionalPipeline
from lcs_utils.models.precond import precondition

OPSET = 17  # the lowest with all operators of the nets; onnxruntime-web supports it since 1.13


class Whole(nn.Module):
    """D(x_t [n 3 h w], sigma [n], cond [n cells]) of a net that sees the whole image."""

    inputs = ("x", "sigma", "cond")

    def __init__(self, pipeline: ConditionalPipeline):
        super().__init__()
        self.net, self.sigma_data = pipeline.net, pipeline.config.sigma_data
        side = pipeline.config.resolution
        cells = self.net.config.cond_dim
        self.example = torch.zeros(2, 3, side, side), torch.ones(2), torch.zeros(2, cells)

    def forward(self, x, sigma, cond):
        return precondition(self.net, x, sigma, cond, self.sigma_data)


class Patches(nn.Module):
    """D of a local net for patches [n 3 side side], given their part of the grid [n cond] and `valid` [n 1
    side side] (App. E.3).

    The browser cuts the patches and decides which of their pixels are kept.
    """

    inputs = ("x", "sigma", "cond", "valid")

    def __init__(self, pipeline: ConditionalPipeline):
        super().__init__()
        self.net, self.sigma_data = pipeline.net, pipeline.config.sigma_data
        cell = pipeline.config.resolution // pipeline.config.grid_size
        side = (2 * pipeline.config.radius + 1) * cell
        shape = 2, 3, side, side
        cond = torch.zeros(2, self.net.config.cond_dim)
        self.example = torch.zeros(shape), torch.ones(2), cond, torch.ones(2, 1, side, side)

    def forward(self, x, sigma, cond, valid):
        return precondition(self.net, x, sigma, cond, self.sigma_data, valid=valid)


class Counted(nn.Module):
    """The expected number of objects [n] in images [n 3 side side], whose rounding is the counter's count."""

    inputs = ("x",)

    def __init__(self, counter: ObjectCounter, side: int):
        super().__init__()
        self.counter = counter
        self.example = (torch.zeros(2, 3, side, side),)

    def forward(self, x):
        images = enlarged(x.clamp(-1, 1), self.counter.config.resolution)
        return expected_objects(self.counter.read(images).occupancy).sum((1, 2))


def denoiser(pipeline: ConditionalPipeline) -> Whole | Patches:
    """The graph of a pipeline's denoiser, ready for `to_onnx`: float32 inside, weights in half precision. The
    caller's net keeps its own.
    """
    pipeline = copy.deepcopy(pipeline)
    pipeline.net.register_to_config(dtype_inside="float32")
    for module in pipeline.net.modules():
        if isinstance(module, MPConv):
            module.weight.data = module.weight.data.half()
            module.forward = partial(_normalized, module)
    return (Whole if pipeline.config.radius is None else Patches)(pipeline)


def _normalized(module: MPConv, x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
    """MPConv.forward in float32 from a weight that is stored in half precision."""
    weight = module.weight.float()
    weight = normalize(weight, tuple(range(1, weight.ndim))) * (gain * module.constant)
    if weight.ndim == 2:
        return x @ weight.t()
    return nn.functional.conv2d(x, weight, padding=weight.shape[-1] // 2)


def to_onnx(graph: Whole | Patches | Counted) -> bytes:
    """`graph` as an ONNX file whose batch may be of any size; its output is called `y`."""
    names = list(graph.inputs)
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        # Tracing warns about sizes baked in as constants; all sizes but the batch's are constant here.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.eval(),
            graph.example,
            file,
            dynamo=False,
            opset_version=OPSET,
            do_constant_folding=False,  # it would write the weights out in float32, twice the size
            input_names=names,
            output_names=["y"],
            dynamic_axes={name: {0: "n"} for name in [*names, "y"]},
        )
    return file.getvalue()
