"""In which element types layers compute."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import onnx
import onnx.defs
import onnx.parser
import pytest
from onnx import TensorProto as T
from onnx import helper

import flopwise
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.tables import ROWS
from flopwise.profiles.precision import precision, precisions, quantized_before
from flopwise.rows import Row

#: Operator -> places of the inputs that it multiplies with each other, but for those that repeat.
FACTORS = {
    op: [place for place, one in enumerate(row.inputs.first) if one.factor]
    for op, row in ROWS.items()
    if row.inputs.has_factors
}


def stored(name: str, code: int, *shape: int, value: int = 1) -> onnx.TensorProto:
    return helper.make_tensor(name, code, shape, [value] * math.prod(shape))


#: Stored tensors that the nodes below name.
STORED = [
    *(stored(n, code, 4, 4) for n, code in zip("wvfhn", (T.INT8, T.UINT8, T.FLOAT, T.FLOAT16, T.INT4), strict=True)),
    stored("b", T.FLOAT, 4),
    stored("i", T.INT32, 4),
    *(stored(n, code) for n, code in zip("szmt", (T.FLOAT, T.UINT8, T.INT8, T.FLOAT16), strict=True)),
    stored("p", T.UINT8, 2, 1, 8),
    stored("q", T.UINT8, 1, 1, 16),
    stored("one", T.INT64, 1),
    helper.make_tensor("shape", T.INT64, [2], [4, 2]),
]


def profiled(code: int, nodes: str, **options: Any) -> flopwise.Profile:
    """The profile of nodes in onnx's text format, a semicolon between them, from x of 2 × 4 to y."""
    parsed = [onnx.parser.parse_node(text) for text in nodes.split(";")]
    names = {name for one in parsed for name in one.input}
    x = [helper.make_tensor_value_info("x", code, (2, 4))]
    y = [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph(parsed, "g", x, y, [t for t in STORED if t.name in names])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return flopwise.profile(helper.make_model(graph, opset_imports=opsets, ir_version=10), **options)


def labels(code: int, nodes: str, **options: Any) -> dict[str, str]:
    """Output of each layer -> its precision."""
    counted = profiled(code, nodes, **options)
    found = precisions(counted.graph, counted.rows)
    return {row.node.known_outputs[0].name: label for row, label in zip(counted.rows, found, strict=True)}


FLOAT, HALF, BYTES = T.FLOAT, T.FLOAT16, T.UINT8
DEQUANTIZED = "a = DequantizeLinear(x, s, z)"


@pytest.mark.parametrize(
    ("code", "nodes", "expected"),
    [
        (FLOAT, "y = MatMul(x, f)", "float32"),
        (HALF, "y = MatMul(x, h)", "float16"),
        (FLOAT, "y = Gemm(x, f, b)", "float32"),
        (FLOAT, "y = Relu(x)", "float32"),
        # integer operators: the types of the factors, in their order
        (BYTES, "y = MatMulInteger(x, w)", "uint8×int8"),
        (BYTES, "y = MatMulInteger(x, v, z, z)", "uint8"),
        (BYTES, "y = QLinearMatMul(x, s, z, w, s, m, s, z)", "uint8×int8"),
        (BYTES, "y = QLinearMatMul(x, s, z, v, s, z, s, z)", "uint8"),
        # QDQ: every operand was dequantised; a bias of 32 bits is no factor
        (BYTES, DEQUANTIZED + "; c = DequantizeLinear(w, s); y = MatMul(a, c)", "uint8×int8 (QDQ)"),
        (BYTES, DEQUANTIZED + "; c = DequantizeLinear(v, s); y = MatMul(a, c)", "uint8 (QDQ)"),
        (
            BYTES,
            DEQUANTIZED + "; c = DequantizeLinear(w, s); d = DequantizeLinear(i, s); y = Gemm(a, c, d)",
            "uint8×int8 (QDQ)",
        ),
        (BYTES, DEQUANTIZED + "; y = Sigmoid(a)", "uint8 (QDQ)"),
        (BYTES, DEQUANTIZED + "; d = DequantizeLinear(i, s); y = Add(a, d)", "uint8 (QDQ)"),
        (BYTES, DEQUANTIZED + "; y = Mul(a, s)", "uint8 (QDQ)"),
        # through what only moves data
        (
            BYTES,
            DEQUANTIZED + "; c = Transpose(a); d = DequantizeLinear(w, s); y = MatMul(d, c)",
            "int8×uint8 (QDQ)",
        ),
        (BYTES, DEQUANTIZED + "; c = Concat<axis = 0>(a, a); y = Exp(c)", "uint8 (QDQ)"),
        # not through what computes
        (BYTES, DEQUANTIZED + "; c = Relu(a); y = Exp(c)", "float32"),
        (BYTES, DEQUANTIZED + "; c = Concat<axis = 0>(a, f); y = Exp(c)", "float32"),
        # not where an operand was never quantised
        (BYTES, DEQUANTIZED + "; y = Add(a, b)", "float32"),
        (BYTES, DEQUANTIZED + "; y = LayerNormalization(a, b)", "float32"),
        # weights alone
        (FLOAT, "c = DequantizeLinear(w, s); y = MatMul(x, c)", "float32×int8"),
        (FLOAT, "c = DequantizeLinear(n, s); y = MatMul(x, c)", "float32×int4"),
        (HALF, "c = DequantizeLinear(n, t); d = Transpose(c); y = MatMul(x, d)", "float16×int4"),
        (HALF, "c = DequantizeLinear(n, s); d = Cast<to = 10>(c); y = MatMul(x, d)", "float16×int4"),
        (BYTES, DEQUANTIZED + "; y = MatMul(a, f)", "uint8×float32"),
        # the conversions themselves compute with floating point
        (FLOAT, "y = QuantizeLinear(x, s, z)", "float32"),
        (BYTES, "y = DequantizeLinear(x, s, z)", "float32"),
        (BYTES, DEQUANTIZED + "; y = QuantizeLinear(a, s, z)", "float32"),
        (FLOAT, "y, scale, zero = DynamicQuantizeLinear(x)", "float32"),
        # settings are no operands, comparisons have operands, what does not compute has an output
        (HALF, "y = Clip(x, t)", "float16"),
        (FLOAT, "y = Greater(x, s)", "float32"),
        (FLOAT, "a = Greater(x, s); y = Not(a)", "bool"),
        (FLOAT, "y = Cast<to = 10>(x)", "float16"),
        (FLOAT, "y = Reshape<allowzero = 0>(x, shape)", "float32"),
        (BYTES, "y = Transpose(x)", "uint8"),
        (FLOAT, "a, k = TopK(x, one); y = Add(k, k)", "int64"),
        # onnxruntime's own
        (BYTES, "y = com.microsoft.QLinearAdd(x, s, z, x, s, z, s, z)", "uint8"),
        (FLOAT, "y = com.microsoft.DynamicQuantizeMatMul(x, w, s)", "uint8×int8"),
        (FLOAT, "y = com.microsoft.MatMulNBits<K = 4, N = 2, block_size = 16, bits = 4>(x, p, b)", "float32×int4"),
        (HALF, "y = com.microsoft.MatMulNBits<K = 4, N = 1, block_size = 16, bits = 8>(x, q, b)", "float16×int8"),
        (BYTES, "y = com.microsoft.MatMulIntegerToFloat(x, w, s, s)", "uint8×int8"),
        (T.INT64, "y = com.microsoft.GatherBlockQuantized<block_size = 16>(n, x, b)", "float32"),
        (HALF, "y = com.microsoft.MatMulPacked<K = 4, N = 2, packed_type = 12>(x, p)", "float16×q4_K"),
        (HALF, "y = com.microsoft.MoEPacked<gate_type = 2, down_type = 8>(x, x, p, , p)", "float16×q4_0"),
        (T.INT64, "y = com.microsoft.GatherPacked<K = 32, packed_type = 2>(q, x)", "bfloat16"),
        (FLOAT, "a = com.acme.Thing(x); y = Relu(a)", "unknown"),
    ],
)
def test_precision(code: int, nodes: str, expected: str) -> None:
    assert labels(code, nodes)["y"] == expected


def test_folded_layers_have_no_row_and_unfolded_ones_their_precision() -> None:
    nodes = "c = DequantizeLinear(w, s); y = MatMul(x, c)"
    assert labels(FLOAT, nodes) == {"y": "float32×int8"}
    assert labels(FLOAT, nodes, fold=False) == {"c": "float32", "y": "float32×int8"}


def test_groups() -> None:
    nodes = f"""{DEQUANTIZED}; c = DequantizeLinear(w, s); d = MatMul(a, c); e = MatMul(d, f);
        g = DequantizeLinear(n, s); y = MatMul(e, g)"""
    counted = profiled(BYTES, nodes)
    groups = counted.by("dtype")
    assert [(s.name, len(s.rows), s.macs, s.weight_bytes) for s in groups] == [
        ("float32", 2, 32, 64 + 4 + 1),
        ("uint8×int8 (QDQ)", 1, 32, 16),
        ("float32×int4", 1, 32, 8),
    ]
    for figure in ("count", "macs", "flops", "params", "buffers", "weight_bytes"):
        assert sum(getattr(s, figure) for s in groups) == counted.total(figure)


def test_a_branch_that_does_not_run_keeps_its_precision() -> None:
    node = Node("Relu", "n", (Tensor("x", (4,), "float16"),), (Tensor("y", (4,), "float32"),))
    row = Row("n", "Relu", node, Counts(), Counts(), 0, times=0)
    assert precision(row, {}) == "float16"
    assert precision(replace(row, times=1), {}) == "float32"


def test_what_nobody_knows() -> None:
    def of(op: str, *inputs: Tensor) -> str:
        return precision(Row("n", op, Node(op, "n", inputs, ()), None, None, None), {})

    assert of("Mystery") == of("MatMul") == of("Relu", Tensor("x", None, None)) == "unknown"
    sequence = Tensor("s", None, None, items=(Tensor("x", (1,), "float16"),))
    assert of("Mystery", sequence) == "float16"


def test_tables_name_operators() -> None:
    schemas = onnx.defs.get_all_schemas_with_history()
    known = {f"{s.domain}::{s.name}" if s.domain else s.name for s in schemas}
    standard = {
        op for op in ROWS if "::" not in op or op.startswith("ai.onnx")
    }  # the others are those of other formats
    assert FACTORS.keys() & standard <= known
    assert known >= {op for op in standard if ROWS[op].carries}
    assert {op for op, row in ROWS.items() if any(one.inside for one in row.inputs.first)} <= FACTORS.keys()


def test_tables_name_operators_of_onnxruntime() -> None:
    runtime = pytest.importorskip("onnxruntime")
    if tuple(map(int, runtime.__version__.split(".")[:2])) < (1, 32):
        pytest.skip("older ones have fewer operators")
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    schemas = {f"{s.domain}::{s.name}": s for s in get_all_operator_schema() if s.domain == "com.microsoft"}
    ours = {op: places for op, places in FACTORS.items() if op.startswith("com.microsoft")}
    assert ours.keys() <= schemas.keys()
    for op, places in ours.items():
        names = [i.name for i in schemas[op].inputs]
        assert max(places) < len(names)
        assert not [names[p] for p in places if re.search("scale|zero_point|bias|mask|index", names[p])], op


def test_a_name_that_another_body_used_is_what_it_was_made_of_last() -> None:
    x, q, scale = Tensor("x", (4,), "float32"), Tensor("q", (4,), "int8"), Tensor("s", (), "float32")
    made = (Tensor("a", (4,), "float32"),)
    dequantized, plain = Node("DequantizeLinear", "d", (q, scale), made), Node("Identity", "i", (x,), made)
    assert quantized_before([plain, dequantized]) == {"a": "int8"}
    assert quantized_before([dequantized, plain]) == {}


def test_tensors_are_joined_in_the_type_that_all_of_them_had() -> None:
    scale = Tensor("s", (), "float32")

    def joined(*dtypes: str) -> dict[str, str]:
        parts = [Tensor(f"t{i}", (4,), "float32") for i in range(len(dtypes))]
        nodes = [
            Node("DequantizeLinear", "", (Tensor(f"q{i}", (4,), dtype), scale), (part,))
            for i, (dtype, part) in enumerate(zip(dtypes, parts, strict=True))
        ]
        return quantized_before([*nodes, Node("Concat", "", tuple(parts), (Tensor("y", (8,), "float32"),))])

    assert joined("int8", "int8")["y"] == "int8"
    assert "y" not in joined("int8", "uint8")
