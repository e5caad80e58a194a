"""Saved activations of whole models: equal to what autograd's own hooks say of a real forward pass, to the byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tests import torch_vision  # noqa: E402, F401 - declares what torchvision and transformers expect
from tests.analyses.training.torch_facts import kept  # noqa: E402
from torch import nn  # noqa: E402 - after the check that torch is there
from torch.nn.functional import interpolate, scaled_dot_product_attention, silu  # noqa: E402

import flopwise  # noqa: E402


class Attends(nn.Module):
    """A residual attention over positions, to themselves or to a context."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(context, width, bias=False)
        self.value = nn.Linear(context, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Any, context: Any = None) -> Any:
        y = self.norm(x)
        source = y if context is None else context
        parts = [self.query(y), self.key(source), self.value(source)]
        heads = [t.view(len(x), -1, self.heads, t.shape[-1] // self.heads).transpose(1, 2) for t in parts]
        return x + self.out(scaled_dot_product_attention(*heads).transpose(1, 2).reshape(x.shape))


class UNet(nn.Module):
    """Down, attention to itself and to a text, up."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.time = nn.Linear(8, 32)
        self.itself, self.text = Attends(32, 32, 4), Attends(32, 24, 4)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.last = nn.Conv2d(48, 3, 1)

    def forward(self, x: Any, time: Any, text: Any) -> Any:
        a = silu(self.norm(self.first(x)))
        b = self.down(a) + self.time(silu(time))[:, :, None, None]
        y = self.text(self.itself(b.flatten(2).transpose(1, 2)), text)
        b = b + y.transpose(1, 2).reshape(b.shape)
        return self.last(torch.cat([self.up(b), a, interpolate(b, scale_factor=2)[:, :16]], 1))


class Recurrent(nn.Module):
    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(16, 32, **options)

    def forward(self, x: Any) -> Any:
        return self.layers(x)[0]


def _of_transformers(kind: str, **config: Any) -> tuple[nn.Module, dict[str, Any]]:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2}
    made = getattr(transformers, f"{kind}Config")(**sizes, **config)
    return getattr(transformers, f"{kind}ForCausalLM")(made), {"input_ids": torch.arange(64)[None], "use_cache": False}


def _torchvision(name: str, size: int, **options: Any) -> tuple[nn.Module, dict[str, Any]]:
    torchvision = pytest.importorskip("torchvision")
    return getattr(torchvision.models, name)(**options), {"x": torch.rand(2, 3, size, size)}


def _unet() -> tuple[nn.Module, dict[str, Any]]:
    return UNet(), {"x": torch.rand(2, 3, 16, 16), "time": torch.rand(2, 8), "text": torch.rand(2, 7, 24)}


def _recurrent(kind: str, **options: Any) -> Callable[[], tuple[nn.Module, dict[str, Any]]]:
    return lambda: (Recurrent(kind, **options), {"x": torch.rand(3, 7, 16)})


_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128}
_MAMBA = {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2, "chunk_size": 32, "expand": 2}

MODELS: dict[str, Callable[[], tuple[nn.Module, dict[str, Any]]]] = {
    "resnet50": lambda: _torchvision("resnet50", 64),
    "vit": lambda: _torchvision("vit_b_16", 32, image_size=32),
    "llama": lambda: _of_transformers("Llama", **_HEADS),
    "mixtral": lambda: _of_transformers("Mixtral", **_HEADS, num_local_experts=4),
    "mamba2": lambda: _of_transformers("Mamba2", **_MAMBA),
    "unet": _unet,
    "lstm": _recurrent("LSTM", num_layers=2, batch_first=True),
    "lstm both ways": _recurrent("LSTM", num_layers=2, bidirectional=True),
    "gru": _recurrent("GRU", num_layers=2, bidirectional=True),
    "rnn": _recurrent("RNN", batch_first=True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_saved_bytes_are_those_of_autograd(name: str) -> None:
    model, inputs = MODELS[name]()
    profile = flopwise.profile(model, inputs, train=True)
    assert profile.training is not None
    assert profile.training.saved_bytes == kept(model.train(), (), inputs)


def test_the_kernel_of_attention_decides_what_is_kept() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    scores, layers = 4 * 1024 * 1024, 2
    kept_by: dict[str | None, int] = {}
    for kernel in (None, "flash", "efficient", "math"):
        profile = flopwise.profile(model, {"input_ids": (1, 1024)}, train=True, attention=kernel)
        assert profile.training is not None
        kept_by[kernel] = profile.training.saved_bytes
        again = 0 if kernel == "math" else layers * scores * 64
        assert profile.total("recomputed_macs") == again
        assert any(f"attention kernel: {kernel or 'flash'} in 2 rows" in note for note in profile.notes)
    assert kept_by[None] == kept_by["flash"] == kept_by["efficient"] == 41_480_192
    assert kept_by["math"] > kept_by["flash"] + layers * scores * 4 - 2 * 4 * 1024 * 1024


_TEXT = {"vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, **_HEADS}
_EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
_NARROW = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LATENT = {"q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
_ROUTED = {"n_routed_experts": 8, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "num_key_value_heads": 4}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "config", "more"),
    [
        ("llama", {}, ""),
        ("qwen3", {"head_dim": 16}, ""),
        ("mistral", {"sliding_window": None}, ""),
        ("granite", {}, ""),
        ("mixtral", _EXPERTS, ""),
        ("qwen3_moe", {"head_dim": 16, **_NARROW}, ""),
        ("phi3", {"pad_token_id": 0}, "attention's result, which it lays out anew"),
        ("gpt_neox", {"num_key_value_heads": 4}, "attention's result, which it lays out anew"),
        ("cohere", {}, "each step of its norms"),
        ("olmo2", {}, "results of its norms in single precision"),
        ("gemma2", {"head_dim": 16}, "scores of attention"),
        ("gpt_oss", {"head_dim": 16, **_EXPERTS}, "scores of attention"),
        ("deepseek_v3", {**_LATENT, **_ROUTED, **_NARROW}, "keys of all heads, and the router's steps"),
    ],
)
def test_a_configuration_steps_as_its_module(kind: str, config: dict[str, Any], more: str, tmp_path: Path) -> None:
    """The module keeps more where its program is written operator by operator."""
    transformers = pytest.importorskip("transformers")
    made = transformers.AutoConfig.for_model(kind, **{**_TEXT, **config})
    with torch.device("meta"):
        module = transformers.AutoModelForCausalLM.from_config(made).to(torch.bfloat16)
    settings = {**made.to_dict(), "architectures": [type(module).__name__], "dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(settings, default=str))
    inputs = {"input_ids": (2, 64)}
    ours, theirs = (flopwise.profile(model, inputs, train=True) for model in (tmp_path, module))
    for figure in ("macs", "backward_macs"):
        assert ours.total(figure) == pytest.approx(theirs.total(figure), rel=1e-4)
    assert ours.training is not None
    assert theirs.training is not None
    ratio = ours.training.saved_bytes / theirs.training.saved_bytes
    assert (0.4 < ratio < 0.97) if more else (0.97 < ratio < 1.03)
