"""Models side by side: which layers belong together, and how their figures differ."""

from __future__ import annotations

from flopwise.analyses.compare.comparison import FIGURES, Comparison, Group, compare_profiles
from flopwise.analyses.compare.conditions import Break, Condition, broken, conditions
from flopwise.analyses.compare.matching import Match, Way, match

__all__ = [
    "FIGURES",
    "Break",
    "Comparison",
    "Condition",
    "Group",
    "Match",
    "Way",
    "broken",
    "compare_profiles",
    "conditions",
    "match",
]
