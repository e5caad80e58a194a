"""Which results need no storage of their own: views of an input, and results that may overwrite one."""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.graph import Node, Tensor

#: Operators whose first result holds the elements of their first input in the same order.
VIEWS: frozenset[str] = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})

#: Operators that hand a single input on unchanged: a sum of one, a list of one.
_OF_ONE: frozenset[str] = frozenset({"Concat", "Sum", "Max", "Min", "Mean"})

#: Operators that do nothing where they leave the shape as it was.
_BY_SHAPE: frozenset[str] = frozenset({"Expand", "Tile", "Pad", "CenterCropPad"})

_TORCH = (
    "alias as_strided broadcast_to chunk detach diagonal dsplit expand expand_as flatten hsplit imag lift_fresh "
    "matrix_H mH mT moveaxis movedim narrow numpy_T permute positive ravel real reshape reshape_as select slice split "
    "split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind unflatten unfold unsqueeze "
    "unsafe_chunk unsafe_split view view_as vsplit"
)

#: PyTorch's functions that give a view of their first argument, which may be a part of it or be strided.
_TORCH_VIEWS: frozenset[str] = frozenset("aten." + name for name in _TORCH.split())

_POINTWISE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BatchNormalization BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast "
    "CastLike Ceil Celu Clip Cos Cosh Div Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Max Mean Min Mish "
    "Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub "
    "Sum Swish Tan Tanh ThresholdedRelu Where Xor"
)

#: Operators that compute each element of the result from the elements at the same place: the result may overwrite an
#: input of its size that nobody needs any more.
_ELEMENTWISE: frozenset[str] = frozenset(_POINTWISE.split())


#: Operators that may be views, outside PyTorch.
_MAY_BE_VIEWS: frozenset[str] = VIEWS | _OF_ONE | _BY_SHAPE | {"Cast", "CastLike", "Slice", "Split", "Transpose"}


def shared(node: Node) -> dict[int, int]:
    """Position of each output that shares the storage of an input -> position of that input.

    A copy may happen all the same where a runtime wants one; Split, Slice and Transpose are views in PyTorch, and
    copies in the runtimes of files.
    """
    if node.origin.startswith("aten."):
        return _shared_in_torch(node) if node.has_input(0) else {}
    if node.op not in _MAY_BE_VIEWS or not node.has_input(0) or not node.outputs:
        return {}
    return {0: 0} if _whole(node) else {}


def _shared_in_torch(node: Node) -> dict[int, int]:
    if node.origin.endswith("_") and not node.origin.endswith("__"):  # in place
        return {0: 0}
    if node.origin in _TORCH_VIEWS:
        return dict.fromkeys(range(len(node.outputs)), 0)
    return {0: 0} if node.outputs and node.op in _MAY_BE_VIEWS and _whole(node) else {}


def in_place_in_caffe(node: Node) -> bool:
    """Whether a Caffe layer writes into its first bottom: the reader calls what it makes there BOTTOM@LAYER."""
    before, after = node.inputs[0], node.outputs[0] if node.outputs else None
    if before is None or after is None or before.shape != after.shape:
        return False
    return after.name == f"{before.name.partition('@')[0]}@{node.name}"


def _whole(node: Node) -> bool:
    """Whether the first result is the first input, element by element."""
    before, after = node.input(0), node.outputs[0]
    if after is None or not _alike(before, after):
        return False
    if node.op in VIEWS:
        return node.op != "Dropout" or not _drops(node)
    same = before.shape == after.shape
    if node.op in _OF_ONE:
        return same and len(node.known_inputs) == 1
    if node.op in ("Cast", "CastLike"):
        return same and before.dtype is not None
    if node.op in _BY_SHAPE:
        return same
    if node.op == "Slice":  # steps could turn the order round
        return same and not node.has_input(4) and "steps" not in node.attrs
    if node.op == "Split":
        return same and len(node.outputs) == 1
    return node.op == "Transpose" and _keeps_order(before, node.attrs.get("perm"))


def _drops(node: Node) -> bool:
    """Whether a program runs a Dropout as in training, which gives a tensor of its own."""
    given = node.attrs.get("args")
    return isinstance(given, Mapping) and bool(given.get("train", given.get("training", False))) and given.get("p") != 0


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors take the same bytes in the same type."""
    if one.items is not None or other.items is not None or not (one.sized and other.sized):
        return False
    return one.dtype == other.dtype and one.nbytes == other.nbytes


def _keeps_order(tensor: Tensor, perm: object) -> bool:
    """Whether a transposition moves axes of extent 1 only."""
    if not isinstance(perm, list | tuple) or tensor.shape is None or len(perm) != len(tensor.shape):
        return False
    moved = [axis for axis in perm if isinstance(axis, int) and 0 <= axis < len(perm) and tensor.shape[axis] != 1]
    return moved == sorted(moved)


def may_overwrite(node: Node) -> list[int]:
    """Positions of the inputs that the first result could overwrite, in order of preference; () where it must not.

    Whether somebody still needs the input is for the caller to say.
    """
    if node.op not in _ELEMENTWISE or len(node.known_outputs) != 1 or not node.outputs or node.outputs[0] is None:
        return []
    result = node.outputs[0]
    return [
        index
        for index, tensor in enumerate(node.inputs)
        if tensor is not None
        and tensor.sized
        and result.sized
        and tensor.shape == result.shape
        and tensor.nbytes == result.nbytes
    ]
