"""PyTorch's FlopCounterMode: two FLOP for each multiply-accumulate of matrix products, convolutions and attention.

Source: https://github.com/pytorch/pytorch, ``torch/utils/flop_counter.py`` of the release 2.13. It counts what reaches
PyTorch's dispatcher on meta tensors, where attention and recurrent layers are taken apart into matrix products; on a
CPU they are one kernel that it does not know, and its figure lacks them. What is not in its registry counts nothing.

What reaches the dispatcher for each operator of a program, which ptflops' ATEN backend looks at as well, is from
``aten/src/ATen/native`` of the same release (Linear.cpp, LinearAlgebra.cpp, RNN.cpp, transformers/attention.cpp).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from flopwise.conventions.calls import of_program, ranked
from flopwise.conventions.convention import Convention, Whole, attempt, by_node, described, tally
from flopwise.graph import Graph, Node, Tensor
from flopwise.operators import tables
from flopwise.operators.complex import takes_or_makes
from flopwise.operators.counts import Counts
from flopwise.operators.einsum import indices, order, pairs
from flopwise.operators.extents import product


class Kernel(NamedTuple):
    """One operator at the dispatcher."""

    name: str
    #: Multiply-accumulates.
    mac: int
    #: Elements of the result.
    results: int
    #: Whether something is added to each of them.
    biased: bool = False


#: The kernels of one node, from its canonical multiply-accumulates (which some rules do without), and whether a backend
#: fuses attention and LSTM.
Rule: TypeAlias = Callable[[Node, int, bool], "tuple[Kernel, ...]"]


def _one(name: str | Callable[[Node], str]) -> Rule:
    """One kernel of this name, which adds something if it is addmm; "" is a kernel that nobody counts."""

    def rule(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
        kernel = name if isinstance(name, str) else name(node)
        return (Kernel(kernel, mac, node.output().numel, kernel == "addmm"),) if kernel else ()

    return rule


def _linear(node: Node) -> str:
    """addmm for a bias on a matrix, or on elements in row-major order; else mm."""
    x = node.input(0)
    return "addmm" if node.has_input(2) and (len(x.dims) == 2 or x.contiguous) else "mm"


def _gemm(node: Node) -> str:
    """addmm with a third input, else mm."""
    return "addmm" if node.has_input(2) else "mm"


def _matmul(node: Node) -> str:
    """mm of matrices, bmm of batches; a vector on the right goes to mv or dot."""
    right = len(node.input(1).dims)
    return "" if right == 1 else "bmm" if right > 2 else "mm"


def _inner(node: Node) -> str:
    """mm over the last axes; dot for two vectors."""
    return "" if {len(node.input(0).dims), len(node.input(1).dims)} == {1} else "mm"


def _convolution(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """convolution, transposed or not; three of real numbers for one of complex ones, the second without a bias."""
    once = Kernel("convolution", mac, node.output().numel, node.has_input(2))
    return (once, once._replace(biased=False), once) if convolutions(node) == 3 else (once,)


def convolutions(node: Node) -> int:
    """Number of convolutions that PyTorch makes of one: of complex numbers three of real ones; else 1."""
    return 3 if node.op in ("Conv", "ConvTranspose") and takes_or_makes(node) else 1


def _attention(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """Two bmm, unless a backend has one kernel for it: then none that is counted."""
    if fused and _flash(node):
        return ()
    return (Kernel("bmm", mac, node.output().numel),)


def _flash(node: Node) -> bool:
    """True if attention on a CPU runs in one kernel: four dimensions, heads that fit, one width, and no dropout."""
    args = node.arguments
    query, key, value = (args.get(name) for name in ("query", "key", "value"))
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        return True
    shapes = [t.dims for t in (query, key, value)]
    return (
        {len(s) for s in shapes} == {4}
        and len({s[3] for s in shapes}) == 1
        and (len({s[1] for s in shapes}) == 1 or bool(args.get("enable_gqa")))
        and args.get("dropout_p", 0) == 0
        and query.dtype in ("float16", "bfloat16", "float32", "float64")
    )


def _tensordot(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """mm, of columns and rows where nothing is contracted."""
    results = node.output().numel
    return (Kernel("mm", mac or results, results),)


def _recurrent(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """For each layer and direction addmm of all inputs and of each state; a backend's LSTM is one kernel."""
    lstm, packed, biased = node.op == "aten::lstm", bool(node.attrs["packed"]), bool(node.attrs["biases"])
    x = node.input(0)
    layers = node.attrs["layers"] * node.attrs["directions"]
    each = (len(node.inputs) - 1 - (2 if lstm else 1)) // layers
    if fused and lstm and not packed and each in (2, 4) and x.dtype in ("float32", "bfloat16"):
        return ()
    tokens = product(x.dims[:-1])
    turned = not packed and bool(node.arguments.get("arg8", False)) and 1 not in x.dims[:2]
    kernels: list[Kernel] = []
    for layer in range(layers):
        first = 1 + layer * each
        for place in (first, first + 1, *((first + each - 1,) if each in (3, 5) else ())):
            weight = node.input(place)
            bias = biased and place < first + 2
            if place == first and layer < node.attrs["directions"] and (turned or not (packed or x.contiguous)):
                bias = False  # the product of all steps at once, on rows that do not follow each other
            name = "addmm" if bias else "mm"
            kernels.append(Kernel(name, tokens * weight.numel, tokens * product(weight.dims[:1]), bias))
    return tuple(kernels)


