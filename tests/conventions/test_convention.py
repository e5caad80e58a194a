"""What holds for every convention."""

from __future__ import annotations

import pytest
from onnx.defs import get_all_schemas_with_history
from tests.conventions.nodes import node, view

from flopwise.conventions import CONVENTIONS, Convention, get
from flopwise.errors import InputError
from flopwise.operators.counts import FLOPS, Counts
from flopwise.operators.tables import OPERATORS

#: Operators that old or foreign files contain and that no ONNX schema names any more.
WITHOUT_SCHEMA = {"Scale", "ImageScaler", "Relu6", "Silu", "GeGelu", "Rope", "LogitSoftCapping"}

ALL = pytest.mark.parametrize("convention", CONVENTIONS.values(), ids=lambda c: c.name)


def test_own_conventions_come_first() -> None:
    assert list(CONVENTIONS)[:7] == [*("flops", "macs", "textbook", "dot-product", "molchanov", "benanza", "onnx-tool")]


@ALL
def test_says_what_it_is(convention: Convention) -> None:
    assert CONVENTIONS[convention.name] is convention
    assert convention.unit in ("FLOP", "MAC")
    assert convention.summary.endswith(".")
    assert len(convention.summary) <= 120
    assert convention.source
    assert all(note and "\n" not in note for note in convention.notes)


@ALL
def test_names_real_operators(convention: Convention) -> None:
    real = {schema.name for schema in get_all_schemas_with_history()} | OPERATORS.keys() | WITHOUT_SCHEMA
    named = convention.overrides.keys() | convention.unlisted | convention.layer_types.keys()
    assert named <= real, named - real
    assert not convention.overrides.keys() & convention.unlisted


@ALL
def test_classes_merge_each_class_once(convention: Convention) -> None:
    if convention.display.classes:
        assert sum(convention.display.classes.values(), Counts()) == Counts(*([1] * 13))


def test_get() -> None:
    assert get("macs") is get(get("macs"))
    assert get("MACs") is get("macs")
    with pytest.raises(InputError, match=r"unknown convention 'benanzo'; did you mean 'benanza'\? known: flops, macs,"):
        get("benanzo")


@pytest.mark.parametrize(
    ("others", "known", "unknown"),
    [
        ("canonical", Counts(erf=6), None),
        ("free", Counts(), None),
        ("zero", Counts(), Counts()),
        ("unknown", None, None),
    ],
)
def test_other_operators(others: str, known: Counts | None, unknown: Counts | None) -> None:
    convention = Convention("c", "FLOP", "", "", Counts(), others=others)  # type: ignore[arg-type]
    assert convention.view(node("Erf", [(2, 3)], [(2, 3)]), Counts(erf=6)) == known
    assert convention.view(node("acme::Erf", [(2, 3)], [(2, 3)]), None) == unknown


@pytest.mark.parametrize("convention", ["benanza", "onnx-tool"])
def test_tools_that_go_by_the_bare_name(convention: str) -> None:
    assert view(convention, node("acme::Exp", [(2, 3)], [(2, 3)])) == view(convention, node("Exp", [(2, 3)], [(2, 3)]))
    assert view(convention, node("acme::Mystery", [(2, 3)], [(2, 3)])) is None


def test_other_conventions_keep_domains_apart() -> None:
    assert view("textbook", node("acme::Relu", [(2, 3)], [(2, 3)])) is None
    assert view("molchanov", node("acme::Relu", [(2, 3)], [(2, 3)])) is None


def test_says_how_it_counts_an_operator() -> None:
    def products(node: object, counts: Counts | None) -> Counts | None:
        """2 MNK
        in one line.

        More about it.
        """
        return counts

    said = {
        "Gemm": "2 MNK in one line",
        "Conv": "by a rule of its own",
        "Relu": "neither listed nor counted",
        "Exp": "cannot be counted",
    }
    own = {"Gemm": products, "Conv": lambda node, counts: counts}
    made = Convention(
        "own", "FLOP", "Own.", "here", FLOPS, overrides=own, unlisted=frozenset({"Relu"}), others="unknown"
    )
    assert {op: made.describe(op) for op in said} == said
