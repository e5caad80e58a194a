"""A model that is spread over several devices, counted as the model that was spread.

Tensor parallelism, FSDP and DDP put hooks and wrappers around modules that move and gather tensors between devices.
Without them the modules compute on whole tensors, as they were written.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from types import MethodType
from typing import Any

import torch
from torch import nn

from flopwise.readers.torch.runs.restore import restored

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
