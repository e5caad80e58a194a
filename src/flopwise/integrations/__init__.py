"""The meter in the frameworks that people train with, one file each: one line puts the cost of steps into their logs.

    flopwise.integrations.transformers.attach(trainer)

Each file is imported when it is asked for, and needs its framework.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["accelerate", "keras", "lightning", "mmengine", "timm", "transformers", "ultralytics"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"flopwise.integrations.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
