"""Low-rank adapters: products, forward and backward, and trained numbers are those of peft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.language_models import LLAMA, written  # noqa: E402

import flopwise  # noqa: E402
from flopwise.formats.torch.language.model import language_model  # noqa: E402
from flopwise.formats.torch.language.state import training_inputs  # noqa: E402

GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": 320,
    "n_positions": 64,
}

#: Layers with adapters, trained numbers and their bytes, and FLOPs of forward and backward by PyTorch's FlopCounterMode
#: around peft 0.21.2's model (transformers 5.23.0, PyTorch 2.13.0, eager attention), of two sequences of 32 tokens.
PEFT = [
    (LLAMA, "r=4,targets=q_proj,v_proj", 4, 1_792, 7_168, 11_763_712, 11_665_408),
    (LLAMA, "r=4", 14, 7_424, 29_696, 12_484_608, 13_336_576),
    (LLAMA, "r=16,targets=o_proj,down_proj", 4, 9_216, 36_864, 12_713_984, 12_189_696),
    (GPT2, "r=4,targets=all-linear", 8, 8_192, 32_768, 17_301_504, 17_793_024),
]


@pytest.mark.parametrize(("config", "spec", "layers", "trained", "nbytes", "forward", "backward"), PEFT)
def test_as_peft_has_it(
    tmp_path: Path,
    config: dict[str, Any],
    spec: str,
    layers: int,
    trained: int,
    nbytes: int,
    forward: int,
    backward: int,
) -> None:
    module: Any = language_model(written(tmp_path, config))
    before = dict(module.named_parameters())
    profile = flopwise.profile(module, training_inputs(module, 2, 32), train=True, lora=spec)
    assert profile.training is not None
    weights = profile.training.weights
    assert f"adapters as peft adds them, beside {layers} layers; the base is frozen" in profile.notes
    assert (sum(t.numel for t in weights), sum(t.nbytes for t in weights)) == (trained, nbytes)
    assert (2 * profile.total("macs"), 2 * profile.total("backward_macs")) == (forward, backward)
    assert dict(module.named_parameters()) == before
    assert all(parameter.requires_grad for parameter in before.values())


def test_any_module_takes_adapters() -> None:
    """As if they were written out; a frozen layer hands gradients on only where something before it is trained."""
    nn = torch.nn

    class Adapted(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inner: int, outer: int) -> None:
            super().__init__()
            self.base = nn.Linear(inner, outer).requires_grad_(False)
            self.down, self.up = nn.Linear(inner, 4, bias=False), nn.Linear(4, outer, bias=False)

        def forward(self, x: Any) -> Any:
            return self.base(x) + self.up(self.down(x)) * 2.0

    def net(layer: Any) -> Any:
        first = nn.Conv2d(3, 8, 3).requires_grad_(layer is nn.Linear)
        return nn.Sequential(first, nn.Flatten(), layer(288, 64), nn.ReLU(), layer(64, 10)).to("meta")

    alone = flopwise.profile(net(nn.Linear), (4, 3, 8, 8), train=True, optimizer="adamw", lora="r=4")
    written_out = flopwise.profile(net(Adapted), (4, 3, 8, 8), train=True, optimizer="adamw")
    assert alone.training is not None
    assert written_out.training is not None
    keys = ("macs", "flops", "params", "backward_macs", "backward_flops", "saved_bytes")
    assert [alone.total(key) for key in keys] == [written_out.total(key) for key in keys]
    assert alone.training.to_dict(alone.rows, alone.sum) == written_out.training.to_dict(
        written_out.rows, written_out.sum
    )
    with pytest.raises(flopwise.InputError, match="no linear layer that an adapter could lie beside"):
        flopwise.profile(nn.Conv2d(3, 8, 3), (4, 3, 8, 8), train=True, lora="r=4")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("16", "'16' is no setting of it"),
        ("r=0", "its rank is a number of at least 1"),
        ("targets=q_proj", "its rank is a number of at least 1"),
        ("r=8,alpha=3", "'alpha' is no setting of it"),
        ("r=8,targets=", "a target is empty"),
        ("r=8,targets=q_prj", "has no linear layer 'q_prj'; it has q_proj"),
    ],
)
def test_descriptions_that_are_none(tmp_path: Path, spec: str, words: str) -> None:
    with pytest.raises(flopwise.InputError, match=words):
        flopwise.llm(written(tmp_path, LLAMA), train=True, prompt=8, lora=spec)
