"""The small text-to-image model as a folder that diffusers loads, the notebooks' path on any such folder, and
the stored rows beside their controls.
"""

import itertools
import json
import shutil
from dataclasses import replace
from math import nan
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
import tiny_standin
import torch
from diffusers import StableDiffusionXLPipeline

from lcs_utils import store
from lcs_utils.clevr import dataset
from lcs_utils.clevr.scenes import COLORS, SHAPES
from lcs_utils.text_to_image import (
    captions,
    data,
    figures,
    kinds,
    prompt_cosines,
    prompts,
    reader,
    report,
    row_figures,
    ship,
    standin,
    success,
    truth,
)

TINY = replace(tiny_standin.TINY, latents=6)
FEW = replace(
    prompts.SMALL,
    guidance=2.0,
    scenes=prompts.SMALL.scenes[:1],
    composites=prompts.SMALL.composites[:2],
    at_once=2,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("model") / "model"
    pipeline = standin.untrained(TINY)
    pipeline.unet.register_to_config(_name_or_path="/somebody/s/folder")
    ship.written(pipeline, place, {"command": "a test"}, "a card")
    return place


def test_a_written_folder_is_loaded_by_diffusers_and_draws(folder):
    pipeline = StableDiffusionXLPipeline.from_pretrained(folder, use_safetensors=True)
    pipeline.set_progress_bar_config(disable=True)
    images = pipeline("a red cylinder, in fog", height=64, width=64, num_inference_steps=2, output_type="pt")
    assert images.images.shape[1] == 3 and bool(images.images.isfinite().all())
    assert json.loads((folder / "row.json").read_text()) == {"command": "a test"}
    assert not [path for path in folder.rglob("*") if path.suffix in (".bin", ".pt", ".pkl")]
    assert not [path for path in folder.rglob("*.json") if "_name_or_path" in path.read_text()]


def test_statistics_fold_into_the_weights():
    """Scaled latents and pictures stay; the pipeline's own decoding knows statistics of 4 channels only."""
    vae = standin.untrained(TINY).vae.eval()
    mean, std = [0.1 * k for k in range(6)], [0.5 + 0.1 * k for k in range(6)]
    vae.register_to_config(latents_mean=mean, latents_std=std, scaling_factor=1.0)
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)).clamp(-1, 1)
    z, y = data.encode(vae, x), data.decode(vae, data.encode(vae, x))
    folded = data.folded(vae)
    assert folded.config.latents_mean is None and vae.config.latents_mean == mean
    torch.testing.assert_close(data.encode(folded, x), z, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(data.decode(folded, z), y, atol=1e-5, rtol=1e-4)
    assert data.folded(folded) is folded


def test_too_large_a_folder_is_refused_and_the_old_one_stays(folder, monkeypatch):
    monkeypatch.setattr(ship, "LARGEST", 10)
    before = store.sha256(folder / "unet" / "diffusion_pytorch_model.safetensors")
    with pytest.raises(ValueError, match="the folder would take .* bytes, 10 are allowed"):
        ship.written(standin.untrained(TINY), folder, {"command": "another"}, "a card")
    assert store.sha256(folder / "unet" / "diffusion_pytorch_model.safetensors") == before


def test_the_notebooks_path_runs_on_any_folder(folder, tmp_path):
    denoiser, study = prompts.load(str(folder))
    assert study == prompts.SMALL and denoiser.latent_shape == (6, 32, 32)
    latents, heard = prompts.words_heard(denoiser, FEW.scenes[0], (1, 3), 4, FEW.guidance, 0)
    assert [len(moment.maps) for moment in heard] == [4, 4] and heard[0].sigma > heard[1].sigma > 0
    assert set(heard[0].maps) == {"red", "cylinder", "cyan", "cube"}
    figures.plot_words(denoiser, FEW.scenes, [(latents, heard)])
    said = figures.words_numbers(FEW.scenes, [(latents, heard)])
    assert all(abs(sum(of.values()) - 1) < 0.01 for of in said[FEW.scenes[0]].values())
    both = prompts.attended(denoiser, prompts.asked(FEW), FEW, (1, 2), 3, samples=2)
    found = prompt_cosines.of_singles(both, FEW)
    assert all(len(of) == len(FEW.singles) + 1 for of in found.values())
    figures.plot_maps(found, FEW.singles)
    figures.plot_cosines(found, FEW.singles)
    again = prompts.attended(denoiser, prompts.asked(FEW), FEW, (1, 2), 3, samples=2, seed=1)
    said, up = (prompt_cosines.composites(both, FEW, part, again) for part in ("mid", "up"))
    beside = prompt_cosines.composites(both, FEW, "mid")  # an untrained net's, from rows: no other seeds
    assert {kind for of in said["mean"].values() for kind in of} == {"own", "other", "again"}
    assert {kind for of in beside["mean"].values() for kind in of} == {"own", "other"}
    figures.plot_composites({"mid": said, "up": up}, {"mid": beside})
    means = figures.mean_cosines(found, prompt_cosines.of_singles(again, FEW))
    assert report.cosine_words(means, len(FEW.singles)).count("(") == 1 + sum(
        len(of) for b in means.values() for of in b.values()
    )
    plt.close("all")
    cosines = prompt_cosines.cosines(found, next(iter(found))[0], "mid", "empty")
    torch.testing.assert_close(cosines.diagonal(), torch.ones(len(FEW.singles)))
    with pytest.raises(ValueError, match="unknown baseline 'none'; allowed: empty, mean"):
        prompt_cosines.differences(found, next(iter(found))[0], "mid", "none")
    with pytest.raises(ValueError, match="unknown baseline 'none'; allowed: empty, mean"):
        figures.part_maps(found, next(iter(found))[0], "mid", "none")
    with pytest.raises(FileNotFoundError, match="neither 'standin', .* nor a folder with a model_index.json"):
        prompts.load(str(tmp_path))


def test_a_folder_that_says_its_side_is_asked_as_sdxl(folder, tmp_path):
    place = tmp_path / "large"
    shutil.copytree(folder, place)
    config = json.loads((place / "unet" / "config.json").read_text())
    (place / "unet" / "config.json").write_text(json.dumps(config | {"sample_size": 64}))
    denoiser, study = prompts.load(str(place))
    assert study == replace(prompts.FULL, side=128) and denoiser.latent_shape == (6, 64, 64)


def test_on_a_gpu_a_folder_of_sdxl_is_half_precision_and_ours_is_not(folder, tmp_path, monkeypatch):
    """As SDXL from the hub is: a notebook cannot ask for it."""
    place, asked = shutil.copytree(folder, tmp_path / "large"), []
    config = json.loads((place / "unet" / "config.json").read_text())
    (place / "unet" / "config.json").write_text(json.dumps(config | {"sample_size": 64}))

    def load_sdxl(source, revision, device="cpu", dtype="float32", real=prompts.load_sdxl):
        asked.append((device, dtype))
        return real(source, revision)

    monkeypatch.setattr(prompts, "load_sdxl", load_sdxl)
    for model, device in ((place, "cuda"), (place, "cpu"), (folder, "cuda")):
        prompts.load(str(model), device)
    assert asked == [("cuda", "float16"), ("cpu", "float32"), ("cuda", "float32")]


def test_blocks_of_kinds_are_told_from_none():
    """Maps that are a kind's own are alike within it and orthogonal between kinds."""
    singles, kinds_there = prompts.SMALL.singles, ("shape", "color", "style")
    own = [torch.eye(4)[kinds_there.index(prompt.kind)].reshape(2, 2) for prompt in singles]
    found = {(1.0, part): [*own, torch.zeros(2, 2)] for part in figures.PARTS}
    assert kinds.within_and_between(found, singles, 1.0, "mid", "empty") == pytest.approx((1, 0))
    assert "| planted | empty | mid | 1.00 / 0.00 |" in kinds.table({"planted": found}, singles)
    with pytest.raises(ValueError, match="some prompts must share a kind and some not"):
        kinds.within_and_between(found, [one._replace(kind="") for one in singles], 1.0, "mid", "empty")


def test_blocks_as_rows_tell_kinds_from_words_of_their_own_at_every_noise_level(monkeypatch):
    """The interval is over noise: at high noise maps are a kind's own, at low noise each word's own."""
    singles = prompts.SMALL.singles
    order = list(dict.fromkeys(prompt.kind for prompt in singles))

    def attended(denoiser, asked, study, seed):
        words = [*(prompt.word for prompt in singles), *("a" for _ in singles), ""]
        assert [prompt.word for prompt in asked] == words
        assert [prompt.text for prompt in asked] == [prompt.text for prompt in singles] * 2 + [""]
        of_kind = [torch.eye(len(singles))[order.index(prompt.kind)] for prompt in singles]
        grain = 0.01 * torch.randn(len(singles), generator=torch.Generator().manual_seed(seed))
        nothing = torch.zeros(len(singles))
        alone = [*torch.eye(len(singles))]
        return {
            (9.0, "mid"): [*(of + grain for of in of_kind), *alone, nothing],
            (0.1, "mid"): [*alone, *of_kind, nothing],
        }

    monkeypatch.setattr(kinds, "attended", attended)
    rows = kinds.block_rows("planted", None, prompts.SMALL, draws=3)
    first = {(row.sigma, row.case[:5]): row.value for row in rows if row.control == truth.FIRST}
    assert [first[0.1, "empty"], first[9.0, "empty"]] == pytest.approx([1, 0], abs=1e-4)  # and not the words'
    found = {(row.sigma, row.case[:5]): row for row in rows if not row.control}
    assert len(found) == len(first) == 4 and len(rows) == 8 and {row.n for row in rows} == {3}
    assert found[9.0, "empty"].value == pytest.approx(1, abs=0.03)
    assert found[9.0, "empty"].low < found[9.0, "empty"].high and found[9.0, "mean:"].low > 1
    assert [found[0.1, of].value for of in ("empty", "mean:")] == pytest.approx([0, 0], abs=1e-4)
    with pytest.raises(ValueError, match="draws"):
        kinds.block_rows("planted", None, prompts.SMALL, draws=1)
    trained = [row._replace(net="t1", value=row.value * (row.sigma > 1)) for row in rows]  # none at low noise
    halved = [row._replace(net="untrained", value=row.value / 2) for row in rows]
    both = [*trained, *halved, rows[0]._replace(net="t1", measure="AUC", value=9.0)]
    assert kinds.before_training(both)["mean", 9.0] == pytest.approx(0.5)
    said = report.block_words(both).splitlines()
    assert "over 3 draws of noise (intervals" in said[0] and said[2].startswith(
        "| net | baseline | σ = 9 | σ = 0.1"
    )
    assert [line.partition(" | ")[0] for line in said[4:8]] == [
        "| model",
        "| model, at the prompts' first words",
        "| untrained",
        "| untrained, as a share",
    ]
    assert said[7] == "| untrained, as a share | empty | 50% | – |"
    with pytest.raises(ValueError, match="no rows of kinds of untrained: `python -m"):
        report.block_words(trained)


def test_a_prompt_is_itself_from_the_same_noise_and_not_from_chance():
    """Cosines between seeds: one for the same maps, near zero where maps are noise alone."""
    generator = torch.Generator().manual_seed(0)
    noise, other = (
        {(1.0, "mid_block"): [torch.randn(40, 40, generator=generator) for _ in range(4)]} for _ in range(2)
    )
    for baseline in ("empty", "mean"):
        same = prompt_cosines.other_seeds(noise, noise, 1.0, "mid", baseline)
        torch.testing.assert_close(same, torch.ones(3))
        assert prompt_cosines.other_seeds(noise, other, 1.0, "mid", baseline).abs().max() < 0.1


def test_sampling_is_the_pipeline_s_own(folder):
    """Euler's states with guidance end where the pipeline's own call ends, from the same noise."""
    denoiser, _ = prompts.load(str(folder))
    *_, first, last = prompts.sampling(denoiser, "a gray cube", 4, 3.0, 1, 5)
    start = torch.randn(1, *denoiser.latent_shape, generator=torch.Generator().manual_seed(5))
    settings = {"num_inference_steps": 4, "guidance_scale": 3.0, "output_type": "latent"}
    theirs = denoiser.pipeline("a gray cube", height=64, width=64, latents=start, **settings).images
    assert first.sigma > last.sigma == 0
    torch.testing.assert_close(last.x_t, theirs, atol=2e-2, rtol=1e-2)


def test_sdxl_takes_the_paper_s_steps_and_the_noise_levels_of_the_small_model():
    assert prompts.FULL.steps == 50 and prompts.SMALL.steps == success.STEPS == 25
    assert prompts.SMALL.at == (1, 8, 13, 19)
    levels = []
    for study in (prompts.FULL, prompts.SMALL):
        scheduler = standin.untrained(TINY).scheduler
        scheduler.set_timesteps(study.steps)
        levels.append([float(scheduler.sigmas[step - 1]) for step in study.at])
    assert levels[0] == pytest.approx(levels[1])


def test_the_paper_s_prompts_name_words_that_they_hold():
    assert len(prompts.FULL.singles) == 8 and len({one.text for one, _ in prompts.FULL.composites}) == 3
    for study in (prompts.FULL, prompts.SMALL):
        for one in (*study.singles, *(one for one, _ in study.composites)):
            assert one.word in one.text.replace(",", " ").replace(".", " ").split()
        names = {one.short for one in study.singles}
        assert all(single in names for _, single in study.composites)
    of = itertools.product(COLORS, SHAPES, captions.STYLES)
    scenes = [captions.Scene(((color, shape),), style) for color, shape, style in of]
    held = {captions.caption(scene) for scene in scenes if captions.held_out(scene)}
    assert not held & {one.text for one in prompts.SMALL.singles}
    assert {"a red cube", "a gray sphere, in fog"} < held


def test_the_shipped_model_is_small_and_says_how_it_was_made():
    files = [path for path in prompts.FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= ship.LARGEST
    row = json.loads((prompts.FOLDER / "row.json").read_text())
    assert row["command"].startswith(
        f"{data.MADE_BY} && python -m lcs_utils.text_to_image.training vae --images "
    )
    denoiser, study = prompts.load("standin")
    assert denoiser.latent_shape == (8, 16, 16) and study.side == 64


def test_a_half_precision_vae_that_overflows_works_in_float32(monkeypatch):
    vae = standin.untrained(TINY).vae.eval()
    latents = torch.randn(1, TINY.latents, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole = data.decode(vae.half().float(), latents)
        back, half = data.encode(vae, whole), vae.half()
    half.register_to_config(force_upcast=True)
    torch.testing.assert_close(data.decode(half, latents), whole)
    torch.testing.assert_close(data.encode(half, whole), back)
    assert half.dtype == torch.float16  # as it was given
    with pytest.raises(FloatingPointError, match="latents are not finite"):
        data.encode(half, whole * nan)
    monkeypatch.setattr(type(vae), "decode", lambda *_: SimpleNamespace(sample=torch.full((1, 3, 8, 8), nan)))
    with pytest.raises(FloatingPointError, match="not finite in torch.float16"):
        data.decode(half, latents)


def test_the_reader_is_as_exact_as_its_row_says_and_reads_styles(tmp_path):
    told = {
        one.style: one for one in store.read_rows(reader.WEIGHTS.with_name("reader.csv"), reader.Accuracy)
    }
    dataset.generate(tmp_path, seed=7, counts=(1, 2), per_count=100, resolution=64, progress=False)
    found = data.renders("held_out", tmp_path)
    net, blank = reader.load(), reader.Reader()
    seen = {one.style: one for one in reader.accuracy(net, found)}
    assert set(told) == set(seen) == set(captions.STYLES) and len(found.scenes) > 60
    for style, one in told.items():
        assert one.styles >= 0.95 and one.pairs <= min(one.colors, one.shapes)
        assert seen[style].pairs > one.pairs - 0.12 and seen[style].styles >= 0.95
    assert all(one.pairs < 0.2 for one in reader.accuracy(blank, found))  # a net that was not trained
    with pytest.raises(FileNotFoundError, match="train it: `python -m lcs_utils.text_to_image.reader"):
        reader.load(reader.WEIGHTS.with_name("missing.safetensors"))


def test_stored_rows_stand_beside_their_controls():
    rows = truth.read()
    for cases in (report.ABLATED, report.ATTENDED):
        report.check_controls(rows, cases)
        for row in rows:
            if row.measure == "AUC" and row.case in cases and not row.control:
                for control in ("other object", "shuffled"):
                    assert row_figures.one(rows, row.net, "AUC", row.case, control, sigma=row.sigma)
    for row in rows:
        assert row.low <= row.value <= row.high
        if row.guidance and not row.control:
            assert row_figures.one(rows, row.net, row.measure, row.case, "permuted", guidance=row.guidance)
    spoiled = [
        row._replace(low=0.7, value=0.8, high=0.9) if row.control == "shuffled" else row for row in rows
    ]
    with pytest.raises(AssertionError):
        report.check_controls(spoiled, report.ABLATED)
