"""The calls of a model's modules while it runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor as TorchTensor
from torch import nn

from flopwise.graph import Call, Module, Tensor
from flopwise.readers.torch.capture.recorder import Recorder


class Calls:
    """The calls of a model's modules, in the order in which they began."""

    def __init__(self, modules: Iterable[tuple[str, nn.Module]], recorder: Recorder) -> None:
        self._recorder = recorder
        self._steps = {id(m): Module(path, type(m).__name__) for path, m in modules}
        self.calls: list[Call] = []
        #: The module in which the program failed first, and its arguments.
        self.failed: tuple[Module, tuple[Tensor, ...]] | None = None

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Calls of modules are recorded meanwhile."""
        original: Any = nn.Module.__call__

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            step = self._steps.get(id(module))
            if step is None or threading.get_ident() not in self._recorder.threads:
                return original(module, *args, **kwargs)
            return self._call(original, step, module, args, kwargs)

        nn.Module.__call__ = call  # type: ignore[method-assign]
        try:
            yield
        finally:
            nn.Module.__call__ = original  # type: ignore[method-assign]

    def _call(self, original: Any, step: Module, module: nn.Module, args: Any, kwargs: Any) -> Any:
        recorder, position, calls = self._recorder, self._recorder.position, self.calls
        around, via = position.scope, position.via
        position.scope, position.via = (*around, step), ()
        modules, position.modules = position.modules, (*position.modules, module)
        index, first = len(calls), len(recorder.events)
        positional = self.flat(args)
        inputs = (*positional, *self.flat(tuple(kwargs.values()))) if kwargs else positional
        caller, position.call = position.call, index
        calls.append(Call(step.path, inputs, (), first, first, caller, len(positional)))
        outputs: tuple[Tensor, ...] = ()
        try:
            result = original(module, *args, **kwargs)
            outputs = self.flat((result,))
            return result
        except BaseException:
            self.failed = self.failed or (step, inputs)
            raise
        finally:
            calls[index] = Call(step.path, inputs, outputs, first, len(recorder.events), caller, len(positional))
            position.call = caller
            position.scope, position.via, position.modules = around, via, modules

    def flat(self, things: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """The graph tensors among some arguments or results, nested ones in a row."""
        tensors: list[Tensor] = []
        for thing in things:
            if isinstance(thing, TorchTensor):
                tensors.append(self._recorder.stand_ins.tensor_of(thing))
            elif isinstance(thing, (tuple, list)):
                tensors.extend(self.flat(tuple(thing)))
            elif isinstance(thing, Mapping):
                tensors.extend(self.flat(tuple(thing.values())))
        return tuple(tensors)
