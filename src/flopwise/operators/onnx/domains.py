"""Operators of other domains that tools write into ONNX models: brevitas, QONNX, FINN and onnxruntime-extensions.

The definitions: https://github.com/fastmachinelearning/qonnx/tree/main/docs/qonnx-custom-ops and
https://github.com/microsoft/onnxruntime-extensions/blob/main/docs/custom_ops.md
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent
from flopwise.operators.inputs import DATA, SCALE, SETTING, ZERO_POINT, inputs, scale, zero_point
from flopwise.operators.operator import Operator, by, each, nothing


def multi_threshold(node: Node) -> Counts:
    """numel(Y) × T × (1 cmp + 1 add): how many of T thresholds each element reaches; numel(Y) mul for out_scale ≠ 1 and
    numel(Y) add for out_bias ≠ 0.

    https://github.com/fastmachinelearning/qonnx (custom_op/general/multithreshold.py)
    """
    thresholds = extent(node, node.input(1), -1)
    scaled, biased = node.attrs.get("out_scale", 1.0) != 1.0, node.attrs.get("out_bias", 0.0) != 0.0
    return Counts(cmp=thresholds, add=thresholds + int(biased), mul=int(scaled)) * node.output().numel


_QUANT = each(
    "round(x / scale + zero point) between two bounds, and back",
    div=1,
    add=2,
    cmp=3,
    mul=1,
    inputs=inputs(DATA, scale(0), zero_point(0), SETTING),
    shape=shape.alike,
)
_BIPOLAR = each("scale or −scale, by the sign of x", cmp=1, mul=1, inputs=inputs(DATA, scale(0)), shape=shape.alike)
_TRUNC = each(
    "quantized, divided by a power of two, rounded between two bounds, and back",
    div=2,
    add=2,
    cmp=4,
    mul=1,
    inputs=inputs(DATA, scale(0), zero_point(0), SETTING, SCALE, ZERO_POINT, SETTING),
    shape=shape.alike,
)
_THRESHOLDS = by(multi_threshold, shape=shape.alike)

#: Domains of brevitas, QONNX and, before it, FINN.
_DOMAINS = ("onnx.brevitas", "qonnx.custom_op.general", "finn.custom_op.general")

_TOKENIZERS = (
    *("BasicTokenizer", "BertTokenizer", "BertTokenizerDecoder", "BlingFireSentenceBreaker", "BpeDecoder"),
    *(
        "CLIPTokenizer",
        "GPT2Tokenizer",
        "HfBertTokenizer",
        "HfJsonTokenizer",
        "RobertaTokenizer",
        "SentencepieceDecoder",
    ),
    *("SentencepieceTokenizer", "SpmTokenizer", "TrieDetokenizer", "TrieTokenizer", "WordpieceTokenizer"),
)
_STRINGS = (
    *("StringConcat", "StringECMARegexReplace", "StringECMARegexSplitWithOffsets", "StringEqual", "StringHash"),
    *("StringHashFast", "StringJoin", "StringLength", "StringLower", "StringMapping", "StringRegexReplace"),
    *("StringRegexSplitWithOffsets", "StringSlice", "StringSplit", "StringStrip", "StringToHashBucket"),
    *("StringToHashBucketFast", "StringToVector", "StringUpper", "VectorToString"),
)

OPERATORS: dict[str, Operator] = {
    **{f"{domain}::Quant": _QUANT for domain in _DOMAINS},
    **{f"{domain}::BipolarQuant": _BIPOLAR for domain in _DOMAINS},
    **{f"{domain}::Trunc": _TRUNC for domain in _DOMAINS},
    **{f"{domain}::MultiThreshold": _THRESHOLDS for domain in _DOMAINS[1:]},
    "qonnx.custom_op.general::IntQuant": _QUANT,
    **{
        f"ai.onnx.contrib::{name}": nothing("works on the characters of strings, not on numbers")
        for name in (*_TOKENIZERS, *_STRINGS)
    },
}
