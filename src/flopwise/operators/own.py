"""Rows of the user's own for operators: they win over the tables where they are in use, and nowhere else."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar, cast

from flopwise.graph import Graph
from flopwise.operators.operator import Operator, Rule

if TYPE_CHECKING:
    from typing import Concatenate

#: What a user says about operators: a row, or the rule of its count alone.
Rules: TypeAlias = "Mapping[str, Rule | Operator]"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

#: The rows in use.
OWN: ContextVar[Mapping[str, Operator]] = ContextVar("OWN", default={})  # noqa: B039 # nobody writes into it


def own_rows(rules: Rules | None) -> dict[str, Operator]:
    """The whole rows among a user's rules."""
    return {op: rule for op, rule in (rules or {}).items() if isinstance(rule, Operator)}


def count_rules(rules: Rules | None) -> dict[str, Rule]:
    """The counts of a user's rules."""
    return {op: rule.rule if isinstance(rule, Operator) else rule for op, rule in (rules or {}).items()}


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
