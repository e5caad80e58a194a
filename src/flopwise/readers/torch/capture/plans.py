"""How to watch each function that PyTorch hands over: which ones are looked into, recorded, asked, or left alone."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

Way = Literal["record", "through", "ask", "factory", "like", "values", "device", "move", "set", "higher", "lower"]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What to do when a function is called."""

    way: Way
    #: The ATen name with its namespace, in-place ones with a trailing underscore ("aten.add_").
    name: str
    #: The name under which a program knows it ("torch.nn.functional.relu").
    public: str
    #: What to call: the function, or its copy that does not hand itself over again.
    call: Callable[..., Any]
    #: Whether it writes into its first argument.
    inplace: bool = False
    #: The name under which a program knows it when it writes it as a sign ("torch.Tensor.__add__").
    sign: str = ""


#: The names of operators that the language writes as signs.
_SIGNS = {
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

#: Methods that a program also calls by a sign, which look the same from the inside.
_WRITTEN = {bare: sign for sign, bare in _SIGNS.items() if not sign.startswith("__r") or sign == "__rshift__"}

#: The codes of the instructions that signs become.
_INSTRUCTIONS = frozenset(
    code for name, code in dis.opmap.items() if name.startswith(("BINARY_", "INPLACE_")) and "SUBSCR" not in name
)


def is_sign(frame: types.FrameType) -> bool:
    """Whether what a program is just doing is written as a sign."""
    return frame.f_code.co_code[frame.f_lasti] in _INSTRUCTIONS


#: Attributes whose reading makes a view.
_VIEWS = {"T": "numpy_T", "mT": "mT", "H": "matrix_H", "mH": "mH", "data": "detach", "real": "real", "imag": "imag"}

#: Functions whose answer depends on the elements and is no tensor.
_VALUES = frozenset(
    [
        "item",
        "tolist",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "__complex__",
        "__nonzero__",
        "__long__",
        "is_nonzero",
        "equal",
        "allclose",
        "numpy",
        "__array__",
        "__contains__",
        "__format__",
        "__repr__",
        "__str__",
        "is_same_size",
        "_local_scalar_dense",
        "__dlpack__",
    ]
)

#: Functions that say or set something about a tensor and compute nothing.
_ASKED = frozenset(
    [
        "size",
        "dim",
        "stride",
        "numel",
        "nelement",
        "element_size",
        "storage_offset",
        "is_contiguous",
        "is_floating_point",
        "is_complex",
        "is_signed",
        "is_conj",
        "is_neg",
        "is_inference",
        "is_pinned",
        "is_set_to",
        "is_shared",
        "is_sparse",
        "is_tensor",
        "data_ptr",
        "get_device",
        "requires_grad_",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "retain_grad",
        "__hash__",
        "__len__",
        "__dir__",
        "__reduce_ex__",
        "ndimension",
        "untyped_storage",
        "storage",
        "storage_type",
        "_is_view",
        "_version",
        "names",
        "rename",
        "rename_",
        "has_names",
        "is_coalesced",
        "is_distributed",
        "sym_size",
        "sym_numel",
        "result_type",
        "can_cast",
        "promote_types",
        "is_storage",
        "get_default_dtype",
        "is_grad_enabled",
        "_is_zerotensor",
        "dense_dim",
        "sparse_dim",
        "q_scale",
        "q_zero_point",
        "qscheme",
        "__get__",
        "broadcast_shapes",
        "_has_compatible_shallow_copy_type",
        "is_vulkan_available",
        "is_autocast_available",
        "__delete__",
        "_typed_storage",
        "_use_cudnn_ctc_loss",
        "dim_order",
        "type_as_",
        "_make_subclass",
        "cudnn_is_acceptable",
        "is_inference_mode_enabled",
        "__cuda_array_interface__",
        "__torch_dispatch__",
    ]
)

#: Functions that make a tensor of a given size from nothing but numbers.
_FACTORIES = frozenset(
    [
        "zeros",
        "ones",
        "full",
        "empty",
        "arange",
        "range",
        "linspace",
        "logspace",
        "eye",
        "rand",
        "randn",
        "randint",
        "randperm",
        "tensor",
        "as_tensor",
        "scalar_tensor",
        "empty_strided",
        "tril_indices",
        "triu_indices",
        "normal",
        "from_file",
        "bartlett_window",
        "blackman_window",
        "hamming_window",
        "hann_window",
        "kaiser_window",
        "complex",
        "polar",
        "asarray",
        "vander",
        "sparse_coo_tensor",
        "sparse_csr_tensor",
        "empty_permuted",
        "cartesian_prod",
    ]
)

#: Functions that make a tensor of the size of another, or of its type, whatever its elements are.
_LIKES = frozenset(
    [
        "zeros_like",
        "ones_like",
        "full_like",
        "empty_like",
        "rand_like",
        "randn_like",
        "randint_like",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "new_empty_strided",
        "new_tensor",
        "new",
    ]
)

#: Functions that move a tensor to another device or type.
_MOVES = frozenset(["to", "cpu", "cuda", "xpu", "mps", "ipu", "hpu", "mtia", "pin_memory", "type"])

#: Functions that look at grad mode or the like and would hand themselves over for ever.
_WHOLE = frozenset(["multi_margin_loss"])

#: Names in the globals of a Python function that decide whether it hands itself over.
_HANDING = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")

_SEEN_THROUGH: dict[int, dict[str, Any]] = {}


def _never(*tensors: object) -> bool:
    return False


def _plain(function: types.FunctionType) -> types.FunctionType:
    """A copy of a Python function that runs at once instead of handing itself over first."""
    around = _SEEN_THROUGH.get(id(function.__globals__))
    if around is None:
        around = {**function.__globals__, **dict.fromkeys(_HANDING, _never)}
        _SEEN_THROUGH[id(function.__globals__)] = around
    copy = types.FunctionType(function.__code__, around, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _public(function: Any, name: str) -> str:
    """Where a program finds a function."""
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


def plan_of(function: Any) -> Plan:
    """How to watch a function, whatever it is."""
    if isinstance(function, torch._ops.OpOverload):
        space, _, name = function._schema.name.partition("::")
        base, inplace = f"{space}.{name}", function._schema.is_mutable and name.endswith("_")
        way: Way = "values" if name in _VALUES else "factory" if name in _FACTORIES else "record"
        return Plan(way, base, f"torch.ops.{base}", function, inplace)
    if isinstance(function, torch._ops.OpOverloadPacket):
        base = function._qualified_op_name.replace("::", ".")
        name = base.rpartition(".")[2]
        way = "values" if name in _VALUES else "factory" if name in _FACTORIES else "record"
        return Plan(way, base, f"torch.ops.{base}", function, name.endswith("_"))
    if isinstance(function, torch._ops.HigherOrderOperator):
        name = str(function._name)
        return Plan("higher", f"higher.{name}", f"torch.ops.higher_order.{name}", function)
    name = getattr(function, "__name__", type(function).__name__)
    if name in ("__get__", "__set__", "__delete__"):
        return _attribute(function, name)
    public = _public(function, name)
    if function in (torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward):
        return Plan("lower", f"autograd.{name}", public, function)
    bare = _SIGNS.get(name, name)
    if bare in _VALUES:
        return Plan("values", f"aten.{bare}", public, function)
    if bare in _ASKED:
        return Plan("ask", f"aten.{bare}", public, function)
    if isinstance(function, types.FunctionType) and name not in _WHOLE:
        return _python(function, public, bare)
    way = "factory" if bare in _FACTORIES else "like" if bare in _LIKES else "move" if bare in _MOVES else "record"
    inplace = bare.endswith("_") and not bare.endswith("__")
    space = "quantized" if "quantized" in public else "aten"
    sign = f"torch.Tensor.{_WRITTEN[bare]}" if public == f"torch.Tensor.{bare}" and bare in _WRITTEN else ""
    return Plan(way, f"{space}.{bare}", public, function, inplace, sign)


def _attribute(function: Any, name: str) -> Plan:
    """Reading or writing an attribute of a tensor."""
    attribute = getattr(getattr(function, "__self__", None), "__name__", "")
    public = f"torch.Tensor.{attribute}"
    if name == "__set__":
        return Plan("set", f"aten.{attribute}", public, function)
    if attribute == "device":
        return Plan("device", "aten.device", public, function)
    if attribute in _VIEWS:
        return Plan("record", f"aten.{_VIEWS[attribute]}", public, function)
    return Plan("ask", f"aten.{attribute}", public, function)


def _python(function: types.FunctionType, public: str, bare: str) -> Plan:
    """A function of PyTorch's Python layer: its inside is watched."""
    choice: Any = torch._jit_internal.boolean_dispatched.get(function)
    if choice is None:
        return Plan("through", f"aten.{bare}", public, _plain(function))
    # One of two functions by a flag, both of which hand the choice over: it is made here.
    either = {key: _plain(choice[key]) for key in ("if_true", "if_false")}
    index, argument, default = choice["index"], choice["arg_name"], choice["default"]

    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(argument, args[index] if index < len(args) else default)
        return either["if_true" if flag else "if_false"](*args, **kwargs)

    name = choice["if_false"].__name__.lstrip("_")
    package = "torch" if function.__module__ == "torch.functional" else "torch.nn.functional"
    return Plan("through", f"aten.{name}", f"{package}.{name}", chosen)
