"""Formulas of models that PyTorch exported with free dimensions, beside the profile at random sizes."""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flopwise

if TYPE_CHECKING:
    from torch import Tensor, nn

pytestmark = [
    pytest.mark.exports,
    pytest.mark.skipif(
        not all(find_spec(name) for name in ("torch", "torchvision", "transformers", "onnxscript", "sympy")),
        reason="torch, torchvision, transformers, onnxscript and sympy are needed",
    ),
]

#: Points at which each formula is compared.
POINTS = 20


def export(module: nn.Module, arguments: dict[str, Tensor], dims: dict[str, dict[int, str]], path: Path) -> Path:
    """The module as an ONNX file; ``dims`` names the free axes of each input."""
    import torch
    from tests.exports.exporting import _quiet

    symbols: dict[str, Any] = {n: torch.export.Dim(n, max=1 << 15) for axes in dims.values() for n in axes.values()}
    shapes = tuple({axis: symbols[n] for axis, n in dims.get(name, {}).items()} for name in arguments)
    with _quiet(), torch.no_grad():
        torch.onnx.export(
            module.eval(),
            tuple(arguments.values()),
            path,
            input_names=list(arguments),
            dynamic_shapes=(shapes,) if hasattr(module, "packed") else shapes,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    return path


def check(path: Path, formula: flopwise.Formula, most: dict[str, int]) -> None:
    chance = random.Random(3)
    for _ in range(POINTS):
        point = {str(s): chance.randint(1, most[str(s)]) for s in formula.symbols}
        profile = flopwise.profile(path, dims=point)
        assert formula.at(**point) == {f: getattr(profile.sum, f) for f in formula.at(**point)}, point


def test_a_resnet_in_batch_height_and_width(tmp_path: Path) -> None:
    import torch
    from tests.exports.exporting import _macs
    from tests.exports.models import MODELS

    module = MODELS["resnet"].build()
    dims = {"image": {0: "N", 2: "H", 3: "W"}}
    path = export(module, {"image": torch.zeros(2, 3, 224, 256)}, dims, tmp_path / "resnet.onnx")
    formula = flopwise.formula(path)
    assert formula.conditions == ()
    assert formula.at(N=1, H=224, W=224)["macs"] == _macs(module, [torch.zeros(1, 3, 224, 224)])
    check(path, formula, {"N": 64, "H": 900, "W": 900})


def _llama(layers: int) -> Any:
    from tests.exports.models import transformers

    library = transformers()
    config = library.LlamaConfig(
        vocab_size=100,
        hidden_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=128,
        attn_implementation="eager",
    )
    return library, library.LlamaForCausalLM(config).eval()


def test_llama_in_batch_and_sequence(tmp_path: Path) -> None:
    import torch
    from tests.exports.models import Called

    layers = 2
    _, model = _llama(layers)
    called = Called(model, ("input_ids", "attention_mask"), use_cache=False)
    called.packed = True  # its forward takes *inputs
    tokens = torch.arange(32).reshape(2, 16)
    axes = {0: "batch", 1: "sequence"}
    arguments = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    path = export(called, arguments, dict.fromkeys(arguments, axes), tmp_path / "llama.onnx")
    formula = flopwise.formula(path)
    batch, sequence = formula.symbols
    # per layer 64·(64 + 32 + 32 + 64 + 3·128) weights, and 2·64 products for each pair of positions; 64·100 at the end
    expected = batch * sequence * (layers * (64 * 576 + 128 * sequence) + 6400)
    assert (formula.total("macs") - expected).expand() == 0
    check(path, formula, {"batch": 16, "sequence": 700})


def test_llama_with_earlier_keys_and_values(tmp_path: Path) -> None:
    import torch
    from torch import nn

    library, model = _llama(1)

    class Step(nn.Module):
        """New tokens after cached ones."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            cache = library.DynamicCache([(keys, values)])
            return self.model(input_ids=input_ids, past_key_values=cache, use_cache=True).logits

    cached = torch.zeros(2, 2, 7, 16)
    arguments = {"input_ids": torch.arange(10).reshape(2, 5), "keys": cached, "values": cached.clone()}
    axes = {0: "batch", 2: "past"}
    dims = {"input_ids": {0: "batch", 1: "sequence"}, "keys": axes, "values": axes}
    path = export(Step(), arguments, dims, tmp_path / "step.onnx")
    formula = flopwise.formula(path)
    assert {str(s) for s in formula.symbols} == {"batch", "sequence", "past"}
    assert (
        formula.at(batch=1, sequence=1, past=0)["macs"]
        == flopwise.formula(path, dims={"past": 0}).at(batch=1, sequence=1)["macs"]
    )
    check(path, formula, {"batch": 16, "sequence": 300, "past": 900})
