"""The signatures of other counters that people already call, one file each; the same results without running weights.

``from flopwise.compat.mmengine import get_model_complexity_info`` in place of ``from mmengine.analysis import ...`` is
all that changes in a program. Each file is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["caffe", "calflops", "fvcore", "mmengine", "onnx_tool", "ptflops", "thop", "torchinfo", "torchstat"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"flopwise.compat.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
