"""What kind of work each layer does."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.report.html.models import transformer

import flopwise
from flopwise.report.html.model import page_data


def kinds(profile: flopwise.Profile) -> dict[str, Counter[str]]:
    """Kind -> the operators of the layers of it."""
    found = page_data(profile)
    counted: dict[str, Counter[str]] = {}
    for kind, op in zip(found["layers"]["kind"], found["layers"]["op"], strict=True):
        counted.setdefault(found["kinds"][kind], Counter())[found["ops"][op]] += 1
    return counted


def test_a_transformer_is_attention_projections_and_mlp() -> None:
    assert kinds(flopwise.profile(transformer(3), fold=False)) == {
        "embedding": {"Gather": 1},
        "projection": {"MatMul": 4 * 3 + 1},
        "attention": {"MatMul": 2 * 3, "Softmax": 3},
        "MLP": {"MatMul": 2 * 3},
        "movement": {"Transpose": 3},
        "element-wise": {"Cos": 1, "Mul": 3, "Add": 2 * 3, "Relu": 3},
    }


def test_a_convolutional_network() -> None:
    found = kinds(flopwise.profile("examples/tiny_resnet.onnx"))
    assert set(found["convolution"]) == {"Conv"}
    assert found["projection"] == {"Gemm": 1}
    assert "attention" not in found
    assert "MLP" not in found


def test_what_nobody_knows_is_other() -> None:
    assert kinds(flopwise.profile("examples/custom_op.onnx"))["other"] == {"com.example::Spline": 1}


def test_modules_of_normalisation_are_of_one_kind() -> None:
    torch = pytest.importorskip("torch")

    class RMSNorm(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: object) -> object:
            return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()  # type: ignore[attr-defined]

    network = torch.nn.Sequential(torch.nn.Linear(8, 8), RMSNorm(), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
    found = kinds(flopwise.profile(network.eval(), torch.zeros(4, 8)))
    assert set(found) == {"projection", "normalisation", "element-wise"}
    assert found["element-wise"].total() == 1
