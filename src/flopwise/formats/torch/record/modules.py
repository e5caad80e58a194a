"""The modules of a model: their names, tensors and options; and a plain function of tensors as one."""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor as TorchTensor
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from flopwise.errors import ModelError, counted
from flopwise.formats.torch.kinds import Namespace
from flopwise.formats.torch.record.keep import restored
from flopwise.formats.torch.record.values import DTYPES
from flopwise.graph import Kind, ProgramTensor, StoredTensor, Submodule

#: How the name of a tensor begins, behind the path of its module, that the program of a script holds.
CONSTANT = "constants."


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
        frozen = is_frozen(module)
        for name, constant in _constants(module):
            kind: Kind = "weight" if frozen and constant.is_floating_point() and constant.dim() else "constant"
            tensors.setdefault(id(constant), (constant, _graph_tensor(constant, prefix + name, kind)))
        for name, buffer in module._buffers.items():
            if buffer is None or id(buffer) in tensors:
                continue
            statistic = buffer.is_floating_point() and name not in module._non_persistent_buffers_set
            tensors[id(buffer)] = (buffer, _graph_tensor(buffer, prefix + name, "buffer" if statistic else "constant"))
    return tensors


def is_frozen(module: nn.Module) -> bool:
    """True for a script whose weights have become constants of its program (``torch.jit.freeze``), as far as one sees:
    it has no parameters.
    """
    return isinstance(module, torch.jit.ScriptModule) and next(module.parameters(), None) is None


def _constants(module: nn.Module) -> Iterator[tuple[str, TorchTensor]]:
    """The tensors that the program of a script holds, by name."""
    script: Any = module
    blocks, place = [], 0
    if isinstance(module, torch.jit.ScriptModule):
        blocks = [script._c._get_method(name).graph for name in script._c._method_names()]
    while blocks:
        for node in blocks.pop().nodes():
            if node.kind() == "prim::Constant" and node.hasAttribute("value") and node.kindOf("value") == "t":
                yield f"{CONSTANT}{place}", node.t("value")
                place += 1
            blocks += node.blocks()


def _graph_tensor(tensor: TorchTensor, name: str, kind: Kind) -> ProgramTensor:
    dtype, grad, inner = DTYPES.get(tensor.dtype), tensor.requires_grad, parts_of(tensor)
    held = sum(part.numel() * part.element_size() for part in inner) if inner else None
    return ProgramTensor(name, tuple(tensor.shape), dtype, kind, grad=grad, stored_bytes=held)


def parts_of(tensor: TorchTensor) -> list[TorchTensor]:
    """The plain tensors that one of a subclass is made of, as its ``__tensor_flatten__`` says; empty for any other.

    PyTorch's own, parts of a distributed tensor and nested ones, count as the whole that they show.
    """
    if type(tensor).__module__.startswith("torch.") or not hasattr(tensor, "__tensor_flatten__"):
        return []
    parts: list[TorchTensor] = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    return [plain for part in parts for plain in parts_of(part) or [part]]


def opaque(tensors: Iterable[TorchTensor]) -> Iterator[str]:
    """A note for each subclass of tensors, not of PyTorch's, that computes in its own way and hides what it stores."""
    classes = [type(t) for t in tensors if type(t).__torch_dispatch__ is not TorchTensor.__torch_dispatch__]
    hiding = [kind for kind in classes if not hasattr(kind, "__tensor_flatten__")]
    for kind in dict.fromkeys(kind for kind in hiding if not kind.__module__.startswith("torch.")):
        own = counted(classes.count(kind), "tensor")
        yield f"bytes of {own} of {kind.__name__} are those of the type shown: the class has no __tensor_flatten__"


