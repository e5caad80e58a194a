"""Low-rank adapters: products, forward and backward, and trained numbers are those of peft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.language_models import LLAMA, written  # noqa: E402

import flopwise  # noqa: E402
from flopwise.readers.torch.language.adapters import adapted, lora_of  # noqa: E402
from flopwise.readers.torch.language.model import language_model  # noqa: E402
from flopwise.readers.torch.language.state import training_inputs  # noqa: E402

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
    with adapted(module, lora_of(spec)) as count:
        profile = flopwise.profile(module, training_inputs(module, 2, 32), train=True)
    assert profile.training is not None
    weights = profile.training.weights
    assert (count, sum(t.numel for t in weights), sum(t.nbytes for t in weights)) == (layers, trained, nbytes)
    assert (2 * profile.total("macs"), 2 * profile.total("backward_macs")) == (forward, backward)
    assert dict(module.named_parameters()) == before
    assert all(parameter.requires_grad for parameter in before.values())


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
