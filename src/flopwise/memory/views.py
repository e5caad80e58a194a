"""Which results need no storage of their own: views of an input, and results that may overwrite one."""

from __future__ import annotations

from flopwise.graph import Node, Tensor
from flopwise.operators.tables import row

_TORCH = (
    "alias as_strided broadcast_to chunk detach diagonal dsplit expand expand_as flatten hsplit imag lift_fresh "
    "matrix_H mH mT moveaxis movedim narrow numpy_T permute positive ravel real reshape reshape_as select slice split "
    "split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind unflatten unfold unsqueeze "
    "unsafe_chunk unsafe_split view view_as vsplit"
)

#: PyTorch's functions that give a view of their first argument, which may be a part of it or be strided.
_TORCH_VIEWS: frozenset[str] = frozenset("aten." + name for name in _TORCH.split())


def shared(node: Node) -> dict[int, int]:
    """Position of each output that shares the storage of an input -> position of that input.

    A copy may happen all the same where a runtime wants one; Split, Slice and Transpose are views in PyTorch, and
    copies in the runtimes of files.
    """
    if not node.has_input(0):
        return {}
    if node.origin.startswith("aten."):
        if node.origin.endswith("_") and not node.origin.endswith("__"):  # in place
            return {0: 0}
        if node.origin in _TORCH_VIEWS:
            return dict.fromkeys(range(len(node.outputs)), 0)
    view = row(node.op).view
    after = node.outputs[0] if view is not None and node.outputs else None
    return {0: 0} if view and after is not None and _alike(node.input(0), after) and view(node) else {}


def in_place_in_caffe(node: Node) -> bool:
    """Whether a Caffe layer writes into its first bottom: the reader calls what it makes there BOTTOM@LAYER."""
    before, after = node.inputs[0], node.outputs[0] if node.outputs else None
    if before is None or after is None or before.shape != after.shape:
        return False
    return after.name == f"{before.name.partition('@')[0]}@{node.name}"


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors take the same bytes in the same type."""
    if one.items is not None or other.items is not None or not (one.sized and other.sized):
        return False
    return one.dtype == other.dtype and one.nbytes == other.nbytes


def may_overwrite(node: Node) -> list[int]:
    """Positions of the inputs that the first result could overwrite, in order of preference; () where it must not.

    Whether somebody still needs the input is for the caller to say.
    """
    if not row(node.op).in_place or len(node.known_outputs) != 1 or not node.outputs or node.outputs[0] is None:
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
