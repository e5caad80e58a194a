"""Rows of the user's own for operators: they win over the tables where they are in use, and nowhere else."""

from __future__ import annotations

import contextlib
import functools
import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar, cast

from flopwise._user_code import EndedError, is_own, place_of, user_code
from flopwise.errors import FlopwiseError, RuleError, message
from flopwise.graph import Graph, Node
from flopwise.operators.counts import Counts
from flopwise.operators.operator import Operator, Rule
from flopwise.operators.shape import Call, Types

if TYPE_CHECKING:
    from typing import Concatenate

#: What a user says about operators: a row, or the rule of its count alone.
Rules: TypeAlias = Mapping[str, Rule | Operator]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

#: The rows in use.
OWN: ContextVar[Mapping[str, Operator]] = ContextVar("OWN", default={})  # noqa: B039 # nobody writes into it


def own_rows(rules: Rules | None) -> dict[str, Operator]:
    """The whole rows among a user's rules."""
    return {op: _with_own_shape(op, rule) for op, rule in (rules or {}).items() if isinstance(rule, Operator)}


def _with_own_shape(op: str, row: Operator) -> Operator:
    """A row of the user's whose shape rule returns shapes, or raises RuleError."""
    rule = row.shape
    code = getattr(rule, "__code__", None)
    if rule is None or (code is not None and is_own(code.co_filename)):
        return row
    file = "rules" if code is None else os.path.basename(code.co_filename)

    def shape(call: Call) -> Types:
        with user_code(file, f"its rule found the shape of {op}"):
            types = rule(call)
        if isinstance(types, Sequence) and all(_is_type(one) for one in types):
            return types
        raise RuleError(f"{file}: the shape rule of {op} returned {types!r:.60}, not a shape for each output")

    return row._replace(shape=shape)


def _is_type(value: object) -> bool:
    """True where a rule may return the value for one output: a shape, a type, or None where it is unknown."""
    return value is None or hasattr(value, "extents") or (isinstance(value, Sequence) and not isinstance(value, str))


def count_rules(rules: Rules | None) -> dict[str, Rule]:
    """The counts of a user's rules."""
    return {op: rule.rule if isinstance(rule, Operator) else rule for op, rule in (rules or {}).items()}


def own_count(rule: Rule, node: Node) -> Counts | None:
    """The counts of a node by a user's rule; a mistake in the rule is not put down to the model.

    Where a shape of the node is open or unresolved, what goes wrong may be for lack of it, and is raised as it is.

    Raises:
        RuleError: the rule fails, or returns something else.
        FlopwiseError: as the rule raises it, for a shape that is unresolved.
    """
    inner = getattr(rule, "func", rule)  # of functools.partial
    method = getattr(type(inner), "__call__", None)  # noqa: B004 # its code is wanted
    code = getattr(inner, "__code__", None) or getattr(method, "__code__", None)
    if code is None or is_own(code.co_filename) or not _sized(node):
        return rule(node)
    who = f"{os.path.basename(code.co_filename)}: the rule of {node.op}"
    try:
        with user_code(os.path.basename(code.co_filename), f"its rule of {node.op} counted"):
            counts = rule(node)
    except EndedError as error:
        raise RuleError(str(error)) from error
    except (FlopwiseError, MemoryError):
        raise
    except Exception as error:
        words = message(error)[:300]
        raise RuleError(f"{who} failed with {type(error).__name__}: {words}{place_of(error)}") from error
    if counts is None:
        return None
    if not isinstance(counts, Counts):
        kind = type(counts).__name__
        raise RuleError(f"{who} returned {'an' if kind[0] in 'aeiou' else 'a'} {kind}, not Counts")
    for name, number in counts.items():
        if not isinstance(number, numbers.Integral) or number < 0:
            raise RuleError(f"{who} returned Counts with {name}={number!r}, which is not a whole number of 0 or more")
    return counts


def _sized(node: Node) -> bool:
    """True where all sizes of a node are numbers."""
    shapes = [t.shape for t in (*node.inputs, *node.outputs) if t is not None]
    return all(shape is not None and all(type(extent) is int for extent in shape) for shape in shapes)


@contextlib.contextmanager
def using(rows: Mapping[str, Operator]) -> Iterator[None]:
    """Rows win over the tables in the block, in this thread only."""
    if not rows:
        yield
        return
    token = OWN.set({**OWN.get(), **rows})
    try:
        yield
    finally:
        OWN.reset(token)


def with_rows_of_graph(
    function: Callable[Concatenate[Graph, Arguments], Result],
) -> Callable[Concatenate[Graph, Arguments], Result]:
    """The function of a graph, with the rows in use that the graph brings along."""

    @functools.wraps(function)
    def wrapped(graph: Graph, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        if not graph.operators:
            return function(graph, *arguments, **keywords)
        with using(graph.operators):
            return function(graph, *arguments, **keywords)

    return cast("Callable[Concatenate[Graph, Arguments], Result]", wrapped)
