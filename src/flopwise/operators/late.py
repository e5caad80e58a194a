"""References to functions whose files are loaded at the first call: most runs need few gradients and shapes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


class Late:
    """A function of another module of this package, imported at the first call.

    >>> Late("extents:product")((2, 3))
    6
    """

    __slots__ = ("_function", "name")

    def __init__(self, name: str) -> None:
        """
        Args:
            name: "module:function", the module as seen from ``flopwise.operators``.
        """
        self.name = name
        self._function: Callable[..., Any] | None = None

    def target(self) -> Callable[..., Any]:
        """The function itself."""
        if self._function is None:
            module, _, function = self.name.partition(":")
            self._function = getattr(importlib.import_module(f"flopwise.operators.{module}"), function)
        return self._function

    def __call__(self, *args: object) -> Any:
        return (self._function or self.target())(*args)
