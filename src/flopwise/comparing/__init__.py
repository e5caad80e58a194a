"""Models side by side: which layers belong together, and how their figures differ."""

from __future__ import annotations

from flopwise.comparing.comparison import FIGURES, Comparison, Group, compare_profiles
from flopwise.comparing.conditions import Break, Condition, broken, conditions
from flopwise.comparing.matching import Match, Way, match

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
