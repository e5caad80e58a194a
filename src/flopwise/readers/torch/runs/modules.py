"""The modules of a model: their names, tensors and options; and a plain function of tensors as one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

from torch import Tensor as TorchTensor
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from flopwise.errors import ModelError
from flopwise.graph import Kind, ProgramTensor, StoredTensor, Submodule
from flopwise.readers.torch.capture.tensors import DTYPES
from flopwise.readers.torch.kinds import Namespace


def stored_tensors(modules: Iterable[tuple[str, nn.Module]]) -> dict[int, tuple[TorchTensor, ProgramTensor]]:
    """The graph tensor of each parameter and buffer, by id; a shared one has the first of its names.

    Args:
        modules: the modules of a model by path.

    Raises:
        ModelError: a parameter has no shape yet.
    """
    tensors: dict[int, tuple[TorchTensor, ProgramTensor]] = {}
    for path, module in modules:
        prefix = f"{path}." if path else ""
        for name, parameter in module._parameters.items():
            if parameter is None or id(parameter) in tensors:
                continue
            if isinstance(parameter, (UninitializedParameter, UninitializedBuffer)):
                raise ModelError(f"{prefix}{name}: a lazy parameter has no shape yet; run the model once before")
            tensors[id(parameter)] = (parameter, _graph_tensor(parameter, prefix + name, "weight"))
        for name, buffer in module._buffers.items():
            if buffer is None or id(buffer) in tensors:
                continue
            statistic = buffer.is_floating_point() and name not in module._non_persistent_buffers_set
            tensors[id(buffer)] = (buffer, _graph_tensor(buffer, prefix + name, "buffer" if statistic else "constant"))
    return tensors


def _graph_tensor(tensor: TorchTensor, name: str, kind: Kind) -> ProgramTensor:
    return ProgramTensor(name, tuple(tensor.shape), DTYPES.get(tensor.dtype), kind, grad=tensor.requires_grad)


class TensorsOfGraph(Mapping[str, StoredTensor]):
    """The tensors of a module's graph as stored ones, made when somebody asks for one.

    The elements of a sparse or nested one cannot be had.
    """

    def __init__(self, tensors: Iterable[tuple[TorchTensor, ProgramTensor]]) -> None:
        self._tensors = {graph_tensor.name: (tensor, graph_tensor) for tensor, graph_tensor in tensors}

    def __getitem__(self, name: str) -> StoredTensor:
        from flopwise.readers.weights.modules import stored_tensor

        tensor, graph_tensor = self._tensors[name]
        kind, shape = graph_tensor.kind, tuple(d for d in graph_tensor.shape or () if isinstance(d, int))
        return stored_tensor(name, tensor, kind) or StoredTensor(name, shape, "", 0, role=kind)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class Options(Mapping[str, Any]):
    """The plain attributes of a module, looked up when somebody asks."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._options: Namespace | None = None

    @property
    def _plain(self) -> Namespace:
        if self._options is None:
            self._options = {
                name: value
                for name, value in vars(self._module).items()
                if not name.startswith("_") and name != "training" and is_plain(value)
            }
            for name in ("num_heads", "embed_dim", "normalized_shape"):
                value = getattr(self._module, name, None)
                if name not in self._options and is_plain(value) and value is not None:
                    self._options[name] = value
        return self._options

    def __getitem__(self, name: str) -> object:
        return self._plain[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plain)

    def __len__(self) -> int:
        return len(self._plain)


def is_plain(value: object) -> bool:
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    return isinstance(value, (tuple, list)) and all(map(is_plain, value))


def submodules(model: nn.Module, stored: Mapping[int, tuple[TorchTensor, ProgramTensor]]) -> tuple[Submodule, ...]:
    """Every module of a model, in the order of its definition."""
    paths: dict[int, list[str]] = {}
    modules: list[nn.Module] = []
    for path, module in model.named_modules(remove_duplicate=False):
        if id(module) not in paths:
            modules.append(module)
        paths.setdefault(id(module), []).append(path)
    return tuple([_submodule(paths[id(module)], module, stored) for module in modules])


def _submodule(
    paths: list[str], module: nn.Module, stored: Mapping[int, tuple[TorchTensor, ProgramTensor]]
) -> Submodule:
    own = [*module._parameters.items(), *module._buffers.items()]
    return Submodule(
        path=paths[0],
        kind=_kind(type(module)),
        tensors={name: stored[id(t)][1] for name, t in own if t is not None and id(t) in stored},
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


def module_of_function(function: Callable[..., object]) -> nn.Module:
    """A module that calls a function; the modules that the function uses are its own, under the function's names."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", type(inner).__name__).strip("<>")
    module: nn.Module = type(name, (nn.Module,), {"__module__": getattr(inner, "__module__", None) or ""})()
    for key, used in _modules_used(function):
        if key not in vars(module) and not any(used is other for other in module.children()):
            module._modules[key] = used
    vars(module)["forward"] = function
    return module


def _modules_used(function: object) -> Iterator[tuple[str, nn.Module]]:
    """The modules that a function is bound to, closes over, takes as defaults or finds among the names around it."""
    reachable: Namespace = {}
    if isinstance(function, functools.partial):
        yield from _modules_used(function.func)
        reachable = {**{f"arg{i}": a for i, a in enumerate(function.args)}, **function.keywords}
    elif isinstance(function, MethodType):
        reachable = {"self": function.__self__}
        if not isinstance(function.__self__, nn.Module):
            reachable |= getattr(function.__self__, "__dict__", {})
    elif isinstance(function, FunctionType):
        used = inspect.getclosurevars(function)
        reachable = {**used.globals, **used.nonlocals, **(function.__kwdefaults__ or {})}
    for key, value in reachable.items():
        if isinstance(value, nn.Module):
            yield key, value
