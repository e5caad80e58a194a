"""The calls of a model, each counted before it runs."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import is_grad_enabled, nn

from flopwise.analyses.meter.batch import called_with
from flopwise.analyses.meter.cost import Cost
from flopwise.analyses.meter.costs import COUNTING, Costs
from flopwise.analyses.meter.program import Program
from flopwise.errors import one_line

#: What is counted of the arguments of a call.
Batch: TypeAlias = Callable[[Sequence[object], Mapping[str, object]], object]

#: The number of the backward pass that runs in this thread; -1 where none does.
_backward: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


def _counting() -> bool:
    """True if this thread counts a batch, which runs the model."""
    return bool(COUNTING) and COUNTING[-1] == threading.get_ident()


@functools.cache
def _leave_uncompiled(dynamo: Any) -> None:
    """Keep ``torch._dynamo``, where it is loaded, from compiling a meter with a model that calls a watched one."""
    if dynamo is not None:
        dynamo.trace_rules.add("flopwise")


class Hook(functools.partial[None]):
    """A hook that copies and files of a module do not have."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """A function that does nothing, in copies and files of the model."""
        return getattr, (contextlib.nullcontext(), "__exit__")


class Look:
    """A look once, before a module's next call."""

    def __init__(self, module: nn.Module, look: Callable[[], None]) -> None:
        """
        Args:
            module: that is waited for.
            look: is called.
        """
        self._look, self.end = look, module.register_forward_pre_hook(Hook(self._once)).remove

    def _once(self, *_: object) -> None:
        self.end()
        self._look()


class Watch:
    """The calls of a model, each told with its cost."""

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
            autocast: looks which element type products have, at the first call after ``look``.
        """
        self._model, self._program, self._of = model, program, costs.of
        self._called, self._batch, self._autocast = called, batch, autocast
        #: Whether the last call outside of a backward pass had gradients.
        self._graded = True
        #: How many calls of the model are inside of each other now, where it calls itself; what ends looking.
        self._depth = 0
        self._leave: Callable[[], None] | None = None
        #: Whether a call was seen, and whether all of them could be counted.
        self.calls, self.complete = False, True
        self._looks = False

    def look(self) -> None:
        """Look at the next call which element type products have."""
        self._looks = True

    def count(self, module: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Count a call."""
        if not self._counts():
            return
        try:
            if self._batch is not None:
                args, kwargs = called_with(self._batch(args, kwargs))
            cost = self._of(args, kwargs)
        except Exception as error:  # the model runs as it would without a meter
            self.complete = False
            self._program.remark(f"not counted: {one_line(error)}")
            self._called(None)
            return
        if self._program.recursive:
            self._enter()
        self._called(cost)

    def _counts(self) -> bool:
        """False of a call that a count makes, the model itself does, or a checkpoint for the second time.

        A reentrant checkpoint calls first without gradients, as an evaluation does: then the second call is the batch.
        """
        if _counting():
            return False
        if self._depth:
            self._depth += 1
            return False
        self.calls = True
        if _backward() >= 0:
            if self._graded:
                return False
        else:
            self._graded = is_grad_enabled()
            if self._program.train and not self._graded:
                self._called(None)
                return False
        if self._looks:
            self._looks = False
            self._autocast()
        return True

    def _enter(self) -> None:
        """Leave the calls out that the model makes of itself until this one ends; compiled ones come to no hook."""
        if vars(self._model).get("_compiled_call_impl") is not None:
            return
        self._depth = 1
        if self._leave is None:
            self._leave = self._model.register_forward_hook(Hook(self._left), always_call=True).remove

    def _left(self, *_: object) -> None:
        """A call has ended."""
        if self._depth and not _counting():
            self._depth -= 1

    def start(self) -> Callable[[], None]:
        """Have the model's calls told; returns what ends it.

        A module that compiled itself (``model.compile()``) would have hooks compiled with it: its compiled call is
        wrapped.
        """
        model = self._model
        _leave_uncompiled(sys.modules.get("torch._dynamo"))
        compiled: Callable[..., object] | None = vars(model).get("_compiled_call_impl")
        if compiled is None:
            remove = model.register_forward_pre_hook(Hook(self.count), with_kwargs=True).remove

            def end() -> None:
                remove()
                if self._leave is not None:
                    self._leave()

            return end

        def call(*args: object, **kwargs: object) -> object:
            self.count(model, args, kwargs)
            return compiled(*args, **kwargs)

        vars(model)["_compiled_call_impl"] = call
        return lambda: vars(model).__setitem__("_compiled_call_impl", compiled)
