"""Shapes of onnxruntime's operators that have no kernel for the processor, beside its own shape inference.

onnxruntime refuses a model whose stated shapes contradict what it infers, and says what it inferred: so one extent
after the other is stated wrongly on purpose.
"""

from __future__ import annotations

import re
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from flopwise.api.profile import profile
from flopwise.formats.kit.tensors import CODES

runtime = pytest.importorskip("onnxruntime", minversion="1.31")  # older ones have fewer of the operators

DOMAIN = "com.microsoft"

#: An extent that no result has.
WRONG = 987_654

Type = tuple[int, list[int]]


def f(*shape: int) -> Type:
    return TensorProto.FLOAT, list(shape)


def h(*shape: int) -> Type:
    return TensorProto.FLOAT16, list(shape)


def bf(*shape: int) -> Type:
    return TensorProto.BFLOAT16, list(shape)


def e(*shape: int) -> Type:
    return TensorProto.FLOAT8E4M3FN, list(shape)


def i(*shape: int) -> Type:
    return TensorProto.INT32, list(shape)


def l(*shape: int) -> Type:  # noqa: E743 # beside i
    return TensorProto.INT64, list(shape)


def q(*shape: int) -> Type:
    return TensorProto.INT8, list(shape)


def u(*shape: int) -> Type:
    return TensorProto.UINT8, list(shape)


def b(*shape: int) -> Type:
    return TensorProto.BOOL, list(shape)


