"""The modules of a model: their names and tensors, who called whom, and that all is afterwards as it was."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor as TorchTensor
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from flopwise.errors import ModelError
from flopwise.graph import Call, Kind, Module, Submodule, Tensor
from flopwise.readers.torch.capture.recorder import Watch
from flopwise.readers.torch.capture.tensors import DTYPES

#: Only one model at a time has its calls watched: the class of all modules is changed for it.
_ONE_AT_A_TIME = threading.RLock()


def stored_tensors(model: nn.Module) -> dict[int, tuple[TorchTensor, Tensor]]:
    """Our tensor for each parameter and buffer, by id; a shared one is named as it was first met.

    Raises:
        ModelError: a parameter has no shape yet.
    """
    found: dict[int, tuple[TorchTensor, Tensor]] = {}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        for name, parameter in module._parameters.items():
            if parameter is None or id(parameter) in found:
                continue
            if isinstance(parameter, (UninitializedParameter, UninitializedBuffer)):
                raise ModelError(f"{prefix}{name}: a lazy parameter has no shape yet; run the model once before")
            found[id(parameter)] = (parameter, _ours(parameter, prefix + name, "weight"))
        for name, buffer in module._buffers.items():
            if buffer is None or id(buffer) in found:
                continue
            statistic = buffer.is_floating_point() and name not in module._non_persistent_buffers_set
            found[id(buffer)] = (buffer, _ours(buffer, prefix + name, "buffer" if statistic else "constant"))
    return found


def _ours(tensor: TorchTensor, name: str, kind: Kind) -> Tensor:
    return Tensor(name, tuple(tensor.shape), DTYPES.get(tensor.dtype), kind, grad=tensor.requires_grad)


class Options(Mapping[str, Any]):
    """The plain attributes of a module, looked up when somebody asks."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._found: dict[str, Any] | None = None

    @property
    def _plain(self) -> dict[str, Any]:
        if self._found is None:
            self._found = {
                name: value
                for name, value in vars(self._module).items()
                if not name.startswith("_") and name != "training" and _is_plain(value)
            }
            for name in ("num_heads", "embed_dim", "normalized_shape"):
                value = getattr(self._module, name, None)
                if name not in self._found and _is_plain(value) and value is not None:
                    self._found[name] = value
        return self._found

    def __getitem__(self, name: str) -> Any:
        return self._plain[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plain)

    def __len__(self) -> int:
        return len(self._plain)


