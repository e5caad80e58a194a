"""The memory that a model needs: when each activation lives, where it can lie, and what moves while it runs."""

from __future__ import annotations

from flopwise.storage.liveness import liveness
from flopwise.storage.plan import plan_arena

__all__ = ["liveness", "plan_arena"]
