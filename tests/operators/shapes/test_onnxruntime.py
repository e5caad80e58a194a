"""Shapes of onnxruntime's own operators, beside what onnxruntime makes of one-node models with random inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy
import onnx
import pytest
from onnx import helper, numpy_helper

from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.graph.dtypes import BITS, TYPES
from flopwise.operators.tables import NOT_RULED, OPERATORS

runtime = pytest.importorskip("onnxruntime")

DOMAIN = "com.microsoft"
OLDER = tuple(map(int, runtime.__version__.split(".")[:2])) < (1, 32)
RANDOM = numpy.random.default_rng(0)


def real(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(numpy.float32)


def bytes_(*shape: int, dtype: Any = numpy.uint8) -> Any:
    return RANDOM.integers(0, 100, shape).astype(dtype)


def ints(*values: int, dtype: Any = numpy.int64) -> Any:
    return numpy.array(values, dtype)


SCALE, ZERO = numpy.array(0.05, numpy.float32), numpy.array(100, numpy.uint8)


@dataclass
class Case:
    """One node; None is an input that is left out."""

    op: str
    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    #: Inputs that are stored in the model, by place, and known to its reader.
    stored: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.op}({', '.join('-' if x is None else 'x'.join(map(str, x.shape)) for x in self.inputs)})"


def quantized(*shape: int) -> list[Any]:
    return [bytes_(*shape), SCALE, ZERO]


def table(code: int) -> dict[str, int]:
    """Attributes of a packed table whose rows come out as float32."""
    return {"packed_type": code, "output_dtype": onnx.TensorProto.FLOAT}


CASES = [
    Case("Gelu", [real(2, 3)]),
    Case("FastGelu", [real(2, 3, 4), real(4)]),
    Case("QuickGelu", [real(2, 3)], {"alpha": 1.7}),
    Case("BiasGelu", [real(2, 3, 4), real(4)]),
    Case("FusedConv", [real(1, 3, 8, 8), real(5, 3, 3, 3), real(5)], {"activation": "Relu", "pads": [1, 1, 0, 0]}),
    Case("FusedGemm", [real(3, 4), real(5, 4), real(5)], {"activation": "Relu", "transB": 1}),
    Case("FusedMatMul", [real(2, 4, 3), real(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.5}),
    Case("FusedMatMul", [real(4, 2, 3), real(2, 3, 5)], {"transBatchA": 1, "transA": 0}),
    Case("TransposeMatMul", [real(4, 3), real(4, 5)], {"transA": 1}),
    Case("MatMulNBits", [real(2, 3, 32), bytes_(8, 2, 8), real(16)], {"K": 32, "N": 8, "bits": 4, "block_size": 16}),
    Case("DynamicQuantizeMatMul", [real(3, 4), bytes_(4, 5), SCALE.reshape(1), ZERO.reshape(1)]),
    Case("MatMulIntegerToFloat", [bytes_(3, 4), bytes_(4, 5), SCALE, SCALE, ZERO, ZERO]),
    Case("QGemm", [*quantized(3, 4), *quantized(5, 4), None, SCALE, ZERO], {"transB": 1}),
    Case("QLinearAdd", [*quantized(2, 1, 4), *quantized(3, 1), SCALE, ZERO]),
    Case("QLinearMul", [*quantized(2, 4), *quantized(4), SCALE, ZERO]),
    Case("QLinearLeakyRelu", [*quantized(2, 4), SCALE, ZERO], {"alpha": 0.1}),
    Case("QLinearSigmoid", [*quantized(2, 4), SCALE, ZERO]),
    Case("QLinearSoftmax", [*quantized(2, 4), SCALE, ZERO], {"opset": 13}),
    Case("QLinearAveragePool", [*quantized(1, 3, 8, 8), SCALE, ZERO], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    Case("QLinearAveragePool", [*quantized(1, 8, 8, 3), SCALE, ZERO], {"kernel_shape": [3, 3], "channels_last": 1}),
    Case(
        "QLinearAveragePool",
        [*quantized(1, 3, 6, 7), SCALE, ZERO],
        {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1},
    ),
    Case("QLinearGlobalAveragePool", [*quantized(1, 3, 8, 8), SCALE, ZERO], {"channels_last": 0}),
    Case("QLinearConcat", [SCALE, ZERO, *quantized(2, 3), *quantized(2, 4)], {"axis": 1}),
    Case("QLinearConv", [*quantized(1, 8, 8, 4), *quantized(6, 4, 3, 3), SCALE, ZERO], {"channels_last": 1}),
    Case("QLinearWhere", [numpy.array([True, False]), *quantized(2), *quantized(3, 1), SCALE, ZERO]),
    Case("MulInteger", [bytes_(2, 3), ZERO, bytes_(3), ZERO]),
    Case("NhwcMaxPool", [bytes_(1, 8, 8, 3)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("NhwcMaxPool", [bytes_(1, 6, 7, 3)], {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1}),
    Case(
        "MaxpoolWithMask",
        [real(1, 3, 8, 8), ints(*[1] * 192, dtype=numpy.int32).reshape(1, 3, 8, 8)],
        {"kernel_shape": [2, 2]},
    ),
    Case("SkipLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8), real(8), real(8)]),
    Case("SkipSimplifiedLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8)]),
    Case(
        "EmbedLayerNormalization",
        [ints(1, 2, 0, dtype=numpy.int32).reshape(1, 3), None, real(5, 8), real(4, 8), None, real(8), real(8)],
        outputs=2,
    ),
    Case("Inverse", [real(2, 3, 3)]),
    Case("Attention", [real(2, 5, 16), real(16, 48), real(48)], {"num_heads": 4}),
    Case("Attention", [real(2, 5, 16), real(16, 40), real(40)], {"num_heads": 4, "qkv_hidden_sizes": [16, 16, 8]}),
    Case("Attention", [real(2, 1, 16), real(16, 48), real(48), None, real(2, 2, 4, 6, 4)], {"num_heads": 4}, 2),
    Case("MultiHeadAttention", [real(2, 5, 16), real(2, 7, 16), real(2, 7, 24)], {"num_heads": 4}),
    Case("MultiHeadAttention", [real(2, 5, 16), real(2, 4, 7, 4), real(2, 4, 7, 4)], {"num_heads": 4}),
    Case(
        "MultiHeadAttention",
        [real(2, 1, 16), real(2, 1, 16), real(2, 1, 16), None, None, None, real(2, 4, 6, 4), real(2, 4, 6, 4)],
        {"num_heads": 4},
        3,
    ),
    Case(
        "GroupQueryAttention",
        [
            real(1, 3, 32),
            real(1, 3, 16),
            real(1, 3, 16),
            None,
            None,
            ints(2, dtype=numpy.int32),
            numpy.array(3, numpy.int32),
        ],
        {"num_heads": 4, "kv_num_heads": 2},
        3,
        (6,),
    ),
    Case(
        "GroupQueryAttention",
        [
            real(1, 1, 32),
            real(1, 1, 16),
            real(1, 1, 16),
            real(1, 2, 5, 8),
            real(1, 2, 5, 8),
            ints(5, dtype=numpy.int32),
            numpy.array(6, numpy.int32),
        ],
        {"num_heads": 4, "kv_num_heads": 2},
        3,
        (6,),
    ),
    Case("RotaryEmbedding", [real(2, 3, 16), ints(0), real(8, 2), real(8, 2)], {"num_heads": 4}),
    Case("ExpandDims", [real(2, 3), numpy.array(1, numpy.int32)], stored=(1,)),
    Case("GatherND", [real(2, 3, 4), ints(0, 1).reshape(2, 1)]),
    Case("Pad", [real(2, 3), ints(1, 0, 0, 2)], stored=(1,)),
    Case("Range", [numpy.array(0.0, "f"), numpy.array(5.0, "f"), numpy.array(2.0, "f")], stored=(0, 1, 2)),
    Case("Trilu", [real(3, 3)]),
    Case("CDist", [real(3, 4), real(5, 4)], {"metric": "euclidean"}),
    Case(
        "GatherBlockQuantized",
        [bytes_(5, 16), ints(0, 3), real(5, 2)],
        {"block_size": 16, "bits": 4, "quantize_axis": 1},
    ),
    Case(
        "CropAndResize",
        [real(1, 3, 8, 8), real(2, 4), ints(0, 0, dtype=numpy.int32), ints(4, 5, dtype=numpy.int32)],
        stored=(3,),
    ),
    Case("MurmurHash3", [ints(1, 2, 3, dtype=numpy.int32)]),
    Case("QuantizeLinear", [real(2, 3), SCALE, ZERO]),
    Case("DequantizeLinear", quantized(2, 3)),
    Case("MoE", [real(4, 8), real(4, 3), real(3, 16, 8), None, real(3, 8, 16)], {"k": 2, "activation_type": "relu"}),
    Case(
        "DynamicQuantizeLSTM",
        [
            real(4, 2, 8),
            bytes_(1, 8, 64),
            bytes_(1, 16, 64),
            None,
            None,
            None,
            None,
            None,
            real(1),
            bytes_(1),
            real(1),
            bytes_(1),
        ],
        {"hidden_size": 16},
        3,
    ),
    Case("ConvTransposeWithDynamicPads", [real(1, 4, 5, 5), real(4, 3, 3, 3), ints(0, 0, 0, 0)], stored=(2,)),
    Case("UnfoldTensor", [real(2, 9)], {"dim": -1, "size": 4, "step": 2}),
    Case("BiasSplitGelu", [real(1, 2, 8), real(8)]),
    Case("NGramRepeatBlock", [ints(1, 2, 3).reshape(1, 3), real(1, 8)], {"ngram_size": 2}),
    # Since onnxruntime 1.32.
    Case("GatherPacked", [bytes_(5, 36), ints(0, 3)], {"K": 64, **table(2)}),
    Case("GatherPacked", [bytes_(5, 66), ints(0, 3)], {"K": 256, **table(16)}),
    Case("GatherPacked", [bytes_(5, 32), ints(0, 3).reshape(1, 2)], {"K": 16, **table(30)}),
    Case("MoEGroupRouter", [real(2, 5, 8), real(8)], {"n_group": 2, "top_k": 2}),
    Case("SwiGLU", [real(2, 3, 8)], {"limit": 1.0}),
    Case(
        "MatMulNBitsQLoRA",
        [real(2, 3, 32), bytes_(8, 2, 8), real(8, 2), bytes_(3, 1, 32), real(3, 1), bytes_(8, 1, 32), real(8, 1)],
        {"K": 32, "N": 8, "block_size": 16},
    ),
    Case(
        "HyperConnectionLowRankMix",
        [real(2, 3, 16), real(16), real(16, 5), real(5, 16), real(16, 4)],
        {"num_branches": 4},
        3,
    ),
    Case(
        "PackedSparseAttentionIndexerMerge",
        [
            ints(1, 2, 3, -1, 4, 5, -1, -1, dtype=numpy.int32).reshape(2, 4),
            ints(3, 2, dtype=numpy.int32),
            ints(0, 1, 1, dtype=numpy.int32),
            ints(2, 5, 7, dtype=numpy.int32),
            ints(4, 6, 9, dtype=numpy.int32),
        ],
        {"max_output_entries": 6, "policy_mode": "append_range"},
        3,
    ),
    Case(
        "SpeculativePrefixCommit",
        [
            *[ints(*range(16)).reshape(2, 8)] * 2,
            ints(0, 0, 0, dtype=numpy.int32),
            ints(*[0] * 32),
            ints(*[0] * 4),
            ints(*[0] * 32).reshape(2, 16),
            ints(0, 1),
        ],
        outputs=3,
    ),
    Case("ConvStateReplay", [real(40), real(40), real(50), ints(0, 0, 0, 1, 2, 3, 4, 2)]),
    Case(
        "GatedDeltaNet",
        [
            *[real(7, 2, 8)] * 2,
            real(7, 4, 6),
            ints(0, 3, 7, dtype=numpy.int32),
            real(7, 4, 8),
            real(7, 4),
            real(2, 4, 6, 8),
            real(4),
            real(4, 8),
        ],
        {"gate_activation": "kda"},
        2,
    ),
    Case("MatMulNBits", [real(2, 3, 32), bytes_(0, 2, 8), real(0)], {"K": 32, "N": 8, "bits": 4, "block_size": 16}),
    Case("TorchEmbedding", [real(5, 4), ints(0, 3, 1)]),
]


def build(case: Case) -> onnx.ModelProto:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    made = [f"y{i}" for i in range(case.outputs)]
    graph = helper.make_graph(
        [helper.make_node(case.op, names, made, name="n", domain=DOMAIN, **case.attrs)],
        "one",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for i, (n, x) in enumerate(zip(names, case.inputs, strict=True))
            if x is not None and i not in case.stored
        ],
        [onnx.ValueInfoProto(name=o) for o in made],
        [numpy_helper.from_array(case.inputs[i], names[i]) for i in case.stored],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)], ir_version=8
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_onnxruntime(case: Case) -> None:
    model = build(case)
    counted = profile(model)
    found = [(t.shape, t.dtype) for t in counted.graph.outputs]
    assert (counted.unknown, counted.unresolved) == ({}, ()), counted.notes
    try:
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {f"x{i}": x for i, x in enumerate(case.inputs) if x is not None and i not in case.stored}
        results = session.run(None, feeds)
    except Exception as error:  # it has no kernel for the processor, or not for these types
        pytest.skip(f"onnxruntime does not run it here: {str(error)[:200]}")
    assert found == [(r.shape, str(r.dtype)) for r in results]


@pytest.mark.skipif(OLDER, reason="came with onnxruntime 1.32")
def test_types_of_packed_rows_are_those_of_ggml() -> None:
    """The kernel for the processor takes the types that have one, and only rows of as many bytes as ggml's have."""
    taken = set()
    for code, kind in TYPES.items():
        size = 512 // kind.elements * (kind.nbytes or BITS[kind.name] // 8)
        fitting, wider = (failure(bytes_(5, width), code) for width in (size, size + 1))
        assert wider
        assert not fitting or "unsupported packed_type" in fitting, kind
        taken |= set() if fitting else {kind.name}
    assert {"q4_0", "q5_0", "q8_0", "q5_K", "q6_K", "iq2_xxs", "iq3_xxs", "iq4_nl", "q2_0", "float16"} <= taken


