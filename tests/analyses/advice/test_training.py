"""Advice on a training step: multiply-adds of both passes, and bytes that are kept for the backward pass."""

from __future__ import annotations

import pytest
from onnx import TensorProto
from tests.analyses.advice.planted import Network
from tests.analyses.advice.test_other_networks import conv

import flopwise
from flopwise.analyses.advice.advice import Suggestion


def _about(rule: str, model: object, **settings: object) -> list[Suggestion]:
    found = flopwise.advise(model, train=True, **settings).suggestions  # type: ignore[arg-type]
    return [each for each in found if each.rule.name == rule]


def test_both_passes_and_what_is_kept() -> None:
    """A dense 3x3 convolution of the input: no gradient of the input, so that each pass multiplies as much."""
    (found,) = _about("separable", conv(16, 32, (3, 3), 30, 1))
    dense, deep, point = 900 * 9 * 16 * 32, 900 * 9 * 16, 900 * 16 * 32
    assert found.saved.macs == 2 * dense - 2 * deep - 3 * point  # between the two a gradient is needed
    assert found.saved.kept == -4 * 16 * 900  # what lies between the two is kept, too
    assert found.whole.macs == 2 * dense


def test_repeated_products() -> None:
    net = Network(inputs={"x": (TensorProto.FLOAT, (6, 20))})
    net.add("MatMul", f"x {net.weight('v', 20, 24)}", "h")
    net.add("MatMul", f"h {net.weight('w', 24, 24)}", "a")
    net.add("MatMul", "h w", "b")
    net.add("Mul", "a b", "y")
    (found,) = _about("repeated-work", net.model())
    assert found.saved.macs == 3 * 6 * 24 * 24
    assert found.whole.macs == 2 * 6 * 20 * 24 + 2 * 3 * 6 * 24 * 24


def test_rules_of_an_inference_are_silent() -> None:
    net = Network(inputs={"tokens": (TensorProto.INT64, (2, 16))})
    net.add("Gather", f"{net.weight('table', 100, 32)} tokens", "h")
    net.add("Mul", f"{net.weight('a', 32, 100)} {net.weight('b', 32, 100)}", "head")
    net.add("MatMul", "h head", "y")
    rules = {"all-logits", "constant-work"}
    assert {each.rule.name for each in flopwise.advise(net.model()).suggestions} == rules
    assert not flopwise.advise(net.model(), train=True).suggestions


@pytest.mark.parametrize("settings", [{"device": "h100"}, {"optimization": "all"}, {"measure": True}])
def test_what_is_of_an_inference_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(flopwise.InputError, match=r"leave the (device|level|measuring) out"):
        flopwise.advise(conv(16, 32, (3, 3), 30, 1), train=True, **settings)  # type: ignore[arg-type]


def test_modules_without_elements_and_arguments_without_names() -> None:
    """A mask that nobody can read is none; tensors that are given in order have no names."""
    torch = pytest.importorskip("torch")

    class Attention(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.full((8, 8), -1e9).triu(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            return torch.softmax(x @ x.mT + self.mask, -1) @ x

    x = torch.zeros(1, 8, 4)
    for device, rules in (("cpu", ["masked-attention"]), ("meta", [])):
        found = flopwise.advise(Attention().to(device), [x.to(device)]).suggestions
        assert [each.rule.name for each in found] == rules
