"""A graph as if all its floating-point tensors were of one element type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flopwise.errors import InputError
from flopwise.graph.dtypes import BITS, canonical, is_float
from flopwise.graph.graph import Graph, Tensor

#: Bits of the types that are taken for one another: types of fewer bits are quantised, and stay.
WIDE = 16


def in_type(graph: Graph, dtype: str) -> Graph:
    """The graph with every floating-point tensor of 16 bits or more in an element type, and a warning that says so.

    Raises:
        InputError: no floating-point type goes by that name.
    """
    name = canonical(dtype)
    if not is_float(name) or BITS[name] < WIDE:
        raise InputError(f"a model cannot count as of the type {dtype!r}; give float16, bfloat16, float32 or float64")
    casts: dict[int, tuple[Tensor, Tensor]] = {}  # the first keeps its identity from being another's

    def cast(tensor: Tensor) -> Tensor:
        if id(tensor) not in casts:
            items = None if tensor.items is None else every(tensor.items)
            casts[id(tensor)] = tensor, replace(tensor, dtype=retyped(tensor.dtype, name), items=items)
        return casts[id(tensor)][1]

    def every(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple([cast(tensor) for tensor in tensors])

    def some(tensors: Iterable[Tensor | None]) -> tuple[Tensor | None, ...]:
        return tuple([None if tensor is None else cast(tensor) for tensor in tensors])

    program = graph.program
    modules = [m._replace(tensors={key: cast(t) for key, t in m.tensors.items()}) for m in program.modules]
    calls = [call._replace(inputs=every(call.inputs), outputs=every(call.outputs)) for call in program.calls]
    return replace(
        graph,
        inputs=every(graph.inputs),
        outputs=every(graph.outputs),
        nodes=tuple([replace(n, inputs=some(n.inputs), outputs=some(n.outputs)) for n in graph.nodes]),
        program=program._replace(modules=tuple(modules), calls=tuple(calls)),
        warnings=(*graph.warnings, f"as if all floating-point tensors were of the type {name}"),
    )


def retyped(dtype: str | None, name: str) -> str | None:
    """The element type of a tensor as of the type of that name: narrow and whole ones stay as they are."""
    wide = dtype is not None and is_float(dtype) and BITS[dtype] >= WIDE
    return canonical(name) if wide else dtype
