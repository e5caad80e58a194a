"""The graph that every reader hands over: operators with resolved shapes, and no framework behind it.

Operators are named as in ONNX whatever the file was, because every front end already maps to that vocabulary.
What has no ONNX name keeps its own domain (``com.microsoft::MatMulNBits``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from flopwise.errors import ShapeError, counted
from flopwise.graph.construction import record
from flopwise.graph.dtypes import BITS, has_width
from flopwise.graph.stored import StoredTensor

if TYPE_CHECKING:
    import sympy

#: One extent of a tensor. The core only multiplies and adds, so a sympy expression does as well as an integer.
Dim: TypeAlias = "int | sympy.Expr"
Shape: TypeAlias = "tuple[Dim, ...]"

#: Attributes of an operator, or of a module, by name.
Attrs: TypeAlias = "Mapping[str, Any]"
#: A state is what a model keeps between calls and is handed again, such as a cache of keys and values.
Kind: TypeAlias = Literal["input", "state", "weight", "buffer", "constant", "activation"]

#: Kinds whose contents are known before the first inference.
STORED: frozenset[str] = frozenset({"weight", "buffer", "constant"})


class Module(NamedTuple):
    """One step of a module path: the dotted path so far, and the class of the module there ("" if unknown)."""

    path: str
    kind: str
    #: Path and class of the norm that an exporter fused into the operator of this module; None where there is none.
    norm: tuple[str, str] | None = None


class Body(NamedTuple):
    """One graph inside a control-flow operator, from the view of an operator in it."""

    #: Position in ``Graph.nodes`` of the control-flow operator.
    owner: int
    #: Which of the operator's graphs: "then_branch", "else_branch", "body", or "body[2]" where iterations differ.
    part: str
    #: How often the graph runs each time its operator runs; None when it is unknown.
    trips: int | None
    #: Whether it is one of several graphs of which one runs, and it is unknown which.
    branch: bool = False
    #: Whether ``trips`` is an upper bound, because the data decide when it ends.
    bound: bool = False


class Invocation(NamedTuple):
    """How a program called an operator.

    What a tool counts that hooks, patches or traces a program follows from five facts, and conventions look at no
    others: the modules around an operator (``Node.scope``), the functions through which the program reached it and the
    arguments that it gave (here), the calls of modules (``Program.calls``), and the options of these
    (``Submodule.options``).
    """

    #: The public functions through which the program reached the operator, outermost first
    #: ("torch.nn.functional.multi_head_attention_forward", "torch.nn.functional.linear"); () in a file.
    via: tuple[str, ...] = ()
    #: The arguments of the call by the operator's own names, with defaults filled in: tensors, numbers, texts and lists
    #: of them; those beyond the known ones are called "arg3". None in a file.
    arguments: Mapping[str, Any] | None = None


#: Of an operator in a file.
NOT_RECORDED = Invocation()


class Members(tuple["Tensor", ...]):
    """The members of a sequence, which many operators may take: what they add up to is worked out once."""

    @classmethod
    def from_tuple(cls, items: tuple[Tensor, ...]) -> Members:
        """The members in a tuple."""
        return items if isinstance(items, cls) else cls(items)

    @functools.cached_property
    def resolved(self) -> bool:
        """As ``Tensor.resolved``, of all members."""
        return all(t.resolved for t in self)

    @functools.cached_property
    def sized(self) -> bool:
        """As ``Tensor.sized``, of all members."""
        return all(t.sized for t in self)

    @functools.cached_property
    def numel(self) -> int:
        """As ``Tensor.numel``, for all members."""
        return sum(t.numel for t in self)

    @functools.cached_property
    def nbytes(self) -> int:
        """As ``Tensor.nbytes``, of all members."""
        return sum(t.nbytes for t in self)


@record
class Tensor:
    """A value in the graph: its name, shape (None when unresolved), element type and what it is for."""

    name: str
    shape: Shape | None
    dtype: str | None
    kind: Kind = "activation"
    #: Whether the shape is an upper bound, because the data decide how large the tensor is.
    bound: bool = False
    #: The members of a sequence, or what an optional holds; None for a tensor, and for a sequence of unknown length.
    items: tuple[Tensor, ...] | None = None

    @property
    def grad(self) -> bool:
        """As ``ProgramTensor.grad``; a file does not say it."""
        return False

    @property
    def contiguous(self) -> bool:
        """As ``ProgramTensor.contiguous``; tensors of files are."""
        return True

    @property
    def storage(self) -> str:
        """As ``ProgramTensor.storage``; a file does not say it."""
        return ""

    @property
    def resolved(self) -> bool:
        """True where the size is known: by the shape, or by the sizes of all members of a sequence."""
        return self.shape is not None or (self.items is not None and Members.from_tuple(self.items).resolved)

    @property
    def dims(self) -> Shape:
        """The shape.

        Raises:
            ShapeError: the shape is unresolved.
        """
        if self.shape is None:
            raise ShapeError(f"the shape of {self.name!r} is unresolved")
        return self.shape

    @property
    def numel(self) -> int:
        """Number of elements (1 for a scalar); for a sequence, of all members."""
        if self.items is not None:
            return Members.from_tuple(self.items).numel
        return cast(int, math.prod(self.dims if self.shape is None else self.shape))

    @property
    def sized(self) -> bool:
        """True where the bytes are known: the size is, and the elements are not strings, which have no fixed width."""
        if self.items is not None:
            return Members.from_tuple(self.items).sized
        return self.shape is not None and has_width(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, bits rounded up; an unknown element type is taken as 32 bits wide.

        Strings add nothing: ask ``sized`` first.
        """
        if self.items is not None:
            return Members.from_tuple(self.items).nbytes
        return (self.numel * BITS.get(self.dtype or "float32", 32) + 7) // 8