#: Operator, types of its inputs, attributes, number of outputs.
CASES: list[tuple[str, list[Type | None], dict[str, Any], int]] = [
    ("NhwcConv", [f(1, 8, 8, 3), f(5, 3, 2, 4)], {"pads": [1, 0, 0, 1]}, 1),
    ("NhwcFusedConv", [h(1, 8, 8, 4), h(6, 2, 3, 3)], {"group": 2, "strides": [2, 1]}, 1),
    ("MulInteger", [u(2, 3), u(), u(3), u()], {}, 1),
    ("BiasSplitGelu", [f(1, 4, 8), f(8)], {}, 1),
    ("BiasAdd", [f(1, 4, 8), f(8), f(1, 4, 8)], {}, 1),
    ("BiasDropout", [f(4, 8), f(8)], {}, 2),
    ("BiasSoftmax", [f(2, 4, 5, 5), f(2, 1, 5, 5)], {"axis": 3, "is_inner_broadcast": 0}, 1),
    (
        "DecoderAttention",
        [f(5, 2, 8), f(7, 2, 8), f(8, 8), f(8, 16), f(24), None, None, None, b(1), b(1), b(1), b(1)],
        {"num_heads": 2},
        1,
    ),
    (
        "DecoderMaskedSelfAttention",
        [f(2, 1, 12), f(12, 48), f(48), None, f(2, 2, 4, 6, 4), None, i(1)],
        {"num_heads": 4},
        2,
    ),
    ("FusedMatMulActivation", [f(2, 4, 3), f(2, 4, 5)], {"transA": 1, "activation": "Relu"}, 1),
    ("GatedDeltaNet", [h(7, 2, 8), h(7, 2, 8), h(7, 4, 6), i(3), f(7, 4), f(7, 4)], {}, 2),
    (
        "GatedDeltaNet",
        [h(2, 5, 2, 8), h(2, 5, 2, 8), h(2, 5, 4, 6), None, f(2, 5, 4), f(2, 5, 4), f(2, 4, 6, 8)],
        {},
        2,
    ),
    (
        "GatedRelativePositionBias",
        [f(2, 5, 12), f(12), f(1, 4, 5, 5), f(3, 6), f(6), f(1, 4, 1, 1)],
        {"num_heads": 4},
        1,
    ),
    (
        "GatedRelativePositionBias",
        [f(7, 12), f(12), f(1, 4, 5, 5), f(3, 6), f(6), f(1, 4, 1, 1), i(2, 5)],
        {"num_heads": 4},
        1,
    ),
    ("GemmFastGelu", [f(2, 3, 4), f(4, 5)], {}, 1),
    ("GemmFloat8", [f(3, 4), f(5, 4)], {"transB": 1, "dtype": 1}, 1),
    ("GemmaRotaryEmbedding", [f(2, 5, 8), h(2, 3, 5, 8), h(2, 3, 5, 8), h(2, 3, 5, 8), h(2, 3, 5, 8)], {}, 2),
    ("GroupNorm", [h(1, 4, 4, 8), f(8), f(8)], {"groups": 2, "activation": 0}, 1),
    ("SkipGroupNorm", [h(1, 4, 4, 8), f(8), f(8), h(1, 4, 4, 8)], {"groups": 2, "activation": 0}, 2),
    ("IsAllFinite", [f(3, 5, 2)], {}, 1),
    (
        "LongformerAttention",
        [f(1, 8, 6), f(6, 18), f(18), f(1, 8), f(6, 18), f(18), i(1, 8)],
        {"num_heads": 2, "window": 2},
        1,
    ),
    ("MatMulBlockQuantizedFp4Weight", [h(2, 3, 32), u(6, 16), u(6, 2), f()], {}, 1),
    ("MatMulBlockQuantizedFp8Weight", [h(2, 3, 128), e(6, 128), f(6, 1)], {}, 1),
    (
        "MatMulNBitsMlp",
        [h(2, 3, 32), None, None, u(8, 1, 16), h(8, 1), None, u(8, 1, 16), h(8, 1)],
        {"K": 32, "N": 8, "bits": 4, "block_size": 32, "activation": "silu"},
        1,
    ),
    (
        "MatMulNBitsQkv",
        [h(2, 3, 32), h(2, 3, 32), h(32), u(8, 1, 16), h(8, 1), None, u(4, 1, 16), h(4, 1), None, u(4, 1, 16), h(4, 1)],
        {"K": 32, "Nq": 8, "Nkv": 4, "bits": 4, "block_size": 32},
        4,
    ),
    ("PackedAttention", [f(7, 12), f(12, 48), f(48), i(3, 4), i(4)], {"num_heads": 4}, 1),
    (
        "PackedAttention",
        [f(7, 12), f(12, 40), f(40), i(3, 4), i(4)],
        {"num_heads": 4, "qkv_hidden_sizes": [16, 16, 8]},
        1,
    ),
    ("PackedMultiHeadAttention", [f(7, 16), f(7, 16), f(7, 24), None, i(3, 4), i(4)], {"num_heads": 4}, 1),
    ("PackedMultiHeadAttention", [f(7, 4, 3, 8), None, None, None, i(3, 4), i(4)], {"num_heads": 4}, 1),
    (
        "PagedAttention",
        [h(7, 32), h(7, 16), h(7, 16), h(5, 16, 2, 8), h(5, 16, 2, 8), i(4), i(3), i(3, 2)],
        {"num_heads": 4, "kv_num_heads": 2},
        3,
    ),
    (
        "PagedAttention",
        [h(7, 64), None, None, h(5, 16, 2, 8), h(5, 16, 2, 8), i(4), i(3), i(3, 2)],
        {"num_heads": 4, "kv_num_heads": 2},
        3,
    ),
    (
        "SparsePagedAttention",
        [h(7, 32), h(7, 16), h(7, 16), h(5, 16, 2, 8), h(5, 16, 2, 8), i(4), i(3), i(3, 2), None, i(7, 6), i(7)],
        {"num_heads": 4, "kv_num_heads": 2},
        3,
    ),
    (
        "SparseAttention",
        [f(1, 3, 64), f(1, 3, 32), f(1, 3, 32), f(1, 2, 32, 16), f(1, 2, 32, 16), i(1, 3), i(1, 4), i(1), i(1)],
        {"num_heads": 4, "kv_num_heads": 2, "sparse_block_size": 16},
        3,
    ),
    ("QLinearReduceMean", [u(2, 3, 4), f(), u(), f(), u()], {"axes": [1], "keepdims": 0}, 1),
    (
        "QOrderedAttention",
        [q(1, 4, 8), f(), f(), f(), f(), q(8, 8), q(8, 8), q(8, 8), f(), f(), f(), f(8), f(8), f(8), f(), f(), f()],
        {"num_heads": 2, "order_input": 1, "order_weight": 0, "order_output": 1},
        1,
    ),
    ("QOrderedGelu", [q(1, 4, 8), f(), f()], {"order_X": 1, "order_Y": 1}, 1),
    ("QOrderedLayerNormalization", [q(1, 4, 8), f(), f(8), f(8), f()], {"order_X": 1, "order_Y": 1}, 1),
    ("QOrderedMatMul", [q(1, 4, 8), f(), q(8, 6), f(), f()], {"order_A": 1, "order_B": 0, "order_Y": 1}, 1),
    ("QuantizeWithOrder", [f(1, 4, 8), f()], {"order_input": 1, "order_output": 1}, 1),
    ("DequantizeWithOrder", [q(1, 4, 8), f()], {"order_input": 1, "order_output": 1, "to": 1}, 1),
    ("RestorePadding", [f(7, 8), i(2, 5)], {}, 1),
    ("TorchEmbedding", [f(5, 4), l(2, 3)], {}, 1),
    ("VarlenCausalConvWithState", [h(7, 4), h(4, 1, 3), i(3), None, h(2, 4, 2)], {}, 2),
    ("VarlenCausalConvWithState", [h(7, 4), h(4, 1, 3), i(3), None, h(2, 4, 2)], {"state_update_capacity": 5}, 3),
    ("VarlenNGramHashMapping", [l(7), l(3), l(4), i(3)], {"pad_id": 0, "n_head_per_ngram": 2, "max_ngram_size": 3}, 3),
    ("MoE", [f(4, 8), f(4, 3), f(3, 16, 8), None, f(3, 8, 16)], {"k": 2}, 1),
    ("QMoE", [f(2, 4, 8), f(8, 3), u(3, 16, 4), f(3, 16), None, u(3, 8, 8), f(3, 8)], {"k": 2}, 1),
    ("MatMulBnb4", [f(2, 3, 32), u(96), f(6)], {"K": 32, "N": 6, "block_size": 32, "quant_type": 1}, 1),
    ("MatMulBnb4", [f(2, 3, 6), u(96), f(6)], {"K": 32, "N": 6, "block_size": 32, "quant_type": 1, "transB": 0}, 1),
    ("CausalConvWithState", [f(2, 4, 5), f(4, 1, 3)], {"state_window": 3}, 2),
    ("CausalConvWithState", [f(2, 5, 4), f(4, 1, 3)], {"channels_last": 1, "dilation": 2}, 2),
    (
        "LinearAttention",
        [f(2, 3, 8), f(2, 3, 8), f(2, 3, 12), None, f(2, 3, 2), f(2, 3, 2)],
        {"q_num_heads": 2, "kv_num_heads": 2, "state_window": 2},
        2,
    ),
    (
        "LinearAttention",
        [f(2, 3, 8), f(2, 3, 16), f(2, 3, 12), None, f(2, 3, 4), f(2, 3, 4)],
        {"q_num_heads": 2, "kv_num_heads": 4},
        2,
    ),
    ("HyperConnectionPreMix", [f(2, 3, 20), f(2, 3, 4)], {"num_branches": 4}, 1),
]


