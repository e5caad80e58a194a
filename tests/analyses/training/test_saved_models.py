"""Saved activations of whole models: equal to what autograd's own hooks say of a real forward pass, to the byte."""

from __future__ import annotations

from collections.abc import Callable
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
