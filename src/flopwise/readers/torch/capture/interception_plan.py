"""The interception plan: which functions are recorded, looked into, answered at once, or left alone."""

from __future__ import annotations

import dis
import math
import types
from typing import Any, Literal, NamedTuple

import torch

from flopwise.formats.torch.kinds import Function, Namespace
from flopwise.readers.torch.capture.functions import FACTORIES, MOVES, OPAQUE, QUESTIONS, SIGNS, VALUES, VIEWS, is_like
from flopwise.readers.torch.capture.writes import (
    Target,
    targets_of_function,
    targets_of_operator,
    targets_of_schemas,
)

#: Method -> the sign that a program writes for it. Reflected operators (``__radd__``) end in the same methods.
SIGN_OF_METHOD = {bare: sign for sign, bare in SIGNS.items() if not sign.startswith("__r") or sign == "__rshift__"}

#: The codes of the instructions that signs become.
_INSTRUCTIONS = frozenset(
    code for name, code in dis.opmap.items() if name.startswith(("BINARY_", "INPLACE_")) and "SUBSCR" not in name
)


def is_sign(frame: types.FrameType) -> bool:
    """True if a program wrote an operator as a sign (``a + b``) and did not call the method (``a.add(b)``).

    PyTorch hands both over as ``torch.Tensor.add``. Tools that replace the methods of the class see the call and miss
    the sign, so conventions that reproduce them (ptflops, deepspeed) need the difference; the instruction that the
    program is at is the only place where it shows.
    """
    return frame.f_code.co_code[frame.f_lasti] in _INSTRUCTIONS


Way = Literal[
    "record",
    "through",
    "ask",
    "factory",
    "like",
    "values",
    "device",
    "move",
    "set",
    "higher",
    "lower",
    "each",
    "detach",
]


class Plan(NamedTuple):
    """The interception of a function: the way it is recorded, its names, and the arguments that it writes into."""

    way: Way
    #: The ATen name with its namespace, in-place ones with a trailing underscore ("aten.add_").
    name: str
    #: The name under which a program knows it ("torch.nn.functional.relu").
    public: str
    #: What to call: the function, or its copy that does not call ``__torch_function__`` again.
    call: Function
    #: The arguments that it writes into, beside ``out``.
    writes: tuple[Target, ...] = ()
    #: The name under which a program knows it when it writes it as a sign ("torch.Tensor.__add__").
    sign: str = ""
    #: Whether it is an operator that is not PyTorch's own.
    foreign: bool = False


#: Names in the globals of a Python function that decide whether it calls ``__torch_function__``.
_OVERRIDE_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")

_GLOBALS: dict[int, Namespace] = {}


def _whole(number: Any) -> object:
    """A number without its fraction, as ``torch.sym_int``; what a ratio of sizes gives stays a size."""
    return math.trunc(number) if hasattr(number, "over") else torch.sym_int(number)  # type: ignore[no-untyped-call]


def _plain(function: types.FunctionType) -> types.FunctionType:
    """A copy of a Python function that runs at once, without calling ``__torch_function__`` first."""
    scope = _GLOBALS.get(id(function.__globals__))
    if scope is None:
        scope = {**function.__globals__, **dict.fromkeys(_OVERRIDE_CHECKS, lambda *tensors: False), "_sym_int": _whole}
        _GLOBALS[id(function.__globals__)] = scope
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _public(function: object, name: str) -> str:
    """The name under which a program reaches a function ("torch.nn.functional.relu")."""
    module = getattr(function, "__module__", None) or ""
    owner = getattr(function, "__qualname__", name).rpartition(".")[0]
    if owner in ("TensorBase", "Tensor") or module == "torch._tensor":
        return f"torch.Tensor.{name}"
    if module == "torch._C._nn" or (owner == "" and hasattr(torch.nn.functional, name) and module != "torch"):
        return f"torch.nn.functional.{name}"
    if owner.startswith("_VariableFunctions") or module in ("torch", "torch.functional", "torch._VF"):
        return f"torch.{name}"
    if "boolean_dispatch" in owner:
        return f"torch.nn.functional.{name}"
    return f"{module}.{name}" if module else name


#: What the names of operators on lists of tensors begin with.
FOREACH = "_foreach_"

_OPERATORS: Any = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)

#: Namespaces of PyTorch's own operators, in which a name says what an operator does.
_OWN = frozenset({"aten", "prims", "prim"})