class TensorsOfGraph(Mapping[str, StoredTensor]):
    """The tensors of a module's graph as stored ones, made when somebody asks for one.

    The elements of a sparse or nested one cannot be had.
    """

    def __init__(self, tensors: Iterable[tuple[TorchTensor, ProgramTensor]]) -> None:
        self._tensors = {graph_tensor.name: (tensor, graph_tensor) for tensor, graph_tensor in tensors}

    def __getitem__(self, name: str) -> StoredTensor:
        from flopwise.formats.weights.modules import stored_tensor

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
    own = [*module._parameters.items(), *module._buffers.items(), *_constants(module)]
    return Submodule(
        path=paths[0],
        kind=_kind(type(module)),
        tensors={name: stored[id(t)][1] for name, t in own if t is not None and id(t) in stored},
        options=Options(module),
        bases=tuple([_kind(c) for c in type(module).__mro__[:-1]]),
        training=getattr(module, "training", False),  # which a frozen script has not
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


class FunctionModule(nn.Module):
    """A plain function; its children are the modules that it may call."""


def module_of_function(function: Callable[..., object]) -> nn.Module:
    """A module that calls a function; the modules that the function uses are its own, under the function's names."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", type(inner).__name__).strip("<>")
    module: nn.Module = type(name, (FunctionModule,), {"__module__": getattr(inner, "__module__", None) or ""})()
    module.training = False  # it has no mode of its own
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
        around, used = function.__globals__, inspect.getclosurevars(function).nonlocals
        found = {name: around[name] for name in _globals_of(function.__code__) if name in around}
        reachable = {**found, **used, **(function.__kwdefaults__ or {})}
    for key, value in reachable.items():
        if isinstance(value, nn.Module):
            yield key, value


def _globals_of(code: CodeType) -> Iterator[str]:
    """The global names that code reads, comprehensions and functions in it too; names of attributes are none."""
    yield from (i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner)


# --- a model that is spread over several devices, counted as the model that was spread: tensor parallelism, FSDP and
# DDP put hooks and wrappers around modules; without them these compute on whole tensors, as they were written

#: Packages whose hooks do nothing but move tensors between devices.
_PACKAGES = ("torch.distributed.", "torch.nn.parallel.")

#: Modules that run another one.
_WRAPPERS = frozenset({"FullyShardedDataParallel", "DistributedDataParallel", "DataParallel"})

#: Attributes of a module that hold hooks around its forward pass.
_HOOKS = ("_forward_pre_hooks", "_forward_hooks")

#: The name under which FSDP keeps the parameters of a module in one flat tensor.
_FLAT = "_flat_param"


@contextlib.contextmanager
def gathered(model: nn.Module) -> Iterator[list[str]]:
    """A model is meanwhile as if it lay on one device; yields notes on what is spread. Afterwards it is as it was."""
    if not _is_distributed(model):
        yield []
        return
    with restored(model, None, real=False):
        for module in list(model.modules()):
            for name in _HOOKS:
                hooks = vars(module).get(name) or {}
                for key in [key for key, hook in hooks.items() if _package(hook).startswith(_PACKAGES)]:
                    del hooks[key]
        notes = [*_sharded(model), *_flattened(model)]
        _unwrap(model)
        yield notes


def _is_distributed(model: nn.Module) -> bool:
    for module in model.modules():
        attributes = vars(module)
        if _is_wrapper(module):
            return True
        for name in _HOOKS:
            hooks = attributes.get(name)
            if hooks and any(_package(hook).startswith(_PACKAGES) for hook in hooks.values()):
                return True
        for parameter in attributes.get("_parameters", {}).values():
            if parameter is not None and type(parameter).__module__.startswith(_PACKAGES):
                return True
    return False


def _is_wrapper(module: nn.Module) -> bool:
    return type(module).__name__ in _WRAPPERS and f"{type(module).__module__}.".startswith(_PACKAGES)


def _package(hook: object) -> str:
    """The module in which a hook was written."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    if isinstance(hook, MethodType):
        return type(hook.__self__).__module__ + "."
    return f"{getattr(hook, '__module__', '')}."


def _sharded(model: nn.Module) -> Iterator[str]:
    """Parameters that are distributed tensors, whose shape is that of the whole."""
    if "torch.distributed.tensor" not in sys.modules:
        return
    from torch.distributed.tensor import DTensor

    spread: dict[tuple[str, bool], dict[int, Any]] = {}
    for module in model.modules():
        by_fsdp = hasattr(module, "unshard")
        for parameter in module.parameters(recurse=by_fsdp):
            if isinstance(parameter, DTensor):
                mesh = "×".join(map(str, parameter.device_mesh.shape))
                if not any(id(parameter) in group for group in spread.values()):
                    spread.setdefault((mesh, by_fsdp), {})[id(parameter)] = parameter
    for (mesh, by_fsdp), parameters in spread.items():
        whole = sum(p.numel() for p in parameters.values())
        local = sum(p.to_local().numel() for p in parameters.values())
        way = "by FSDP: each computes with all of them, on inputs of its own" if by_fsdp else "each computes its share"
        yield _note(f"{len(parameters)} parameters are spread over {mesh} devices ({way})", local, whole)


def _flattened(model: nn.Module) -> Iterator[str]:
    """Parameters that FSDP keeps in flat tensors; each gets its shape back."""
    local = whole = 0
    seen: set[int] = set()
    for module in list(model.modules()):
        flat = vars(module).get("_parameters", {}).pop(_FLAT, None)
        handle = getattr(module, "_handle", None)
        flat = getattr(handle, "flat_param", None) if flat is None else flat
        if flat is None or id(flat) in seen or not hasattr(flat, "_param_infos"):
            continue
        seen.add(id(flat))
        local += flat.numel()
        for info, shape in zip(flat._param_infos, flat._shapes, strict=True):
            vars(info.module).pop(info.param_name, None)
            empty = torch.empty(shape, dtype=flat.dtype, device="meta")
            info.module._parameters[info.param_name] = nn.Parameter(empty, flat.requires_grad)
            whole += empty.numel()
        for info in flat._shared_param_infos:
            vars(info.module).pop(info.param_name, None)
            info.module._parameters[info.param_name] = info.prim_module._parameters[info.prim_param_name]
    if whole:
        yield _note("FSDP keeps the parameters in flat pieces", local, whole)


def _note(what: str, local: int, whole: int) -> str:
    return (
        f"distributed: {what}; the work of the whole model on these inputs is counted, without communication; this "
        f"rank holds {local:,} of {whole:,} elements"
    )


def _unwrap(model: nn.Module) -> None:
    """Let the wrappers of DDP and FSDP call what they wrap."""
    for module in list(model.modules()):
        if not _is_wrapper(module):
            continue
        inner = getattr(module, "_fsdp_wrapped_module", None) or vars(module).get("_modules", {}).get("module")
        if isinstance(inner, nn.Module):
            vars(module)["forward"] = inner
