"""Element types: one name each, and how many bits an element takes."""

from __future__ import annotations

from typing import NamedTuple

from flopwise.errors import InputError

BITS: dict[str, int] = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8e4m3fn": 8,
    "float8e4m3fnuz": 8,
    "float8e5m2": 8,
    "float8e5m2fnuz": 8,
    "float8e8m0": 8,
    "float6e2m3": 6,
    "float6e3m2": 6,
    "float4e2m1": 4,
    "int64": 64,
    "int32": 32,
    "int16": 16,
    "int8": 8,
    "int4": 4,
    "int2": 2,
    "uint64": 64,
    "uint32": 32,
    "uint16": 16,
    "uint8": 8,
    "uint6": 6,
    "uint4": 4,
    "uint3": 3,
    "uint2": 2,
    "uint1": 1,
    "bool": 8,
    "complex64": 64,
    "complex128": 128,
    # A string has no width (see has_width).
    "string": 0,
}

#: ONNX's codes of element types, which attributes hold as well -> their names.
DTYPES: dict[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
    27: "float6e2m3",
    28: "float6e3m2",
}

ALIASES: dict[str, str] = {
    "f64": "float64",
    "double": "float64",
    "f32": "float32",
    "float": "float32",
    "f16": "float16",
    "half": "float16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "bf16": "bfloat16",
    "i64": "int64",
    "long": "int64",
    "i32": "int32",
    "int": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
}


def canonical(name: str) -> str:
    """The one name of an element type.

    Raises:
        InputError: no element type goes by that name.

    >>> canonical("f32")
    'float32'
    """
    dtype = ALIASES.get(name.lower(), name.lower())
    if dtype not in BITS:
        raise InputError(f"unknown element type {name!r}; known: {', '.join(sorted({*BITS, *ALIASES}))}")
    return dtype


def has_width(name: str | None) -> bool:
    """True where all elements take the same number of bits; strings do not.

    >>> has_width("int4"), has_width("string")
    (True, False)
    """
    return name != "string"


def is_complex(name: str | None) -> bool:
    """True where the elements are complex numbers."""
    return name is not None and name.startswith("complex")


def is_float(name: str | None) -> bool:
    """True where the elements are floating-point numbers (4-bit and 8-bit ones included)."""
    return name is not None and (name.startswith("float") or name == "bfloat16")


# ggml's types of tensors by number, many of them blocks of elements that share their scales.
#
# GGUF files hold tensors of these types, and operators of onnxruntime take weights of them.
#
# Source: https://github.com/ggml-org/ggml/blob/master/include/ggml.h, and for the blocks src/ggml-common.h.


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
