"""Each sentence of docs/guides/security.md names a test that holds it, and its table of limits is the one in force."""

from __future__ import annotations

import re
from pathlib import Path

from flopwise._limits import Limits

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/guides/security.md").read_text(encoding="utf-8")


def test_every_sentence_has_its_test() -> None:
    statements = re.findall(r"^- (.*?)(?=^- |^\n|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert len(statements) > 10
    for statement in statements:
        tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", statement)
        assert tests, statement
        for file, test in tests:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"


def test_the_limits_are_those_in_force() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,.]+) \|", PAGE, re.MULTILINE)
    assert {name: float(value.replace(",", "")) for name, value in rows} == Limits._field_defaults
