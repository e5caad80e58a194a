"""The shape rule in the row of an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

ShapeRule: TypeAlias = Callable[[Any], Any]