def plan_of(function: Any) -> Plan:
    """The plan for any function that ``__torch_function__`` or ``__torch_dispatch__`` receives."""
    if isinstance(function, _OPERATORS):
        return _operator(function)
    if isinstance(function, torch._ops.HigherOrderOperator):
        name = str(function._name)
        return Plan("higher", f"higher.{name}", f"torch.ops.higher_order.{name}", function)
    name = getattr(function, "__name__", type(function).__name__)
    if name in ("__get__", "__set__", "__delete__"):
        return _attribute(function, name)
    public = _public(function, name)
    if function in (torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward):
        return Plan("lower", f"autograd.{name}", public, function)
    bare = SIGNS.get(name, name)
    if bare in VALUES:
        return Plan("values", f"aten.{bare}", public, function)
    if bare in QUESTIONS or bare.startswith("is_"):
        return Plan("ask", f"aten.{bare}", public, function)
    if isinstance(function, types.FunctionType) and name not in OPAQUE:
        return _python(function, public, bare)
    way: Way = "each" if bare.startswith(FOREACH) else "factory" if bare in FACTORIES else "record"
    way = "like" if is_like(bare) else "move" if bare in MOVES else "detach" if bare == "detach" else way
    space = "quantized" if "quantized" in public else "aten"
    sign = f"torch.Tensor.{SIGN_OF_METHOD[bare]}" if public == f"torch.Tensor.{bare}" and bare in SIGN_OF_METHOD else ""
    return Plan(way, f"{space}.{bare}", public, function, targets_of_function(bare), sign)


def _operator(function: Any) -> Plan:
    """The plan for an operator of the dispatcher, by one of its overloads or by all."""
    schema: Any = getattr(function, "_schema", None)  # a packet of overloads has none
    qualified: str = schema.name if schema else function._qualified_op_name
    space, _, name = qualified.partition("::")
    way: Way = "record"
    if space in _OWN:
        if name in VALUES:
            way = "values"
        elif name in QUESTIONS or name.startswith("is_"):
            way = "ask"
        elif name in FACTORIES:
            way = "factory"
        elif name.startswith(FOREACH):
            way = "each"
        elif name == "detach":
            way = "detach"
    writes = targets_of_schemas([schema]) if schema else targets_of_operator(qualified)
    base = f"{space}.{name}"
    return Plan(way, base, f"torch.ops.{base}", function, writes, foreign=space not in _OWN)


def _attribute(function: Function, name: str) -> Plan:
    """The plan for reading or writing an attribute of a tensor."""
    attribute = getattr(getattr(function, "__self__", None), "__name__", "")
    public = f"torch.Tensor.{attribute}"
    if name == "__set__":
        return Plan("set", f"aten.{attribute}", public, function)
    if attribute in ("device", "is_meta"):
        return Plan("device", f"aten.{attribute}", public, function)
    if attribute in VIEWS:
        name = VIEWS[attribute]
        return Plan("detach" if name == "detach" else "record", f"aten.{name}", public, function)
    return Plan("ask", f"aten.{attribute}", public, function)


def _python(function: types.FunctionType, public: str, bare: str) -> Plan:
    """The plan for a function of PyTorch's Python layer: the operations inside it are recorded."""
    choice: Any = torch._jit_internal.boolean_dispatched.get(function)
    if choice is None:
        return Plan("through", f"aten.{bare}", public, _plain(function))
    # One of two functions, chosen by a flag; both would call ``__torch_function__`` again, so the choice is made here.
    either = {key: _plain(choice[key]) for key in ("if_true", "if_false")}
    index, argument, default = choice["index"], choice["arg_name"], choice["default"]

    def chosen(*args: object, **kwargs: Any) -> Any:
        flag = kwargs.get(argument, args[index] if index < len(args) else default)
        return either["if_true" if flag else "if_false"](*args, **kwargs)

    name = choice["if_false"].__name__.lstrip("_")
    package = "torch" if function.__module__ == "torch.functional" else "torch.nn.functional"
    return Plan("through", f"aten.{name}", f"{package}.{name}", chosen)


def synthetic(name: str, public: str) -> Plan:
    """A plan for an operation that is not a function of PyTorch; it is never called."""
    return Plan("record", name, public, _not_called)


def _not_called(*args: object) -> None:
    raise AssertionError("an operation that is only written down was called")
