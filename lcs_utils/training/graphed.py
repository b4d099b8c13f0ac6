"""A training step as one launch on a GPU: compiled, then replayed as a CUDA graph.

Nets of the shipped sizes are so small that launching their kernels one by one takes longer than running them
(`benchmarks/training.py` compares the two).
"""

import warnings
from collections.abc import Callable, Iterator

import torch
from accelerate import Accelerator, DistributedType
from torch import Tensor

from lcs_utils.presets import Preset
from lcs_utils.training.data import Batch
from lcs_utils.training.state import State

WARM_UPS = 3  # steps before the capture, in which libraries choose kernels and allocate


def fits_a_graph(accelerator: Accelerator, x_t: Tensor, size: Preset) -> bool:
    """Whether a step runs in one piece on one GPU, without other processes."""
    alone = accelerator.distributed_type == DistributedType.NO
    return alone and accelerator.device.type == "cuda" and len(x_t) <= size.at_once


def tensors(state: State) -> Iterator[Tensor]:
    """All tensors that a step changes: parameters, their average, and the optimizer's state."""
    yield from state.objective.parameters()
    yield from state.ema.parameters()
    for kept in state.optimizer.state.values():
        yield from (part for part in kept.values() if torch.is_tensor(part))


class GraphedStep:
    """A step of `state` with (x_t, sigma, batch, learning rate, weight): its mean loss and error.

    `finish(state, weight)` follows the gradients; `weight` is the share of the new parameters in their
    average. Every call takes tensors of the first one's shapes. Capturing leaves the state as it was.
    """

    def __init__(
        self,
        state: State,
        finish: Callable[[State, Tensor], None],
        x_t: Tensor,
        sigma: Tensor,
        batch: Batch,
    ):
        self.state, self.finish = state, finish
        self.lr, self.weight = torch.zeros((), device=x_t.device), torch.zeros((), device=x_t.device)
        for group in state.optimizer.param_groups:
            group["lr"], group["capturable"] = self.lr, True
        torch.compiler.reset()  # else each net of a queue counts as a recompilation of the one before
        self.objective = torch.compile(state.objective, fullgraph=True, dynamic=False)
        self.inputs = [part.clone() for part in self.given(x_t, sigma, batch)]
        begun = bool(state.optimizer.state)
        before = [part.detach().clone() for part in tensors(state)]
        with torch.cuda.device(x_t.device):
            self.capture(before, begun)

    def capture(self, before: list[Tensor], begun: bool) -> None:
        """Warm up and capture, then restore the state to `before`, also if that fails."""
        self.graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream), warnings.catch_warnings():
                # float32 stays float32, and these steps alone run outside the graph
                warnings.filterwarnings(
                    "ignore", "TensorFloat32|This instance was constructed with capturable"
                )
                for _ in range(WARM_UPS):
                    self.step()
            torch.cuda.current_stream().wait_stream(stream)
            own = torch.cuda.current_stream()  # a failed capture does not return to it by itself
            # batches may be read from disk, and moved to the GPU, by another thread meanwhile
            with (
                torch.cuda.stream(own),
                torch.cuda.graph(self.graph, capture_error_mode="thread_local"),
            ):
                self.outputs = self.step()
        finally:
            torch.cuda.current_stream().wait_stream(stream)
            with torch.no_grad():
                for i, part in enumerate(tensors(self.state)):
                    # an optimizer that had no state gets zeros, its step count included
                    part.copy_(before[i]) if begun or i < len(before) else part.zero_()

    @staticmethod
    def given(x_t: Tensor, sigma: Tensor, batch: Batch) -> list[Tensor]:
        return [part for part in (x_t, sigma, *batch) if part is not None]

    def step(self) -> Tensor:
        """One step on `inputs`: what is captured."""
        x_t, sigma, *batch = self.inputs
        self.state.optimizer.zero_grad()
        loss, error = self.objective(x_t, sigma, Batch(*batch))
        loss.mean().backward()
        self.finish(self.state, self.weight)
        return torch.stack([loss.detach().mean(), error.mean()])

    def __call__(self, x_t: Tensor, sigma: Tensor, batch: Batch, lr: float, weight: float) -> list[float]:
        with torch.cuda.device(x_t.device):
            for kept, new in zip(self.inputs, self.given(x_t, sigma, batch), strict=True):
                kept.copy_(new)
            self.lr.fill_(lr)
            self.weight.fill_(weight)
            self.graph.replay()
            return self.outputs.tolist()


def captured(state: State, finish: Callable, x_t: Tensor, sigma: Tensor, batch: Batch) -> GraphedStep | None:
    """The step as a graph; None, with a warning, if none can be made (compiling needs a C compiler)."""
    try:
        return GraphedStep(state, finish, x_t, sigma, batch)
    except RuntimeError as error:
        first = error.__context__ or error  # ending a failed capture fails, too
        reason = (str(first).strip().splitlines() or [type(first).__name__])[0]
        warnings.warn(
            f"kernels are launched one by one, several times slower: no CUDA graph of a step ({reason})",
            stacklevel=2,
        )
        return None
