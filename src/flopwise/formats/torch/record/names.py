"""Functions of PyTorch: their names, how the recorder meets each, and which arguments it writes into.

A function in none of the tables is recorded as an operator.
"""

from __future__ import annotations

import dis
import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.kinds import Function, Namespace
from flopwise.formats.torch.record.values import flat


def _names(text: str) -> frozenset[str]:
    """The names in a text."""
    return frozenset(text.split())


#: Special methods of Python's operators -> the ATen name.
SIGNS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_", "__mul__": "mul",
    "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_", "__div__": "div",
    "__idiv__": "div_", "__matmul__": "matmul", "__imatmul__": "matmul_", "__mod__": "remainder",
    "__imod__": "remainder_", "__ifloordiv__": "floor_divide_", "__ipow__": "pow_", "__and__": "bitwise_and",
    "__rand__": "bitwise_and", "__iand__": "bitwise_and_", "__or__": "bitwise_or", "__ror__": "bitwise_or",
    "__ior__": "bitwise_or_", "__xor__": "bitwise_xor", "__rxor__": "bitwise_xor", "__ixor__": "bitwise_xor_",
    "__lshift__": "bitwise_left_shift", "__ilshift__": "bitwise_left_shift_", "__rshift__": "bitwise_right_shift",
    "__irshift__": "bitwise_right_shift_", "__invert__": "bitwise_not", "__neg__": "neg", "__pos__": "positive",
    "__abs__": "abs", "__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
    "__getitem__": "getitem", "__setitem__": "setitem_",
}  # fmt: skip

#: Method -> the sign that a program writes for it. Reflected operators (``__radd__``) end in the same methods.
SIGN_OF_METHOD = {bare: sign for sign, bare in SIGNS.items() if not sign.startswith("__r") or sign == "__rshift__"}

#: Attributes whose reading makes a view.
VIEWS = {"T": "numpy_T", "mT": "mT", "H": "matrix_H", "mH": "mH", "data": "detach", "real": "real", "imag": "imag"}

#: Functions whose result depends on the elements and is not a tensor.
VALUES = _names(
    """
    item tolist __bool__ __int__ __float__ __index__ __complex__ __nonzero__ __long__ is_nonzero equal allclose
    numpy __array__ __format__ __repr__ __str__ _local_scalar_dense __dlpack__
    """
)

#: Functions that say or set something about a tensor and compute nothing, besides those named ``is_...``.
QUESTIONS = _names(
    """
    size dim stride numel nelement element_size storage_offset data_ptr get_device requires_grad_ register_hook
    register_post_accumulate_grad_hook retain_grad __hash__ __len__ __dir__ __reduce_ex__ ndimension untyped_storage
    storage storage_type _is_view _version names rename rename_ has_names sym_size sym_numel result_type can_cast
    promote_types get_default_dtype _is_zerotensor dense_dim sparse_dim q_scale q_zero_point qscheme __get__
    broadcast_shapes _has_compatible_shallow_copy_type __delete__ _typed_storage _use_cudnn_ctc_loss dim_order
    type_as_ _make_subclass cudnn_is_acceptable __cuda_array_interface__ __torch_dispatch__ sym_stride
    sym_storage_offset sym_is_contiguous output_nr retains_grad _nnz _dimI _dimV _nested_get_ragged_idx
    _debug_has_internal_overlap _has_same_storage_numel _fused_sdp_choice _use_miopen_ctc_loss _assert_async
    _assert_scalar _assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size _linalg_check_errors
    _validate_sparse_coo_tensor_args _validate_sparse_csr_tensor_args _validate_sparse_csc_tensor_args
    _validate_sparse_bsr_tensor_args _validate_sparse_bsc_tensor_args _validate_sparse_compressed_tensor_args
    _validate_compressed_sparse_indices record_stream
    """
)

#: Functions that make a tensor of a given size from nothing but numbers.
FACTORIES = _names(
    """
    zeros ones full empty arange range linspace logspace eye rand randn randint randperm tensor as_tensor
    scalar_tensor empty_strided tril_indices triu_indices normal from_file complex polar asarray vander
    sparse_coo_tensor sparse_csr_tensor empty_permuted cartesian_prod bartlett_window blackman_window hamming_window
    hann_window kaiser_window
    """
)

#: Functions that move a tensor to another device or type.
MOVES = frozenset(["to", "cpu", "cuda", "xpu", "mps", "ipu", "hpu", "mtia", "pin_memory", "type"])

#: Python functions that are recorded whole: looked into, they would call themselves without end.
OPAQUE = frozenset(["multi_margin_loss"])

#: Namespaces of PyTorch's own operators, in which a name says what an operator does.
_OWN = frozenset({"aten", "prims", "prim"})

#: The instructions that signs become.
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


