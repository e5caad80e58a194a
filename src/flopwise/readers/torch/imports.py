"""Imports that need torchvision where its compiled part is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def imported(module: str, *parts: str) -> Any:
    """A module, with others that it may have left out, after torchvision is repaired where they need it.

    Raises:
        ImportError: one cannot be imported.
    """
    return repaired(lambda: [import_module(name) for name in (*parts, module)][-1])


def repaired(work: Callable[[], object]) -> Any:
    """The result of some work, repeated with torchvision's missing operators declared if it failed for lack of them."""
    try:
        return work()
    except (ImportError, RuntimeError) as error:
        cause: BaseException | None = error
        while cause is not None and "torchvision::nms does not exist" not in str(cause):
            cause = cause.__cause__ or cause.__context__
        if cause is None or _DECLARED:
            raise
        _declare_missing()
        return work()


#: The library that holds the declarations: they are gone with the object.
_DECLARED: list[object] = []


def _declare_missing() -> None:
    """Declare the operators that torchvision expects of a compiled part which is not there; none of them is run."""
    import torch

    maker: Any = torch.library.Library
    library = maker("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(library)
    for name in [n for n in sys.modules if n == "torchvision" or n.startswith("torchvision.")]:
        del sys.modules[name]
