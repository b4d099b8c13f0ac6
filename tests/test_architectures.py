"""A net of one's own class is trained, stored, read and measured like ours; ours stay what they were."""

import importlib.util
import inspect
import json
import linecache
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace

import own_net
import pytest
import torch
from diffusers import ConfigMixin, ModelMixin, UNet2DModel
from diffusers.configuration_utils import register_to_config
from own_net import Transformer
from test_training import TINY, tiny_data
from torch import nn

from lcs_utils import architectures, checkpoints, nets, paths, store
from lcs_utils.architectures import ARCHITECTURES
from lcs_utils.evaluation import changes, length_generalization
from lcs_utils.evaluation.features import feature_nets
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.experiments import EXP1, EXP3, EXPERIMENTS, NORMALIZED
from lcs_utils.models.fused import fuse_
from lcs_utils.models.pipeline import ConditionalPipeline
from lcs_utils.presets import PRESETS, of_row, preset
from lcs_utils.training import run as training
from lcs_utils.training.measured import has_features
from lcs_utils.training.state import about, check_made, check_same, start

CLASS = inspect.getsource(own_net)


class Convolutions(ModelMixin, ConfigMixin):
    """Diffusers' U-net, told by its class embedding; for nets that see the whole image."""

    @register_to_config
    def __init__(self, cond_dim, normalize_label=False):
        super().__init__()
        self.label = nn.Linear(cond_dim, 32)
        blocks = {"down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2}
        sizes = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
        self.unet = UNet2DModel(class_embed_type="identity", attention_head_dim=8, **blocks, **sizes)

    def forward(self, x, c_noise, cond):
        return self.unet(x, 1000 * c_noise, self.label(cond.float())).sample


MINE = {"mine": Transformer, "unet2d": Convolutions}
with pytest.MonkeyPatch.context() as patch:
    patch.setattr(architectures, "ARCHITECTURES", MINE)
    nets_of = {"net": {"side": 32}, "patch_net": {"side": 6, "patch": 2}}
    WIDE = replace(TINY, name="mine", architecture="mine", learning_rate=1e-3, **nets_of)
    UNET2D = replace(WIDE, name="unet2d", architecture="unet2d", net={}, patch_net={})


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for name, kind in MINE.items():
        monkeypatch.setitem(ARCHITECTURES, name, kind)


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name, place in {"RUNS": "runs", "DATA": "data", "COUNTS": "counts", "CHECKPOINTS": "nets"}.items():
        monkeypatch.setattr(paths, name, tmp_path / place)
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "counter").symlink_to(paths.ROOT / "data" / "checkpoints" / "counter")
    return tmp_path


@pytest.mark.parametrize(
    ("exp", "size"), [(EXP1, WIDE), (replace(EXP3, name="mine", radius=1), WIDE), (NORMALIZED, UNET2D)]
)
def test_a_net_of_ones_own_goes_the_whole_way(home, monkeypatch, exp, size):
    """Trained, stopped, resumed to the same bytes, read back, sampled, counted, its locality measured."""
    monkeypatch.setattr(net_locality, "SIGMAS", (0.5,))
    monkeypatch.setattr(net_locality, "IMAGES", 1)
    size = replace(size, images=8 * 60, patch_images=8 * 60)
    straight, name = home / "straight", exp.net()
    assert training.run(exp, size, data=tiny_data(), folder=straight, output=straight / name)
    assert not training.run(exp, size, data=tiny_data(), deadline=0)
    assert training.run(exp, size, data=tiny_data())
    kept = nets.folder(name, size.name)
    assert (kept / nets.WEIGHTS).read_bytes() == (straight / name / nets.WEIGHTS).read_bytes()
    row = nets.verified_row(name, size.name)
    assert of_row(row) == (exp, size) and row["settings"]["architecture"] == size.architecture
    pipeline = checkpoints.load(name, size.name)
    assert type(pipeline.net) is ARCHITECTURES[size.architecture] and not pipeline.net.training
    ema = start(exp, size, 0, torch.device("cpu"))
    ema.load(straight / "state.pt")
    for read, trained in zip(pipeline.net.parameters(), ema.ema.parameters(), strict=True):
        assert torch.equal(read, trained.half().float() if trained.ndim > 1 else trained)
    cond = torch.zeros(2, 256)
    cond[1, 40] = 1
    noise = lambda: torch.Generator().manual_seed(0)  # noqa: E731
    drawn = pipeline(cond, 3, generator=noise()).images
    assert fuse_(pipeline.net) == [] and torch.equal(pipeline(cond, 3, generator=noise()).images, drawn)
    length_generalization.measure(name, [1, 2], 2, size.name, steps=3)
    assert len(read_rows(rows_path(size.name))) == 4
    net_locality.measure(name, size.name)
    (row,) = net_locality.read(size.name)
    assert row.net == name and row.response > 0
    assert not has_features(exp, size)
    words = (
        "patch net"
        if exp.radius
        else f"{name} is a {type(pipeline.net).__name__}; features are measured of an"
    )
    with pytest.raises(ValueError, match=words):
        feature_nets.subject(name, size.name)
    assert changes.denoiser(name, size.name, dtype="float32")[1] == 32


