"""Kernels written in Triton: a program launches them without PyTorch, on tensors that it made for their results."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from flopwise.formats.torch.kinds import Kwargs
from flopwise.graph import STORED
from flopwise.readers.torch.capture.interception_plan import Plan, synthetic
from flopwise.readers.torch.capture.recorder import Recorder
from flopwise.readers.torch.capture.tensors import flat


@contextlib.contextmanager
def launches(recorder: Recorder) -> Iterator[None]:
    """Launches of kernels are recorded meanwhile; on meta tensors they do not run."""
    interface: Any = getattr(sys.modules.get("triton.runtime.jit"), "KernelInterface", None)
    if interface is None:
        yield
        return
    original = interface.__getitem__

    def launcher(kernel: object, grid: object) -> Callable[..., object]:
        launch = original(kernel, grid)

        def recorded(*args: object, **kwargs: Any) -> object:
            if threading.get_ident() not in recorder.threads:
                return launch(*args, **kwargs)
            seen, result = not recorder.position.busy, None
            if recorder.real:
                with recorder.aside():
                    result = launch(*args, **kwargs)
            if seen:
                record_launch(recorder, kernel, args, kwargs)
            return result

        return recorded

    interface.__getitem__ = launcher
    try:
        yield
    finally:
        interface.__getitem__ = original


def launched(
    recorder: Recorder,
    plan: Plan,
    *,
    kernel_idx: int,
    constant_args_idx: int,
    kwargs: Kwargs,
    tensors_to_clone: Sequence[str] = (),
    **launch: Any,
) -> Kwargs | None:
    """The copies that a kernel in an exported program wrote into in place of its arguments, by name; None where it
    writes into the arguments.
    """
    from torch._higher_order_ops import triton_kernel_wrap

    copies = {name: kwargs[name].clone() for name in tensors_to_clone}
    if recorder.real:
        run: Any = triton_kernel_wrap.triton_kernel_wrapper_mutation_dense
        run(kernel_idx=kernel_idx, constant_args_idx=constant_args_idx, kwargs={**kwargs, **copies}, **launch)
    else:
        table: Any = triton_kernel_wrap.kernel_side_table
        constants = table.get_constant_args(constant_args_idx)
        record_launch(recorder, table.get_kernel(kernel_idx), (), {**kwargs, **copies, **constants})
    return copies if plan.name.endswith("functional") else None


def record_launch(recorder: Recorder, kernel: object, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Write down the launch of a kernel, which may write into all of its tensors but the stored ones."""
    name = name_of(kernel)
    stand_ins = recorder.stand_ins
    with torch._C.DisableTorchFunction():
        swapped, named = (args, kwargs) if recorder.real else (stand_ins.swap(list(args)), stand_ins.swap(dict(kwargs)))
        tensors = flat((*swapped, *named.values()))
        targets = [t for t in tensors if stand_ins.tensor_of(t).kind not in (*STORED, "input")]
        plan = synthetic(f"triton.{name}", f"triton.{name}")
        recorder.write(plan, None, tuple(stand_ins.graphed(list(swapped))), stand_ins.graphed(dict(named)), targets)
        for target in targets:
            stand_ins.values.lose(target)


def name_of(kernel: object) -> str:
    """The name of a kernel's function; those that choose its options stand around it."""
    while not isinstance(getattr(kernel, "__name__", None), str) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return str(getattr(kernel, "__name__", type(kernel).__name__))
