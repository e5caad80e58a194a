"""A convention: how one published tool or text adds operations up.

Data first; kernel sizes, groups and transposes stay in ``operators``. What serves one tool lives with that tool: as an
override, as its listing of the layers, or as its view of a whole program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

from flopwise.errors import FlopwiseError, RuleError
from flopwise.graph import Graph, Node, Shape, Tensor
from flopwise.operators.counts import FLOPS, MACS, Counts, words
from flopwise.rows import Missing, Row

T = TypeVar("T")
P = ParamSpec("P")

#: Where a tool differs: the node and its canonical counts (None when flopwise has no rule) -> what the tool would have
#: counted, already in the tool's classes; None when the tool refuses the node.
Override: TypeAlias = Callable[[Node, "Counts | None"], "Counts | None"]


#: How a tool lists the layers of a model: the graph, the rows as flopwise has them, and the operators that a user's
#: own rules count -> the tool's rows.
Listing: TypeAlias = Callable[[Graph, Sequence[Row], Collection[str]], Sequence[Row]]


class Whole(NamedTuple):
    """Counts of a convention that looks at more than one operator at a time, for a whole model.

    Most are tools that count the modules, functions or kernels of a PyTorch program.
    """

    #: The graph and the canonical counts of all its nodes -> what the tool counts at each node, in place of the
    #: convention's ``overrides`` and ``others``. A count that belongs to a whole call of a module stands at one node of
    #: the call.
    counts: Callable[[Graph, Sequence[Counts | None]], Sequence[Counts | None]]
    #: Other totals that the tool defines in its own way, by name ("params").
    totals: Mapping[str, Callable[[Graph], int]] = {}
    #: What the tool would warn about in one model, one line each.
    remarks: Callable[[Graph], Iterable[str]] = lambda graph: ()
    #: Whether it counts a PyTorch program, so that the figure of a file is an estimate.
    programs: bool = True


#: A value of a column; None is unknown.
Value: TypeAlias = "int | float | str | Shape | None"


class Column(NamedTuple):
    """One column: its key for programs, the title that the tool gives it, what it holds, and how to find a value.

    The sum over layers of a column of numbers or bytes is the figure of the model.
    """

    key: str
    title: str
    kind: Literal["text", "shape", "number", "bytes", "ratio"]
    #: Of a "ratio": the layer's part of the column of numbers that stands before it.
    value: Callable[[Row, Graph], Value]
    #: How the tool prints a value; None for flopwise's own way.
    show: Callable[[Any], str] | None = None
    #: How the tool prints a number in short.
    human: Callable[[int], str] | None = None


class Total(NamedTuple):
    """A figure of the model that the tool prints besides the lines of its table."""

    key: str
    title: str
    #: None: the sum of the column of that key.
    value: Callable[[Sequence[Row]], int] | None = None


class Table(NamedTuple):
    """The table that a tool prints of a model."""

    columns: tuple[Column, ...]
    #: Title of the column of names.
    name: str = "layer"
    #: The layers that have a line; any other has one only where it is unknown or a rule of the user's counts it.
    lists: Callable[[Row], bool] = lambda row: True
    #: Figures of the model beside the table, in place of a line of totals.
    totals: tuple[Total, ...] = ()
    #: Whether the tool always prints a line for each layer.
    detailed: bool = False
    #: Layers that the tool's summary shows as one line: names of all layers -> for each line its name and how many
    #: consecutive layers it stands for.
    collapse: Callable[[Sequence[str]], list[tuple[str, int]]] | None = None


class Display(NamedTuple):
    """The way in which a tool prints its counts."""

    #: Columns of the class table: label -> the classes that it merges. Empty: flopwise's own classes.
    classes: Mapping[str, Counts] = {}
    #: What the tool prints where it has columns of its own; then there is no table of classes.
    table: Table | None = None
    #: How the tool prints a number for people; None for flopwise's own way.
    human: Callable[[int], str] | None = None
    #: Columns that a report shows beside the usual ones, because the tool has a figure of its own there.
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Convention:
    """A view of the canonical counts.

    The count of a row is ``weights`` · classes, where the classes are the canonical ones or, for an operator listed in
    ``overrides``, what the tool itself would have counted.
    """

    name: str
    #: What one unit of the count is: "FLOP", "MAC".
    unit: str
    #: One line for a person: what this convention counts.
    summary: str
    #: Tool, version and file, or the publication.
    source: str
    weights: Counts
    overrides: Mapping[str, Override] = field(default_factory=dict)
    #: Operators not in ``overrides``: "canonical" counts them as flopwise does; "free" says that the text takes
    #: them as costing nothing, and leaves unknown what flopwise does not know either; "zero" leaves them all out as the
    #: tool silently does; "unknown" says that the tool cannot count them.
    others: Literal["canonical", "free", "zero", "unknown"] = "canonical"
    #: Whether the tool goes by an operator's bare name, whatever its domain.
    any_domain: bool = False
    #: Operators that the tool neither lists nor adds up.
    unlisted: frozenset[str] = frozenset()
    #: Whether operators on weights and constants only are folded away before counting.
    fold: bool = True
    #: What it sees in a whole model, where it does not go operator by operator.
    whole: Whole | None = None
    #: What the tool counts in the backward pass: the node, the places of the inputs whose gradients are made, and the
    #: canonical counts of making them -> the tool's. None: it counts none, unless it sees everything as flopwise does.
    backward: Callable[[Node, frozenset[int], Counts], Counts] | None = None
    #: What the tool prints as a layer's type, where it is not the operator's name.
    layer_types: Mapping[str, str] = field(default_factory=dict)
    #: How the tool lists the layers, where it does not list each operator once under its own name.
    listing: Listing | None = None
    display: Display = Display()  # noqa: RUF009 - it cannot be changed
    #: What a reader of the figure should know, one line each.
    notes: tuple[str, ...] = ()

    @property
    def sees(self) -> Literal["operators", "programs"]:
        """The subject of the count: of a file, the figure of a tool that counts PyTorch programs is an estimate."""
        return "programs" if self.whole is not None and self.whole.programs else "operators"

    @property
    def plain(self) -> bool:
        """True where every operator is seen as flopwise counts it."""
        return self.others == "canonical" and not self.overrides and not self.unlisted and self.whole is None

    @property
    def counts_backward(self) -> bool:
        """True where the convention has a count of backward passes."""
        return self.plain or self.backward is not None

    def _op(self, node: Node) -> str:
        return node.op.rpartition("::")[2] if self.any_domain else node.op

    def lists(self, node: Node) -> bool:
        """True where the tool shows a node and adds it up."""
        return self._op(node) not in self.unlisted

    def view(self, node: Node, counts: Counts | None) -> Counts | None:
        """The classes of one node as this convention sees them; None when it cannot count the node.

        Args:
            node: an operator with resolved shapes.
            counts: its canonical counts, None when flopwise has no rule for it.

        Raises:
            ShapeError: a shape that the convention needs is unresolved.
        """
        if not self.lists(node):
            return Counts()
        override = self.overrides.get(self._op(node))
        if override is not None:
            return override(node.ordered, counts)
        if self.others == "canonical" or (self.others == "free" and counts is None):
            return counts
        return None if self.others == "unknown" else Counts()

    def describe(self, op: str) -> str:
        """The count of an operator in this convention, in words."""
        if op in self.unlisted:
            return "neither listed nor counted"
        override = self.overrides.get(op)
        if override is not None:
            return " ".join((override.__doc__ or "by a rule of its own").strip().split("\n\n")[0].split()).rstrip(".")
        return {
            "canonical": "as flopwise counts it",
            "free": "free",
            "zero": "left out",
            "unknown": "cannot be counted",
        }[self.others]


#: flopwise's own.
FLOP_COUNT = Convention(
    name="flops",
    unit="FLOP",
    summary="Floating-point operations: 2 per multiply-accumulate, 1 per other arithmetic operation.",
    source="flopwise, docs/guides/counting.md",
    weights=FLOPS,
)

MAC_COUNT = Convention(
    name="macs",
    unit="MAC",
    summary="Multiply-accumulates; no other operation is added.",
    source="flopwise, docs/guides/counting.md",
    weights=MACS,
)


def described(rule: Override, words: str) -> Override:
    """A rule that says in words what it counts, for rules that are made from a table."""
    rule.__doc__ = words
    return rule


def nothing(node: Node, counts: Counts | None) -> Counts:
    """nothing"""
    return Counts()


def scaled(once: Counts, size: Callable[[Node], int | None], words_of_size: str, condition: str = "") -> Override:
    """A rule that counts operations so often as a size of the node says; None where the tool refuses the node."""

    def rule(node: Node, counts: Counts | None) -> Counts | None:
        times = size(node)
        return None if times is None else once * times

    return described(rule, f"{words_of_size} × {words(once) or 'nothing'}{condition}")


def per_input(
    table: Mapping[str, Counts], elements: Callable[[Tensor], int] = lambda tensor: tensor.numel
) -> dict[str, Override]:
    """Rules that count a table's operations for each element of the first input, as a tool sees its elements."""
    return {op: scaled(once, lambda node: elements(node.input(0)), "numel(X)") for op, once in table.items()}


