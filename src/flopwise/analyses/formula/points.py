"""Points: a size for each symbol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from flopwise.analyses.formula.terms.polynomial import Term
from flopwise.operators.size import Dims

#: Symbol -> size.
Point: TypeAlias = "Mapping[str, int]"

#: Shapes of inputs by name, in sizes that may carry expressions.
Sizes: TypeAlias = "Mapping[str, Dims]"

#: Name, element type and shape of an input, in the sizes of the symbols.
OpenShape: TypeAlias = "tuple[str, str | None, tuple[Term, ...]]"
