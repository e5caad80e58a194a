"""Rules for bodies of IF, WHILE and CALL: unlike those of ONNX, they take all that they need as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flopwise.errors import InputError
from flopwise.operators.size import Most
from flopwise.sizes.control import Run, bodies_of, fact_at, grouped, pass_on_warnings, run, scalar
from flopwise.sizes.facts import Fact, either, wider
from flopwise.sizes.loops import ROUNDS
from flopwise.sizes.program import Node, describe
from flopwise.sizes.run import Flow, Pass
from flopwise.sizes.scope import Inner, Scope


def branches(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The bodies of an IF and its results."""
    graphs, condition = bodies_of(node), scalar(fact_at(given, 0))
    names = ["then_branch", "else_branch"]
    if condition is not None and type(condition) is not Most:
        names = [names[0] if condition else names[1]]
    runs = [run(whole, graphs[name], given[1:], scope) for name in names]
    pass_on_warnings(scope, runs)
    inner = [one.inner(name, 1, len(names) > 1) for name, one in zip(names, runs, strict=True)]
    if len(runs) < 2:
        return inner, runs[0].outputs
    return inner, [either(whole.facts, *both) for both in zip(runs[0].outputs, runs[1].outputs, strict=False)]


def call(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The body of a CALL and its results."""
    one = run(whole, bodies_of(node)["body"], given, scope)
    pass_on_warnings(scope, [one])
    return [one.inner("body", 1)], one.outputs


def loop(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The bodies of a WHILE and its results: turn by turn as long as its condition can be computed.

    Raises:
        InputError: the user says that it runs another number of times than it does.
    """
    graphs, stated = bodies_of(node), whole.trips.get(node.name)
    conditions, runs, carried = _turns(whole, graphs, given, scope)
    if conditions is not None:
        if stated is not None and stated != len(runs):
            raise InputError(f"{describe(node)} runs {len(runs)} times, not {stated}")
        whole.met[node.name] = len(runs)
        pass_on_warnings(scope, [*conditions, *runs])
        tested = [one._replace(part="cond") for one in grouped(conditions)[:1]]
        return [one._replace(trips=len(conditions)) for one in tested] + (grouped(runs) if runs else []), carried
    general = [fact.plain for fact in given]
    for _ in range(ROUNDS):
        body = run(whole, graphs["body"], general, scope)
        after = [wider(whole.facts, one, other) for one, other in zip(general, body.outputs, strict=False)]
        if all(one is other for one, other in zip(general, after, strict=True)):
            break
        general = after
    condition = run(whole, graphs["cond"], general, scope)
    pass_on_warnings(scope, [condition, body])
    whole.met[node.name] = stated
    if stated is None:
        scope.warnings.append(f"{describe(node)} runs an unknown number of times; give it with --trip {node.name}=N")
    tests = None if stated is None else stated + 1
    return [condition.inner("cond", tests), body.inner("body", stated)], [fact.plain for fact in body.outputs]


def _turns(
    whole: Pass, graphs: Any, given: Sequence[Fact], scope: Scope
) -> tuple[list[Run] | None, list[Run], Sequence[Fact]]:
    """The conditions and the turns of a loop one by one and what it carries at the end; no conditions where one is
    open, or there are too many.
    """
    conditions: list[Run] = []
    runs: list[Run] = []
    carried = given
    while whole.steps > 0:
        whole.steps -= 1
        condition = run(whole, graphs["cond"], carried, scope)
        goes_on = scalar(condition.outputs[0]) if condition.outputs else None
        if goes_on is None or type(goes_on) is Most:
            break
        conditions.append(condition)
        if not goes_on:
            return conditions, runs, carried
        runs.append(run(whole, graphs["body"], carried, scope))
        carried = runs[-1].outputs
    return None, [], given


FLOWS: dict[str, Flow] = {"If": branches, "Loop": loop, "CALL": call}
