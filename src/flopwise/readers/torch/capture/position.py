"""Where in the program a run is."""

from __future__ import annotations

import threading

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
        #: Whether an operation is running, so that whatever happens inside is part of it.
        self.busy = False
