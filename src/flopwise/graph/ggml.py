"""ggml's types of tensors by number, many of them blocks of elements that share their scales.

GGUF files hold tensors of these types, and operators of onnxruntime take weights of them.

Source: https://github.com/ggml-org/ggml/blob/master/include/ggml.h, and for the blocks src/ggml-common.h.
"""

from __future__ import annotations

from typing import NamedTuple


class Type(NamedTuple):
    """The storage of tensors of a type."""

    #: flopwise's name of the element type, or of the blocks.
    name: str
    #: Elements of a block, and the bytes that it takes.
    elements: int = 1
    nbytes: int = 0


#: ggml_type -> how its tensors are stored; 0 bytes: an element type of ``flopwise.graph.dtypes``.
TYPES: dict[int, Type] = {
    0: Type("float32"),
    1: Type("float16"),
    2: Type("q4_0", 32, 18),
    3: Type("q4_1", 32, 20),
    6: Type("q5_0", 32, 22),
    7: Type("q5_1", 32, 24),
    8: Type("q8_0", 32, 34),
    9: Type("q8_1", 32, 36),
    10: Type("q2_K", 256, 84),
    11: Type("q3_K", 256, 110),
    12: Type("q4_K", 256, 144),
    13: Type("q5_K", 256, 176),
    14: Type("q6_K", 256, 210),
    15: Type("q8_K", 256, 292),
    16: Type("iq2_xxs", 256, 66),
    17: Type("iq2_xs", 256, 74),
    18: Type("iq3_xxs", 256, 98),
    19: Type("iq1_s", 256, 50),
    20: Type("iq4_nl", 32, 18),
    21: Type("iq3_s", 256, 110),
    22: Type("iq2_s", 256, 82),
    23: Type("iq4_xs", 256, 136),
    24: Type("int8"),
    25: Type("int16"),
    26: Type("int32"),
    27: Type("int64"),
    28: Type("float64"),
    29: Type("iq1_m", 256, 56),
    30: Type("bfloat16"),
    34: Type("tq1_0", 256, 54),
    35: Type("tq2_0", 256, 66),
    39: Type("mxfp4", 32, 17),
    40: Type("nvfp4", 64, 36),
    41: Type("q1_0", 128, 18),
    42: Type("q2_0", 64, 18),
}
