"""The pass over files with sizes that carry expressions, beside the pass with numbers at many points."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
from tests.analyses.formula import models

from flopwise.analyses.formula.conditions import Conditions, Guards, recording
from flopwise.analyses.formula.dim import Dim, Ratio, dim, term
from flopwise.analyses.formula.domains import Point
from flopwise.analyses.formula.following.files import File
from flopwise.analyses.formula.subject import Request
from flopwise.analyses.formula.terms import symbol, value
from flopwise.errors import FlopwiseError
from flopwise.formats.kit.inputs import declared
from flopwise.formats.kit.read import Resolved, resolved_at
from flopwise.formats.onnx.read import opened_onnx
from flopwise.operators.size import OPEN, Most, broadcast, larger, product, same, smaller
from flopwise.sizes.facts import Facts

#: Points at which each model is compared.
POINTS = 30


@pytest.mark.parametrize(
    "make",
    [
        models.resnet50,
        models.fpn,
        models.yolox,
        models.unet,
        models.vit,
        models.lstm,
        models.resized,
        models.window,
        models.chunked,
        models.shuffled,
        models.loop,
        models.branches,
        partial(models.llama, 2, cache=True),
    ],
)
def test_every_shape_is_that_of_numbers(make: Callable[[], bytes]) -> None:
    opened = opened_onnx(make())
    inputs = {one.name: one.dims or () for one in declared(opened.model.graph)}
    names = list(dict.fromkeys(d for dims in inputs.values() for d in dims if isinstance(d, str)))

    def resolve(point: Point) -> Resolved:
        return resolved_at(opened, {n: tuple(point.get(str(d), d) for d in dims) for n, dims in inputs.items()})

    file, hint = File(resolve, inputs), {name: 64 + 32 * i for i, name in enumerate(names)}
    sizes = {n: tuple(dim(hint[d], symbol(d)) if isinstance(d, str) else d for d in dims) for n, dims in inputs.items()}
    followed = file.follow(Request(hint, sizes, {}))  # type: ignore[arg-type] # no dimension is without a name
    assert not followed.open
    conditions, chance = Conditions.of(followed.guards.reasons), random.Random(5)
    points = [{name: hint[name] + 32 * chance.randint(-1, 9) for name in names} for _ in range(POINTS // 2)]
    points += [{name: chance.randint(1, 200) for name in names} for _ in range(POINTS // 2)]
    compared = 0
    for point in points:
        if conditions.broken(point):
            continue
        try:
            graph = file.at(point)
        except FlopwiseError:
            continue
        for mine, there in zip(followed.graph.nodes, graph.nodes, strict=True):
            for tensor, other in zip(mine.known_outputs, there.known_outputs, strict=True):
                assert tuple(value(term(n), point) for n in tensor.dims) == other.shape, (mine.name, point)
        compared += 1
    assert compared >= POINTS // 3


def test_sizes_of_several_kinds_meet() -> None:
    h, w = dim(224, symbol("H")), dim(224, symbol("W"))
    guards = Guards()
    with recording(guards):
        assert [type(n) for n in broadcast((h, 1), (1, w))] == [Dim, Dim]
        assert type(h + Most(3)) is Most
        assert type(Most(3) * h) is Most
        assert int((h + Most(3)).high) == 227
        assert h + OPEN is OPEN
        assert product((h, OPEN)) is OPEN
        assert type(smaller(h, w)) is Dim
        assert larger(OPEN, h) is OPEN
    assert not guards.reasons
    with recording(guards):
        assert same(h, w) is h
    assert [str(guard) for guard in guards.reasons] == ["W == H"]


def test_facts_tell_sizes_apart_by_their_expressions_and_ask_nothing_of_them() -> None:
    facts, guards = Facts(), Guards()
    h, w = dim(224, symbol("H")), dim(224, symbol("W"))
    with recording(guards):
        shapes = [(h, h), (h, w), (w, w), (224, 224), (Most(h), h), (Most(w), h)]
        assert len({id(facts.tensor("float32", shape)) for shape in shapes}) == len(shapes)
        assert facts.tensor("float32", (h + 0, h)) is facts.tensor("float32", (h, h))
        plain = facts.tensor("float32", (1,))
        held = [(h,), (w,), (224,), (Ratio.of(h),), (Ratio.of(w),)]
        assert len({id(facts.constant(plain, one)) for one in held}) == len(held)
    assert not guards.reasons