class Target(NamedTuple):
    """An argument that an operator writes into."""

    #: Its place among the positional arguments; None where it is given by name alone.
    position: int | None
    name: str


#: The argument in which the functions of PyTorch take a tensor, or several, for their result.
OUT = Target(None, "out")

Way = Literal[
    "record", "through", "ask", "factory", "like", "values", "device", "move", "set", "higher", "lower", "detach"
]  # fmt: skip


class Plan(NamedTuple):
    """The names of a function, the way in which it is recorded, and the arguments that it writes into."""

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


_PLANS: dict[object, Plan] = {}


def plan_of(function: Any) -> Plan:
    """The plan for any function that ``__torch_function__`` or ``__torch_dispatch__`` receives, made once."""
    plan = _PLANS.get(function)
    if plan is None:
        plan = _PLANS[function] = _plan(function)
    return plan


def synthetic(name: str, public: str) -> Plan:
    """A plan for an operation that is not a function of PyTorch; it is never called."""
    return Plan("record", name, public, lambda: None)


def _plan(function: Any) -> Plan:
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return _operator(function)
    if isinstance(function, torch._ops.HigherOrderOperator):
        name = str(function._name)
        return Plan("higher", f"higher.{name}", f"torch.ops.higher_order.{name}", function)
    name = getattr(function, "__name__", type(function).__name__)
    if name in ("__get__", "__set__", "__delete__"):
        return _attribute(function, name)
    public = _public(function, name)
    if function in (torch.autograd.grad, torch.autograd.backward, TorchTensor.backward):
        return Plan("lower", f"autograd.{name}", public, function)
    bare = SIGNS.get(name, name)
    way = _way(bare)
    if way in ("values", "ask"):
        return Plan(way, f"aten.{bare}", public, function)
    if isinstance(function, types.FunctionType) and name not in OPAQUE:
        return _python(function, public, bare)
    space = "quantized" if "quantized" in public else "aten"
    sign = f"torch.Tensor.{SIGN_OF_METHOD[bare]}" if public == f"torch.Tensor.{bare}" and bare in SIGN_OF_METHOD else ""
    return Plan(way, f"{space}.{bare}", public, function, targets_of_function(bare), sign)


def _way(bare: str) -> Way:
    """The way in which a function of PyTorch's is recorded, by its ATen name."""
    if bare in VALUES:
        return "values"
    if bare in QUESTIONS or bare.startswith("is_"):
        return "ask"
    if bare in FACTORIES:
        return "factory"
    if bare in MOVES:
        return "move"
    if bare == "new" or bare.startswith("new_") or bare.endswith("_like"):
        return "like"
    return "detach" if bare == "detach" else "record"


def _operator(function: Any) -> Plan:
    """The plan for an operator of the dispatcher, by one of its overloads or by all."""
    schema: Any = getattr(function, "_schema", None)  # a packet of overloads has none
    qualified: str = schema.name if schema else function._qualified_op_name
    space, _, name = qualified.partition("::")
    way = _way(name) if space in _OWN else "record"
    way = "record" if way in ("move", "like") else way
    base = f"{space}.{name}"
    writes = targets_of_operator(qualified, [schema] if schema else None)
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


#: Looks up the overloads of an operator by its name ("aten::add").
schemas: Any = torch._C._jit_get_schemas_for_operator


def targets_of_function(name: str) -> tuple[Target, ...]:
    """The arguments that a function of PyTorch's writes into beside ``out``, by its bare name ("add_")."""
    targets = tuple([t for t in targets_of_operator(f"aten::{name}") if t.position is not None])
    return targets or ((Target(0, "input"),) if name.endswith("_") and not name.endswith("__") else ())


def targets_of_operator(name: str, overloads: Sequence[Any] | None = None) -> tuple[Target, ...]:
    """The arguments that an operator ("aten::add_") writes into, whichever of its overloads runs.

    TorchScript has overloads of the same names for its lists, which no kernel computes.
    """
    return tuple(
        {
            Target(None if argument.kwarg_only else position, argument.name): None
            for schema in (schemas(name) if overloads is None else overloads)
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
            if torch._C._dispatch_has_kernel(schema.name + f".{schema.overload_name}" * bool(schema.overload_name))
        }
    )


def written(writes: Sequence[Target], args: Sequence[object], kwargs: Mapping[str, object]) -> list[TorchTensor]:
    """The tensors that a call writes into, each once.

    Args:
        writes: the arguments that its operator writes into, beside ``out``.
        args: what it is called with.
        kwargs: likewise.
    """
    tensors: dict[int, TorchTensor] = {}
    for position, name in (*writes, OUT):
        if position is not None and position < len(args):
            argument = args[position]
        else:
            argument = kwargs.get(name, kwargs.get("input") if name == "self" else None)
        tensors.update((id(tensor), tensor) for tensor in flat((argument,)))
    return list(tensors.values())