#: The same for what came with onnxruntime 1.32.
CASES_OF_1_32: list[tuple[str, list[Type | None], dict[str, Any], int]] = [
    ("SwiGLU", [h(2, 3, 8), h(2, 3, 8)], {}, 1),
    ("SwiGLU", [h(2, 3, 8)], {}, 1),
    ("MatMulPacked", [h(2, 3, 256), u(6, 66)], {"K": 256, "N": 6, "packed_type": 16}, 1),
    ("GatherPacked", [u(9, 66), l(2, 3)], {"K": 256, "packed_type": 16}, 1),
    ("GatherPacked", [u(9, 66), l(4)], {"K": 256, "packed_type": 16, "output_dtype": 1}, 1),
    (
        "MatMulNBitsQLoRA",
        [h(2, 3, 32), u(8, 2, 8), h(8, 2), u(3, 1, 32), h(3, 1), u(8, 1, 32), h(8, 1)],
        {"K": 32, "N": 8, "block_size": 16},
        1,
    ),
    ("RouterGateUpProj", [h(2, 3, 8), h(8, 10)], {"router_size": 4}, 2),
    (
        "MoEPacked",
        [h(2, 3, 256), h(6, 4), u(4, 8, 66), u(4, 8, 66), u(4, 256, 66)],
        {"gate_type": 16, "up_type": 16, "down_type": 16, "k": 2},
        1,
    ),
    ("MoEGroupRouter", [h(2, 3, 8), f(8)], {"n_group": 2, "topk_group": 1, "top_k": 2}, 1),
    ("RMSNormRotary", [h(2, 3, 4, 16), f(8), l(1), f(9, 2), f(9, 2)], {"input_width": 8, "rotary_embedding_dim": 4}, 2),
    (
        "RMSNormRotary",
        [h(2, 3, 4, 16), f(16), l(1), f(9, 2), f(9, 2)],
        {"flatten_batch": 1, "output_fp16": 1, "rotary_embedding_dim": 4},
        2,
    ),
    ("HyperConnectionLowRankMix", [h(2, 3, 20), h(20), h(20, 5), h(5, 20), h(20, 4)], {"num_branches": 4}, 3),
    (
        "Mamba2Verify",
        [bf(3, 770), bf(4, 640, 3), f(4, 2, 128, 64), bf(640, 4), bf(640), f(2), f(2), f(2), f(128), i(1)],
        {"heads": 2, "n_groups": 2},
        5,
    ),
    ("GatedDeltaNetStateReplay", [f(40), f(50), f(60), l(11)], {}, 1),
    ("ConvStateReplay", [h(40), h(50), h(60), l(8)], {}, 1),
    (
        "PackedSparseAttentionIndexerMerge",
        [i(2, 4), i(2), i(3), None, None, i(3, 2), i(3)],
        {"max_output_entries": 6, "policy_mode": "append_indices"},
        3,
    ),
    ("SpeculativePrefixCommit", [l(2, 8), l(2, 8), i(3), l(32), l(4), l(2, 16), l(2)], {}, 3),
    (
        "CausalConvWithState",
        [h(2, 5, 8), h(4, 1, 3)],
        {
            "channels_last": 1,
            "input_channels": 4,
            "state_length": 4,
            "state_update_capacity": 3,
            "state_channels_last": 0,
        },
        3,
    ),
    (
        "GatedDeltaNet",
        [h(7, 2, 8), h(7, 2, 8), h(7, 4, 6), i(3), f(7, 4, 8), f(7, 4), f(2, 4, 6, 8), None, None, i(2)],
        {"state_update_capacity": 3},
        3,
    ),
    (
        "VarlenCausalConvWithState",
        [h(7, 4), h(4, 1, 2), i(3), None, h(2, 4, 1), None, h(7, 3, 2), h(7, 1)],
        {"group_size": 2},
        2,
    ),
    ("GatedAdd", [bf(2, 3, 8), bf(2, 3, 8), bf(2, 3, 5), bf(5, 1)], {}, 1),
]

