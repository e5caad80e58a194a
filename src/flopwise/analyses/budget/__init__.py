"""Limits on what a model may cost, kept in a file beside it."""

from __future__ import annotations

from flopwise.analyses.budget.budget import FIGURES, OF_LAYERS, Budget, Limit, Settings, parse, read_budget
from flopwise.analyses.budget.checking import Verdict, check_profiles
from flopwise.analyses.budget.updating import new_budget, updated

__all__ = [
    "FIGURES",
    "OF_LAYERS",
    "Budget",
    "Limit",
    "Settings",
    "Verdict",
    "check_profiles",
    "new_budget",
    "parse",
    "read_budget",
    "updated",
]
