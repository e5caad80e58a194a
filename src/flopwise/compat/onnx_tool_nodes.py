"""Operators of a user's own as onnx-tool 1.0.1 takes them: classes in a registry, which read and shape tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import flopwise
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.operators.counts import Counts
from flopwise.operators.shape import Call, Types

if TYPE_CHECKING:
    from flopwise.graph import Tensor as GraphTensor

T = TypeVar("T")


class Registry:
    """Classes of operators by name; that of the operator ``Crop`` is ``CropNode``."""

    def __init__(self) -> None:
        self._classes: dict[str, Any] = {}

    def register(self, obj: T | None = None) -> object:
        """The decorator that adds a class under its own name, or the class that is given, added."""

        def add(cls: T) -> T:
            self._classes[cls.__name__] = cls  # type: ignore[attr-defined] # a class has one
            return cls

        return add if obj is None else add(obj)

    def get(self, name: str) -> Any:
        """The class of that name; None where there is none."""
        return self._classes.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[tuple[str, object]]:
        return iter(self._classes.items())


#: The classes that ``model_profile`` and ``Model`` ask for operators that have no row of their own here.
NODE_REGISTRY = Registry()


class Node:
    """An operator with its attributes as fields; the base class of those in the registry."""

    def __init__(self, n: Any) -> None:
        self.name, self.op_type, self.proto = n.name, n.op_type, n
        self.attr = dict(n.attribute)
        for name, value in self.attr.items():
            setattr(self, name, value)

    def add_default_value(self, attname: str, defaultvalue: object) -> None:
        """Set an attribute that the model leaves out."""
        if not hasattr(self, attname):
            setattr(self, attname, defaultvalue)

    def shape_infer(self, intensors: Sequence[Tensor], outtensors: Sequence[Tensor]) -> None:
        """Shape the outputs as the first input; classes with other shapes have a method of their own."""
        for tensor in outtensors:
            tensor.update_shape(intensors[0].get_shape())

    def profile(self, intensors: Sequence[Tensor], outtensors: Sequence[Tensor]) -> Sequence[float] | float:
        """The operations forward and backward; none unless a class says otherwise."""
        return [0, 0]


class Tensor:
    """A tensor as a class of the registry sees it."""

    def __init__(self, name: str, shape: Sequence[int] | None, dtype: object = None) -> None:
        self.name, self.dtype = name, dtype
        self._shape = None if shape is None else list(shape)

    @property
    def shape(self) -> list[int]:
        """Its shape."""
        return self.get_shape()

    def get_shape(self) -> list[int]:
        """Its shape.

        Raises:
            InputError: it is not known.
        """
        if self._shape is None:
            raise InputError(f"the shape of {self.name!r} is not known")
        return self._shape

    def update_shape(self, shape: Sequence[int]) -> None:
        """Set its shape."""
        self._shape = [int(extent) for extent in shape]

    def update_dtype(self, dtype: object) -> None:
        """Set its element type."""
        self.dtype = dtype


def rules_of(graph: Graph) -> dict[str, flopwise.Operator]:
    """The registered operators of a model as rows of flopwise."""
    rows = {}
    for op in {node.op for node in graph.nodes}:
        cls = NODE_REGISTRY.get(f"{op.rpartition('::')[2]}Node")
        if cls is not None:
            rows[op] = flopwise.Operator(rule=_count(cls), shape=_shape(cls))
    return rows


def _instance(cls: Any, name: str, op: str, attributes: Any) -> Any:
    return cls(SimpleNamespace(name=name, op_type=op.rpartition("::")[2], attribute=dict(attributes)))


def _count(cls: object) -> Callable[[flopwise.Node], Counts]:
    """The count of a registered class: what it calls MACs."""

    def seen(tensors: Sequence[GraphTensor | None]) -> list[Tensor]:
        return [Tensor("" if t is None else t.name, None if t is None else t.shape) for t in tensors]

    def count(node: flopwise.Node) -> Counts:
        own = _instance(cls, node.name, node.op, node.attrs)
        macs = own.profile(seen(node.inputs), seen(node.outputs))
        return Counts(mac=int(macs[0] if isinstance(macs, Sequence) else macs))

    return count


def _shape(cls: object) -> Callable[[Call], Types]:
    """The shape rule of a registered class."""

    def shape(call: Call) -> Types:
        given = [Tensor(f"input {i}", call.shape(i) if call.has(i) else None) for i in range(call.inputs)]
        results = [Tensor(f"output {i}", None) for i in range(call.outputs)]
        attributes = {name: call.attr(name) for name in getattr(call, "attributes", ())}
        _instance(cls, "", call.op, attributes).shape_infer(given, results)
        return [tuple(tensor.get_shape()) for tensor in results]

    return shape
