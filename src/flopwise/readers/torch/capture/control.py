"""Operators that take functions of the program: branches, loops, and functions that run in some setting.

Source: ``torch/_higher_order_ops`` of PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.errors import ModelError
from flopwise.graph import Body
from flopwise.readers.torch.capture.interception_plan import Plan
from flopwise.readers.torch.capture.recorder import Recorder
from flopwise.readers.torch.capture.tensors import flat
from flopwise.readers.torch.capture.values import NeedsValues


def run(recorder: Recorder, plan: Plan, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the operator returns; the operations of its functions are recorded.

    Raises:
        ModelError: there is no rule for the operator.
    """
    name = plan.name.removeprefix("higher.")
    if name in _CONTROL:
        with recorder.interception:
            return _CONTROL[name](recorder, plan, *args, **kwargs)
    if name in _SETTINGS:  # computes nothing itself: it sets something and calls the function
        with torch._C.DisableTorchFunction():
            inside = _Intercepted(recorder, args[_SETTINGS[name]])
            return func(*args[: _SETTINGS[name]], inside, *args[_SETTINGS[name] + 1 :], **kwargs)
    if name in _WRAPPERS:
        with recorder.interception:
            return args[0](*args[_WRAPPERS[name] :])
    raise ModelError(f"{plan.public} is an operator with functions inside, which flopwise does not know")


class _Intercepted:
    """A function that is intercepted although it is called from where interception is off."""

    def __init__(self, recorder: Recorder, function: Callable[..., Any]) -> None:
        self._recorder = recorder
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch._C._EnableTorchFunction(), self._recorder.interception:
            return self._function(*args, **kwargs)


def _truth(recorder: Recorder, flag: Any, public: str) -> bool:
    """Whether a condition holds.

    Raises:
        NeedsValues: it follows from the input.
    """
    if recorder.real or not isinstance(flag, TorchTensor):
        return bool(flag)
    elements = recorder.stand_ins.elements_of(flag)
    if elements is None:
        raise NeedsValues(public)
    with recorder.aside():
        return bool(elements)


def _cond(recorder: Recorder, plan: Plan, pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any] = ()) -> Any:
    """The result of one of two branches; where the condition is not known both are recorded, as the bodies of an If."""
    try:
        return (true_fn if _truth(recorder, pred, plan.public) else false_fn)(*operands)
    except NeedsValues:
        pass
    index, position = len(recorder.events), recorder.position
    with torch._C.DisableTorchFunction():
        result = pred.new_empty(())
    recorder.write(plan, result, (pred,), {}, (recorder.stand_ins.graphed(pred),), {})
    around = position.within
    for part, branch in (("then_branch", true_fn), ("else_branch", false_fn)):
        position.within = (*around, Body(index, part, 1, True))
        try:
            made = branch(*operands)
        finally:
            position.within = around
        result = made if part == "then_branch" else result
    outputs = tuple([recorder.stand_ins.tensor_of(t) for t in flat((result,))])
    recorder.events[index] = recorder.events[index]._replace(outputs=outputs)
    return result


def _while(
    recorder: Recorder, plan: Plan, cond_fn: Any, body_fn: Any, carried: Sequence[Any], more: Sequence[Any] = ()
) -> tuple[Any, ...]:
    """As many runs of the body as the condition says."""
    state = tuple(carried)
    while _truth(recorder, cond_fn(*state, *more), plan.public):
        state = tuple(body_fn(*state, *more))
    return state


def _map(recorder: Recorder, plan: Plan, function: Any, xs: Sequence[TorchTensor], more: Sequence[Any]) -> Any:
    """A run for each index of the first axis, and the results in a row."""
    runs = [function(*[x[i] for x in xs], *more) for i in range(xs[0].shape[0])]
    if isinstance(runs[0], TorchTensor):
        return torch.stack(runs)
    return tuple([torch.stack(parts) if isinstance(parts[0], TorchTensor) else None for parts in zip(*runs)])  # noqa: B905


def _scan(
    recorder: Recorder,
    plan: Plan,
    combine: Any,
    init: Sequence[Any],
    xs: Sequence[TorchTensor],
    more: Sequence[Any] = (),
) -> tuple[Any, ...]:
    """A run for each index of the first axis, each with what the one before carried on."""
    state, rows = tuple(init), []
    for i in range(xs[0].shape[0]):
        made = tuple(combine(*state, *[x[i] for x in xs], *more))
        state = made[: len(state)]
        rows.append(made[len(state) :])
    return (*state, *[torch.stack(column) for column in zip(*rows, strict=True)])


def _hinted(
    recorder: Recorder, plan: Plan, body: Any, args: Sequence[Any], kwargs: Mapping[str, Any], hints: Any
) -> Any:
    return body(*args, **kwargs)


def _strict(recorder: Recorder, plan: Plan, function: Any, operands: Sequence[Any]) -> Any:
    return function(*operands)


_CONTROL: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while,
    "map_impl": _map,
    "scan": _scan,
    "hints_wrapper": _hinted,
    "strict_mode": _strict,
}

#: Operators that set something around a function -> its position among the arguments.
_SETTINGS = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}

#: Operators that call their first argument -> the position of what it is called with.
_WRAPPERS = {"wrap": 1, "invoke_subgraph": 2, "wrap_activation_checkpoint": 1, "tag_activation_checkpoint": 1}