def _is_plain(value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    return isinstance(value, (tuple, list)) and all(map(_is_plain, value))


def submodules(model: nn.Module, known: Mapping[int, tuple[TorchTensor, Tensor]]) -> tuple[Submodule, ...]:
    """Every module of a model, in the order of its definition."""
    paths: dict[int, list[str]] = {}
    modules: list[nn.Module] = []
    for path, module in model.named_modules(remove_duplicate=False):
        if id(module) not in paths:
            modules.append(module)
        paths.setdefault(id(module), []).append(path)
    return tuple([_submodule(paths[id(module)], module, known) for module in modules])


def _submodule(paths: list[str], module: nn.Module, known: Mapping[int, tuple[TorchTensor, Tensor]]) -> Submodule:
    own = [*module._parameters.items(), *module._buffers.items()]
    return Submodule(
        path=paths[0],
        kind=_kind(type(module)),
        tensors={name: known[id(t)][1] for name, t in own if t is not None and id(t) in known},
        options=Options(module),
        bases=tuple([_kind(c) for c in type(module).__mro__[:-1]]),
        training=module.training,
        text=_text(module),
        also=tuple(paths[1:]),
    )


def _kind(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _text(module: nn.Module) -> str:
    if type(module).extra_repr is nn.Module.extra_repr:
        return ""
    try:
        return str(module.extra_repr())
    except Exception:  # what a module says of itself is no reason to fail
        return ""


@contextlib.contextmanager
def as_it_was(model: nn.Module, training: bool | None, real: bool) -> Iterator[None]:
    """Whatever happens inside, the model's attributes, modes, tensors and hooks are afterwards as they were before.

    Args:
        model: the model.
        training: the mode to put its modules into meanwhile; None leaves them.
        real: whether elements of its tensors may change.
    """
    modules = list(model.modules())
    before = [
        (vars(m), dict(vars(m)), [(d, dict(d)) for d in vars(m).values() if isinstance(d, dict)]) for m in modules
    ]
    elements = [(b, b.detach().clone()) for b in model.buffers() if not b.is_meta] if real else []
    gradients = [(p, p.grad) for p in model.parameters()]
    chance = torch.get_rng_state()
    if training is not None:
        for module in modules:
            vars(module)["training"] = training
    try:
        yield
    finally:
        torch.set_rng_state(chance)
        for attributes, were, inner in before:
            for held, values in inner:
                if [*held] != [*values] or any(held[key] is not value for key, value in values.items()):
                    held.clear()
                    held.update(values)
            if any(attributes.get(k, _GONE) is not v for k, v in were.items()) or len(attributes) != len(were):
                attributes.clear()
                attributes.update(were)
        for tensor, old in elements:
            if not torch.equal(tensor, old):  # kernels that keep statistics do not say that they wrote
                with torch.no_grad():
                    tensor.copy_(old)
        for parameter, gradient in gradients:
            parameter.grad = gradient


_GONE = object()


class Calls:
    """Writes down the calls of a model's modules while it runs."""

    def __init__(self, model: nn.Module, watch: Watch) -> None:
        self._watch = watch
        self._steps = {id(m): Module(path, type(m).__name__) for path, m in model.named_modules()}
        self._thread = threading.get_ident()
        self._open: list[int] = []
        self.calls: list[Call] = []
        #: The module in which the program failed first, and what it was given.
        self.failed: tuple[Module, tuple[Tensor, ...]] | None = None

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Calls of modules are written down meanwhile."""
        with _ONE_AT_A_TIME:
            original: Any = nn.Module.__call__

            def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
                step = self._steps.get(id(module))
                if step is None or threading.get_ident() != self._thread:
                    return original(module, *args, **kwargs)
                return self._call(original, step, module, args, kwargs)

            nn.Module.__call__ = call  # type: ignore[method-assign]
            try:
                yield
            finally:
                nn.Module.__call__ = original  # type: ignore[method-assign]

    def _call(self, original: Any, step: Module, module: nn.Module, args: Any, kwargs: Any) -> Any:
        watch, calls = self._watch, self.calls
        around, via = watch.scope, watch.via
        watch.scope, watch.via = (*around, step), ()
        position, first = len(calls), len(watch.events)
        positional = self._flat(args)
        inputs = (*positional, *self._flat(tuple(kwargs.values()))) if kwargs else positional
        caller = self._open[-1] if self._open else None
        self._open.append(position)
        calls.append(Call(step.path, inputs, (), first, first, caller, len(positional)))
        outputs: tuple[Tensor, ...] = ()
        try:
            result = original(module, *args, **kwargs)
            outputs = self._flat((result,))
            return result
        except BaseException:
            self.failed = self.failed or (step, inputs)
            raise
        finally:
            calls[position] = Call(step.path, inputs, outputs, first, len(watch.events), caller, len(positional))
            self._open.pop()
            watch.scope, watch.via = around, via

    def _flat(self, things: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """Our tensors among some arguments or results, nested ones in a row."""
        found: list[Tensor] = []
        for thing in things:
            if isinstance(thing, TorchTensor):
                found.append(self._watch.tensor_of(thing))
            elif isinstance(thing, (tuple, list)):
                found.extend(self._flat(tuple(thing)))
            elif isinstance(thing, Mapping):
                found.extend(self._flat(tuple(thing.values())))
        return tuple(found)
