"""Diffusion pipelines: against diffusers' own runs under PyTorch's counter, and against published figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.api.language.pipelines import FLUX, PIPELINES, SDXL_UNET, WAN, Parts, flux, stable_diffusion, written

import flopwise
from flopwise.cli import main
from flopwise.formats.torch.libraries import imported, repaired

transformers = pytest.importorskip("transformers")
pytest.importorskip("diffusers")
TINY = "examples/tiny_diffusion"


@pytest.fixture(scope="module")
def diffusers() -> Any:
    repaired(lambda: transformers.PreTrainedModel)
    return imported("diffusers")


def executed(diffusers: Any, kind: str, parts: Parts, **request: Any) -> int:
    """Multiply-accumulates of diffusers' pipeline with weights in memory, by PyTorch's counter."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    made: dict[str, Any] = {}
    for name, (library, maker, settings) in parts.items():
        if name.startswith("tokenizer"):
            words = Tokenizer(models.WordLevel({"a": 0, "<pad>": 1}, unk_token="a"))
            words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
            longest = 77 if maker.startswith("CLIP") else 512
            fast = transformers.PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=longest)
            fast.add_special_tokens({"pad_token": "<pad>", "unk_token": "a"})
            made[name] = fast
        elif library == "transformers":
            cls = getattr(transformers, maker)
            made[name] = cls(cls.config_class(**settings)).eval()
        else:
            made[name] = getattr(diffusers, maker).from_config(settings) if library == "diffusers" else None
    if kind == "StableDiffusionPipeline":
        made |= {"feature_extractor": None, "requires_safety_checker": False}
    if kind == "StableDiffusion3Pipeline":
        made |= {"text_encoder_3": None, "tokenizer_3": None}
    pipeline = getattr(diffusers, kind)(**made)
    pipeline.set_progress_bar_config(disable=True)
    # the fused kernel of CPUs is unknown to the counter
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        pipeline("a a a", output_type="pt", **request)
    return int(counter.get_total_flops()) // 2


@pytest.mark.upstream
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("StableDiffusionPipeline", {"size": "128x192", "steps": 3}),
        ("StableDiffusionPipeline", {"size": "128", "steps": 2, "guidance": 1.0}),
        ("StableDiffusion3Pipeline", {"size": "128", "steps": 2}),
        ("FluxPipeline", {"size": "128x64", "steps": 2}),
        ("WanPipeline", {"size": "64x96", "steps": 2, "frames": 5}),
    ],
)
def test_macs_are_those_that_the_pipeline_executes(
    diffusers: Any, kind: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    parts = PIPELINES[kind](small=True)
    result = flopwise.diffusion(written(tmp_path, kind, parts), dtype="fp32", prompt=3, **settings)
    asked = {"num_inference_steps": settings["steps"], "width": result.width, "height": result.height}
    asked |= {"num_frames": result.frames} if result.frames else {}
    asked |= {"guidance_scale": settings["guidance"]} if "guidance" in settings else {}
    assert result.macs == executed(diffusers, kind, parts, **asked)
    assert not [note for note in result.notes if "uncounted" in note]


def test_stable_diffusion_is_as_published(tmp_path: Path) -> None:
    """860 M parameters and 339 GMACs of the U-Net without attention's products (arXiv 2305.15798)."""
    result = flopwise.diffusion(written(tmp_path, "StableDiffusionPipeline", stable_diffusion()), steps=25)
    unet = next(stage for stage in result.stages if stage.name == "unet")
    assert {name: part.params for name, part in result.components.items()} == {
        "text_encoder": 123_060_480,
        "unet": 859_520_964,
        "vae": 83_653_863,
    }
    assert (unet.calls, unet.cost.batch) == (26, 2)  # the scheduler's second call of the first step; with guidance
    assert round((unet.cost.macs - unet.cost.attention_macs) / 2e9) == 339
    assert "safety_checker: not counted, engines do without" in result.notes


def test_flux_is_below_what_is_measured(tmp_path: Path) -> None:
    """microsoft/onnxruntime#22986: 50 steps in 8.198 s and 36,651 MB on an H100; xDiT#416: 33.76 GB of parameters."""
    result = flopwise.diffusion(written(tmp_path, "FluxPipeline", flux()), steps=50, size="1024", device="h100")
    assert result.components["transformer"].params == 11_901_408_320
    assert round(result.weight_bytes / 1e9, 1) == 33.7
    assert result.must_fit_bytes is not None
    assert result.must_fit_bytes < 36_651 * 2**20
    assert result.seconds is not None
    assert 0.4 < result.seconds / 8.198 < 1
    assert result.fits


@pytest.mark.parametrize(
    ("kind", "settings", "params"),
    [
        ("UNet2DConditionModel", SDXL_UNET, 2_567_463_684),
        ("FluxTransformer2DModel", FLUX, 11_901_408_320),
        ("WanTransformer3DModel", WAN, 1_418_996_800),
    ],
)
def test_the_configurations_are_those_of_the_checkpoints(
    diffusers: Any, kind: str, settings: dict[str, Any], params: int
) -> None:
    import torch

    with torch.device("meta"):
        module = getattr(diffusers, kind).from_config(settings)
    assert sum(tensor.numel() for tensor in module.parameters()) == params


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", TINY, "--steps", "4", "--device", "h100", "--human"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("fits: NVIDIA H100")
    assert "1 image of 128 × 128 · 4 steps" in page
    assert main(["llm", f"{TINY}/model_index.json", "--steps", "4", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(stage["name"], stage["calls"], stage["batch"]) for stage in document["stages"]] == [
        ("text_encoder", 2, 1),
        ("unet", 4, 2),
        ("vae", 1, 1),
    ]
    assert document["request"]["macs"] == sum(stage["total_macs"] for stage in document["stages"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([TINY, "--frames", "8"], "StableDiffusionPipeline takes no frames"),
        ([TINY, "--size", "1k"], "write WIDTHxHEIGHT"),
        ([TINY, "--size", "100x100"], "have to be divisible by 8"),
        ([TINY, "--steps", "0"], "steps 0: must be at least 1"),
        ([TINY, "--device", "2xh100"], "on one device"),
        ([TINY, "--generate", "8"], "--generate is for a language model"),
        (["examples/tiny_llama", "--steps", "8"], "--steps is for a diffusion pipeline"),
    ],
)
def test_one_line_for_what_is_wrong(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("unet", ["mine.py", "UNet"], "which is not part of diffusers or transformers"),
        ("unet", ["diffusers", "Nothing"], "'Nothing', which diffusers"),
        ("_class_name", "StableDiffusionImg2ImgPipeline", "refuses the request, a prompt alone"),
    ],
)
def test_what_a_folder_may_not_name(part: str, value: object, message: str, tmp_path: Path) -> None:
    folder = written(tmp_path, "StableDiffusionPipeline", stable_diffusion(small=True))
    file = tmp_path / "model_index.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), part: value}))
    with pytest.raises(flopwise.FlopwiseError, match=message):
        flopwise.diffusion(folder, steps=1)