def failure(data: Any, code: int) -> str:
    """Why the kernel does not take rows of 512 elements of a type; "" where it does."""
    model = build(Case("GatherPacked", [data, ints(0, 3)], {"K": 512, **table(code)}))
    try:
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        session.run(None, {"x0": data, "x1": ints(0, 3)})
    except Exception as error:
        return str(error)
    return ""


def test_every_operator_is_ruled_or_says_why_not() -> None:
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    names = {f"{DOMAIN}::{s.name}" for s in state.get_all_operator_schema() if s.domain == DOMAIN}
    assert names <= OPERATORS.keys() | NOT_RULED.keys()


def test_nonsense_is_told_in_one_line() -> None:
    for case in CASES:
        node = helper.make_node(case.op, [], ["y"], name="n", domain=DOMAIN)
        graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")])
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        counted = profile(helper.make_model(graph, opset_imports=imports))
        assert all("\n" not in note for note in counted.notes)
    assert read(build(CASES[0])).outputs[0].shape == (2, 3)


#: Cases of which the data decide the sizes, and the most that these may be.
BOUNDS: list[tuple[Case, list[tuple[int, ...]]]] = [
    (Case("Unique", [ints(2, 1, 1, 3, 4, 3).astype(numpy.float32)], outputs=3), [(6,), (6,), (6,)]),
    (Case("DynamicTimeWarping", [real(4, 6)]), [(2, 9)]),
    (
        Case("BifurcationDetector", [ints(1, 2, 3, 4), ints(1, 2), numpy.array(0), ints(1, 2, 9, 4, 5)], outputs=2),
        [(7,), ()],
    ),
]


