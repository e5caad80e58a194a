"""The operations of one operator of a trace, from the shapes that the profiler wrote beside it."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flopwise.analyses.traces.kineto.records import Arguments
from flopwise.errors import FlopwiseError
from flopwise.formats.torch.lower.node import Lowered
from flopwise.formats.torch.lower.operators import LOWERINGS, lower
from flopwise.graph import Node, Tensor
from flopwise.memory.traffic import traffic
from flopwise.operators.counts import FLOPS
from flopwise.operators.shapes.calls import RULES, Of
from flopwise.operators.size import UnresolvedError, is_certain
from flopwise.operators.tables import count, row
from flopwise.sizes.run import WRONG
from flopwise.sizes.site import shapes_of

#: Element types as C++ names them -> ours.
DTYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8e4m3fn",
    "c10::Float8_e5m2": "float8e5m2",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}

#: Operators whose attributes beside the tensors change nothing that is counted, so that old traces, which have no
#: values, are enough.
_BY_TENSORS = frozenset(("Gemm", "MatMul"))

#: Operators that compute products, and whose recorded arguments may be too few to count them.
_PRODUCTS = frozenset(("conv1d", "conv2d", "conv3d", "convolution", "mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn"))

#: Arguments of an operator that compiled code calls with the place of its result behind them.
_BEFORE_RESULT = {"mm": 2, "bmm": 2, "addmm": 5, "baddbmm": 5}

#: Fused kernels of whole attentions and encoder layers, whose weights are their matrices.
ENCODERS = frozenset(("_native_multi_head_attention", "_transformer_encoder_layer_fwd"))


class Work(NamedTuple):
    """The work of one call of an operator; None where the record does not say it."""

    #: The operator in ONNX's vocabulary; "" where its arguments are not known.
    op: str = ""
    macs: int | None = None
    flops: int | None = None
    #: Read and written.
    bytes: int | None = None
    #: Whether it computes products, however many.
    product: bool = False


@functools.lru_cache(maxsize=1 << 14)
def work_of(name: str, arguments: Arguments) -> Work:
    """The operations of a call.

    Args:
        name: the operator with its namespace ("aten::conv2d").
        arguments: as they were recorded.
    """
    space, _, bare = name.rpartition("::")
    base = bare.rstrip("_")
    if base in ENCODERS:
        macs = _encoder(arguments)
        return Work(base, macs, product=macs is not None)
    args = _arguments(arguments)[: _BEFORE_RESULT.get(base)]
    try:
        given, named = _bound(LOWERINGS.get(base), args)
        lowered, _ = lower(f"{space}.{bare}", tuple(given), named, ())
        node = Node(
            lowered.op, name, lowered.inputs, _outputs(base, args, lowered), lowered.attrs, origin=f"aten.{bare}"
        )
        counts = count(node)
        moved = traffic(node)
    except (*WRONG, FlopwiseError, UnresolvedError):  # such as of a grouped convolution, whose groups are not recorded
        return Work(product=base in _PRODUCTS)
    product = counts is not None and counts.mac > 0
    if not arguments.values and lowered.attrs and lowered.op not in _BY_TENSORS:  # strides and axes are not known
        return Work(lowered.op, product=product)
    total = None if moved.read is None or moved.written is None else moved.read + moved.written
    if total is not None and not is_certain(total):
        total = None  # not every size was recorded
    if counts is None:
        return Work(lowered.op, bytes=total)
    return Work(lowered.op, counts.mac, counts.dot(FLOPS), total, product)


def _encoder(arguments: Arguments) -> int | None:
    """Multiply-adds of a fused attention or encoder layer on B sequences of N elements that are E wide.

    B N × the elements of its matrices + 2 B N² E, the scores and the sums that they weigh.
    """
    tensors = [shape for shape in arguments.tensors if shape]
    if not tensors or len(tensors[0]) != 3:
        return None
    batch, length, width = tensors[0]
    matrices = sum(shape[0] * shape[1] for shape in tensors if len(shape) == 2)
    return batch * length * matrices + 2 * batch * length * length * width


def _arguments(arguments: Arguments) -> tuple[object, ...]:
    """The arguments as tensors, numbers and lists of them; without values, up to the last tensor."""
    args = [_argument(arguments, place, shape) for place, shape in enumerate(arguments.shapes)]
    while args and not arguments.values and args[-1] is None:
        args.pop()
    return tuple(args)


def _bound(function: Callable[..., object] | None, args: Sequence[object]) -> tuple[Sequence[object], dict[str, Any]]:
    """Arguments in the order of an operator's schema as a function takes them: the last ones perhaps by name."""
    if function is None:
        return args, {}
    positions, names = _parameters(function)
    return args[:positions], dict(zip(names, args[positions:] if positions is not None else (), strict=False))


@functools.cache
def _parameters(function: Callable[..., object]) -> tuple[int | None, tuple[str, ...]]:
    """The number of arguments that a function takes by position (None: all), and the names of the others."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None, ()
    by_name = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters), by_name


def _argument(arguments: Arguments, place: int, shape: Any) -> object:
    kind = arguments.types[place] if place < len(arguments.types) else ""
    text = arguments.values[place] if place < len(arguments.values) else ""
    dtype = DTYPES.get(kind, "float32")
    if shape and isinstance(shape[0], tuple):
        return [Tensor(f"#{place}.{number}", each, dtype) for number, each in enumerate(shape)]
    if shape or kind in DTYPES:
        return Tensor(f"#{place}", shape, dtype)
    try:
        return ast.literal_eval(text) if text else None
    except (SyntaxError, ValueError):
        return text


def _outputs(base: str, args: tuple[Any, ...], lowered: Lowered) -> tuple[Tensor, ...]:
    """The first result, by the rule for the call, else by that for the operator.

    Raises:
        UnresolvedError: there is no such rule.
    """
    tensors = [t for t in lowered.inputs if t is not None]
    rule = RULES.get(base)
    if rule is not None:
        given, named = _bound(rule, [_taken(value) for value in args])
        made: Sequence[Any] = rule(*given, **named)
    else:
        shape = row(lowered.op).shape
        if shape is None:
            raise UnresolvedError
        inputs = [None if t is None else t.dims for t in lowered.inputs]
        made = shapes_of(shape, lowered.op, lowered.attrs, inputs, 1)
    if not made or made[0] is None:
        raise UnresolvedError
    return (Tensor("", tuple(made[0]), tensors[0].dtype if tensors else "float32"),)


def _taken(value: object) -> object:
    """An argument as the rules for calls take it."""
    if isinstance(value, list):
        return [_taken(each) for each in value]
    return Of(value.dims, value.dtype == "bool") if isinstance(value, Tensor) else value