@record
class ProgramTensor(Tensor):
    """A value in the graph of a program that was run, which knows more of it than a file does."""

    #: Whether training asks for its gradient: a weight that is trained, or a result that depends on one.
    grad: bool = False
    #: Whether its elements lie in row-major order, one after the other.
    contiguous: bool = True
    #: The tensor whose storage it reads, by name: itself, or what it is a view of; "" where that is not known.
    storage: str = ""
    #: Bytes that are stored where those are not its elements' own: of a subclass that is made of other tensors.
    stored_bytes: int | None = None

    @property
    def nbytes(self) -> int:
        """As ``Tensor.nbytes``; of a subclass that is made of other tensors the bytes of these."""
        return Tensor.nbytes.fget(self) if self.stored_bytes is None else self.stored_bytes  # type: ignore[attr-defined]


#: The axes of a tensor in the order of the operator's definition; None where they are in that order.
Order: TypeAlias = "tuple[int, ...] | None"


class Layout(NamedTuple):
    """The orders of axes of a format that keeps them in others than the operator's definition (channels last).

    Tensors have the shapes that the file says; rules see them in the order of the definition (``Node.ordered``).
    """

    #: For each input and output, as far as they are not in order.
    inputs: tuple[Order, ...] = ()
    outputs: tuple[Order, ...] = ()


class Share(NamedTuple):
    """A part of the features of a product, and the units that devices share them by."""

    features: int
    #: Heads, or groups of them, each of which is on one device; 0: any part of the features can be, with padding.
    units: int = 0
    #: Whether several devices have the same unit where there are more devices, as of keys and values of few heads.
    repeated: bool = False


class Way(NamedTuple):
    """The way in which devices that share each product of a model (tensor parallelism) share an operator.

    - "columns": each has some of the features that come out, with their weights and biases;
    - "rows": each has the weights of some features that go in, and the results of all are added up;
    - "vocabulary": each has some entries of a table: rows that are looked up are added up, scores are gathered;
    - "whole": each has all of the weights.

    Where nothing is stated each does its part of what it takes. Source: Megatron-LM, https://arxiv.org/abs/1909.08053.
    """

    kind: Literal["columns", "rows", "vocabulary", "whole"]
    shares: tuple[Share, ...] = ()
    #: Experts of its weights, which devices can share one by one (expert parallelism); 0: none.
    experts: int = 0