@pytest.mark.parametrize(("case", "most"), BOUNDS, ids=str)
def test_sizes_that_the_data_decide_are_upper_bounds(case: Case, most: list[tuple[int, ...]]) -> None:
    outputs = profile(build(case)).graph.outputs
    assert [t.shape for t in outputs] == most
    assert outputs[0].bound
    session = runtime.InferenceSession(build(case).SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, {f"x{i}": x for i, x in enumerate(case.inputs)})
    for result, shape in zip(results, most, strict=True):
        assert all(n <= m for n, m in zip(result.shape, shape, strict=True))


def test_tokens_without_padding_are_at_most_all_tokens() -> None:
    outputs = profile(
        build(Case("RemovePadding", [real(2, 5, 8), ints(3, 4, dtype=numpy.int32)], outputs=4))
    ).graph.outputs
    assert [t.shape for t in outputs] == [(10, 8), (2, 5), (3,), (1,)]
    assert outputs[0].bound


def test_a_cache_whose_total_length_nobody_knows_stays_open() -> None:
    case = next(c for c in CASES if c.op == "GroupQueryAttention" and c.inputs[3] is not None)
    open_case = Case(case.op, case.inputs, case.attrs, case.outputs)
    counted = profile(build(open_case))
    assert [t.shape for t in counted.graph.outputs] == [(1, 1, 32), None, None]
    assert counted.rows[0].counts == profile(build(case)).rows[0].counts


def test_generated_sequences_are_as_long_as_they_may_become() -> None:
    body = helper.make_graph([], "decoder", [], [])
    searches = {"BeamSearch": [(2, 3, 20), (2, 3)], "GreedySearch": [(2, 20)]}
    for op, shapes in searches.items():
        inputs = [
            ints(1, 2, 3, 4).reshape(2, 2).astype(numpy.int32),
            *(ints(n, dtype=numpy.int32) for n in (20, 1, 4, 3)),
        ]
        case = Case(
            op,
            inputs[: 5 if op == "BeamSearch" else 3],
            {"decoder": body, "eos_token_id": 1, "pad_token_id": 0},
            len(shapes),
            (1, 4) if op == "BeamSearch" else (1,),
        )
        counted = profile(build(case))
        assert [t.shape for t in counted.graph.outputs] == shapes
        assert counted.unknown == {f"{DOMAIN}::{op}": 1}
