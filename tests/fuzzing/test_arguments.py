"""Public functions with arguments of wrong kinds: each call ends well or with an error of flopwise's own, and ends."""

from __future__ import annotations

import collections

import pytest
from fuzz import arguments

pytest.importorskip("torch")


def test_every_parameter_with_values_of_all_kinds() -> None:
    wrong: list[str] = []
    with arguments.inside():
        numbers = collections.Counter(subject.name for subject, _ in arguments.calls())
        for subject, given in arguments.calls():
            try:
                arguments.check(subject, given)
            except (Exception, arguments.Hangs) as error:
                ((parameter, make),) = given.items()
                wrong.append(f"{subject.name}({parameter}={make()!r}): {type(error).__name__}: {error}")
    assert wrong == []
    assert sum(numbers.values()) > 6000
    assert {"profile", "llm", "zoo.build", "fvcore.flop_count", "Formula.at", "TorchOptions"} <= numbers.keys()


def test_the_right_arguments_are_right() -> None:
    """Else the calls above would say nothing about the argument that is replaced."""
    with arguments.inside(), arguments.quiet():
        for subject in arguments.subjects():
            if subject.name in ("bench", "zoo.summary", "zoo.build"):
                continue
            models = ("m.onnx",) if subject.name == "compare" else ()
            further = {"N": 2} if subject.name in ("Formula.value", "Formula.at") else {}
            subject.function(*models, **{**subject.right, **further})
