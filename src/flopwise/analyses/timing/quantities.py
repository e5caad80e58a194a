"""Unused work of products on NVIDIA GPUs: padding of tensor cores, and waves of tiles that are not full."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from flopwise.analyses.timing.device import Device, arithmetic
from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.graph.dtypes import BITS, is_float
from flopwise.operators.folding import constant, fold
from flopwise.operators.tables import row
from flopwise.profiles.precision import QDQ, TIMES, precision, quantized_before
from flopwise.storage.traffic import picked_bytes, traffic

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
    from flopwise.rows import Row

#: Bytes that rows of a matrix are multiples of, so that tensor cores take them without padding, and rows and columns of
#: the result that a multiprocessor computes at once in the guide's examples: NVIDIA, Matrix Multiplication Background
#: User's Guide.
ALIGNED, TILE = 16, (256, 128)


class Product(NamedTuple):
    """A product of matrices, or a dense convolution as the product that it is."""

    batch: int
    rows: int
    columns: int
    #: What is summed over; of a convolution its channels.
    depth: int


def product_of(node: Node) -> Product | None:
    """The product that an operator is; None for others, and where sizes are unknown."""
    tensors = [node.input(place) for place in (0, 1) if node.has_input(place)]
    if len(tensors) < 2 or not all(tensor.resolved for tensor in (*tensors, *node.known_outputs)):
        return None
    if node.op in ("MatMul", "Gemm"):
        shape = [int(extent) for extent in node.output().dims]
        if len(shape) < 2:
            return None
        batch, rows = math.prod(shape[:-2]), shape[-2]
        if len(tensors[1].dims) == 2:
            batch, rows = 1, batch * rows
        depth = int(tensors[0].dims[0 if node.attrs.get("transA") else -1])
        return Product(batch, rows, shape[-1], depth)
    if node.op == "Conv" and node.attrs.get("group", 1) == 1:
        items, channels, *grid = (int(extent) for extent in node.output().dims)
        return Product(1, items * math.prod(grid), channels, int(tensors[1].dims[1]))
    return None


def padding_share(product: Product, dtype: str, device: Device) -> float | None:
    """The share of the multiply-adds that tensor cores do on padding; None beside GPUs of NVIDIA's."""
    if device.kind != "gpu" or device.vendor.lower() != "nvidia" or not product.columns * product.depth:
        return None
    unit = max(1, 8 * ALIGNED // BITS.get(dtype, 32))
    padded = math.prod(-(-extent // unit) * unit for extent in (product.columns, product.depth))
    return 1 - product.columns * product.depth / padded


def wave_share(product: Product, device: Device) -> float | None:
    """The share of the multiprocessors' time in which they have no tile; None where their number is unknown."""
    tiles = tiles_of(product)
    if device.multiprocessors is None or not tiles:
        return None
    waves = tiles / device.multiprocessors
    return 1 - waves / math.ceil(waves)


def tiles_of(product: Product) -> int:
    """The tiles of its result."""
    return product.batch * math.ceil(product.rows / TILE[0]) * math.ceil(product.columns / TILE[1])


# The least work of a model on any device: multiply-adds by element type, and the bytes that must move.


#: What F(2x2, 3x3) of Winograd's algorithm divides the multiply-adds of a 3x3 convolution of stride 1 by.
WINOGRAD = 2.25


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one row; None where it is unknown."""

    #: Multiply-adds of products that the program executes (``mac`` of the canonical counts).
    macs: int | None
    #: All arithmetic, a multiply-add as two operations.
    flops: int | None
    #: Bytes that the operator reads and writes, gathers only what they pick.
    nbytes: int | None
    #: Element types that are multiplied, such as ("float32",) or ("float32", "int4").
    dtypes: tuple[str, ...]
    #: Whether it is a convolution that Winograd's algorithm can do with fewer multiplications.
    winograd: bool = False
    #: The multiply-adds that the result needs, where they are fewer.
    needed: int | None = None
    #: The element type in which all products are to be computed; None: any in which those of the factors may be.
    computed: str | None = None
    #: The product of matrices that it is; None for others.
    product: Product | None = None

    @property
    def least(self) -> int | None:
        """The multiply-adds that the result needs."""
        return self.macs if self.needed is None else self.needed

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """The types in which products may be computed."""
        return arithmetic(self.dtypes) if self.computed is None else (self.computed,)


def as_stored(work: Work) -> Work:
    """The work with products of floating-point numbers in the type that they are stored in, as engines on CPUs do."""
    own = work.dtypes[0]
    return replace(work, computed=own) if work.macs and is_float(own) else work


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


def works(
    profile: Profile, least: Sequence[int | None] | None = None, types: Mapping[str, str] | None = None
) -> list[Work]:
    """The work of each row of a profile.

    Args:
        profile: the model.
        least: the multiply-adds that each row's result needs; None: all that it executes.
        types: name of a stored tensor -> the element type that it is stored in, where that is not the one that the
            program multiplies.
    """
    behind, packed = quantized_before(profile.graph.nodes), _packed_bytes(profile.graph)
    folding = constant(profile.graph) if types or packed else None
    each = []
    for place, layer in enumerate(profile.rows):
        work = _work(layer, behind)
        if least is not None and least[place] != work.macs:
            work = replace(work, needed=least[place])
        for tensor in folding.stored(layer.node) if folding is not None else ():
            if types and work.macs and tensor.name in types and len(tensor.shape or ()) > 1:
                work = replace(work, dtypes=tuple(dict.fromkeys((*work.dtypes, types[tensor.name]))))
            if work.nbytes and tensor.name in packed:
                work = replace(work, nbytes=max(0, work.nbytes - tensor.nbytes + packed[tensor.name]))
        each.append(work)
    return each


def _work(row: Row, behind: dict[str, str]) -> Work:
    read, written = row.read_bytes, row.written_bytes
    moved = None if read is None or written is None else read + written
    macs, flops = row.macs, row.flops
    if not isinstance(macs, int | None) or not isinstance(flops, int | None):  # a formula in open dimensions
        macs = flops = None
    text = precision(row, behind)
    types = tuple(text.removesuffix(QDQ).split(TIMES))
    nbytes = moved if isinstance(moved, int) else None
    return Work(macs, flops, nbytes, types, _fits_winograd(row.node), product=product_of(row.node))


def _fits_winograd(node: Node) -> bool:
    """True for a 3x3 convolution of stride 1 without dilation or groups."""
    if node.op not in ("Conv", "com.microsoft.nchwc::Conv", "com.microsoft::FusedConv") or not node.has_input(1):
        return False
    shape = node.ordered.input(1).shape
    if shape is None or tuple(shape[2:]) != (3, 3):
        return False
    ones = [node.attrs.get(name) or (1, 1) for name in ("strides", "dilations")]
    return all(set(values) == {1} for values in ones) and node.attrs.get("group", 1) == 1


def must_move(graph: Graph) -> Movement:
    """The weights that an inference uses, its inputs and its outputs, each once.

    A table that is only picked from is charged what is picked; of a mixture of experts, the experts that the tokens
    use. An output that continues an input along one axis, as the cache of a language model does, is charged what is
    new.
    """
    folding = fold(graph)
    nodes = [node for position, node in enumerate(graph.nodes) if position not in folding.positions]
    weights: dict[str, int | None] = {}
    inputs = dict.fromkeys((t.name for t in graph.inputs), 0)
    packed = _packed_bytes(graph)
    for node in nodes:
        for tensor, nbytes in _weights_read(node, folding.stored(node)):
            if nbytes is not None and tensor.name in packed:
                nbytes = nbytes * packed[tensor.name] // max(tensor.nbytes, 1)
            before = weights.get(tensor.name)
            weights[tensor.name] = before if nbytes is None else max(before or 0, nbytes)
        for tensor in node.known_inputs:
            if tensor.name in inputs and tensor.kind not in STORED and tensor.sized:
                inputs[tensor.name] = max(inputs[tensor.name], _share(node, tensor) or 0)
    written = [*_written(graph)]
    unknown = dict.fromkeys(name for name, nbytes in (*weights.items(), *written) if nbytes is None)
    of_weights, of_outputs = sum(filter(None, weights.values())), sum(nbytes or 0 for _, nbytes in written)
    return Movement(of_weights, sum(inputs.values()), of_outputs, tuple(unknown))


def _weights_read(node: Node, stored: Sequence[Tensor]) -> Iterator[tuple[Tensor, int | None]]:
    """The stored tensors of a node with the bytes that it reads of each at least; None where the size is unknown."""
    spared = _spared(node)
    largest = max(stored, key=lambda t: t.nbytes if t.sized else 0, default=None)
    for tensor in stored:
        nbytes = _share(node, tensor)
        if nbytes is not None and not _chosen_experts(node) and (tensor is largest or spared is None):
            nbytes = 0 if spared is None else min(nbytes, max(0, tensor.nbytes - spared))
        yield tensor, nbytes


def _written(graph: Graph) -> Iterator[tuple[str, int | None]]:
    """Each output with its bytes that are new; None where the size is unknown."""
    inputs = {t.name: t for t in graph.inputs}
    makers = {t.name: node for node in graph.nodes for t in node.known_outputs}
    for tensor in graph.outputs:
        maker = makers.get(tensor.name)
        if not tensor.sized or not isinstance(tensor.nbytes, int):
            yield tensor.name, None
        elif maker is not None:
            yield tensor.name, max(0, tensor.nbytes - _continued(maker, tensor, inputs))


def _packed_bytes(graph: Graph) -> dict[str, int]:
    """Bytes of the weights that a checkpoint stores in fewer than the program reads, by name."""
    tensors = {t.name: t for node in graph.nodes for t in node.known_inputs if t.kind in STORED and t.sized}
    stored = {name: graph.weights[name].nbytes for name in tensors if name in graph.weights}
    return {name: nbytes for name, nbytes in stored.items() if 0 < nbytes < tensors[name].nbytes}


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
    if node.op in ("Slice", "Split", "Shape"):
        moved = traffic(node).read
        return tensor.nbytes if moved is None else min(tensor.nbytes, moved)
    picks = "picks" in row(node.op).effects and node.has_input(0) and node.input(0).name == tensor.name
    if picks and any(t.sized and isinstance(t.numel, int) for t in node.known_outputs[:1]):
        return picked_bytes(node, tensor)
    chosen = _chosen_experts(node)
    if chosen and tensor.shape and len(tensor.shape) == 3 and node.has_input(0):
        tokens = math.prod(node.input(0).dims[:-1])
        return min(tensor.nbytes, tensor.nbytes * tokens * chosen // tensor.shape[0])
    return tensor.nbytes


def _chosen_experts(node: Node) -> int:
    """Number of experts that each token takes, where a fused mixture of experts chooses them itself; else 0."""
    return int(node.attrs.get("k", 1)) if "experts" in row(node.op).effects else 0


def _continued(maker: Node, output: Tensor, inputs: dict[str, Tensor]) -> int:
    """Bytes of the input that an output continues along one axis, or updates in place; 0 where it does neither."""
    updates = "Attention" in maker.op or "updates" in row(maker.op).effects
    for tensor in maker.known_inputs:
        if tensor.name in inputs and tensor.shape and output.shape and len(tensor.shape) == len(output.shape):
            differing = sum(a != b for a, b in zip(tensor.shape, output.shape, strict=True))
            grows = differing == 1 or (differing == 0 and updates)
            if tensor.dtype == output.dtype and grows and tensor.nbytes <= output.nbytes:
                return int(tensor.nbytes)
    return 0


def stored_types(graph: Graph) -> dict[str, str]:
    """Names of the weights that a checkpoint stores in another type than the program multiplies -> that type."""
    used = {t.name: t.dtype for node in graph.nodes for t in node.known_inputs if t.kind in STORED}
    names = stored_numbers({name: graph.weights[name].dtype for name in used if name in graph.weights})
    return {name: dtype for name, dtype in names.items() if dtype != used[name]}


def stored_numbers(dtypes: Mapping[str, str]) -> dict[str, str]:
    """Names -> the element types of the numbers in stored types, which may be blocks of ggml; places are left out."""
    return {name: _number_type(dtype) for name, dtype in dtypes.items() if dtype not in _PLACES}


def stored_most(dtypes: Mapping[str, str], usual: str) -> str:
    """The element type that most of the weights with a stored type have; ``usual`` where there is none.

    >>> stored_most({"q": "nf4", "k": "nf4", "norm": "float32"}, "bfloat16"), stored_most({}, "bfloat16")
    ('nf4', 'bfloat16')
    """
    kinds = Counter(dtype if dtype in _PLACES else _number_type(dtype) for dtype in dtypes.values())
    return kinds.most_common(1)[0][0] if kinds else usual


#: Stored types whose values are places in a table of numbers, which no device multiplies: that of bitsandbytes.
_PLACES = ("nf4",)


def _number_type(dtype: str) -> str:
    """The element type of numbers in a type or in blocks of ggml, whose scales and offsets come in behind products.

    >>> _number_type("q4_K"), _number_type("iq3_s"), _number_type("bfloat16")
    ('int4', 'int8', 'bfloat16')
    """
    block = re.match(r"(?:(?P<bits>q\d)|(?P<table>iq)|(?P<ternary>tq)|(?P<fp4>mxfp4|nvfp4))", dtype)
    if block is None:
        return dtype
    bits = int(block["bits"][1]) if block["bits"] else 2 if block["ternary"] else 8
    return "float4e2m1" if block["fp4"] else f"int{max(bits, 2)}" if bits <= 4 else "int8"


def products(works: Sequence[Work]) -> dict[tuple[str, ...], int]:
    """Types of arithmetic that products may be computed in -> the multiply-adds that results need."""
    sums: dict[tuple[str, ...], int] = {}
    for work in works:
        if work.least:
            sums[work.arithmetic] = sums.get(work.arithmetic, 0) + work.least
    return sums


def inner_dtypes(works: Sequence[Work]) -> dict[str, int]:
    """Element types -> multiply-adds in them, the most first."""
    dtypes: dict[str, int] = {}
    for work in works:
        if work.macs:
            name = TIMES.join(work.dtypes)
            dtypes[name] = dtypes.get(name, 0) + work.macs
    return dict(sorted(dtypes.items(), key=lambda item: -item[1]))
