"""The ways in which functions are met that are not simply recorded: they make tensors from numbers alone, like another
tensor, or on another device; ask or set something about a tensor; look at elements; or call functions of the program:
branches, loops, attention with a rule for its scores, kernels of Triton.

New tensors are made on meta, wherever the program wants them; few and known elements are kept beside.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.errors import ModelError
from flopwise.formats.torch.kinds import Args, Function, Kwargs
from flopwise.formats.torch.record.names import Plan, synthetic
from flopwise.formats.torch.record.recorder import Recorder, asker
from flopwise.formats.torch.record.remarks import pairs_of_block_mask
from flopwise.formats.torch.record.stand_ins import META, is_transformed
from flopwise.formats.torch.record.values import (
    LARGEST,
    NeedsLower,
    NeedsValues,
    flat,
    is_mask,
    like_meta,
    made_up,
    mark_made_up,
)
from flopwise.graph import STORED, Body


def _operators(text: str) -> frozenset[str]:
    return frozenset(f"aten.{name}" for name in text.split())


#: Functions that take elements out of a tensor, that compare all of two, that say how large one is, and that leave
#: something at one.
_READS = _operators("item tolist numpy __array__ __float__ __complex__ __dlpack__ _local_scalar_dense")
_COMPARE = _operators("equal allclose")
_SIZES = _operators("shape size numel nelement sym_size sym_numel")
_HOOKS = _operators("register_hook register_post_accumulate_grad_hook retain_grad")

#: Operators that make a tensor of the numbers that they are called with.
_OF_NUMBERS = _operators("tensor as_tensor asarray vander scalar_tensor")


def ways_of(recorder: Recorder) -> dict[str, Callable[[Plan, Function, Args, Kwargs], Any]]:
    """Handlers of functions, by the way of their plans."""
    ways: dict[str, Callable[[Recorder, Plan, Function, Args, Kwargs], Any]] = {
        "through": _through,
        "ask": _ask,
        "factory": _factory,
        "like": _like,
        "values": _value,
        "device": _device,
        "move": _move,
        "set": _set,
        "higher": _higher,
        "lower": _lower,
        "detach": Recorder.record,
        "record": Recorder.record,
    }
    return {name: functools.partial(way, recorder) for name, way in ways.items()}


# --- functions that ask, set, look at elements, or call others


def _through(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """Call a Python function of PyTorch's and record the operations inside it."""
    position = recorder.position
    if func in recorder.inside:  # it calls ``__torch_function__`` once more all the same
        return recorder.record(Plan("record", plan.name, plan.public, func), func, args, kwargs)
    recorder.inside.add(func)
    before = position.via
    position.via = (*before, plan.public)
    try:
        with recorder:
            return plan.call(*args, **kwargs)
    finally:
        position.via = before
        recorder.inside.discard(func)


