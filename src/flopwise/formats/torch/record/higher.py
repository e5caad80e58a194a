"""Operators that take functions of the program: branches, loops, attention with a rule for its scores, and functions
that run in some setting.

Source: ``torch/_higher_order_ops`` of PyTorch 2.13.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.errors import ModelError
from flopwise.formats.torch.kinds import Args, Function, Kwargs
from flopwise.formats.torch.record.attention import pairs_of_block_mask
from flopwise.formats.torch.record.names import Plan, synthetic
from flopwise.formats.torch.record.recorder import Recorder
from flopwise.formats.torch.record.tensors import flat
from flopwise.formats.torch.record.values import NeedsValues, is_mask, made_up
from flopwise.graph import STORED, Body


def run(recorder: Recorder, plan: Plan, func: Callable[..., object], args: Args, kwargs: Kwargs) -> object:
    """The result of an operator with functions inside, whose operations are recorded.

    Raises:
        ModelError: there is no rule for the operator.
    """
    name = plan.name.removeprefix("higher.")
    if name == "flex_attention":
        with recorder.position.occupied():
            return flex_attention(recorder, args)
    if name in _CONTROL:
        with recorder:
            return _CONTROL[name](recorder, plan, *args, **kwargs)
    if name in _SETTINGS:  # computes nothing itself: it sets something and calls the function
        with torch._C.DisableTorchFunction():
            inside = _intercepted(recorder, args[_SETTINGS[name]])
            return func(*args[: _SETTINGS[name]], inside, *args[_SETTINGS[name] + 1 :], **kwargs)
    if name in _WRAPPERS:
        with recorder:
            return args[0](*args[_WRAPPERS[name] :])
    raise ModelError(f"{plan.public} is an operator with functions inside, which flopwise does not know")


def _intercepted(recorder: Recorder, function: Callable[..., object]) -> Callable[..., object]:
    """A function that is intercepted although it is called from where interception is off."""

    def call(*args: object, **kwargs: Any) -> Any:
        with torch._C._EnableTorchFunction(), recorder:
            return function(*args, **kwargs)

    return call


def _truth(recorder: Recorder, flag: object, public: str) -> bool:
    """The truth of a condition, from its element.

    Raises:
        NeedsValues: it follows from the input.
    """
    if recorder.real or not isinstance(flag, TorchTensor):
        return bool(flag)
    elements = recorder.stand_ins.elements_of(flag)
    if elements is None:
        raise NeedsValues(public)
    with recorder.aside():
        recorder.values.ask(elements, public)
        return bool(elements)


def _cond(
    recorder: Recorder, plan: Plan, pred: TorchTensor, true_fn: Function, false_fn: Function, operands: Args = ()
) -> object:
    """The result of one of two branches; where the condition is not known both are recorded, as the bodies of an If."""
    with recorder.aside():
        names = made_up(None if recorder.real else recorder.stand_ins.elements_of(pred))
    if all(map(is_mask, names)):
        try:
            return (true_fn if _truth(recorder, pred, plan.public) else false_fn)(*operands)
        except NeedsValues:
            pass
    index, position = len(recorder.events), recorder.position
    with torch._C.DisableTorchFunction():
        result = pred.new_empty(())
    recorder.write(plan, result, (recorder.stand_ins.graphed(pred),), {})
    around = position.within
    for part, branch in (("then_branch", true_fn), ("else_branch", false_fn)):
        position.within = (*around, Body(index, part, 1, True))
        try:
            value = branch(*operands)
        finally:
            position.within = around
        result = value if part == "then_branch" else result
    outputs = tuple([recorder.stand_ins.tensor_of(t) for t in flat((result,))])
    recorder.events[index] = recorder.events[index]._replace(outputs=outputs)
    return result


def _while(
    recorder: Recorder, plan: Plan, cond_fn: Function, body_fn: Function, carried: Sequence[object], more: Args = ()
) -> tuple[object, ...]:
    """As many runs of the body as the condition says."""
    state = tuple(carried)
    while _truth(recorder, cond_fn(*state, *more), plan.public):
        state = tuple(body_fn(*state, *more))
    return state


def _map(
    recorder: Recorder, plan: Plan, function: Function, xs: Sequence[TorchTensor], more: Sequence[object]
) -> object:
    """A run for each index of the first axis, and the results in a row."""
    runs = [function(*[x[i] for x in xs], *more) for i in range(xs[0].shape[0])]
    if isinstance(runs[0], TorchTensor):
        return torch.stack(runs)
    return tuple([torch.stack(parts) if isinstance(parts[0], TorchTensor) else None for parts in zip(*runs)])  # noqa: B905


def _scan(
    recorder: Recorder,
    plan: Plan,
    combine: Function,
    init: Sequence[object],
    xs: Sequence[TorchTensor],
    more: Sequence[object] = (),
) -> tuple[object, ...]:
    """A run for each index of the first axis, each with what the one before carried on."""
    state, rows = tuple(init), []
    for i in range(xs[0].shape[0]):
        values = tuple(combine(*state, *[x[i] for x in xs], *more))
        state = values[: len(state)]
        rows.append(values[len(state) :])
    return (*state, *[torch.stack(column) for column in zip(*rows, strict=True)])


def _functionalized(recorder: Recorder, plan: Plan, operator: object, **kwargs: Any) -> tuple[object, ...]:
    """The results of an operator that writes into arguments, and the copies that it wrote into in their place."""
    from torch._higher_order_ops import auto_functionalize

    by_schema: Any = auto_functionalize.auto_functionalized_dense
    by_bases: Any = auto_functionalize.auto_functionalized_v2_dense
    run = by_bases if plan.name.endswith("_v2") else by_schema
    return tuple(run(operator, **kwargs))


def _effectful(
    recorder: Recorder, plan: Plan, token: object, operator: Any, *args: object, **kwargs: object
) -> tuple[object, ...]:
    """The token that keeps operators in order, and the results of one of them."""
    result = operator(*args, **kwargs)
    return (token, *(result if isinstance(result, tuple) else (result,)))


def flex_attention(recorder: Recorder, args: Args) -> object:
    """The results of the operator; the function that changes the scores is recorded on all scores at once.

    Args:
        recorder: what writes operations down.
        args: query, key and value, then the function or None.
    """
    stand_ins = recorder.stand_ins
    query, key, value = used = tuple([stand_ins.swap(a) for a in args[:3]])
    out = query.new_empty((*query.shape[:-1], value.shape[-1]))
    if recorder.grad and any(t.requires_grad for t in used):
        out.requires_grad_()
    change = args[3] if len(args) > 3 else None
    if change is not None and getattr(change, "__name__", "") != "_identity":
        _change_scores(recorder, change, (*query.shape[:-1], key.shape[-2]), query)
    plan = synthetic("aten.flex_attention", "torch.nn.attention.flex_attention.flex_attention")
    pairs = pairs_of_block_mask(args[4] if len(args) > 4 else None, query, key)
    recorder.write(plan, out, tuple(map(stand_ins.graphed, used)), pairs)
    return out, query.new_empty(query.shape[:-1], dtype=torch.float32), query.new_empty(query.shape[:-1])


def _change_scores(
    recorder: Recorder, change: Callable[..., object], shape: tuple[int, ...], like: TorchTensor
) -> None:
    """Run the function for one score on all scores; a function that takes single scores only is unknown."""
    indices = [
        torch.empty([n if i == axis else 1 for i in range(4)], dtype=torch.int64, device="meta")
        for axis, n in enumerate(shape)
    ]
    scores = torch.empty(shape, dtype=like.dtype, device="meta")
    for tensor in (scores, *indices):
        recorder.stand_ins.result(tensor, False)
    before = len(recorder.events)
    try:
        with recorder:
            change(scores, *indices)
    except Exception:  # it needs a single score
        del recorder.events[before:]
        plan = synthetic("flex.score_mod", getattr(change, "__name__", "score_mod"))
        recorder.write(plan, scores.new_empty(shape), (recorder.stand_ins.graphed(scores),), {})


# --- kernels written in Triton: a program launches them without PyTorch, on tensors that it made for their results


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


_CONTROL: dict[str, Function] = {
    "cond": _cond,
    "while_loop": _while,
    "map_impl": _map,
    "scan": _scan,
    "hints_wrapper": lambda recorder, plan, body, args, kwargs, hints: body(*args, **kwargs),
    "auto_functionalized": _functionalized,
    "auto_functionalized_v2": _functionalized,
    "with_effects": _effectful,
    "out_dtype": lambda recorder, plan, operator, dtype, *operands: operator(*operands).to(dtype),
    "triton_kernel_wrapper_mutation": launched,
    "triton_kernel_wrapper_functional": launched,
    "strict_mode": lambda recorder, plan, function, operands: function(*operands),
}

#: Operators that set something around a function -> its position among the arguments.
_SETTINGS = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}

#: Operators that call their first argument -> the position of what it is called with.
_WRAPPERS = {"wrap": 1, "invoke_subgraph": 2, "wrap_activation_checkpoint": 1, "tag_activation_checkpoint": 1}
