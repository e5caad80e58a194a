"""The bytes that an operator reads and writes, and the results that need no storage of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flopwise.graph import Node, Tensor
from flopwise.operators.inputs import unpacked
from flopwise.operators.size import smaller
from flopwise.operators.tables import row
from flopwise.storage.experts import GROUPED

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
    if node.fused:
        return {0: 0}
    if node.origin.startswith("aten."):
        if node.origin.endswith("_") and not node.origin.endswith("__"):  # in place
            return {0: 0}
        if node.origin in _TORCH_VIEWS:
            return dict.fromkeys(range(len(node.outputs)), 0)
        if node.origin == "aten.getitem":
            return {0: 0} if _is_basic(node.arguments.get("arg1")) else {}
    view = row(node.op).view
    after = node.outputs[0] if view is not None and node.outputs else None
    return {0: 0} if view and after is not None and _same_bytes(node.input(0), after) and view(node) else {}


def _is_basic(index: object) -> bool:
    """True for a subscript that PyTorch gives a view for; elements that tensors, lists and flags pick are copied."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(p is None or p is Ellipsis or (isinstance(p, int | slice) and not isinstance(p, bool)) for p in parts)


def in_place_in_caffe(node: Node) -> bool:
    """True where a Caffe layer writes into its first bottom: the reader calls what it makes there BOTTOM@LAYER."""
    before, after = node.inputs[0], node.outputs[0] if node.outputs else None
    if before is None or after is None or before.shape != after.shape:
        return False
    return after.name == f"{before.name.partition('@')[0]}@{node.name}"


def _same_bytes(one: Tensor, other: Tensor) -> bool:
    """True where two tensors take the same bytes in the same type."""
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


class Traffic(NamedTuple):
    """Bytes moved by one run of an operator; None when a shape is missing."""

    read: int | None
    written: int | None


def traffic(node: Node) -> Traffic:
    """Bytes of the inputs, stored ones included and each once, and bytes of the outputs.

    A view moves nothing. An operator that picks elements reads as many bytes as it writes, and its indices. Of the
    weights of experts no more are read than tokens are routed. An If hands on what its branch makes. Caches are not
    modelled: what does not fit in them is moved more often, and what two neighbours share may be moved less. What is
    fused to the operator before it moves nothing of its own.
    """
    if node.fused:
        return Traffic(0, 0)
    if node.op == "If":
        return Traffic(_total_bytes(node.known_inputs), 0)
    outputs = node.known_outputs
    views = shared(node)
    if views and not node.origin.endswith("_"):  # what works in place writes what it has read
        outputs = tuple(t for i, t in enumerate(node.outputs) if t is not None and i not in views)
        if not outputs:
            return Traffic(0, 0)
    written = _total_bytes(outputs)
    return Traffic(_read(node, written), written)


def _read(node: Node, written: int | None) -> int | None:
    """Bytes of the inputs that an operator reads which writes so many; None where a shape is missing."""
    effects = row(node.op).effects
    if "shape query" in effects or node.op == "SequenceLength":
        return 0
    inputs = {t.name: t for t in node.inputs if t is not None}
    if "experts" in effects or node.op == GROUPED:
        return _of_experts(node, inputs.values())
    if "picks" not in effects or not node.has_input(0):
        return _total_bytes(inputs.values())
    source = inputs.pop(node.input(0).name)
    source_bytes, others = _total_bytes([source]), _total_bytes(inputs.values())
    if source_bytes is None or others is None or written is None:
        return None
    if "picks quantized" in effects:
        return picked_bytes(node, source) + others
    return smaller(source_bytes, written) + others


def picked_bytes(node: Node, source: Tensor) -> int:
    """Bytes of a tensor, packed or not, that an operator reads which picks as many elements of it as it writes."""
    elements = unpacked(node, row(node.op).inputs).get(source.name, source.numel)
    return smaller(source.nbytes, -(-node.output().numel * source.nbytes // elements)) if elements else 0


def _total_bytes(tensors: Iterable[Tensor]) -> int | None:
    """The sum of the tensors' bytes; None where one is unknown."""
    total = 0
    for tensor in tensors:
        if not tensor.sized:
            return None
        total += tensor.nbytes
    return total


def _of_experts(node: Node, tensors: Iterable[Tensor]) -> int | None:
    """Bytes read by a product with experts: at most the share of as many experts as tokens are routed to."""
    tensors = list(tensors)
    if any(not t.sized for t in tensors) or not node.has_input(1):
        return None
    first, second = node.input(0).dims, node.input(1).dims
    if node.op.startswith("aten::"):
        if len(first) != 2 or len(second) != 3:  # every group has rows of its own
            return _total_bytes(tensors)
        experts, routed = second[0], first[0]
    else:
        tokens = node.input(0).numel // first[-1] if first and first[-1] else 0
        experts, routed = second[-1], tokens * int(node.attrs.get("k", 1))
    if not isinstance(experts, int) or not isinstance(routed, int):
        return _total_bytes(tensors)
    stacks = [t for t in tensors if len(t.dims) > 1 and t.dims[0] == experts and t.name != node.input(0).name]
    others = sum(t.nbytes for t in tensors if not any(t is stack for stack in stacks))
    touched: int = sum(t.nbytes // experts for t in stacks) * smaller(experts, routed) if experts else 0
    return others + touched
