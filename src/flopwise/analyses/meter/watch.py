"""The calls of a model, each counted before it runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import is_grad_enabled, nn

from flopwise.analyses.meter.batch import called_with
from flopwise.analyses.meter.cost import Cost
from flopwise.analyses.meter.costs import COUNTING, Costs
from flopwise.analyses.meter.program import Program
from flopwise.errors import one_line

#: What is counted of the arguments of a call.
Batch: TypeAlias = Callable[[Sequence[object], Mapping[str, object]], object]

#: The place of a call's result, before there is one.
_BEFORE = object()

#: The number of the backward pass that runs in this thread; -1 where none does.
_backward: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


class Hook:
    """A hook that copies and files of a module do not have."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        """A function that does nothing, in copies and files of the model."""
        return getattr, (contextlib.nullcontext(), "__exit__")


class Look(Hook):
    """A hook that looks once, before a module's next call."""

    def __init__(self, module: nn.Module, look: Callable[[], None]) -> None:
        """
        Args:
            module: that is waited for.
            look: is called.
        """
        self._look, self.end = look, module.register_forward_pre_hook(self).remove

    def __call__(self, *_: object) -> None:
        """Look, and end."""
        self.end()
        self._look()


class Watch(Hook):
    """A hook of a model that has each call told with its cost."""

    __slots__ = (
        "_batch", "_called", "_depth", "_graded", "_leave", "_model", "_of", "_program", "_trains", "autocast", "calls",
        "complete",
    )  # fmt: skip

    def __init__(
        self,
        model: nn.Module,
        program: Program,
        costs: Costs,
        called: Callable[[Cost | None], None],
        batch: Batch | None,
        autocast: Callable[[], None],
    ) -> None:
        """
        Args:
            model: that is watched.
            program: the model as it is counted.
            costs: of its batches.
            called: is called with None for a call without gradients where the model trains, and for one that cannot be
                counted.
            batch: what is counted of the arguments of a call; None: the arguments.
            autocast: looks which element type products have; it is called once.
        """
        self._model, self._program, self._of = model, program, costs.of
        self._called, self._batch, self._trains = called, batch, program.train
        self.autocast: Callable[[], None] | None = autocast
        #: Whether the last call outside of a backward pass had gradients.
        self._graded = True
        #: How many calls of the model are inside of each other now, where it calls itself; what ends looking.
        self._depth = 0
        self._leave: Callable[[], None] | None = None
        #: Whether a call was seen, and whether all of them could be counted.
        self.calls, self.complete = False, True

    def __call__(
        self, module: object, args: Sequence[object], kwargs: Mapping[str, object], result: object = _BEFORE
    ) -> None:
        """Count a call, unless a count makes it, the model itself does, or a checkpoint for the second time.

        A reentrant checkpoint calls first without gradients, as an evaluation does: then the second call is the batch.
        """
        if COUNTING and COUNTING[-1] == threading.get_ident():
            return
        if self._depth:
            self._depth += 1 if result is _BEFORE else -1
            return
        if result is not _BEFORE:
            return
        self.calls = True
        if _backward() >= 0:
            if self._graded:
                return
        else:
            self._graded = is_grad_enabled()
            if self._trains and not self._graded:
                self._called(None)
                return
        if self.autocast is not None:
            self.autocast()
        try:
            if self._batch is not None:
                args, kwargs = called_with(self._batch(args, kwargs))
            cost = self._of(args, kwargs, looped=True)
        except Exception as error:  # the model runs as it would without a meter
            self.complete = False
            self._program.remark(f"not counted: {one_line(error)}")
            self._called(None)
            return
        if self._program.recursive:
            self._enter()
        self._called(cost)

    def _enter(self) -> None:
        """Leave the calls out that the model makes of itself until this one ends; compiled ones come to no hook."""
        if vars(self._model).get("_compiled_call_impl") is not None:
            return
        self._depth = 1
        if self._leave is None:
            self._leave = self._model.register_forward_hook(self, with_kwargs=True, always_call=True).remove

    def start(self) -> Callable[[], None]:
        """Have the model's calls told; returns what ends it.

        A module that compiled itself (``model.compile()``) would have hooks compiled with it: its compiled call is
        wrapped.
        """
        model = self._model
        compiled: Callable[..., object] | None = vars(model).get("_compiled_call_impl")
        if compiled is None:
            remove = model.register_forward_pre_hook(self, with_kwargs=True).remove

            def end() -> None:
                remove()
                if self._leave is not None:
                    self._leave()

            return end

        def call(*args: object, **kwargs: object) -> object:
            self(model, args, kwargs)
            return compiled(*args, **kwargs)

        vars(model)["_compiled_call_impl"] = call
        return lambda: vars(model).__setitem__("_compiled_call_impl", compiled)
