"""Local functions put in place of their calls, after a look at how large the model becomes."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import inliner

from flopwise.errors import ModelError
from flopwise.readers.onnx.native.inference import Inference
from flopwise.readers.onnx.native.suspects import hidden
from flopwise.readers.onnx.native.worker import CONVERT
from flopwise.readers.onnx.types import bodies, first_line

#: How many operators a model may have after inlining, unless it is so large by itself; and how many bytes.
MOST_OPERATORS, MOST_BYTES = 100_000, 32 << 20

#: How many times larger than the file a model may become by inlining.
GROWTH = 8

#: How deep functions may call each other; onnx follows them by recursion.
DEEPEST = 200

#: What identifies a function: its domain, name and overload.
_Key = tuple[str, str, str]


def inlined(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """The model with its local functions in place of their calls, and what to warn of.

    Args:
        model: a model without weights.

    Raises:
        ModelError: functions call each other in a circle or too deep, or the model becomes too large.
    """
    _refuse_growth(model)
    try:
        result: onnx.ModelProto = inliner.inline_local_functions(model)
    except Exception as error:  # the C++ side raises plain RuntimeError, among others
        raise ModelError(f"its functions cannot be inlined ({first_line(error)})") from error
    if not result.functions:
        return result, []
    # What is left is written for another operator set than the model, and has to be converted. That needs all types.
    for tensor in result.graph.initializer:
        result.graph.value_info.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    inference = Inference()
    try:
        with hidden(result) as suspects:
            typed = inference.model(result)
        if not suspects.any:
            return inference.ask(CONVERT, typed), []
    except Exception:  # no conversion exists
        pass
    names = ", ".join(f"{f.domain}::{f.name}" for f in result.functions)
    return result, [f"functions written for another operator set than the model are not looked into: {names}"]


def _refuse_growth(model: onnx.ModelProto) -> None:
    """Refuse a model that exceeds its bounds with all calls inlined."""
    functions: dict[_Key, onnx.FunctionProto] = {(f.domain, f.name, f.overload): f for f in model.functions}
    calls = {key: _calls(function.node, functions) for key, function in functions.items()}
    sizes: dict[_Key, tuple[int, int, int]] = {}  # operators, bytes, depth
    for key in _callees_first(functions, calls):
        function = functions[key]
        inner = [sizes[callee] for callee in calls[key]]
        sizes[key] = (
            len(function.node) + sum(s[0] for s in inner),
            function.ByteSize() + sum(s[1] for s in inner),
            1 + max((s[2] for s in inner), default=0),
        )
    called = [sizes[key] for key in _calls(model.graph.node, functions)]
    nodes, size = len(model.graph.node), model.ByteSize()
    operators, total = nodes + sum(s[0] for s in called), size + sum(s[1] for s in called)
    most, most_bytes = max(MOST_OPERATORS, GROWTH * nodes), max(MOST_BYTES, GROWTH * size)
    if operators > most or total > most_bytes:
        raise ModelError(
            f"its functions call each other so often that it becomes {operators:,} operators of {total >> 20:,} MB; "
            f"at most {most:,} operators of {most_bytes >> 20} MB are read"
        )
    if max((s[2] for s in called), default=0) > DEEPEST:
        raise ModelError(f"its functions call each other deeper than {DEEPEST}")


def _calls(nodes: Iterable[onnx.NodeProto], functions: dict[_Key, onnx.FunctionProto]) -> list[_Key]:
    """The functions that nodes call, those in bodies included, each as often as it is called."""
    calls: list[_Key] = []
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            key = (node.domain, node.op_type, node.overload)
            if key in functions:
                calls.append(key)
            waiting.extend(b.node for b in bodies(node))
    return calls


def _callees_first(functions: Iterable[_Key], calls: dict[_Key, list[_Key]]) -> list[_Key]:
    """The functions in an order in which each follows those that it calls.

    Raises:
        ModelError: they call each other in a circle.
    """
    order: dict[_Key, None] = {}
    open_calls: set[_Key] = set()
    for first in functions:
        stack = [(first, iter(dict.fromkeys(calls[first])))] if first not in order else []
        open_calls.update(key for key, _ in stack)
        while stack:
            key, callees = stack[-1]
            callee = next(callees, None)
            if callee is None:
                stack.pop()
                open_calls.discard(key)
                order[key] = None
            elif callee in open_calls:
                raise ModelError(f"function {callee[0]}::{callee[1]} calls itself, directly or through others")
            elif callee not in order:
                open_calls.add(callee)
                stack.append((callee, iter(dict.fromkeys(calls[callee]))))
    return list(order)
