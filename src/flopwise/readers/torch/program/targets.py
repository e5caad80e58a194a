"""The functions that a program in a file may call, and its arguments as values. Names are looked up, never evaluated.

An operator is one that PyTorch has registered in a namespace that computes on tensors alone, or arithmetic on sizes.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from flopwise.errors import ModelError, UntrustedError
from flopwise.readers.source.text import JsonObject
from flopwise.readers.torch.kinds import Function
from flopwise.readers.torch.program.content import DTYPES

#: Namespaces whose operators compute on tensors and do nothing else ...
NAMESPACES = frozenset({"aten", "prims", "quantized", "quantized_decomposed", "torchvision"})

#: ... but for these, which open files or are handed code.
REFUSED = frozenset({"aten.from_file", "aten._print", "quantized.make_quantized_cell_params"})

#: Arithmetic on sizes: what programs call -> the function.
ARITHMETIC: dict[str, Function] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            *("add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "pos", "pow", "abs"),
            *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_", "invert"),
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("trunc", "ceil", "floor", "sqrt", "log2")},
    **{f"torch.sym_{name}": getattr(torch, f"sym_{name}") for name in ("float", "int", "max", "min", "not", "ite")},
    "torch.sym_sqrt": math.sqrt,
    "torch._sym_sqrt": math.sqrt,
}

#: Exponents of sizes are small; a larger one is refused before it takes all memory.
MOST_POWER = 64


#: Operators that are handed graphs of the program.
HIGHER: dict[str, Function] = {
    "torch.ops.higher_order.cond": lambda predicate, taken, other, operands=(): torch.ops.higher_order.cond(
        predicate, taken, other, tuple(operands)
    ),
    "torch.ops.higher_order.wrap_with_set_grad_enabled": lambda enabled, block, *operands: block(*operands),
    "torch.ops.higher_order.wrap_with_autocast": lambda device, dtype, on, cache, block, *operands: block(*operands),
}

_NUMBERS = (int, float, complex, torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)

_MEMORY_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
_LAYOUTS = {1: torch.sparse_coo, 2: torch.sparse_csr, 7: torch.strided}


@functools.cache
def function(target: str) -> Function:
    """The function that a program names.

    Raises:
        ModelError: it is none that computes on tensors and sizes alone, or is not registered.
    """
    name = f"_{target}" if target.startswith("operator.") else target
    if name == "_operator.getitem":
        return operator.getitem
    if name in HIGHER:
        return HIGHER[name]
    if name in ARITHMETIC:
        return functools.partial(_computed, ARITHMETIC[name])
    parts = target.split(".")
    if len(parts) != 5 or parts[:2] != ["torch", "ops"] or not all(part.isidentifier() for part in parts):
        raise _untrusted(target)
    space, operation, overload = parts[2:]
    if space not in NAMESPACES or f"{space}.{operation}" in REFUSED:
        raise _untrusted(target)
    packet = getattr(getattr(torch.ops, space), operation, None)
    resolved = getattr(packet, overload, None)
    if not isinstance(resolved, torch._ops.OpOverload):
        raise ModelError(f"calls {target[:100]!r}, which this version of PyTorch does not know")
    return resolved


def _computed(arithmetic: Callable[..., object], *operands: object) -> object:
    """A number or a tensor; neither lists, which could be multiplied, nor numbers that no size has."""
    if not all(isinstance(operand, _NUMBERS) for operand in operands):
        raise ModelError("does arithmetic on what is neither a number nor a tensor")
    if arithmetic is operator.pow and isinstance(operands[1], int) and abs(operands[1]) > MOST_POWER:
        raise ModelError(f"raises a size to the power {operands[1]}")
    result = arithmetic(*operands)
    if isinstance(result, int) and abs(result) >= 1 << 63:
        raise ModelError("computes a size beyond 2^63")
    return result


def _untrusted(target: str) -> UntrustedError:
    return UntrustedError(
        f"calls {target[:100]!r}, which may do more than compute; --trust-code (trust_code=True) loads the program "
        "with PyTorch, which runs what is in it"
    )


def value(argument: JsonObject, values: JsonObject) -> Any:
    """The value of an argument in the schema of exported programs.

    Args:
        argument: as in the file: one entry, whose key says its kind.
        values: values by their names.

    Raises:
        ModelError: it is of a kind that is not data: an object, a graph of its own.
    """
    ((kind, content),) = argument.items()
    if kind not in _KINDS:
        raise UntrustedError(
            f"has an argument of the kind {kind[:50]!r}, which is not read; --trust-code (trust_code=True) loads the "
            "program with PyTorch, which runs what is in it"
        )
    return _KINDS[kind](content, values)


def _symbol(content: JsonObject, values: JsonObject) -> object:
    ((kind, inner),) = content.items()
    return values[inner] if kind == "as_name" else inner


_KINDS: dict[str, Callable[[Any, JsonObject], object]] = {
    "as_none": lambda content, values: None,
    "as_tensor": lambda content, values: values[content["name"]],
    "as_tensors": lambda content, values: [values[one["name"]] for one in content],
    "as_optional_tensor": lambda content, values: value(content, values),
    "as_optional_tensors": lambda content, values: [value(one, values) for one in content],
    "as_nested_tensors": lambda content, values: [[values[one["name"]] for one in part] for part in content],
    "as_int": lambda content, values: int(content),
    "as_ints": lambda content, values: [int(one) for one in content],
    "as_int_lists": lambda content, values: [[int(one) for one in part] for part in content],
    "as_float": lambda content, values: float(content),
    "as_floats": lambda content, values: [float(one) for one in content],
    "as_float_lists": lambda content, values: [[float(one) for one in part] for part in content],
    "as_complex": lambda content, values: complex(float(content["real"]), float(content["imag"])),
    "as_bool": lambda content, values: bool(content),
    "as_bools": lambda content, values: [bool(one) for one in content],
    "as_string": lambda content, values: str(content),
    "as_strings": lambda content, values: [str(one) for one in content],
    "as_sym_int": _symbol,
    "as_sym_ints": lambda content, values: [_symbol(one, values) for one in content],
    "as_sym_float": _symbol,
    "as_sym_floats": lambda content, values: [_symbol(one, values) for one in content],
    "as_sym_bool": _symbol,
    "as_sym_bools": lambda content, values: [_symbol(one, values) for one in content],
    "as_scalar_type": lambda content, values: getattr(torch, DTYPES[content]),
    "as_memory_format": lambda content, values: _MEMORY_FORMATS[content],
    "as_layout": lambda content, values: _LAYOUTS[content],
    "as_device": lambda content, values: torch.device("cpu"),  # wherever it was exported
}