@record
class Node:
    """One operator application. An omitted optional input or output is None."""

    op: str
    name: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    attrs: Attrs = field(default_factory=dict)
    #: The modules around it, outermost first, or a function from the name to these, which many nodes share.
    modules: tuple[Module, ...] | Callable[[str], tuple[Module, ...]] = ()
    #: What the file called the operator ("aten.conv2d.default", "InnerProduct").
    origin: str = ""
    #: Version of the operator set in force, because a few defaults changed (Softmax's axis). 0 = newest.
    version: int = 0
    #: The control flow around the operator, outermost first; () in the main graph.
    within: tuple[Body, ...] = ()
    #: How a program called it.
    invocation: Invocation = NOT_RECORDED
    #: Why it cannot run as the model has it ("has group 0"); "" if nothing is wrong. What it costs is unknown then.
    fault: str = ""
    #: The orders of axes in the file; None where they are those of the operator's definition.
    layout: Layout | None = None
    #: Whether it is a part of the operator before it, which an engine works out in the same pass: a fused activation.
    #: Its result lies where its first input lies, and nothing is read or written between the two.
    fused: bool = False
    #: How many operators it stands for, each with stored tensors of its own: those of layers that are alike.
    copies: int = 1
    #: How several devices share it; None: as what it takes.
    way: Way | None = None

    @property
    def ordered(self) -> Node:
        """The operator with the axes of its tensors in the order of its definition.

        Raises:
            ShapeError: a tensor has another rank than the layout.
        """
        if self.layout is None:
            return self
        inputs = _ordered(self.inputs, self.layout.inputs)
        return replace(self, inputs=inputs, outputs=_ordered(self.outputs, self.layout.outputs), layout=None)

    def input(self, index: int) -> Tensor:
        """The index-th input.

        Raises:
            ShapeError: there is no such input.
        """
        if not self.has_input(index):
            raise ShapeError(f"{self.op} {self.name!r} has no input {index}")
        return cast(Tensor, self.inputs[index])

    def output(self, index: int = 0) -> Tensor:
        """The index-th output.

        Raises:
            ShapeError: there is no such output.
        """
        if index >= len(self.outputs) or self.outputs[index] is None:
            raise ShapeError(f"{self.op} {self.name!r} has no output {index}")
        return cast(Tensor, self.outputs[index])

    def has_input(self, index: int) -> bool:
        """True where the index-th input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    @property
    def known_inputs(self) -> tuple[Tensor, ...]:
        """The inputs that are given, in order."""
        return tuple(filter(None, self.inputs))

    @property
    def known_outputs(self) -> tuple[Tensor, ...]:
        """The outputs that are used, in order."""
        return tuple(filter(None, self.outputs))

    @property
    def times(self) -> int | None:
        """Runs of the operator in one inference, whichever branches are taken; None when it is unknown."""
        trips = [body.trips for body in self.within]
        return None if None in trips else math.prod(cast("list[int]", trips))

    @property
    def scope(self) -> tuple[Module, ...]:
        """The modules around it, outermost first."""
        return self.modules(self.name) if callable(self.modules) else self.modules

    @property
    def via(self) -> tuple[str, ...]:
        """As ``Invocation.via``."""
        return self.invocation.via

    @property
    def arguments(self) -> Mapping[str, Any]:
        """As ``Invocation.arguments``; empty where they are not recorded."""
        return self.invocation.arguments or {}

    @property
    def module(self) -> str:
        """Dotted path of the innermost module ("" at the root)."""
        scope = self.scope
        return scope[-1].path if scope else ""


def _ordered(tensors: tuple[Tensor | None, ...], orders: tuple[Order, ...]) -> tuple[Tensor | None, ...]:
    """The tensors with their axes in these orders, as far as there are any."""
    return tuple(
        [
            tensor if tensor is None or tensor.shape is None or order is None else _reordered(tensor, order)
            for tensor, order in zip_longest(tensors, orders[: len(tensors)])
        ]
    )


def _reordered(tensor: Tensor, order: tuple[int, ...]) -> Tensor:
    shape = tensor.dims
    if len(shape) != len(order):
        raise ShapeError(f"{tensor.name!r} of shape {shape} does not have the {len(order)} axes of its layout")
    return replace(tensor, shape=tuple([shape[axis] for axis in order]))


class Submodule(NamedTuple):
    """One module of a model that is a program, called or not."""

    #: Dotted path; "" for the model itself.
    path: str
    #: Its class with the package in front ("torch.nn.modules.conv.Conv2d").
    kind: str
    #: Its own parameters and buffers, by attribute; a shared tensor has the same name wherever it appears.
    tensors: Mapping[str, Tensor]
    #: Its plain attributes: numbers, texts, flags, and tuples of them.
    options: Attrs
    #: Names of its class and its classes above, nearest first ("torch.nn.modules.conv._ConvNd").
    bases: tuple[str, ...]
    training: bool
    #: What it says of itself between the brackets of its printed form.
    text: str
    #: Further paths of the same module.
    also: tuple[str, ...] = ()


class Call(NamedTuple):
    """One call of a module while the model ran, in the order in which the calls began."""

    #: Dotted path of the module; the first one under which the model knows it.
    path: str
    #: The tensors among its positional arguments and its keyword arguments, nested ones in a row.
    inputs: tuple[Tensor, ...]
    #: The tensors of its result, nested ones in a row; () when it raised.
    outputs: tuple[Tensor, ...]
    #: The positions in ``Graph.nodes`` from ``first`` up to, but not including, ``last`` ran in it.
    first: int
    last: int
    #: Position in ``Graph.calls`` of the call around it; None for the model itself.
    caller: int | None
    #: How many of ``inputs`` are positional arguments.
    positional: int = 0


class Program(NamedTuple):
    """The facts of a model that is a program, beside its graph."""

    #: Its modules in the order of its definition.
    modules: tuple[Submodule, ...] = ()
    #: The calls of them.
    calls: tuple[Call, ...] = ()
    #: Whether elements that were made up, as only shapes were given, may have decided what ran.
    guessed: bool = False
    #: Whether the graph was recorded while a program ran: its tensors know their gradients and storages.
    recorded: bool = True
    #: Whether it is charged what each call executes, what it computes of weights and constants too.
    each_call: bool = False
    #: Paths of modules that TorchScript has called: hooks, by which ``calls`` and other tools know, do not see that.
    in_scripts: frozenset[str] = frozenset()


#: Of a model that is no program.
FILE = Program(recorded=False)


@dataclass(frozen=True, slots=True)
class Graph:
    """A model: its inputs, outputs, operators in execution order, and its stored tensors.

    The operators in the bodies of control flow follow their operator (see ``Node.within``).
    """

    name: str
    format: str
    source: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    #: The stored tensors by name; nothing of their elements is read before somebody asks.
    weights: Mapping[str, StoredTensor] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    #: What only a program has; empty for a file.
    program: Program = FILE
    #: Whether its nodes are layers of Caffe, which may write into their bottom, and ``Node.origin`` is their type.
    caffe: bool = False
    #: Tensor -> where the file itself places it in the memory of its activations, in bytes; most files place none.
    offsets: Mapping[str, int] = field(default_factory=dict)
    #: Names of the tensors whose size the data decide and the file alone states: it may be that of other data.
    stated: frozenset[str] = frozenset()
    #: The user's own rows of operators by name (``flopwise.operators.operator.Operator``), which win over the tables.
    operators: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ordered(self) -> Graph:
        """The graph with the axes of all tensors in the orders of the operators' definitions."""
        if all(node.layout is None for node in self.nodes):
            return self
        return replace(self, nodes=tuple([node.ordered for node in self.nodes]))

    def __repr__(self) -> str:
        """One line: the model, where it came from, and how much there is of it."""
        shown = f"{self.format}, {counted(len(self.nodes), 'operator')}, {counted(len(self.weights), 'stored tensor')}"
        return f"<Graph {self.name or self.source or 'model'!r}: {shown}>"