_OLDER = tuple(map(int, runtime.__version__.split(".")[:2])) < (1, 32)
_NEW = [pytest.param(*c, marks=pytest.mark.skipif(_OLDER, reason="came with onnxruntime 1.32")) for c in CASES_OF_1_32]


def model(
    op: str, inputs: list[Type | None], attrs: dict[str, Any], outputs: list[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
    given = [helper.make_tensor_value_info(n, *x) for n, x in zip(names, inputs, strict=True) if x is not None]
    node = helper.make_node(op, names, [o.name for o in outputs], name="n", domain=DOMAIN, **attrs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(helper.make_graph([node], "one", given, outputs), opset_imports=opsets, ir_version=8)


def inferred(made: onnx.ModelProto) -> int | None:
    """What onnxruntime infers for the extent that the model states wrongly."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.strict_shape_type_inference", "1")
    try:
        runtime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        found = re.search(r"[Ii]nferred=(\d+)", str(error))
        return int(found[1]) if found else None
    return None


@pytest.mark.parametrize(("op", "inputs", "attrs", "outputs"), [*CASES, *_NEW])
def test_as_onnxruntime_infers(op: str, inputs: list[Type | None], attrs: dict[str, Any], outputs: int) -> None:
    names = [f"y{k}" for k in range(outputs)]
    profiled = profile(model(op, inputs, attrs, [onnx.ValueInfoProto(name=name) for name in names]))
    assert profiled.exact or profiled.unresolved == (), profiled.notes
    for place, found in enumerate(profiled.graph.outputs):
        assert found.shape is not None
        assert found.dtype is not None
        said: list[int | None] = []
        for axis in range(len(found.shape)):
            stated = [WRONG if a == axis else None for a in range(len(found.shape))]
            values = [onnx.ValueInfoProto(name=name) for name in names]
            values[place] = helper.make_tensor_value_info(names[place], CODES[found.dtype], stated)
            said.append(inferred(model(op, inputs, attrs, values)))
        assert said == list(found.shape) or (place and not any(said)), "it leaves some further results open"
