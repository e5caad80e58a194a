"""A model counted as of another element type is what the model in that type is."""

from __future__ import annotations

import copy

import pytest

import flopwise
from flopwise.graph.typed import in_type


def test_a_module_in_another_type() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(288, 4)
    )
    half = copy.deepcopy(net).half()
    counted = flopwise.profile(net, (2, 3, 8, 8), element_type="fp16")
    true = flopwise.profile(half, torch.zeros(2, 3, 8, 8, dtype=torch.float16))
    assert [(r.name, r.counts, r.weight_bytes, r.output_bytes) for r in counted.rows] == [
        (r.name, r.counts, r.weight_bytes, r.output_bytes) for r in true.rows
    ]
    assert counted.peak_activation_bytes == true.peak_activation_bytes
    with pytest.raises(flopwise.InputError, match=r"give a module of fp16"):
        flopwise.profile(net, (2, 3, 8, 8), element_type="fp16", train=True)
    assert "as if all floating-point tensors were of the type float16" in counted.notes


def test_integers_and_quantised_numbers_stay() -> None:
    kinds = ("float32", "float64", "bfloat16", "float8e4m3fn", "int64", "bool", None)
    tensors = tuple(flopwise.Tensor(f"t{i}", (4,), kind) for i, kind in enumerate(kinds))
    graph = in_type(flopwise.Graph("net", "hand", "", tensors, tensors[:2], ()), "FP16")
    assert [t.dtype for t in graph.inputs] == ["float16"] * 3 + list(kinds[3:])
    assert graph.outputs[0] is graph.inputs[0]


@pytest.mark.parametrize("name", ["int8", "fp8", "half-ish"])
def test_other_types_are_refused(name: str) -> None:
    with pytest.raises(flopwise.InputError):
        flopwise.read("examples/tiny_resnet.onnx", element_type=name)
