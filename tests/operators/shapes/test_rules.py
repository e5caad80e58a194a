"""Shape rules by themselves, in forms that no runtime here executes: rows of inputs, attributes and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from flopwise.operators.size import UnresolvedError
from flopwise.operators.tables import OPERATORS, ROWS
from flopwise.sizes.facts import ABSENT, NOTHING, Fact, Facts
from flopwise.sizes.scope import Tensors
from flopwise.sizes.site import Site, Surroundings

#: An element type and a shape; a tensor of float32 is its shape alone, one whose elements are known an array.
Type = Any


class Node(NamedTuple):
    """A node of a graph that consists of nodes without names."""

    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    attributes: Any = SimpleNamespace(values={})
    name: str = ""
    version: int = 0
    first_output: str = ""


def fact_of(given: Type, facts: Facts) -> Fact:
    """What is known about an input."""
    if given is None:
        return ABSENT
    if isinstance(given, np.ndarray):
        return facts.constant(facts.tensor(str(given.dtype), given.shape), tuple(given.ravel().tolist()))
    return facts.tensor(*(given if given and isinstance(given[0], str) else ("float32", given)))


def site_of(op: str, inputs: Sequence[Type], attrs: Mapping[str, Any], behind: Mapping[str, Any] | None = None) -> Site:
    """An application of an operator.

    Args:
        op: the operator.
        inputs: their types.
        attrs: its attributes.
        behind: operator of the same domain -> its inputs and attributes, and whether the first one takes the result.
    """
    facts, (domain, _, name) = Facts(), op.rpartition("::")
    tensors, nodes = Tensors(), []
    for other, (types, attributes, takes) in (behind or {}).items():
        names = tuple([f"{other}{place}" for place in range(len(types))])
        tensors.update(zip(names, [fact_of(one, facts) for one in types], strict=True))
        names = ("y", *names[1:]) if takes else names
        tensors["y"] = fact_of(types[0], facts)
        nodes.append(Node(other, domain, names, (), SimpleNamespace(values=attributes)))
    own = Node(name, domain, (), ("y",))
    given = tuple([fact_of(one, facts) for one in inputs])
    return Site(name, attrs, given, 1, 17, facts, lambda stored: NOTHING, Surroundings(own, tensors, nodes))


def results(op: str, inputs: Sequence[Type], attrs: Mapping[str, Any], behind: Mapping[str, Any] | None = None) -> Any:
    """The element types and shapes that the rule in a row gives; arguments as for `site_of`."""
    site, row = site_of(op, inputs, attrs, behind), ROWS[op]
    assert row.shape is not None
    dtypes = list(row.dtype(site)) if callable(row.dtype) else [row.dtype]
    made = list(row.shape(site))
    dtypes = dtypes if len(dtypes) > 1 else dtypes * len(made)
    named = [one if isinstance(one, str) else site.dtype_or_none(one) for one in dtypes]
    types = [site.tensor(d, one) if isinstance(one, tuple) else one for d, one in zip(named, made, strict=True)]
    return [None if one is None or one.shape is None else (one.dtype, one.extents) for one in types]


MS, NCHWC = "com.microsoft::", "com.microsoft.nchwc::"
_ = None


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def scalar(number: float) -> Any:
    return np.array(number)


CACHE, NEW = ("float16", (2, 4, 6, 8)), ("float16", (2, 5, 32))
STATUS = ("int32", (1,))
PAGE = {"num_heads": 4, "kv_num_heads": 2}

#: Operator, inputs, attributes -> results; None is one of which nothing is known.
ROWS_OF_SHAPES: list[tuple[str, list[Type], dict[str, Any], list[Type]]] = [
    ("ai.onnx.ml::LinearRegressor", [(5, 3)], {}, [(5, 1)]),
    ("ai.onnx.ml::LinearRegressor", [(5, 3)], {"targets": 4}, [(5, 4)]),
    ("ai.onnx.ml::SVMRegressor", [(5, 3)], {}, [(5, 1)]),
    ("ai.onnx.ml::TreeEnsembleRegressor", [(5, 3)], {}, [(5, 1)]),
    ("ai.onnx.ml::TreeEnsembleRegressor", [(5, 3)], {"n_targets": 3}, [(5, 3)]),
    ("Range", [scalar(2), scalar(7), scalar(2)], {}, [("int64", (3,))]),
    ("Range", [scalar(7), scalar(2), scalar(-2)], {}, [("int64", (3,))]),
    ("Range", [scalar(7), scalar(2), scalar(2)], {}, [("int64", (0,))]),
    ("Range", [scalar(2), scalar(7), scalar(1)], {}, [("int64", (5,))]),
    ("Range", [scalar(2), scalar(7)], {}, [("int64", (5,))]),
    ("Range", [scalar(8), scalar(2), scalar(-2)], {}, [("int64", (3,))]),
    ("Range", [scalar(2), scalar(7), scalar(0)], {}, [("int64", None)]),
    ("Range", [scalar(2), ints(7), ("int64", ())], {}, [("int64", None)]),
    (f"{MS}PackedMultiHeadAttention", [("float16", (7, 4, 3, 8))], {}, [("float16", (7, 32))]),
    (f"{MS}PackedMultiHeadAttention", [("float16", (7, 16)), (7, 16), (7, 24)], {}, [("float16", (7, 24))]),
    ("Range", [scalar(7.0), scalar(2.0), scalar(0.5)], {}, [("float64", (0,))]),
    ("Range", [scalar(2.0), scalar(7.0), scalar(2.0)], {}, [("float64", (3,))]),
    ("Reshape", [("float32", None), ints(1, 6)], {}, [(1, 6)]),
    ("Reshape", [("float32", None), ints(0, 6)], {}, [("float32", None)]),
    ("GivenTensorFill", [(4, 3)], {"extra_shape": [2]}, [(4, 3, 2)]),
    ("FC", [(2, 3, 4), (5, 12)], {}, [(2, 5)]),
    ("DynamicSlice", [(7, 8, 9), ints(1, 2), ints(5, -1), ints(0, 2)], {}, [(4, 8, 6)]),
    ("DynamicSlice", [(7, 8, 9), ints(1, 2), ints(5, -1)], {}, [(4, 5, 9)]),
    (
        f"{MS}DynamicSparseAttention",
        [NEW, ("float16", (2, 5, 16)), ("float16", (2, 5, 16)), ("float16", (2, 2, 6, 8)), *[_] * 6, scalar(9)],
        PAGE,
        [("float16", (2, 5, 32)), *[("float16", (2, 2, 9, 8))] * 2, STATUS],
    ),
    (
        f"{MS}DynamicSparseAttention",
        [NEW, ("float16", (2, 5, 16)), ("float16", (2, 5, 16)), ("float16", (2, 2, 12, 8)), *[_] * 6, scalar(9)],
        PAGE,
        [("float16", (2, 5, 32)), *[("float16", (2, 2, 12, 8))] * 2, STATUS],
    ),
    (f"{MS}DynamicSparseAttention", [("float16", (2, 5, 64)), *[_] * 9, scalar(9)], PAGE,
     [("float16", (2, 5, 32)), *[("float16", (2, 2, 9, 8))] * 2, STATUS]),
    (f"{MS}DynamicSparseAttention", [NEW, NEW, NEW], PAGE, [("float16", (2, 5, 32)), _, _, STATUS]),
    (
        f"{MS}DynamicSparseAttention",
        [NEW, ("float16", (2, 5, 16)), ("float16", (2, 5, 16)), ("int8", (2, 2, 6, 8)), *[_] * 6, scalar(9)],
        {**PAGE, "output_bf16": 1},
        [("bfloat16", (2, 5, 32)), *[("int8", (2, 2, 9, 8))] * 2, STATUS],
    ),
    (f"{MS}SparseAttentionIndexer", [(2, 5, 32)], {"index_topk": 7}, [("int32", (2, 5, 7))]),
    (
        f"{MS}SparseAttentionIndexer",
        [(2, 5, 32)],
        {"policy_mode": "qsa", "token_budget": 6, "compress_ratio": 4},
        [("int32", (2, 5, 9))],
    ),
    (
        f"{MS}PackedSparseAttentionIndexer",
        [("float16", (9, 32)), *[_] * 11, (3, 6, 8), (3, 2), (3, 3), (3, 4)],
        {"index_topk": 7, "state_update_capacity": 5},
        [("int32", (9, 7)), ("int32", (9,)), (3, 6, 8), (3, 2), (3, 3), (3, 4), ("float16", (3, 5, 8)),
         ("int32", (9,)), ("int32", (3,))],
    ),
    (
        f"{MS}PackedSparseAttentionIndexerMerge",
        [("int32", (2, 4)), ("int32", (2,)), ("int32", (3,)), ("int32", (3,)), ("int32", (3,))],
        {"max_output_entries": 6},
        [("int32", (3, 6)), ("int32", (3,)), ("int32", (3,))],
    ),
    (
        f"{MS}SpeculativePrefixCommit",
        [("int64", (8,)), _, _, ("int64", (16,)), ("int64", (2,))],
        {},
        [("int32", (1,)), ("int64", (16,)), ("int64", (2,))],
    ),
    (
        f"{MS}SpeculativePrefixCommit",
        [("int64", (3, 8)), _, _, ("int64", (48,)), ("int64", (6,))],
        {},
        [("int32", (3,)), ("int64", (48,)), ("int64", (6,))],
    ),
    (f"{MS}SwiGLU", [("float16", (2, 3, 8)), ("float16", (2, 3, 8))], {}, [("float16", (2, 3, 8))]),
    (f"{MS}SwiGLU", [("float16", (2, 3, 8))], {}, [("float16", (2, 3, 4))]),
    (f"{MS}MatMulPacked", [("float16", (2, 3, 256)), ("uint8", (6, 66))], {"K": 256, "N": 6},
     [("float16", (2, 3, 6)), ("float16", (2, 3, 256))]),
    (f"{MS}MatMulNBitsQLoRA", [("float16", (2, 32))], {"K": 32, "N": 6}, [("float16", (2, 6)), ("float16", (2, 32))]),
    (f"{MS}GatherPacked", [("uint8", (9, 66)), ("int64", (2, 3))], {"K": 256}, [("bfloat16", (2, 3, 256))]),
    (f"{MS}GatherPacked", [("uint8", (9, 66)), ("int64", (4,))], {"K": 256, "output_dtype": "float32"}, [(4, 256)]),
    (f"{MS}RouterGateUpProj", [("float16", (2, 3, 8)), ("float16", (8, 14))], {"router_size": 4},
     [("float16", (2, 3, 4)), ("float16", (2, 3, 5))]),
    (f"{MS}MoEPacked", [("float16", (2, 3, 256)), (6, 4)], {}, [("float16", (2, 3, 256))]),
    (f"{MS}MoEGroupRouter", [("float16", (2, 3, 8)), (8,)], {"top_k": 2}, [("float16", (6, 8)), (6, 8), (6, 8)]),
    (f"{MS}MoEGroupRouter", [("float16", (6, 256)), (8,), ("float16", (8, 256))], {"top_k": 2},
     [("float16", (6, 8)), (6, 8), (6, 8)]),
    (f"{MS}RMSNormRotary", [("bfloat16", (2, 3, 4, 16)), (8,)], {"input_width": 8, "rotary_embedding_dim": 4},
     [("bfloat16", (2, 3, 32)), (2, 3, 4, 8)]),
    (
        f"{MS}RMSNormRotary",
        [("float16", (2, 3, 4, 16)), (16,)],
        {"flatten_batch": 1, "output_fp16": 1, "rotary_embedding_dim": 4},
        [("float16", (1, 6, 64)), (2, 3, 4, 16)],
    ),
    (f"{MS}HyperConnectionLowRankMix", [("float16", (2, 3, 20))], {"num_branches": 4},
     [("float16", (2, 3, 5)), ("float16", (2, 3, 4)), ("float16", (2, 3, 20))]),
    (
        f"{MS}Mamba2Verify",
        [("bfloat16", (3, 770)), (4, 640, 3), (4, 2, 128, 64), (640, 4), *[_] * 4, (128,)],
        {"heads": 2, "n_groups": 2},
        [("bfloat16", (3, 128)), (4, 640, 3), (4, 2, 128, 64), ("bfloat16", (3, 640)), (3, 128)],
    ),
    (f"{MS}ConvStateReplay", [(40,), (50,), (60,)], {}, [(60,)]),
    (f"{MS}GatedDeltaNetStateReplay", [(40,), (50,), (60,)], {}, [(60,)]),
    (
        f"{MS}GatedDeltaNet",
        [("float16", (7, 56)), _, _, ("int32", (3,)), (7, 4), (7, 4), (2, 4, 6, 8)],
        {"state_update_capacity": 3},
        [("float16", (7, 4, 6)), (2, 4, 6, 8), (2, 3 * (4 + 2 * 8 + 4 * 6))],
    ),
    (
        f"{MS}GatedDeltaNet",
        [("float16", (7, 56)), _, _, ("int32", (3,)), (7, 4, 8), (7, 4), (2, 4, 6, 8)],
        {"state_update_capacity": 3},
        [("float16", (7, 4, 6)), (2, 4, 6, 8), (2, 3 * (4 * 8 + 2 * 8 + 4 * 6))],
    ),
    (
        f"{MS}GatedDeltaNet",
        [(7, 2, 8), (7, 2, 8), (7, 4, 6), ("int32", (3,)), (7, 4), (7, 4), (2, 4, 6, 8)],
        {"state_update_capacity": 3},
        [(7, 4, 6), (2, 4, 6, 8), (2, 3 * (4 + 2 * 8 + 4 * 6))],
    ),
    (
        f"{MS}GemmaRotaryEmbedding",
        [(2, 5, 8), ("float16", (2, 3, 5, 8)), ("float16", (2, 3, 5, 9)), ("float16", (2, 1, 5, 8)), _],
        {},
        [("float16", (2, 3, 5, 8)), ("float16", (2, 1, 5, 8))],
    ),
    (f"{MS}RelativePositionBias", [("float16", (32, 4)), scalar(5), scalar(7)], {}, [("float16", (1, 4, 5, 7))]),
    (
        f"{MS}GatedRelativePositionBias",
        [(2, 5, 32), (32,), (1, 4, 5, 5), (8, 8), (8,), (1, 4, 1, 1), (3, 6)],
        {"num_heads": 4},
        [(3, 4, 5, 5)],
    ),
    (f"{MS}QuantizeLinear", [(2, 3), (), ("int8", ())], {}, [("int8", (2, 3))]),
    (f"{MS}QuantizeLinear", [(2, 3), ()], {}, [("uint8", (2, 3))]),
    (
        f"{MS}QLinearConcat",
        [(), ("uint8", ()), ("uint8", (2, 3)), (), ("uint8", ()), ("uint8", (4, 3)), (), ("uint8", ())],
        {},
        [("uint8", (6, 3))],
    ),
    (f"{MS}GatherBlockQuantized", [("uint8", (8, 16)), (3,), ("float16", (8, 2))], {}, [("float16", (3, 32))]),
    (
        f"{MS}GatherBlockQuantized",
        [("uint8", (8, 16)), ("int64", (3,)), ("float16", (8, 2))],
        {"bits": 2},
        [("float16", (3, 64))],
    ),
    (
        f"{MS}GatherBlockQuantized",
        [("uint8", (8, 5, 16)), ("int64", (3, 4)), ("float16", (8, 5, 2))],
        {"gather_axis": 1},
        [("float16", (8, 3, 4, 32))],
    ),
    (f"{MS}MurmurHash3", [("int64", (4, 5))], {}, [("uint32", (4, 5))]),
    (f"{MS}MurmurHash3", [("int64", (4, 5))], {"positive": 0}, [("int32", (4, 5))]),
    (f"{MS}WordConvEmbedding", [("int32", (2, 5, 9)), (7, 1, 3, 4), (7,), (60, 4)], {}, [(2, 5, 7)]),
    (f"{MS}WordConvEmbedding", [("int32", (2, 5, 9)), (7, 1, 3, 4), (7,), (60, 4)], {"embedding_size": 6}, [(2, 5, 6)]),
    (
        f"{MS}BeamSearch",
        [("int32", (2, 5)), scalar(20), scalar(1), scalar(4), scalar(3)],
        {},
        [("int32", (2, 3, 20)), (2, 3)],
    ),
    (f"{MS}GreedySearch", [("int32", (2, 5)), scalar(20)], {}, [("int32", (2, 20))]),
    (
        f"{MS}WhisperBeamSearch",
        [(2, 80, 30), scalar(20), scalar(1), scalar(4), scalar(3)],
        {},
        [("int32", (2, 3, 20)), (2, 3)],
    ),
    (f"{MS}Tokenizer", [("string", (2, 3))], {}, [("string", None)]),
    (f"{MS}SampleOp", [("float16", (2, 3))], {}, [("float16", (2, 3))]),
    (f"{MS}ComplexMulConj", [("float16", (2, 3, 2)), ("float16", (1, 3, 2))], {}, [("float16", (2, 3, 2))]),
    (f"{MS}ComplexMul", [("float16", (2, 3, 2)), ("float16", (2, 3, 2))], {}, [("float16", (2, 3, 2))]),
    (f"{MS}ReduceSumInteger", [("uint8", (2, 3, 4))], {"axes": [1], "keepdims": 0}, [("int32", (2, 4))]),
    (f"{MS}BitmaskBiasDropout", [(2, 3, 33), (33,)], {}, [(2, 3, 33), ("uint32", (7,))]),
    (f"{MS}QOrderedLongformerAttention", [("int8", (1, 8, 6))], {}, [("int8", (1, 8, 6))]),
    (f"{MS}Sampling", [("int32", (2, 5)), scalar(20)], {}, [("int32", (2, 20))]),
    (f"{MS}Unique", [(9,)], {}, [(9,), ("int64", (9,)), ("int64", (9,))]),
    (f"{MS}BitmaskDropout", [(2, 3, 33)], {}, [(2, 3, 33), ("uint32", (7,))]),
    (f"{MS}Rfft", [(4, 16)], {"signal_ndim": 1}, [(4, 9, 2)]),
    (f"{MS}Irfft", [(4, 9, 2)], {"signal_ndim": 1}, [(4, 16)]),
    (f"{MS}UnfoldTensor", [(4, 9, 11)], {"size": 3, "step": 2}, [(4, 9, 5, 3)]),
    (f"{MS}UnfoldTensor", [(4, 9, 11)], {"dim": 1, "size": 3, "step": 2}, [(4, 4, 11, 3)]),
    (f"{MS}Range", [scalar(2.0), scalar(9.0), scalar(2.0)], {}, [("float64", (4,))]),
    (f"{MS}Range", [np.array([2.0], np.float32), scalar(9.0)], {}, [(7,)]),
    (f"{MS}NGramRepeatBlock", [("int64", (2, 5)), (2, 30)], {"ngram_size": 2}, [(2, 30)]),
    (f"{NCHWC}Conv", [(2, 16, 9, 9), (24, 8, 3, 3)], {"group": 2}, [(2, 24, 7, 7)]),
    (f"{NCHWC}Conv", [(2, 16, 9, 9), (24, 3, 3, 3)], {"strides": [2, 2], "activation": "Relu"}, [(2, 24, 4, 4)]),
    (f"{NCHWC}Upsample", [(2, 16, 5, 6)], {"scales": [1, 1, 2, 3]}, [(2, 16, 10, 18)]),
    (f"{NCHWC}ReorderOutput", [(2, 16, 5, 6)], {"channels": 10}, [(2, 10, 5, 6)]),
    (f"{NCHWC}ReorderOutput", [(2, 16, 5, 6)], {"channels": 10, "channels_last": 1}, [(2, 5, 6, 10)]),
    (
        f"{MS}DecoderMaskedMultiHeadAttention",
        [(2, 1, 16), (2, 1, 16), (2, 1, 16), _, _, (2, 4, 6, 4), (2, 4, 6, 4)],
        {"num_heads": 4},
        [(2, 1, 16), (2, 4, 7, 4), (2, 4, 7, 4), (2, 4, 1, 7)],
    ),
    (
        f"{MS}DecoderMaskedMultiHeadAttention",
        [(2, 1, 4, 3, 4), _, _, _, _, (2, 4, 6, 4), (2, 4, 6, 4)],
        {"num_heads": 4, "past_present_share_buffer": 1},
        [(2, 1, 16), (2, 4, 6, 4), (2, 4, 6, 4), (2, 4, 1, 6)],
    ),
    (f"{MS}MultiHeadAttention", [(2, 5, 24)], {"num_heads": 4}, [(2, 5, 8), (2, 4, 5, 2), (2, 4, 5, 2), (2, 4, 5, 5)]),
    (
        f"{MS}MultiHeadAttention",
        [(2, 5, 16), (2, 7, 16), (2, 7, 16), _, _, _, (2, 4, 6, 4), (2, 4, 6, 4)],
        {"num_heads": 4},
        [(2, 5, 16), (2, 4, 13, 4), (2, 4, 13, 4), (2, 4, 5, 13)],
    ),
    (
        f"{MS}MultiHeadAttention",
        [(2, 5, 16), (2, 7, 16), (2, 7, 16), _, _, _, (2, 4, 20, 4), (2, 4, 20, 4), ints(3)],
        {"num_heads": 4},
        [(2, 5, 16), (2, 4, 20, 4), (2, 4, 20, 4), (2, 4, 5, 20)],
    ),
    (
        f"{MS}MultiHeadAttention",
        [(2, 5, 16), (2, 4, 7, 4), (2, 4, 7, 3)],
        {"num_heads": 4},
        [(2, 5, 12), (2, 4, 7, 4), (2, 4, 7, 3), (2, 4, 5, 7)],
    ),
    (f"{MS}PackedMultiHeadAttention", [(9, 4, 3, 8)], {"num_heads": 4}, [(9, 32)]),
    (f"{MS}PackedMultiHeadAttention", [(9, 32), (9, 32), (9, 24)], {"num_heads": 4}, [(9, 24)]),
    (f"{MS}ConvTransposeWithDynamicPads", [("float16", (1, 2, 5, 5)), (2, 3, 3, 3), ints(1, 1, 1, 1)], {},
     [("float16", (1, 3, 5, 5))]),
    (f"{MS}ConvTransposeWithDynamicPads", [("float16", (1, 2, 5, 5)), (2, 3, 3, 3)], {}, [("float16", (1, 3, 7, 7))]),
    (f"{MS}FusedMatMul", [("float16", (3, 4)), (4, 5)], {}, [("float16", (3, 5))]),
    (f"{MS}FusedMatMul", [("float16", (4, 2, 3)), (2, 4, 5)], {"transA": 1, "transBatchB": 1},
     [("float16", (4, 3, 5))]),
    (f"{MS}SparseToDenseMatMul", [(3, 4), ("float16", (4, 5))], {}, [("float16", (3, 5))]),
    (f"{MS}MatMulNBitsMlp", [("float16", (2, 32)), (7,)], {"N": 8, "K": 32},
     [("float16", (2, 8)), ("float16", (2, 32))]),
    (f"{MS}MatMulNBitsQkv", [("float16", (2, 32)), (7,)], {"Nq": 8, "Nkv": 4},
     [("float16", (2, 8)), ("float16", (2, 4)), ("float16", (2, 4)), ("float16", (2, 32))]),
    (f"{MS}MatMulBlockQuantizedFp8Weight", [("float16", (2, 3, 32)), ("float8e4m3fn", (8, 32))], {},
     [("float16", (2, 3, 8))]),
    (f"{MS}MatMulFpQ4", [("float16", (2, 3, 32)), ("uint8", (99,)), ints(32, 8)], {}, [("float16", (2, 3, 8))]),
    (f"{MS}QOrderedMatMul", [("int8", (2, 3, 32)), (), ("int8", (32, 8))], {}, [("int8", (2, 3, 8))]),
    ("GivenTensorFill", [("float64", (4, 3))], {}, [("float64", (4, 3))]),
    ("ConstantFill", [ints(4, 7)], {"input_as_shape": 1, "extra_shape": [2]}, [(4, 7, 2)]),
    (f"{MS}QuantizeBFP", [(2, 3, 4)], {}, [_, ("int64", (3,)), ("int64", (3,))]),
    (f"{MS}DequantizeBFP", [("uint8", (40,)), ints(4, 5)], {}, [(4, 5)]),
    ("Attention", [(2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 7, 9), _, (2, 3, 8, 4), (2, 3, 8, 9)], {},
     [(2, 6, 5, 9), (2, 3, 15, 4), (2, 3, 15, 9), (2, 6, 5, 15)]),
    ("Attention", [(2, 5, 24), (2, 7, 12), (2, 7, 27), _, (2, 3, 8, 4), (2, 3, 8, 9)],
     {"q_num_heads": 6, "kv_num_heads": 3}, [(2, 5, 54), (2, 3, 15, 4), (2, 3, 15, 9), (2, 6, 5, 15)]),
    (f"{MS}SkipSimplifiedLayerNormalization", [("float16", (2, 3, 8)), (3, 8), (8,)], {},
     [("float16", (2, 3, 8)), (2, 3, 1), (2, 3, 1), ("float16", (2, 3, 8))]),
    (f"{MS}QEmbedLayerNormalization", [("int32", (2, 3)), _, ("uint8", (60, 8)), *[_] * 5, ("float16", ()), ()], {},
     [("float16", (2, 3, 8)), ("int32", (2,)), ("float16", (2, 3, 8))]),
    (f"{MS}CausalConvWithState", [(2, 6, 9), (6, 1, 4), _, (2, 6, 5)], {}, [(2, 6, 9), (2, 6, 5)]),
    (f"{MS}CausalConvWithState", [(2, 6, 9), (6, 1, 4)], {}, [(2, 6, 9), (2, 6, 3)]),
    (f"{MS}CausalConvWithState", [(2, 9, 6), (6, 1, 4)], {"channels_last": 1, "dilation": 2}, [(2, 9, 6), (2, 6, 6)]),
    (
        f"{MS}CausalConvWithState",
        [(2, 9, 8), (6, 1, 4)],
        {"channels_last": 1, "input_channels": 6, "state_length": 5, "state_update_capacity": 2},
        [(2, 9, 6), (2, 5, 6), (2, 2, 6)],
    ),
    (
        f"{MS}CausalConvWithState",
        [(2, 9, 8), (6, 1, 4)],
        {"channels_last": 1, "input_channels": 6, "state_channels_last": 0},
        [(2, 9, 6), (2, 6, 3)],
    ),
    (f"{MS}CausalConvWithState", [(2, 6, 9), (6, 1, 4)], {"state_channels_last": 1}, [(2, 6, 9), (2, 3, 6)]),
    (f"{MS}CausalConvWithState", [(2, 9, 8), (6, 1, 4), _, (2, 5, 6)],
     {"channels_last": 1, "input_channels": 6, "state_update_capacity": 2}, [(2, 9, 6), (2, 5, 6), (2, 2, 6)]),
    (f"{MS}NhwcMaxPool", [("uint8", (1, 9, 2))], {"kernel_shape": [3]}, [("uint8", (1, 7, 2))]),
    (f"{MS}RestorePadding", [("float16", (7, 8)), (2, 5)], {}, [("float16", (2, 5, 8))]),
    (f"{MS}RemovePadding", [(2, 5, 8)], {}, [(10, 8), ("int32", (2, 5)), ("int32", (3,)), ("int32", (1,))]),
    ("TfIdfVectorizer", [("int32", (2, 7))], {"ngram_indexes": [0, 5, 3]}, [(2, 6)]),
    (f"{MS}ExpandDims", [("float16", (2, 3)), ints(-1)], {}, [("float16", (2, 3, 1))]),
]  # fmt: skip


def full(types: Sequence[Type]) -> list[Type]:
    """Results with their element types."""
    return [t if t is None or isinstance(t[0], str) else ("float32", t) for t in types]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "expected"), ROWS_OF_SHAPES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_shapes(op: str, inputs: list[Type], attrs: dict[str, Any], expected: list[Type]) -> None:
    found = results(op, inputs, attrs)
    assert found[: len(expected)] == full(expected)
    assert len(found) <= len(expected) or f"{MS}MultiHeadAttention" == op


def test_blocks_are_as_large_as_the_weights_behind_them() -> None:
    op = f"{NCHWC}ReorderInput"
    weights, narrow = [(2, 16, 9, 9), (24, 8, 3, 3)], [(2, 8, 9, 9), (8, 8, 3, 3)]
    behind = {"Conv": (weights, {"group": 2}, True)}
    wide = [("float32", (2, 16, 9, 7))]
    assert results(op, [(2, 3, 9, 7)], {}, behind) == wide
    assert results(op, [(2, 9, 7, 3)], {"channels_last": 1}, behind) == wide
    for types, attributes in ((weights, {"group": 2}), (narrow, {})):
        assert results(op, [(2, 10, 9, 7)], {}, {"Conv": (types, attributes, False)}) == wide
    assert results(op, [(2, 3, 9, 7)], {}, {"Conv": (narrow, {}, False)}) == [("float32", (2, 8, 9, 7))]


@pytest.mark.parametrize("rank", [3, 5])
def test_only_images_go_into_blocks(rank: int) -> None:
    for op in ("ReorderInput", "ReorderOutput"):
        with pytest.raises(UnresolvedError):
            results(f"{NCHWC}{op}", [(2,) * rank], {"channels": 2})


def test_heads_of_a_packed_state_are_known_by_the_state_alone() -> None:
    with pytest.raises(UnresolvedError):
        results(f"{MS}GatedDeltaNet", [("float16", (7, 56)), _, _, ("int32", (3,)), (7, 4), (7, 4)], {})


def test_each_is_a_row_of_the_tables() -> None:
    assert {row[0] for row in ROWS_OF_SHAPES} <= {*OPERATORS, *ROWS}
