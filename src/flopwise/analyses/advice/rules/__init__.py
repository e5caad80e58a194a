"""The rules of advice, a file each: the table is read from top to bottom.

A rule's file holds its ``RULE``. The user's own rules are given beside these.
"""

from __future__ import annotations

from importlib import import_module

from flopwise.analyses.advice.rule import Rule

#: The files of the rules, in the order in which they are listed.
NAMES = (
    "dead_work",
    "repeated_work",
    "constant_work",
    "cast_pairs",
    "layout",
    "normalization",
    "batch_norm",
    "one_hot",
    "upsampling",
)


def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the table."""
    return tuple(import_module(f"{__name__}.{name}").RULE for name in NAMES)
