"""Caffe's own layers as plain loops over counting numbers, after the formulas in Caffe's documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.operators.oracle.caffe import detection, layers, losses, recurrent

DEFINITIONS: dict[str, Callable[..., Any]] = {
    **layers.DEFINITIONS,
    **recurrent.DEFINITIONS,
    **losses.DEFINITIONS,
}

ALGORITHMS: dict[str, Callable[..., Any]] = {**losses.ALGORITHMS, **detection.ALGORITHMS}
