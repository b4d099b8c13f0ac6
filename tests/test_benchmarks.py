"""Every benchmark imports and runs briefly; what it measures is not tested here."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lcs_utils import paths

HELPER = "timing"  # what the others measure with
BENCHMARKS = sorted(path.stem for path in (paths.ROOT / "benchmarks").glob("*.py") if path.stem != HELPER)
MOMENT = {  # words of the command line that make a run short
    "counter": (),
    "explorer": ("--moment",),
    "local_patch": ("--images", "1", "--loop", "128"),
    "locality": ("--targets", "1"),
    "optimizers": ("--preset", "medium_64", "--images", "64", "--scenes", "1"),
    "patch_denoiser": ("--images", "2", "--batch", "1"),
    "renderer": ("speed", "memory", "cuda"),
    "features": ("--draws", "4"),
    "text_to_image": ("--places", "2"),
    "training": ("--seconds", "0", "--batch", "2"),
}


def load(name):
    """A file of benchmarks/ as a module."""
    spec = importlib.util.spec_from_file_location(
        f"benchmark_{name}", paths.ROOT / "benchmarks" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shorten(module, monkeypatch):
    """Reduce a benchmark's repetitions where its command line has no option for it."""
    once = {
        "counter": {"SECONDS": 1e-3, "BATCH": 2},
        "renderer": {"SCENES": getattr(module, "SCENES", [])[:2]},
    }
    for constant, value in once.get(module.__name__.removeprefix("benchmark_"), {}).items():
        monkeypatch.setattr(module, constant, value)
    if module.__name__ == "benchmark_counter":
        read = module.read_sheet

        def first(net):
            return next(iter(read(net).samples.values()))[:1]

        monkeypatch.setattr(module, "read_sheet", lambda net: SimpleNamespace(samples={0: first(net)}))
    if module.__name__ == "benchmark_renderer":
        monkeypatch.setattr(module, "rate", lambda work, n, repeats=3: (work(), (1.0, 1.0))[1])
        found = module.fidelity.load_references()
        monkeypatch.setattr(module.fidelity, "load_references", lambda: tuple(part[:1] for part in found))
        monkeypatch.setattr(module, "MEMORY", "print(1, 2)")
        monkeypatch.setattr(module, "sample_scene", lambda *_: None)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs(name, monkeypatch, capsys):
    assert name in MOMENT, f"say in MOMENT how benchmarks/{name}.py is short"
    monkeypatch.syspath_prepend(paths.ROOT / "benchmarks")  # as for `python benchmarks/NAME.py`
    module = load(name)
    shorten(module, monkeypatch)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *MOMENT[name]])
    module.main()
    assert capsys.readouterr().out.count("\n") >= 2


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_the_same_work_takes_the_same_memory_again():
    """In a process of its own: this one's other threads and freed memory would be measured, too."""
    program = "import timing; print(*(timing.memory(lambda: b'1' * 2**26)[1] for _ in range(2)))"
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=paths.ROOT / "benchmarks", capture_output=True, text=True
    )
    assert all(60 < float(rise) < 80 for rise in said.stdout.split()) and len(said.stdout.split()) == 2


def test_blender_is_asked_for_before_its_time_is_taken(monkeypatch, capsys):
    module, asked = load("renderer"), []
    seconds = iter(range(100))
    monkeypatch.setattr(module, "SCENES", [])
    monkeypatch.setattr(module, "check_bpy", lambda: asked.append(next(seconds)))
    used = SimpleNamespace(RUSAGE_CHILDREN=0)
    used.getrusage = lambda _: SimpleNamespace(ru_utime=next(seconds) ** 2, ru_stime=0)
    monkeypatch.setattr(module, "resource", used)
    monkeypatch.setattr(module, "render_cycles", lambda *_, **__: None)
    monkeypatch.setattr(module, "rate", lambda work, n: (1.0, 1.0))
    module.cycles()
    assert asked == [0] and capsys.readouterr().out.count("Cycles (16 samples") == 3


def test_a_benchmark_of_a_moved_name_is_seen(tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "moved.py").write_text("from lcs_utils.training import condition_dims\n")
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    with pytest.raises(ImportError, match="condition_dims"):
        load("moved")