def _lower(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """Leave to the dispatcher a function that is transformed, or that computes gradients.

    Raises:
        NeedsLower: the dispatcher does not record, or gradients are not recorded.
    """
    swap = recorder.stand_ins.swap
    if not recorder.low or (plan.way == "lower" and not recorder.grad):
        raise NeedsLower
    if recorder.real or plan.way != "lower" or is_transformed():
        return func(*args, **kwargs)
    return func(*swap(args), **swap(kwargs))


def _device(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """The device of a tensor, or whether it is the meta device: the model's in place of a stand-in's."""
    if recorder.real:
        return func(*args, **kwargs)
    return recorder.device if plan.name == "aten.device" else False


def _ask(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """The answer to a question about a tensor."""
    swap = recorder.stand_ins.swap
    if recorder.real:
        return func(*args, **kwargs)
    if plan.name == "aten.requires_grad_":
        if recorder.grad:
            func(swap(args[0]), *args[1:], **kwargs)
        return args[0]
    if plan.name in _HOOKS:
        return func(swap(args[0]), *args[1:], **kwargs)
    if plan.name == "aten.data_ptr" and "_flopwise" in args[0].__dict__:  # the address of what has no memory
        raise NeedsValues(plan.public)
    if plan.public.startswith("torch.ops."):  # it is told the device as well
        result = func(*swap(args), **swap(kwargs))
    else:
        result = func(*[swap(a) if a.__class__ in (list, tuple) else a for a in args], **kwargs)
    sizes = recorder.sizes
    if sizes is None or plan.name not in _SIZES:
        return result
    caller = sys._getframe(2).f_globals.get("__name__", "")  # through ``__torch_function__``
    shape = None if caller.startswith("flopwise.") else sizes.shape(recorder.stand_ins.tensor_of(args[0]))
    if shape is None:  # it gets the size as a plain number, else with its expression
        return result
    if plan.name in ("aten.numel", "aten.nelement", "aten.sym_numel"):
        return math.prod(shape)
    whole = isinstance(result, (tuple, list))
    return torch.Size(shape) if whole else shape[kwargs["dim"] if "dim" in kwargs else args[-1]]


def _value(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """The result of a function that looks at elements.

    Raises:
        NeedsValues: the elements are not known.
    """
    if plan.name in _READS and isinstance(args[0], TorchTensor):
        recorder.read(args[0])
    if recorder.real:
        recorder.looked = True
        return recorder.record(plan, func, args, kwargs) if plan.name in _COMPARE else func(*args, **kwargs)
    if plan.name in ("aten.__repr__", "aten.__str__", "aten.__format__"):
        return "<tensor>"
    elements = [recorder.stand_ins.elements_of(a) if isinstance(a, TorchTensor) else a for a in args]
    if any(e is None and isinstance(a, TorchTensor) for e, a in zip(elements, args, strict=True)):
        raise NeedsValues(plan.public)
    for part in elements:
        recorder.values.ask(part, plan.public, asker)
    if plan.name in _COMPARE:
        return recorder.record(plan, func, args, kwargs)
    with recorder.aside():
        return func(*elements, **kwargs)


def _set(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """Give a tensor another attribute; ``data`` is that of another tensor."""
    if recorder.real and plan.name == "aten.data" and recorder.before_set is not None:
        recorder.before_set(args[0])
    swapped = args if recorder.real else recorder.stand_ins.swap(args)
    result = func(*swapped, **kwargs)
    if plan.name == "aten.data":
        recorder.stand_ins.become(*swapped)
    return result


# --- functions that make tensors


def _factory(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """A tensor made from numbers."""
    options = _without_device(kwargs)
    if recorder.elements_were_read(args, kwargs):
        with recorder.aside():
            data, _ = recorder.values.in_numbers(list(args))
            return recorder.stand_ins.constant(func(*data, **options), unseen=True)
    if recorder.real:
        return recorder.record(plan, func, args, kwargs)
    if plan.name in _OF_NUMBERS and not (args and isinstance(args[0], TorchTensor)):
        return _of_numbers(recorder, plan, func, args, options)
    if plan.name in _OF_NUMBERS or any(isinstance(a, TorchTensor) for a in (*args, *options.values())):
        return recorder.record(plan, func, args, options)
    on_meta = {**options, "device": META}
    tensor = recorder.record(plan, func, args, on_meta, lambda: func(*args, **{**options, "device": "cpu"}))
    if torch.device(kwargs.get("device") or "cpu") == META:
        recorder.stand_ins.let_be(tensor)
    return tensor


def _like(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """A tensor of the size of another, or of its type."""
    options = _without_device(kwargs)
    if recorder.elements_were_read(args, kwargs) and isinstance(args[0], TorchTensor):
        with recorder.aside():
            like_it = torch.empty(args[0].shape, dtype=args[0].dtype)
            return recorder.stand_ins.constant(func(like_it, *args[1:], **options), unseen=True)
    if recorder.real or not args or not isinstance(args[0], TorchTensor):
        return recorder.record(plan, func, args, kwargs)
    if plan.name == "aten.new_tensor":
        data = args[1] if len(args) > 1 else options["data"]
        return _of_numbers(recorder, plan, torch.tensor, (data,), {"dtype": options.get("dtype", args[0].dtype)})
    first = recorder.stand_ins.swap(args[0])

    def value() -> object:
        if first.numel() > LARGEST:
            raise NeedsValues("")
        return func(torch.empty_strided(first.shape, first.stride(), dtype=first.dtype), *args[1:], **options)

    return recorder.record(plan, func, args, options, value)


def _move(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """A tensor of another type, or the same one where only the device changes."""
    if recorder.real:
        return recorder.record(plan, func, args, kwargs)
    swap = recorder.stand_ins.swap
    if plan.name not in ("aten.to", "aten.type"):
        stored = isinstance(args[0], TorchTensor) and id(args[0]) in recorder.stand_ins.graph_tensors
        return args[0] if stored else swap(args[0])
    named = plan.name == "aten.type"  # as "torch.FloatTensor", or that class
    given = [getattr(torch, a.rpartition(".")[2], a) if named and isinstance(a, str) else a for a in args[1:]]
    given = [getattr(a, "dtype", a) if named else swap(a) for a in given if not isinstance(a, (torch.device, str))]
    settings = [a for a in given if not (isinstance(a, int) and not isinstance(a, bool))]
    options = {k: v for k, v in kwargs.items() if k != "device"}
    if not any(isinstance(a, (torch.dtype, TorchTensor, str)) for a in (*settings, *options.values())):
        return args[0]
    return recorder.record(plan, func, (args[0], *settings), options)


def _of_numbers(recorder: Recorder, plan: Plan, func: Function, args: Args, options: Kwargs) -> object:
    """A tensor of numbers; some may be tensors themselves, whose elements are known or not."""
    stand_ins = recorder.stand_ins
    swapped = stand_ins.swap(list(args))
    data, exact = recorder.values.in_numbers(swapped)
    with recorder.aside():
        tensor = func(*data, **options)
    if exact:
        constant = stand_ins.constant(tensor)
        mark_made_up(recorder.values.of(constant), recorder.values.made_up_in(swapped))
        return constant
    return recorder.record(plan, lambda *parts: like_meta(tensor), args, {})


def _without_device(kwargs: Kwargs) -> Kwargs:
    return {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}


# --- operators that take functions of the program. Source: ``torch/_higher_order_ops`` of PyTorch 2.13


def _higher(recorder: Recorder, plan: Plan, func: Any, args: Args, kwargs: Kwargs) -> object:
    """The result of an operator with functions inside, whose operations are recorded.

    Raises:
        ModelError: there is no rule for the operator.
    """
    name = plan.name.removeprefix("higher.")
    if name == "flex_attention":
        with recorder.position.occupied():
            return flex_attention(recorder, args)
    if name in _SETTINGS:  # computes nothing itself: it sets something and calls the function
        place = _SETTINGS[name]

        def inside(*args_: object, **kwargs_: Any) -> Any:  # although it is called from where interception is off
            with torch._C._EnableTorchFunction(), recorder:
                return args[place](*args_, **kwargs_)

        with torch._C.DisableTorchFunction():
            return func(*args[:place], inside, *args[place + 1 :], **kwargs)
    with recorder:
        if name in _OWN:
            return _OWN[name](recorder, plan, *args, **kwargs)
        if name in _CALLS:
            return args[0](*args[_CALLS[name] :])
        if name in _DENSE:
            return func.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd](*args, **kwargs)
    raise ModelError(f"{plan.public} is an operator with functions inside, which flopwise does not know")


def _cond(
    recorder: Recorder, plan: Plan, pred: Any, true_fn: Function, false_fn: Function, operands: Args = ()
) -> object:
    """The result of one of two branches; where the condition is not known both are recorded, as the bodies of an If."""
    if recorder.real or not isinstance(pred, TorchTensor):
        return (true_fn if pred else false_fn)(*operands)
    with recorder.aside():
        elements = recorder.stand_ins.elements_of(pred)
        names = made_up(elements)
    if elements is not None and all(map(is_mask, names)):
        with recorder.aside():
            recorder.values.ask(elements, plan.public)
            chosen = true_fn if elements else false_fn
        return chosen(*operands)
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


def _scan(
    recorder: Recorder, plan: Plan, combine: Function, init: Args, xs: Sequence[TorchTensor], more: Args = ()
) -> tuple[object, ...]:
    """A run for each index of the first axis, each with what the one before carried on."""
    state, rows = tuple(init), []
    for i in range(xs[0].shape[0]):
        values = tuple(combine(*state, *[x[i] for x in xs], *more))
        state = values[: len(state)]
        rows.append(values[len(state) :])
    return (*state, *[torch.stack(column) for column in zip(*rows, strict=True)])


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
        shape = (*query.shape[:-1], key.shape[-2])
        places = [[n if i == axis else 1 for i in range(4)] for axis, n in enumerate(shape)]
        indices = [torch.empty(place, dtype=torch.int64, device=META) for place in places]
        scores = torch.empty(shape, dtype=query.dtype, device=META)
        for tensor in (scores, *indices):
            stand_ins.result(tensor)
        before = len(recorder.events)
        try:
            with recorder:
                change(scores, *indices)
        except Exception:  # it needs a single score: what it does is unknown
            del recorder.events[before:]
            plan = synthetic("flex.score_mod", getattr(change, "__name__", "score_mod"))
            recorder.write(plan, scores.new_empty(shape), (stand_ins.graphed(scores),), {})
    plan = synthetic("aten.flex_attention", "torch.nn.attention.flex_attention.flex_attention")
    pairs = pairs_of_block_mask(args[4] if len(args) > 4 else None, query, key)
    recorder.write(plan, out, tuple(map(stand_ins.graphed, used)), pairs)
    return out, query.new_empty(query.shape[:-1], dtype=torch.float32), query.new_empty(query.shape[:-1])


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


def _launched(
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


def record_launch(recorder: Recorder, kernel: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Write down the launch of a kernel, which may write into all of its tensors but the stored ones."""
    while not isinstance(getattr(kernel, "__name__", None), str) and hasattr(kernel, "fn"):
        kernel = kernel.fn  # around its function stands what chooses its options
    name = f"triton.{getattr(kernel, '__name__', type(kernel).__name__)}"
    stand_ins = recorder.stand_ins
    with torch._C.DisableTorchFunction():
        swapped, named = (args, kwargs) if recorder.real else (stand_ins.swap(list(args)), stand_ins.swap(dict(kwargs)))
        tensors = flat((*swapped, *named.values()))
        targets = [t for t in tensors if stand_ins.tensor_of(t).kind not in (*STORED, "input")]
        graphed = tuple(stand_ins.graphed(list(swapped)))
        recorder.write(synthetic(name, name), None, graphed, stand_ins.graphed(dict(named)), targets)
        for target in targets:
            stand_ins.values.lose(target)


_OWN: dict[str, Function] = {
    "cond": _cond,
    "scan": _scan,
    "out_dtype": lambda recorder, plan, operator, dtype, *operands: operator(*operands).to(dtype),
    "triton_kernel_wrapper_mutation": _launched,
    "triton_kernel_wrapper_functional": _launched,
}

#: Operators that PyTorch has a rule in Python for, whose operations are recorded.
_RULES = "while_loop map_impl hints_wrapper auto_functionalized auto_functionalized_v2 with_effects strict_mode"
_DENSE = frozenset(_RULES.split())

#: Operators that set something around a function -> its position among the arguments.
_SETTINGS = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}

#: Operators that call their first argument -> the position of what it is called with.
_CALLS = {"wrap": 1, "invoke_subgraph": 2, "wrap_activation_checkpoint": 1, "tag_activation_checkpoint": 1}
