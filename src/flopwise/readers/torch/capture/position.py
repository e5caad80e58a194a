"""Where in the program a run is."""

from __future__ import annotations

import threading
from typing import Any

from torch import nn

from flopwise.graph import Body, Module


class Position(threading.local):
    """The modules, functions and branches around the running code, for each thread by itself."""

    def __init__(self) -> None:
        #: The modules, outermost first.
        self.scope: tuple[Module, ...] = ()
        #: The running modules themselves.
        self.modules: tuple[nn.Module, ...] = ()
        #: The public functions that the innermost module went through, outermost first.
        self.via: tuple[str, ...] = ()
        #: Checkpoints and functions with a gradient of their own, outermost first.
        self.regions: tuple[str, ...] = ()
        #: Branches of which one runs, and which one is not known.
        self.within: tuple[Body, ...] = ()
        #: The call of a module that is running, by its place among all calls.
        self.call: int | None = None
        #: Whether an operation is running, so that whatever happens inside is part of it.
        self.busy = False

    def copy(self) -> dict[str, Any]:
        """The position of this thread."""
        return dict(vars(self))

    def adopt(self, position: dict[str, Any]) -> None:
        """Go to a position that this thread or another was at."""
        vars(self).update(position)
