"""A step that is captured and replayed is the step that is not; without a GPU a stand-in replays it."""

import warnings
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator, DistributedType
from accelerate.state import AcceleratorState, PartialState
from test_training import TINY, tiny_data

from lcs_utils.experiments import EXP1, EXP3
from lcs_utils.training import graphed, loop
from lcs_utils.training.state import start

LENGTH = 12  # steps of a run
SIZE = replace(TINY, images=TINY.batch * LENGTH, patch_images=TINY.batch * LENGTH)
KINDS = [(EXP1, "adam"), (EXP3, "adam"), (EXP1, "muon")]


class Replayed:
    """A CUDA graph's stand-in: what was captured runs again when it is replayed."""

    def __init__(self, step):
        self.step = step

    def replay(self):
        self.step.outputs.copy_(self.step.step())


@pytest.fixture
def captured(monkeypatch):
    """Steps captured, without a GPU, by training loops of this test."""
    steps = []

    class Step(graphed.GraphedStep):
        def __init__(self, *given):
            steps.append(self)
            monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: Replayed(self))
            super().__init__(*given)

    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda: SimpleNamespace(wait_stream=lambda other: None))
    for name in ("stream", "graph", "device"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    monkeypatch.setattr(graphed, "GraphedStep", Step)
    return steps


def steps(state, exp, count, graphed: bool, monkeypatch):
    """The logs of the next `count` steps of a run of LENGTH."""
    with monkeypatch.context() as patched:
        patched.setattr(loop, "fits_a_graph", lambda accelerator, x_t, size: graphed)
        run = loop.training_loop(state, tiny_data(), exp, SIZE, Accelerator(cpu=True))
        return [next(run) for _ in range(count)]


def same(left, right):
    return all(
        (a.images, a.lr) == (b.images, b.lr)
        and (a.loss, a.error) == pytest.approx((b.loss, b.error), rel=1e-5)
        for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize(("exp", "optimizer"), KINDS)
def test_a_graphed_run_is_the_eager_run(exp, optimizer, captured, monkeypatch):
    """From the first step on: warm-ups change neither weights nor what the optimizer keeps."""
    size, device = replace(SIZE, optimizer=optimizer), torch.device("cpu")
    eager, replayed = (start(exp, size, 0, device) for _ in range(2))
    logs = [steps(state, exp, 6, state is replayed, monkeypatch) for state in (eager, replayed)]
    assert len(captured) == 1 and same(*logs)
    pairs = list(zip(graphed.tensors(eager), graphed.tensors(replayed), strict=True))
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs)


@pytest.mark.parametrize("order", [(False, True), (True, False), (True, True)])
def test_a_state_goes_on_as_a_graph_or_without_one(order, captured, monkeypatch, tmp_path):
    whole = start(EXP1, SIZE, 0, torch.device("cpu"))
    expected = steps(whole, EXP1, 6, False, monkeypatch)
    found, state = [], start(EXP1, SIZE, 0, torch.device("cpu"))
    for as_graph in order:
        found += steps(state, EXP1, 3, as_graph, monkeypatch)
        state.save(tmp_path / "state.pt")
        state = start(EXP1, SIZE, 0, torch.device("cpu"))
        state.load(tmp_path / "state.pt")
    assert same(found, expected) and len(captured) == sum(order)


def test_a_run_whose_warm_ups_stay_is_another(captured, monkeypatch):
    """The negative case: what the two tests above would see."""
    eager, spoiled = (start(EXP1, SIZE, 0, torch.device("cpu")) for _ in range(2))
    expected = steps(eager, EXP1, 6, False, monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(graphed, "tensors", lambda state: iter(()))  # nothing is taken back
        assert not same(steps(spoiled, EXP1, 6, True, patched), expected)


@pytest.mark.parametrize("at", [1, 3, 4])
def test_where_no_graph_can_be_made_kernels_are_launched_one_by_one(at, captured, monkeypatch):
    """The first warm-up fails as without a C compiler, the last one or the capture as it may on a GPU."""
    step, calls = graphed.GraphedStep.step, []

    def failing(self):
        calls.append(self)
        if len(calls) == at:
            raise RuntimeError("no compiler\nand more")
        return step(self)

    eager, state = (start(EXP1, SIZE, 0, torch.device("cpu")) for _ in range(2))
    expected = steps(eager, EXP1, 6, False, monkeypatch)
    monkeypatch.setattr(graphed.GraphedStep, "step", failing)
    with pytest.warns(UserWarning, match=r"several times slower: no CUDA graph of a step \(no compiler\)"):
        assert same(steps(state, EXP1, 6, True, monkeypatch), expected)
    assert len(calls) == at and len(captured) == 1


def test_a_graph_is_for_one_piece_on_one_gpu():
    x_t = torch.zeros(8, 3, 4, 4)
    alone, among = DistributedType.NO, DistributedType.MULTI_GPU
    for kind, processes, at_once, fits in (
        ("cuda", alone, 8, True), ("cpu", alone, 8, False), ("cuda", among, 8, False),
        ("cuda", alone, 7, False),
    ):  # fmt: skip
        accelerator = SimpleNamespace(device=torch.device(kind), distributed_type=processes)
        assert loop.fits_a_graph(accelerator, x_t, replace(TINY, at_once=at_once)) is fits


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(("exp", "optimizer"), KINDS)
def test_a_gpu_replays_the_eager_run(exp, optimizer, monkeypatch, request):
    logs, states = [], []
    for kind in (AcceleratorState, PartialState):  # of other tests: on the processor
        request.addfinalizer(kind._reset_state)
        kind._reset_state()
    for as_graph in (False, True):
        state = start(exp, replace(SIZE, optimizer=optimizer), 0, torch.device("cuda"))
        states.append(state)
        with monkeypatch.context() as patched, warnings.catch_warnings():
            warnings.simplefilter("error")
            patched.setattr(loop, "fits_a_graph", lambda accelerator, x_t, size: as_graph)
            data = type(tiny_data())(*(part.cuda() for part in tiny_data()))
            run = loop.training_loop(state, data, exp, SIZE, Accelerator())
            logs.append([next(run) for _ in range(6)])
    for a, b in zip(*logs, strict=True):
        assert (a.loss, a.error) == pytest.approx((b.loss, b.error), rel=1e-3)
    for a, b in zip(*map(graphed.tensors, states), strict=True):
        assert torch.allclose(a, b, rtol=1e-2, atol=1e-3)
