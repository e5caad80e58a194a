"""What a model has to do on any device: multiply-adds by element type, and the bytes that must move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.memory.traffic import picked_bytes, traffic
from flopwise.operators.folding import Folding, fold
from flopwise.profiles.precision import QDQ, TIMES, precision, quantized_before

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
    from flopwise.rows import Row

#: What F(2x2, 3x3) of Winograd's algorithm divides the multiply-adds of a 3x3 convolution of stride 1 by.
WINOGRAD = 2.25

#: Operators that read some slices of their first input, as many elements as they write.
_PICKS = frozenset(
    {"Gather", "GatherElements", "GatherND", "com.microsoft::GatherBlockQuantized", "com.microsoft::GatherPacked"}
)

#: Operators that write some elements of a copy of their first input, which an engine does in place.
_UPDATES = frozenset({"Scatter", "ScatterElements", "ScatterND", "TensorScatter"})

#: Mixtures of experts: attribute with the experts that a token uses.
_EXPERTS = {f"com.microsoft::{op}": "k" for op in ("MoE", "QMoE", "MoEPacked")}


@dataclass(frozen=True, slots=True)
class Work:
    """What one row does; None where it is unknown."""

    #: Multiply-adds of products (``mac`` of the canonical counts).
    macs: int | None
    #: All arithmetic, a multiply-add as two operations.
    flops: int | None
    #: Bytes that the operator reads and writes, gathers only what they pick.
    nbytes: int | None
    #: Element types that are multiplied, such as ("float32",) or ("float32", "int4").
    dtypes: tuple[str, ...]
    #: Whether it is a convolution that Winograd's algorithm can do with fewer multiplications.
    winograd: bool = False


class Movement(NamedTuple):
    """The bytes that one inference has to move at least once, even if everything were fused."""

    weights: int
    inputs: int
    outputs: int
    #: Tensors of unknown size, which are left out.
    unknown: tuple[str, ...]

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.inputs + self.outputs


def works(profile: Profile) -> list[Work]:
    """What each row of a profile does."""
    behind = quantized_before(profile.graph.nodes)
    return [_work(row, behind) for row in profile.rows]


def _work(row: Row, behind: dict[str, str]) -> Work:
    read, written = row.read_bytes, row.written_bytes
    moved = None if read is None or written is None else read + written
    macs, flops = row.macs, row.flops
    if not isinstance(macs, int | None) or not isinstance(flops, int | None):  # a formula in open dimensions
        macs = flops = None
    text = precision(row, behind)
    types = tuple(text.removesuffix(QDQ).split(TIMES))
    return Work(macs, flops, moved if isinstance(moved, int) else None, types, _fits_winograd(row.node))


def _fits_winograd(node: Node) -> bool:
    """Whether a node is a 3x3 convolution of stride 1 without dilation or groups."""
    if node.op not in ("Conv", "com.microsoft.nchwc::Conv", "com.microsoft::FusedConv") or not node.has_input(1):
        return False
    shape = node.input(1).shape
    if shape is None or tuple(shape[2:]) != (3, 3):
        return False
    ones = [node.attrs.get(name) or (1, 1) for name in ("strides", "dilations")]
    return all(set(values) == {1} for values in ones) and node.attrs.get("group", 1) == 1


def must_move(graph: Graph, folding: Folding | None = None) -> Movement:
    """The weights that an inference uses, its inputs and its outputs, each once.

    A table that is only picked from is charged what is picked; of a mixture of experts, the experts that the tokens
    use. An output that continues an input along one axis, as the cache of a language model does, is charged what is
    new.
    """
    folding = folding or fold(graph)
    used: dict[str, int] = {}
    unknown: dict[str, None] = {}
    inputs = {t.name: t for t in graph.inputs}
    read: dict[str, int] = {}
    for position, node in enumerate(graph.nodes):
        if position in folding.positions:
            continue
        stored = folding.stored(node)
        spared = _spared(node)
        largest = max(stored, key=lambda t: t.nbytes if t.sized else 0, default=None)
        for tensor in stored:
            nbytes = _share(node, tensor)
            if nbytes is not None and node.op not in _EXPERTS and (tensor is largest or spared is None):
                nbytes = 0 if spared is None else min(nbytes, max(0, tensor.nbytes - spared))
            if nbytes is None:
                unknown[tensor.name] = None
            else:
                used[tensor.name] = max(used.get(tensor.name, 0), nbytes)
        for tensor in node.known_inputs:
            if tensor.name in inputs and tensor.kind not in STORED and tensor.sized:
                read[tensor.name] = max(read.get(tensor.name, 0), _share(node, tensor) or 0)
    makers = {t.name: node for node in graph.nodes for t in node.known_outputs}
    written = 0
    for tensor in graph.outputs:
        if not tensor.sized or not isinstance(tensor.nbytes, int):
            unknown[tensor.name] = None
            continue
        maker = makers.get(tensor.name)
        written += max(0, tensor.nbytes - (_continued(maker, tensor, inputs) if maker else tensor.nbytes))
    return Movement(sum(used.values()), sum(read.values()), written, tuple(unknown))


def _spared(node: Node) -> int | None:
    """Bytes of a node's inputs that it does not read: experts that no token is routed to; None for a view, which reads
    nothing itself.
    """
    moved = traffic(node)
    inputs = {t.name: t for t in node.known_inputs}
    if moved == (0, 0):
        return None
    if moved.read is None or not all(t.sized for t in inputs.values()):
        return 0
    return max(0, sum(t.nbytes for t in inputs.values()) - moved.read)


def _share(node: Node, tensor: Tensor) -> int | None:
    """The bytes of a tensor that a node reads at least; None when its size is not known."""
    if not tensor.sized or not isinstance(tensor.nbytes, int):
        return None
    picks = node.op in _PICKS and node.has_input(0) and node.input(0).name == tensor.name
    if picks and any(t.sized and isinstance(t.numel, int) for t in node.known_outputs[:1]):
        return picked_bytes(node, tensor)
    if node.op in ("Slice", "Split", "Shape"):
        moved = traffic(node).read
        return tensor.nbytes if moved is None else min(tensor.nbytes, moved)
    if node.op in _EXPERTS and tensor.shape and len(tensor.shape) == 3 and node.has_input(0):
        tokens, chosen = math.prod(node.input(0).dims[:-1]), int(node.attrs.get(_EXPERTS[node.op], 1))
        return min(tensor.nbytes, tensor.nbytes * tokens * chosen // tensor.shape[0])
    return tensor.nbytes


def _continued(maker: Node, output: Tensor, inputs: dict[str, Tensor]) -> int:
    """Bytes of the input that an output continues along one axis, or updates in place; 0 where it does neither."""
    updates = "Attention" in maker.op or maker.op in _UPDATES
    for tensor in maker.known_inputs:
        if tensor.name in inputs and tensor.shape and output.shape and len(tensor.shape) == len(output.shape):
            differing = sum(a != b for a, b in zip(tensor.shape, output.shape, strict=True))
            grows = differing == 1 or (differing == 0 and updates)
            if tensor.dtype == output.dtype and grows and tensor.nbytes <= output.nbytes:
                return int(tensor.nbytes)
    return 0


def inner_dtypes(works: Sequence[Work]) -> dict[str, int]:
    """Element types -> multiply-adds in them, the most first."""
    dtypes: dict[str, int] = {}
    for work in works:
        if work.macs:
            name = TIMES.join(work.dtypes)
            dtypes[name] = dtypes.get(name, 0) + work.macs
    return dict(sorted(dtypes.items(), key=lambda item: -item[1]))