TRIED = """import sys
from lcs_utils.training import command
for words in sys.argv[1:]:
    try:
        ended = command.main(words.split())
    except SystemExit as error:
        ended = error.code
    print("ended with", ended, file=sys.stderr)
"""


def test_the_command_line_trains_it_and_refuses_what_it_cannot(tmp_path):
    """In processes that know the class from the file alone."""
    (tmp_path / "mine.py").write_text(
        CLASS
        + "from dataclasses import replace\n"
        + "from lcs_utils.architectures import ARCHITECTURES\n"
        + "from lcs_utils.presets import PRESETS\n"
        + "ARCHITECTURES['vit'] = Transformer\n"
        + "PRESETS['vit'] = replace(PRESETS['tiny'], name='vit', architecture='vit', net={'side': 32},\n"
        + "    patch_net={'side': 14, 'patch': 2}, images=640, per_count=16, learning_rate=1e-3)\n"
    )
    env = os.environ | {"LCS_EXPERIMENTS": "mine.py", "PYTHONPATH": str(paths.ROOT), "LCS_RUNS": "runs"}

    def python(*words, **other):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=env | other,
            capture_output=True,
            text=True,
            timeout=600,
        )
        return done.returncode, done.stdout + done.stderr

    load = "from lcs_utils import checkpoints; print(type(checkpoints.load('exp1', 'vit').net).__name__)\n"
    status, said = python("-c", TRIED + load, "exp1 --preset vit", "exp1_normalized --preset vit")
    assert not status and "\nTransformer\n" in said, said
    refused = "exp1_normalized at preset vit: Transformer must take normalize_label, got cond_dim, side"
    assert "ended with None" in said and refused in said.split("ended with None")[1], said
    status, said = python("-c", load, LCS_EXPERIMENTS="")
    words = "holds a net of class Transformer, which the file that LCS_EXPERIMENTS names must add to"
    assert status and words in said.splitlines()[-1]
    text = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\nfrom lcs_utils.presets import PRESETS\n"
        "PRESETS['vit'] = replace(PRESETS['tiny'], name='vit', images=640, per_count=16)\n"
    )
    tried = ("exp1 --preset vit", "exp1 --preset vit --missing", "exp1 --preset vit --images 1280")
    status, said = python("-c", TRIED, *tried)
    each = said.split("ended with 2\n")
    assert not status and len(each) == 4 and not each.pop(), said
    assert all("architecture" in words.splitlines()[-1] for words in each), said
    (tmp_path / "mine.py").write_text(text.replace("self.told", "self.other"))  # the name, with another class
    status, said = python("-c", load)
    assert status and "holds a net of another Transformer: its weights differ in other.bias" in said
    (tmp_path / "mine.py").write_text(text.replace("ConfigMixin):", "ConfigMixin, nn.Flatten):"))
    assert python("-c", "import lcs_utils")[0] == 0  # a class of more
    (tmp_path / "mine.py").write_text(text.replace("(ModelMixin, ConfigMixin)", "(nn.Module)"))
    status, said = python("-c", "import lcs_utils")
    assert status and "must be a class of diffusers' ModelMixin and ConfigMixin, got" in said


def variant(text):
    """The class of `CLASS` with one thing changed."""
    known = {}
    old, new = text
    assert old in CLASS
    exec(CLASS.replace(old, new).replace("Transformer(M", "Another(M"), known)
    return known["Another"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (("cond_dim, side", "told, side"), "__init__ must take cond_dim, got told, side, width, patch"),
        (("c_noise, cond, valid=None", "c_noise"), r"forward must take \(self, x, c_noise, cond\), got"),
        (("valid=None", "classes"), r"forward must take \(self, x, c_noise, cond\), got"),
    ],
)
def test_a_class_without_the_contract_gives_no_preset(monkeypatch, text, words):
    monkeypatch.setitem(ARCHITECTURES, "other", variant(text))
    with pytest.raises(ValueError, match=f"architecture 'other': {words}"):
        replace(WIDE, architecture="other")


