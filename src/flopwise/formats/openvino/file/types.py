"""Element types by the names that the file has for them.

https://docs.openvino.ai/2025/api/c_cpp_api/group__ov__element__cpp__api.html
"""

from __future__ import annotations

#: In attributes ("f32") and on ports ("FP32", here in lower case) -> the name of the house.
_TYPES: dict[str, str] = {
    "f64": "float64",
    "fp64": "float64",
    "f32": "float32",
    "fp32": "float32",
    "f16": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8e4m3fn",
    "f8e5m2": "float8e5m2",
    "f8e8m0": "float8e8m0",
    "f4e2m1": "float4e2m1",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i4": "int4",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "u4": "uint4",
    "u2": "uint2",
    "boolean": "bool",
    "bool": "bool",
    "string": "string",
}

#: Types without a name in the house -> one of as many bits, whose numbers are codes then.
CODES: dict[str, str] = {"nf4": "uint4"}

#: Types whose elements lie across bytes -> bits of one.
ACROSS: dict[str, int] = {"u1": 1, "u3": 3, "u6": 6}


def dtype_of(name: str) -> str | None:
    """The name of the house of an element type; None where it is open, or has none.

    >>> dtype_of("FP16"), dtype_of("boolean"), dtype_of("UNSPECIFIED")
    ('float16', 'bool', None)
    """
    plain = name.lower()
    return _TYPES.get(plain) or CODES.get(plain)
