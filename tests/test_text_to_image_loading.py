"""An SDXL-class pipeline is loaded at its pinned revision or from a folder, whole, and only where it fits."""

import shlex
from fnmatch import fnmatch

import pytest
import torch

from lcs_utils.text_to_image import adapter, loading, standin

PROMPT = "a red cube on the left and a blue sphere"
SMALL = standin.Size((16, 16), (2, 2), (1, 1), (8, 8), 16, 1, 16)


@pytest.fixture(scope="module")
def pipeline():
    return standin.untrained(SMALL)


@pytest.fixture()
def on_gpu(monkeypatch):
    """As on a large GPU: `on_gpu(pipeline)` is loaded whatever is asked for; returns what was."""

    def loads(pipeline):
        calls, kind = [], loading.StableDiffusionXLPipeline
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1e12, 1e12))
        monkeypatch.setattr(kind, "from_pretrained", lambda _, **asked: calls.append(asked) or pipeline)
        monkeypatch.setattr(kind, "to", lambda self, device: self)
        return calls

    return loads


def test_a_saved_folder_is_loaded_and_says_the_same(pipeline, tmp_path):
    pipeline.save_pretrained(tmp_path / "model", safe_serialization=True)
    denoiser = adapter.PromptDenoiser(pipeline, 32, 32)
    again = adapter.PromptDenoiser(loading.load_sdxl(str(tmp_path / "model"), None), 32, 32)
    x_t = 3 * torch.randn(denoiser.latent_shape, generator=torch.Generator().manual_seed(0))
    cond, sigma = denoiser.condition(PROMPT)[None], torch.tensor([2.0])
    torch.testing.assert_close(again.condition(PROMPT)[None], cond)
    torch.testing.assert_close(again(x_t[None], sigma, cond), denoiser(x_t[None], sigma, cond))
    index = tmp_path / "model" / "model_index.json"
    described = index.read_text()
    index.write_text(described.replace("StableDiffusionXLPipeline", "StableDiffusionPipeline"))
    with pytest.raises(
        ValueError, match="model holds a StableDiffusionPipeline; allowed is a StableDiffusionXL"
    ):
        loading.load_sdxl(str(tmp_path / "model"), None)
    index.write_text(described)
    (tmp_path / "model" / "unet" / "diffusion_pytorch_model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="model lacks unet of .*unet.*vae"):
        loading.load_sdxl(str(tmp_path / "model"), None)
    (tmp_path / "model" / "model_index.json").unlink()
    with pytest.raises(FileNotFoundError, match="has no model_index.json"):
        loading.load_sdxl(str(tmp_path / "model"), None)


@pytest.mark.parametrize("asked", [(), (loading.SDXL, "f" * 40), ("somebody/sdxl", None)])
def test_the_hub_is_asked_for_a_pinned_revision_and_for_safetensors(asked, pipeline, monkeypatch):
    """Weights that were exchanged, or pickled code, must not be loaded."""
    calls = []

    def from_pretrained(source, **settings):
        calls.append((source, settings))
        return pipeline

    monkeypatch.setattr(loading.StableDiffusionXLPipeline, "from_pretrained", from_pretrained)
    loading.load_sdxl(*asked)
    ((source, settings),) = calls
    assert (source, settings["revision"]) == (asked or (loading.SDXL, loading.SDXL_REVISION))
    assert settings["use_safetensors"] is True and settings["dtype"] == torch.float32
    assert len(loading.SDXL_REVISION) == 40 and int(loading.SDXL_REVISION, 16)  # a commit, not a branch


def test_on_a_gpu_pictures_are_decoded_one_by_one(on_gpu):
    """Two of 1024 px at once would not fit beside the weights that `check_memory` lets in."""
    on_gpu(standin.untrained(SMALL))
    assert loading.load_sdxl(device="cuda").vae.use_slicing


def test_half_precision_files_of_a_folder_are_found(on_gpu, pipeline, tmp_path):
    calls = on_gpu(standin.untrained(SMALL))
    pipeline.save_pretrained(tmp_path / "half", variant="fp16")
    pipeline.save_pretrained(tmp_path / "whole")
    for name, variant in (("half", "fp16"), ("whole", None)):
        loading.load_sdxl(str(tmp_path / name), None, "cuda", "float16")
        assert calls[-1]["variant"] == variant and calls[-1]["dtype"] == torch.float16


def test_without_a_network_the_command_is_said(monkeypatch):
    def unreached(*args, **settings):
        raise OSError("connection error")

    monkeypatch.setattr(loading.StableDiffusionXLPipeline, "from_pretrained", unreached)
    with pytest.raises(OSError) as error:
        loading.load_sdxl()
    told = shlex.split(str(error.value).split("`")[1])
    assert told[:5] == ["hf", "download", loading.SDXL, "--revision", loading.SDXL_REVISION]
    there = [f"{part}/model{end}" for part in ("text_encoder", "unet") for end in (".safetensors", ".onnx")]
    there += ["model_index.json", "tokenizer/merges.txt", "unet/model.fp16.safetensors", "sd_xl.safetensors"]
    kept = [name for name in there if any(fnmatch(name, pattern) for pattern in told[6::2])]
    assert kept == [there[0], there[2], "model_index.json", "tokenizer/merges.txt"]
    with pytest.raises(OSError, match="`hf download somebody/sdxl`"):
        loading.load_sdxl("somebody/sdxl", None)


def test_a_gpu_that_is_too_small_is_refused_with_what_fits(pipeline, monkeypatch):
    learned = (pipeline.unet, pipeline.vae, pipeline.text_encoder, pipeline.text_encoder_2)
    weights = 4 * sum(p.numel() for part in learned for p in part.parameters())
    for free, fits in ((1.0 * weights, "dtype='float16' fits"), (0.5 * weights, "device='cpu' works")):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, free))
        with pytest.raises(ValueError, match=f"needs about .* GB in torch.float32, cuda has .* free; {fits}"):
            loading.check_memory(pipeline, "cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 * weights, 2 * weights))
    loading.check_memory(pipeline, "cuda")


def test_a_device_that_cannot_hold_it_is_refused():
    with pytest.raises(ValueError, match="on a processor SDXL runs in float32, got float16"):
        loading.load_sdxl(dtype="float16")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="'cuda' was asked for and this machine has none"):
            loading.load_sdxl(device="cuda")
