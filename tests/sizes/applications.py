"""Applications of operators that the tests' models make: what a rule was asked, to be asked again with other inputs."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from unittest import mock

import numpy
from tests.onnx_suite import cases

from flopwise.errors import FlopwiseError
from flopwise.formats.kit.tensors import elements as stored_elements
from flopwise.formats.onnx.read import resolve_onnx
from flopwise.operators.operator import Operator
from flopwise.operators.tables import row
from flopwise.sizes import run
from flopwise.sizes.facts import ABSENT, Fact
from flopwise.sizes.program import Node
from flopwise.sizes.run import Flow, Pass, Results
from flopwise.sizes.scope import Scope
from flopwise.sizes.site import Site


class Flowing:
    """A control-flow operator with its bodies and what flowed in."""

    def __init__(self, whole: Pass, flow: Flow, node: Node, given: tuple[Fact, ...], scope: Scope) -> None:
        self.whole, self.flow, self.node, self.given, self.scope = whole, flow, node, given, scope
        self.op, self.facts = node.op, whole.facts

    def results(self, given: Sequence[Fact]) -> Results:
        """What follows from other inputs."""
        old = self.whole
        whole = Pass(old.opsets, stored_elements, facts=old.facts, flows=old.flows)
        return whole.followed(self.flow, self.node, tuple(given), Scope(self.scope))

    def __str__(self) -> str:
        return f"{self.op} {self.node.name}"


class Application:
    """An operator with its attributes and what flowed in."""

    def __init__(self, site: Site) -> None:
        self.site, self.facts = site, site.facts
        domain = site.surroundings.node.domain
        self.op = f"{domain}::{site.op}" if domain else site.op

    @property
    def row(self) -> Operator:
        return row(self.op)

    @property
    def given(self) -> tuple[Fact, ...]:
        return self.site.given

    def results(self, given: Sequence[Fact]) -> Results:
        """What the rules say of other inputs."""
        old, known = self.site, self.row
        site = Site(
            old.op,
            old.attributes,
            tuple(given),
            old.outputs,
            old.version,
            old.facts,
            old.constant_of,
            old.surroundings,
        )
        valued = known.value is not None and run.is_ready(known.value.needs, site.given)
        return Pass({}, lambda stored: None, facts=old.facts).applied(known, site, valued)

    def __str__(self) -> str:
        return f"{self.op} {self.site.attributes}"


def key(site: Site) -> Any:
    """What tells one application from another."""
    facts = tuple([(one is ABSENT, one.dtype, one.shape, one.elements, repr(one)) for one in site.given])
    return site.op, site.surroundings.node.domain, site.version, site.outputs, repr(site.attributes), facts


def models() -> Iterator[tuple[Any, Mapping[str, Any] | None]]:
    """Models, each with the inputs whose elements are known."""
    suites = [*cases.made(), *(case for kind in cases.STORED for case in cases.stored(kind))]
    for case in suites:
        known = {n: v for n, v in case.inputs.items() if isinstance(v, numpy.ndarray) and v.dtype.kind in "biufOU"}
        yield case.model, known
    from tests.operators.shapes import test_early as early

    for op, domain, shapes, stored, attrs, _ in early.ROWS:
        yield early.built(op, domain, shapes, stored, attrs, 17 if domain else 8), None
    from tests.operators.shapes import test_standard as standard

    for case in standard.RUN:
        given = {f"x{i}": x for i, x in enumerate(case[3]) if not isinstance(x, dict)}
        yield standard.run_model(case), given
    if importlib.util.find_spec("onnxruntime") is None:
        return
    from tests.operators.shapes import test_onnxruntime as runtime
    from tests.operators.shapes import test_onnxruntime_inference as inference
    from tests.operators.test_fusions import FUSIONS

    for one in runtime.CASES:
        yield (
            runtime.build(one),
            {f"x{i}": x for i, x in enumerate(one.inputs) if x is not None and i not in one.stored},
        )
    for op, inputs, attrs, outputs in (*inference.CASES, *inference.CASES_OF_1_32):
        made = [inference.onnx.ValueInfoProto(name=f"y{place}") for place in range(outputs)]
        yield inference.model(op, inputs, attrs, made), None
    for fusion in FUSIONS:
        yield fusion.models()[0], fusion.feeds()


@lru_cache(maxsize=1)
def recorded() -> tuple[Application | Flowing, ...]:
    """All applications that differ, of the models and of the rows of tests."""
    from tests.operators.shapes import test_rules as rules

    found: dict[Any, Application | Flowing] = {}
    made, followed = Pass.applied, Pass.followed

    def noted(whole: Pass, known: Operator, site: Site, valued: bool) -> Results:
        found.setdefault(key(site), Application(site))
        return made(whole, known, site, valued)

    def noted_flow(whole: Pass, flow: Flow, node: Node, given: tuple[Fact, ...], scope: Scope) -> Results:
        found.setdefault((id(node.attributes), given), Flowing(whole, flow, node, given, scope))
        return followed(whole, flow, node, given, scope)

    with mock.patch.object(Pass, "applied", noted), mock.patch.object(Pass, "followed", noted_flow):
        for model, inputs in models():
            with contextlib.suppress(FlopwiseError):
                resolve_onnx(model.SerializeToString(), inputs)
    for op, types, attrs, _ in rules.ROWS_OF_SHAPES:
        site = rules.site_of(op, types, attrs)
        found.setdefault(key(site), Application(site))
    return tuple(found.values())
