"""The classes of modules while a function is traced, and names of steps where a library gives none."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def named(kinds: dict[str, str]) -> Iterator[None]:
    """In the block, the class of each module of flax.linen that is called is added to ``kinds`` by its path."""
    linen: Any = sys.modules.get("flax.linen")
    if linen is None:
        yield
        return
    roots: list[str] = []

    def watched(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        module = context.module
        path = tuple(map(str, module.path or ()))
        if not path:
            roots.append(module.name or type(module).__name__)
        kinds.setdefault(".".join((*roots[-1:], *path)), type(module).__name__)
        try:
            return call(*args, **kwargs)
        finally:
            if not path:
                roots.pop()

    with linen.intercept_methods(watched):
        yield
