"""Operators that take functions of the program: branches, loops, and functions that run in some setting.

Source: ``torch/_higher_order_ops`` of PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor as TorchTensor

from flopwise.errors import ModelError
from flopwise.graph import Body
from flopwise.readers.torch.capture.plans import Plan
from flopwise.readers.torch.capture.tensors import flat
from flopwise.readers.torch.capture.values import NeedsValues

if TYPE_CHECKING:
    from flopwise.readers.torch.capture.recorder import Watch


def run(watch: Watch, plan: Plan, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the operator hands back, with the operations of its functions written down.

    Raises:
        ModelError: nothing is known of the operator.
    """
    name = plan.name.removeprefix("higher.")
    if name in _CONTROL:
        with watch:
            return _CONTROL[name](watch, plan, *args, **kwargs)
    if name in _SETTINGS:  # looks at nothing itself; it sets something, and calls the function
        with torch._C.DisableTorchFunction():
            inside = _Watched(watch, args[_SETTINGS[name]])
            return func(*args[: _SETTINGS[name]], inside, *args[_SETTINGS[name] + 1 :], **kwargs)
    if name in _WRAPPERS:
        with watch:
            return args[0](*args[_WRAPPERS[name] :])
    raise ModelError(f"{plan.public} is an operator with functions inside, of which flopwise knows nothing")


class _Watched:
    """A function that is watched although it is called from where nothing is."""

    def __init__(self, watch: Watch, function: Callable[..., Any]) -> None:
        self._watch = watch
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch._C._EnableTorchFunction(), self._watch:
            return self._function(*args, **kwargs)


def _truth(watch: Watch, asked: Any, public: str) -> bool:
    """Whether a condition holds.

    Raises:
        NeedsValues: it follows from the input.
    """
    if watch.real or not isinstance(asked, TorchTensor):
        return bool(asked)
    known = watch._value_of(asked)
    if known is None:
        raise NeedsValues(public)
    return bool(known)


def _cond(watch: Watch, plan: Plan, pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any] = ()) -> Any:
    """One of two branches; both where nobody knows which, as the two bodies of an If."""
    try:
        return (true_fn if _truth(watch, pred, plan.public) else false_fn)(*operands)
    except NeedsValues:
        pass
    position = len(watch.events)
    with torch._C.DisableTorchFunction():
        result = pred.new_empty(())
    watch._write(plan, result, (pred,), {}, (watch._ours(pred),), {})
    around = watch.within
    for part, branch in (("then_branch", true_fn), ("else_branch", false_fn)):
        watch.within = (*around, Body(position, part, 1, True))
        try:
            made = branch(*operands)
        finally:
            watch.within = around
        result = made if part == "then_branch" else result
    outputs = tuple([watch.tensor_of(t) for t in flat((result,))])
    watch.events[position] = watch.events[position]._replace(outputs=outputs)
    return result


def _while(
    watch: Watch, plan: Plan, cond_fn: Any, body_fn: Any, carried: Sequence[Any], more: Sequence[Any] = ()
) -> tuple[Any, ...]:
    """As many runs of the body as the condition says."""
    state = tuple(carried)
    while _truth(watch, cond_fn(*state, *more), plan.public):
        state = tuple(body_fn(*state, *more))
    return state


def _map(watch: Watch, plan: Plan, function: Any, xs: Sequence[TorchTensor], more: Sequence[Any]) -> Any:
    """A run for each index of the first axis, and the results in a row."""
    runs = [function(*[x[i] for x in xs], *more) for i in range(xs[0].shape[0])]
    if isinstance(runs[0], TorchTensor):
        return torch.stack(runs)
    return tuple([torch.stack(parts) if isinstance(parts[0], TorchTensor) else None for parts in zip(*runs)])  # noqa: B905


def _scan(
    watch: Watch, plan: Plan, combine: Any, init: Sequence[Any], xs: Sequence[TorchTensor], more: Sequence[Any] = ()
) -> tuple[Any, ...]:
    """A run for each index of the first axis, each with what the one before carried on."""
    state, rows = tuple(init), []
    for i in range(xs[0].shape[0]):
        made = tuple(combine(*state, *[x[i] for x in xs], *more))
        state = made[: len(state)]
        rows.append(made[len(state) :])
    return (*state, *[torch.stack(column) for column in zip(*rows, strict=True)])


def _hinted(watch: Watch, plan: Plan, body: Any, args: Sequence[Any], kwargs: Mapping[str, Any], hints: Any) -> Any:
    return body(*args, **kwargs)


def _strict(watch: Watch, plan: Plan, function: Any, operands: Sequence[Any]) -> Any:
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