def _cell(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """Two linear layers."""
    batch = product(node.input(0).dims[:-1])
    return tuple(
        Kernel(
            "addmm" if node.has_input(bias) else "mm",
            batch * w.numel,
            batch * product(w.dims[:1]),
            node.has_input(bias),
        )
        for w, bias in ((node.input(1), 3), (node.input(2), 4))
    )


def _einsum(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """A bmm for each two operands that have an index to sum over, else their elementwise product.

    An index of extent 1 is none.
    """
    operands, labels = indices(node)
    longer = [{label: size for label, size in operand.items() if size != 1} for operand in operands]
    contracted = (pair for pair in pairs(longer, labels, order(node)) if pair.contracted)
    return tuple(Kernel("bmm", pair.terms, pair.result.numel) for pair in contracted)


#: Operator of a program -> its kernels.
_PROGRAM: dict[str, Rule] = {
    "linear": _one(_linear),
    **dict.fromkeys(("matmul", "linalg_matmul", "__rmatmul__"), _one(_matmul)),
    **dict.fromkeys(("mm", "chain_matmul", "linalg_multi_dot"), _one("mm")),
    "tensordot": _tensordot,
    **{name: _one(name) for name in ("bmm", "addmm", "baddbmm", "_scaled_mm", "flex_attention")},
    "inner": _one(_inner),
    "einsum": _einsum,
    **dict.fromkeys((*ranked("conv", "conv_transpose"), "convolution", "_convolution"), _convolution),
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **{f"{name}_cell": _cell for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
}

#: Operator of a file -> the kernels of the PyTorch operator of the same meaning.
_FILE: dict[str, Rule] = {
    "Gemm": _one(_gemm),
    "MatMul": _one(_matmul),
    "Einsum": _einsum,
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
    "Attention": _attention,
    "LSTM": lambda node, mac, fused: () if fused else (Kernel("addmm", mac, 0),),
    **dict.fromkeys(("GRU", "RNN"), lambda node, mac, fused: (Kernel("addmm", mac, node.output().numel),)),
}

#: Matrix products that end in kernels which nobody counts.
_UNSEEN = """
    mv dot vdot linalg_vecdot addmv addr addbmm bilinear cdist conv_tbc _grouped_mm grouped_mm _scaled_mm_v2 _int_mm
    _weight_int8pack_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu _sparse_mm sspaddmm _addmm_activation
"""

_PRODUCTS: frozenset[str] = frozenset(_UNSEEN.split())


def kernels(node: Node, counts: Counts | None, fused: bool) -> tuple[Kernel, ...] | None:
    """The products and convolutions at the dispatcher; None when flopwise does not know what the operator does.

    Args:
        node: an operator with resolved shapes.
        counts: its canonical counts.
        fused: whether the device has one kernel for attention and one for LSTM, as a CPU has; else they come apart.

    Raises:
        ShapeError: a shape that is needed is unresolved.
    """
    space, _, name = node.origin.partition(".")
    program = of_program(node)
    rule = _FILE.get(node.op) if not program else _PROGRAM.get(name) if space == "aten" else None
    if program and name in _PRODUCTS:
        return ()
    if rule is None:
        return None if counts is None and (space == "aten" or not program) else ()
    if counts is None and rule not in (_recurrent, _cell, _einsum):
        return None
    return rule(node, counts.mac if counts else 0, fused)


def is_product(node: Node) -> bool:
    """True for an operator that multiplies matrices or convolves, in any kernel."""
    space, _, name = node.origin.partition(".")
    if not of_program(node):
        return node.op in _FILE
    return space not in ("aten", "torchvision") or name in _PROGRAM or name in _PRODUCTS


def count(node: Node, counts: Counts | None) -> Counts | None:
    """The multiply-accumulates that reach the dispatcher."""
    every = kernels(node, counts, fused=False)
    return None if every is None else Counts(mac=sum([kernel.mac for kernel in every]))


def missed(graph: Graph, fused: bool) -> Iterator[str]:
    """The operators that multiply matrices and of which the tool sees nothing, in one line.

    Args:
        graph: the model.
        fused: see ``kernels``.
    """
    unseen: Counter[str] = Counter()
    for node in graph.nodes:
        counts = attempt(tables.on_elements, node)
        dispatched = attempt(kernels, node, counts, fused)
        if dispatched == () and is_product(node) and (counts is None or counts.mac):
            unseen[node.origin or node.op] += 1
    if unseen:
        yield f"the tool sees nothing of these products: {tally(unseen)}"


def backward(node: Node, wrt: frozenset[int], counts: Counts) -> Counts:
    """The multiply-accumulates of gradients that reach the dispatcher.

    Of a convolution with groups the tool takes the gradient of the weight as if all channels met
    (``conv_backward_flop``).
    """
    forward = count(node, tables.on_elements(node))
    if not is_product(node) or forward is None or not forward.mac:
        return Counts()
    more = node.attrs.get("group", 1) - 1 if node.op in ("Conv", "ConvTranspose") and 1 in wrt else 0
    return Counts(mac=counts.mac * convolutions(node) + more * forward.mac)


_WORDS = dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "Einsum", "Attention", "LSTM", "GRU", "RNN"), "mac")
_WORDS["MatMul"] = "mac; nothing for a vector on the right"

CONVENTION = Convention(
    name="torch",
    unit="FLOP",
    summary="PyTorch's FlopCounterMode on meta tensors: matrix products, convolutions and attention, and nothing else.",
    source="PyTorch 2.13, torch/utils/flop_counter.py",
    weights=Counts(mac=2),
    overrides={op: described(lambda node, counts: count(node, counts), words) for op, words in _WORDS.items()},
    others="zero",
    fold=False,
    whole=Whole(by_node(count), remarks=lambda graph: missed(graph, fused=False)),
    backward=backward,
)
