"""Tables of small cases that are one test: a test of its own costs more than what most of them look at."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def each(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator as ``pytest.mark.parametrize``, of a test that runs with all values and names those that fail."""
    keys = [names] if isinstance(names, str) else list(names)
    cases = [dict(zip(keys, [value] if len(keys) == 1 else value, strict=True)) for value in values]
    labels = [", ".join(f"{name}={value!r:.200}" for name, value in case.items()) for case in cases]
    assert cases, f"no values of {names}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every(**others: Any) -> None:
            failures: list[tuple[str, Exception]] = []
            for label, case in zip(labels, cases, strict=True):
                try:
                    test(**case, **others)
                except Exception as error:
                    failures.append((label, error))
            if failures:
                lines = "\n".join(f"{label}: {type(error).__name__}: {error}" for label, error in failures)
                raise AssertionError(f"{len(failures)} of {len(cases)} cases fail:\n{lines}") from failures[0][1]

        signature = inspect.signature(test)
        others = [p for name, p in signature.parameters.items() if name not in keys]
        every.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined] # pytest reads it
        return every

    return decorate
