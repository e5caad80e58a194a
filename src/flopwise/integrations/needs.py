"""The framework that an integration needs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needed(*packages: str) -> Iterator[None]:
    """Imports of a framework, whose absence is one line that says how to get it.

    Args:
        packages: the names that it is imported by; the first one is installed.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        name = packages[0]
        raise ModuleNotFoundError(f"flopwise.integrations.{name} needs {name}: pip install {name}", name=name) from None
