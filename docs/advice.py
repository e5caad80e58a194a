"""The page of the rules of advice."""

from __future__ import annotations

from pages import GENERATED

from flopwise.analyses.advice.rule import Rule
from flopwise.analyses.advice.rules import RULES
from flopwise.analyses.advice.runs import RUN_RULES, RunRule
from flopwise.report.commands.advise import KINDS


def advice_page() -> str:
    """Each rule of ``flopwise advise`` with what it changes and who says so."""
    lines = [GENERATED, "", "# Rules of advice", ""]
    lines += ["`flopwise advise --rules` prints this table; [the guide](../guides/advice.md) says how to use it.", ""]
    lines += ["| rule | kind | change | source |", "|---|---|---|---|"]
    every: list[Rule | RunRule] = [*RULES, *RUN_RULES]
    lines += [f"| `{r.name}` | {KINDS[r.exactness]} | {r.about} | {r.source} |" for r in every]
    return "\n".join(lines) + "\n"
