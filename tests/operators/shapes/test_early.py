"""Shapes of operators that onnx does not know: those of its early versions, and those of other domains."""

from __future__ import annotations

from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from flopwise.api.profile import profile

#: Operator, domain, shapes of its inputs, elements of stored ones by place, attributes, shape of its result.
ROWS: list[tuple[str, str, list[Any], dict[int, Any], dict[str, Any], tuple[int, ...]]] = [
    *(
        (op, "", [(2, 3, 8, 9)], {}, attrs, (2, 3, 8, 9))
        for op, attrs in (
            ("Affine", {"alpha": 2.0}),
            ("Scale", {"scale": 2.0}),
            ("ScaledTanh", {"alpha": 1.0, "beta": 2.0}),
            ("ParametricSoftplus", {"alpha": 1.0, "beta": 2.0}),
            ("ImageScaler", {"bias": [1.0, 2.0, 3.0]}),
            ("MeanVarianceNormalization", {"across_channels": 1}),
        )
    ),
    ("Crop", "", [(2, 3, 8, 9)], {}, {"border": [1, 2, 3, 4]}, (2, 3, 2, 5)),
    ("Crop", "", [(2, 3, 8, 9)], {}, {"border": [1, 2, 0, 0], "scale": [4, 5]}, (2, 3, 4, 5)),
    ("ConstantFill", "", [], {}, {"shape": [2, 5]}, (2, 5)),
    ("ConstantFill", "", [(4, 3)], {}, {"extra_shape": [2]}, (4, 3, 2)),
    ("ConstantFill", "", [None], {0: numpy.array([4, 7])}, {"input_as_shape": 1, "extra_shape": [2]}, (4, 7, 2)),
    ("GivenTensorFill", "", [], {}, {"shape": [3], "values": [1.0, 2.0, 3.0]}, (3,)),
    ("GivenTensorFill", "", [(4, 3)], {}, {}, (4, 3)),
    ("DynamicSlice", "", [(8, 9), None, None], {1: numpy.array([1, 2]), 2: numpy.array([5, -1])}, {}, (4, 6)),
    (
        *("DynamicSlice", "", [(8, 9), None, None, None]),
        *({1: numpy.array([2]), 2: numpy.array([5]), 3: numpy.array([1])}, {}, (8, 3)),
    ),
    ("FC", "", [(2, 3, 4), (5, 12), (5,)], {}, {}, (2, 5)),
    ("GRUUnit", "", [(3, 4), (3, 12), (3,), (1,)], {}, {}, (3, 4)),
    ("Quant", "onnx.brevitas", [(2, 3), (1,), (1,), (1,)], {}, {"signed": 1}, (2, 3)),
    ("Trunc", "qonnx.custom_op.general", [(2, 3), (1,), (1,), (1,), (1,)], {}, {}, (2, 3)),
    ("BipolarQuant", "qonnx.custom_op.general", [(2, 3), (1,)], {}, {}, (2, 3)),
    ("MultiThreshold", "finn.custom_op.general", [(2, 3, 4, 4), (3, 7)], {}, {"out_dtype": "UINT3"}, (2, 3, 4, 4)),
]


def built(
    op: str, domain: str, shapes: list[Any], stored: dict[int, Any], attrs: dict[str, Any], version: int
) -> onnx.ModelProto:
    names = [f"x{i}" for i in range(len(shapes))]
    node = helper.make_node(op, names, ["y"], name="n", domain=domain, **attrs)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
        if shape is not None
    ]
    initializers = [numpy_helper.from_array(value.astype("int64"), f"x{i}") for i, value in stored.items()]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")], initializers)
    imports = [helper.make_opsetid("", version), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=4)


@pytest.mark.parametrize(("op", "domain", "shapes", "stored", "attrs", "expected"), ROWS)
def test_rows(
    op: str, domain: str, shapes: list[Any], stored: dict[int, Any], attrs: dict[str, Any], expected: tuple[int, ...]
) -> None:
    result = profile(built(op, domain, shapes, stored, attrs, 17 if domain else 8), fold=False)
    (y,) = result.graph.outputs
    assert y.shape == expected
    assert not result.unknown


@pytest.mark.parametrize("op", ["Crop", "ConstantFill", "GivenTensorFill", "DynamicSlice", "FC"])
def test_nonsense_is_told_in_one_line(op: str) -> None:
    for attrs in ({"border": [1, 2]}, {"scale": [1, 2, 3]}, {"shape": [-1]}, {"axis": 9}, {"input_as_shape": 1}):
        result = profile(built(op, "", [(2, 3)], {}, attrs, 8))
        assert all("\n" not in note for note in result.notes)


def test_tokenizers_compute_nothing() -> None:
    model = built("BertTokenizer", "ai.onnx.contrib", [(1,)], {}, {"vocab_file": "x"}, 17)
    result = profile(model)
    assert [row.flops for row in result.rows] == [0]
    assert not result.unknown
