"""The rules of advice in every format."""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.analyses.advice.rule import Rule
from flopwise.analyses.advice.runs.rule import RunRule
from flopwise.report.commands.advise.report import KINDS
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Head, Sheet


def rules_report(rules: Sequence[Rule | RunRule]) -> Report:
    """The rules of advice, one line each."""
    fields: list[Field[Rule | RunRule]] = [
        Field(Head("rule", "rule", "text", 0), lambda rule: rule.name),
        Field(Head("kind", "kind", "text", 1), lambda rule: KINDS[rule.exactness]),
        Field(Head("about", "change", "text", 1, prose=True), lambda rule: rule.about),
        Field(Head("source", "source", "text", 2, prose=True), lambda rule: rule.source),
    ]
    names = ("name", "about", "exactness", "source")
    plain = [{name: getattr(rule, name) for name in names} for rule in rules]
    content = {"schema": "flopwise.advice-rules/1", "rules": plain}
    return Report(lambda format, look: [Sheet.of(fields, rules)], lambda: content)