def per_output(
    table: Mapping[str, Counts], elements: Callable[[Tensor], int] = lambda tensor: tensor.numel
) -> dict[str, Override]:
    """Rules that count a table's operations for each element of the first output, as a tool sees its elements."""
    return {op: scaled(once, lambda node: elements(node.output()), "numel(Y)") for op, once in table.items()}


def tally(times: Mapping[str, int]) -> str:
    """Names and how often, sorted.

    >>> tally({"relu": 2, "gelu": 1})
    'gelu 1, relu 2'
    """
    return ", ".join(f"{name} {number}" for name, number in sorted(times.items()))


def attempt(rule: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T | None:
    """The result of a rule; None where a shape is missing or an attribute makes no sense."""
    try:
        return rule(*args, **keywords)
    except (FlopwiseError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def renamed(graph: Graph, rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """The rows under the names that a tool gives the nodes.

    Args:
        graph: the model.
        rows: its layers.
        names: a name for each node of the graph, in order.
    """
    by_node = {id(node): name for node, name in zip(graph.nodes, names, strict=True)}
    return [row if row.name == (name := by_node[id(row.node)]) else replace(row, name=name) for row in rows]


def by_node(
    rule: Callable[[Node, Counts | None], Counts | None],
) -> Callable[[Graph, Sequence[Counts | None]], list[Counts | None]]:
    """The counts of all nodes of a graph by a rule that takes a node and its canonical counts; see ``Whole.counts``."""
    return lambda graph, canonical: [
        attempt(rule, node, counts) for node, counts in zip(graph.nodes, canonical, strict=True)
    ]


def guarded(rule: Callable[[], Counts | None], unknown: str) -> tuple[Counts | None, Missing, str]:
    """The counts of a rule, or None, with what is missing and the reason: ``unknown``, or what is wrong with the node.

    Raises:
        RuleError: a rule of the user's own is wrong, not the node.
    """
    try:
        counts = rule()
        total = 0 if counts is None else sum(counts)  # attributes of a wrong type multiply as well
        if isinstance(total, float) or (type(total) is int and counts is not None and min(counts) < 0):
            raise ValueError("a count is not a whole number")
    except RuleError:
        raise
    except FlopwiseError as error:
        return None, "fact", str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # attributes without sense
        return None, "fact", f"its attributes or shapes make no sense: {type(error).__name__}: {error}"
    return (None, "rule", unknown) if counts is None else (counts, "", "")