def test_a_preset_names_a_class_and_settings_that_it_takes(monkeypatch):
    with pytest.raises(
        ValueError, match="unknown architecture 'dit', which the file that LCS_EXP.*known: edm2"
    ):
        replace(WIDE, architecture="dit")
    with pytest.raises(TypeError, match="architecture must be text, got 3"):
        replace(WIDE, architecture=3)
    with pytest.raises(
        ValueError, match="mine: patch_net: Transformer takes the settings side, width, patch, got"
    ):
        replace(WIDE, patch_net={"channels": 8})
    with pytest.raises(ValueError, match="takes the settings side, width, patch, got cond_dim"):
        replace(WIDE, net={"cond_dim": 8})
    with pytest.raises(TypeError, match="mine: net: settings are stored as JSON, got"):
        replace(WIDE, net={"side": torch.zeros(3)})
    with pytest.raises(ValueError, match="exp1 at preset mine: Transformer needs the settings side, got {}"):
        about(EXP1, replace(WIDE, net={}), 0)
    with pytest.raises(
        ValueError, match=r"exp3 at .*: a local net's forward must take .*valid.*, Convolutions's is"
    ):
        about(EXP3, UNET2D, 0)
    for kind in (nn.Linear, Transformer(256, 32), "Transformer", None):
        monkeypatch.setitem(ARCHITECTURES, "other", kind)
        with pytest.raises(
            TypeError, match="architecture 'other' must be a class of diffusers' ModelMixin and"
        ):
            replace(WIDE, architecture="other")
    monkeypatch.setitem(ARCHITECTURES, "other", type("Transformer", (Convolutions,), {}))
    with pytest.raises(ValueError, match="another class is called Transformer, too"):
        replace(WIDE, architecture="other")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            ("super().__init__()", "super().__init__(); raise RuntimeError('no memory')"),
            "made with .*no memory",
        ),
        (("@register_to_config", ""), "config does not hold cond_dim, side; decorate its __init__"),
        (
            ("        return self.join", "        return self.cut"),
            r"Another fails on images \[2, 3, 32, 32\]",
        ),
        (("return self.join(", "return (0, "), "its output must be a tensor"),
        (("valid=None):", "valid=None):\n        self.seen += 1"), "changes its buffers seen"),
    ],
)
def test_a_class_that_does_not_work_is_refused_before_any_work(monkeypatch, tmp_path, text, words):
    old, new = text
    kind = variant((old, new))
    if "seen" in new:
        made = kind.__init__

        def init(self, cond_dim, side, width=16, patch=8):
            made(self, cond_dim, side, width, patch)
            self.register_buffer("seen", torch.zeros(()))

        kind.__init__ = init
    monkeypatch.setitem(ARCHITECTURES, "other", kind)
    monkeypatch.setattr(training, "load_data", None)
    with pytest.raises(ValueError, match=words):
        training.run(EXP1, replace(WIDE, architecture="other"), folder=tmp_path, output=tmp_path / "net")
    assert {path.suffix for path in tmp_path.iterdir()} <= {".lock"}


def test_a_state_and_a_row_of_another_architecture_are_refused(tmp_path):
    same = replace(UNET2D, name="mine")
    now = about(EXP1, WIDE, 0)
    assert now["architecture"] == "mine"
    store.write_json(tmp_path / "run.json", now)
    check_same(tmp_path, now)
    check_same(tmp_path, about(EXP1, replace(WIDE, net={"side": 32, "patch": 8}), 0))  # its default
    with pytest.raises(ValueError, match="architecture: 'mine' there, 'unet2d' here"):
        check_same(tmp_path, about(EXP1, same, 0))
    store.write_json(tmp_path / "run.json", about(EXP1, replace(TINY, name="mine"), 0))
    with pytest.raises(ValueError, match="architecture: 'edm2' there, 'mine' here"):
        check_same(tmp_path, now)
    row = {"experiment": "exp1", "preset": "mine", **asdict(EXP1), "settings": WIDE.stored()}
    row["settings"].pop("name")
    row = json.loads(json.dumps(row))
    check_made(row, EXP1, WIDE)
    with pytest.raises(ValueError, match="another experiment .architecture: 'mine' then, 'unet2d' now"):
        check_made(row, EXP1, same)


def test_a_row_that_names_no_architecture_is_of_edm2s(monkeypatch):
    monkeypatch.setitem(PRESETS, "mine", WIDE)
    settings = {key: value for key, value in replace(TINY, name="mine").stored().items() if key != "name"}
    assert "architecture" not in settings
    row = {"experiment": "exp1", "preset": "mine", "objects": [1, 3], "settings": settings}
    assert of_row(row)[1] == replace(TINY, name="mine")
    with pytest.raises(ValueError, match="architecture: 'edm2' then, 'mine' now"):
        check_made(row, EXP1, WIDE)
    row["settings"] = settings | {"architecture": "dit"}
    with pytest.raises(
        ValueError, match="unknown architecture 'dit', which the file that LCS_EXPERIMENTS names"
    ):
        of_row(row)


