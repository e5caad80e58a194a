"""Shapes as expressions beside what onnx infers: over the tests that onnx has for its operators, at other sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy
import pytest
from tests.onnx_suite.cases import Case, made

import flopwise
from flopwise import conventions
from flopwise.analyses.formula.conditions import Conditions, recording
from flopwise.analyses.formula.dim import dim, term
from flopwise.analyses.formula.domains import Point
from flopwise.analyses.formula.following.files import File
from flopwise.analyses.formula.following.loops import Followed
from flopwise.analyses.formula.subject import Request
from flopwise.analyses.formula.terms import symbol, value
from flopwise.formats.kit.read import Resolved, resolved_at
from flopwise.formats.onnx.read import opened_onnx
from flopwise.graph import Graph
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile

#: Tests of which the shapes of inputs are changed one by one, where the model asks for the same change of two.
UNEVEN = ("test_loop", "test_scan_sum", "test_maxunpool")


#: Operators whose cost follows from the prime factors of a length, which a size with an expression has not.
TRANSFORMS = ("DFT", "STFT")


class Symbolic(NamedTuple):
    """A test with a symbol for each extent of its inputs."""

    case: Case
    file: File
    followed: Followed
    profile: Profile
    hint: Mapping[str, int]


def steers(array: numpy.ndarray) -> bool:
    return array.dtype.kind in "iub" and array.size < 1000


def file_of(case: Case) -> File:
    """The model with other extents; small whole numbers stay as they are, since they steer shapes."""
    opened = opened_onnx(case.model)

    def resolve(sizes: Point) -> Resolved:
        inputs = {}
        for name, array in case.inputs.items():
            shape = tuple(sizes.get(f"{name}.{axis}", extent) for axis, extent in enumerate(array.shape))
            inputs[name] = array if steers(array) and shape == array.shape else shape
        return resolved_at(opened, inputs)

    return File(resolve, {})


def symbolic(case: Case) -> Symbolic | None:
    """A test with symbols; None where the inputs are no tensors, or the model needs their elements."""
    if not all(isinstance(v, numpy.ndarray) for v in case.inputs.values()):
        return None
    free = {n: v for n, v in case.inputs.items() if not steers(v)}
    hint = {f"{n}.{axis}": extent for n, v in free.items() for axis, extent in enumerate(v.shape)}
    inputs = {n: tuple(dim(hint[f"{n}.{a}"], symbol(f"{n}.{a}")) for a in range(v.ndim)) for n, v in free.items()}
    try:
        file = file_of(case)
        followed = file.follow(Request(hint, inputs, {}))
    except flopwise.FlopwiseError:
        return None
    with recording(followed.guards):
        profile = profile_graph(followed.graph, conventions.get("flops"))
    return Symbolic(case, file, followed, profile, hint)


@pytest.fixture(scope="module")
def cases() -> list[Symbolic]:
    found = [symbolic(case) for case in made()]
    return [s for s in found if s is not None]


def test_counting_with_expressions_is_counting_at_the_hint(cases: list[Symbolic]) -> None:
    for one in cases:
        if one.followed.open:
            continue
        plain = profile_graph(one.followed.base, conventions.get("flops"))
        rows = [r for r in plain.rows if r.node.op not in TRANSFORMS]
        assert [r.count for r in rows] == [r.count for r in one.profile.rows if r.node.op not in TRANSFORMS], (
            one.case.name
        )


def lacking(followed: Followed) -> list[str]:
    """The first operator whose result has no shape."""
    makers = {t.name: node.op for node in followed.base.nodes for t in node.known_outputs}
    return [makers.get(name, name) for name in followed.open[:1]]


def test_most_operators_have_a_rule(cases: list[Symbolic]) -> None:
    without = Counter(op for s in cases for op in lacking(s.followed))
    whole = sum(len(s.followed.base.nodes) for s in cases)
    assert without.total() < whole / 40
    assert not without.keys() & {"Conv", "MatMul", "Gemm", "Add", "Softmax", "ReduceMean", "Pad", "Gather", "LSTM"}


def test_guards_hold_at_the_hint(cases: list[Symbolic]) -> None:
    for one in cases:
        assert Conditions.of(one.followed.guards.reasons).broken(one.hint) is None, one.case.name


def other_sizes(one: Symbolic) -> Iterator[dict[str, int]]:
    """Each extent one larger, where the guards allow it."""
    conditions = Conditions.of(one.followed.guards.reasons)
    for name, extent in one.hint.items():
        sizes = {**one.hint, name: extent + 1}
        if conditions.broken(sizes) is None:
            yield sizes


def test_shapes_and_counts_hold_wherever_the_guards_do(cases: list[Symbolic]) -> None:
    compared = 0
    for one in cases:
        if one.case.name.startswith(UNEVEN):
            continue
        for sizes in other_sizes(one):
            try:
                graph: Graph = one.file.at(sizes)
            except flopwise.FlopwiseError:
                continue
            if any("dimension of 0" not in w for w in graph.warnings) or len(graph.nodes) != len(
                one.followed.graph.nodes
            ):
                continue
            for mine, there in zip(one.followed.graph.nodes, graph.nodes, strict=True):
                for tensor, other in zip(mine.outputs, there.outputs, strict=True):
                    shape = None if tensor is None else tensor.shape
                    if shape is None or other is None or other.shape is None:
                        continue
                    assert tuple(value(term(n), sizes) for n in shape) == other.shape, (one.case.name, mine.op, sizes)
                    compared += 1
            plain = profile_graph(graph, conventions.get("flops"))
            for row, known in zip(one.profile.rows, plain.rows, strict=True):
                if row.count is not None and known.count is not None:
                    assert value(term(row.count), sizes) == known.count, (one.case.name, row.type, sizes)
    assert compared > 20_000