def test_a_class_that_was_edited_goes_on_with_no_state_and_no_row(tmp_path, monkeypatch):
    """Under one name and of the same shapes, another class trained the second half of a net after a kill."""
    module = tmp_path / "edited.py"

    def after(old="", new=""):
        module.write_text(CLASS.replace(old, new))
        spec = importlib.util.spec_from_file_location("edited", module)
        loaded = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "edited", loaded)
        linecache.clearcache()
        spec.loader.exec_module(loaded)
        monkeypatch.setitem(ARCHITECTURES, "mine", loaded.Transformer)
        return about(EXP1, WIDE, 0)

    before = after()
    store.write_json(tmp_path / "run.json", before)
    row = {"experiment": "exp1", "preset": "mine", **asdict(EXP1), "settings": WIDE.stored()}
    row["settings"].pop("name")
    row = json.loads(json.dumps(row)) | {"net_code": before["net_code"]}
    documented = '    """Patches."""\n\n    @register_to_config'
    for harmless in (("\n", "  # patches\n"), ("    @register_to_config", documented), ("(x, 1)", "( x,1 )")):
        check_same(tmp_path, after(*harmless))
        check_made(row, EXP1, WIDE)
    now = after("+ self.place +", "- self.place +")
    with pytest.raises(
        ValueError, match="state of another training .net_code: '[0-9a-f]{16}' there, '[0-9a-f]"
    ):
        check_same(tmp_path, now)
    with pytest.raises(
        ValueError, match="another experiment .net_code: '[0-9a-f]{16}' then, '[0-9a-f]{16}' now"
    ):
        check_made(row, EXP1, WIDE)
    for older in (before, now):  # either side may not know its code
        store.write_json(tmp_path / "run.json", {k: v for k, v in before.items() if k != "net_code"})
        check_same(tmp_path, older)
    store.write_json(tmp_path / "run.json", before)
    check_same(tmp_path, {k: v for k, v in now.items() if k != "net_code"})


def test_what_is_stored_of_our_nets_names_no_architecture():
    for name in PRESETS:
        for exp in EXPERIMENTS.values():
            if exp.crop is None or exp.crop <= preset(name).resolution:
                assert "architecture" not in about(exp, preset(name), 0)
    now = about(EXP1, preset("tiny"), 0)
    told = dict(name="exp1", objects=[1, 3], labels="all", radius=None, condition="location")
    told |= dict(normalize_label=False, crop=None, sigmas=None, resolution=32, batch=64, learning_rate=0.008)
    told |= dict(per_count=40_000, sigma_data=0.14, optimizer="adam", net=preset("tiny").net)
    told |= dict(preset="tiny", seed=0, data="rendered scenes", labels_drawn=now["labels_drawn"])
    assert now == told


def test_a_trial_has_ones_own_nets_as_they_are(monkeypatch):
    monkeypatch.setitem(PRESETS, "mine", WIDE)
    trial = preset("mine_64")
    assert (trial.net, trial.patch_net, trial.images) == (WIDE.net, WIDE.patch_net, 64)
    assert preset("tiny_640").net["channels"] == 16


def test_no_code_that_a_checkpoint_names_is_run(tmp_path, monkeypatch):
    kept = tmp_path / "net"
    shutil.copytree(paths.CHECKPOINTS / "tiny" / "exp3", kept)
    (tmp_path / "spoiled.py").write_text("raise SystemExit('it ran')")
    shutil.copy(tmp_path / "spoiled.py", kept / "net")
    shutil.copy(tmp_path / "spoiled.py", kept)
    monkeypatch.syspath_prepend(str(tmp_path))
    index = json.loads((kept / "model_index.json").read_text())
    ConditionalPipeline.from_pretrained(kept)
    store.write_json(kept / "model_index.json", index | {"net": ["spoiled", "EDM2UNet"]})
    ConditionalPipeline.from_pretrained(kept)  # the class is ours whatever module is named
    store.write_json(kept / "model_index.json", index | {"net": ["spoiled", "Net"]})
    with pytest.raises(
        ValueError, match="a net of class Net, which the file that LCS_EXPERIMENTS .*: EDM2UNet, Tran"
    ):
        ConditionalPipeline.from_pretrained(kept)


def test_a_net_of_no_known_class_is_not_stored():
    for net in (
        nn.Linear(2, 2),
        UNet2DModel(block_out_channels=(32,), down_block_types=["DownBlock2D"], up_block_types=["UpBlock2D"]),
    ):
        with pytest.raises(
            TypeError, match="net must be of class EDM2UNet or Transformer or Convolutions, got"
        ):
            ConditionalPipeline(net)
