"""The matrix products and convolutions that PyTorch hands to its dispatcher for each operator of a program.

Two tools count there: what PyTorch takes apart above the dispatcher they see as its parts, and what a backend does in
one kernel they see as one. Source: ``aten/src/ATen/native`` of PyTorch 2.13 (Linear.cpp, LinearAlgebra.cpp, RNN.cpp,
transformers/attention.cpp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from flopwise.graph import Node, Tensor
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


def _linear(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """addmm for a bias on a matrix, or on elements in row-major order; else mm."""
    x, results = node.input(0), node.output().numel
    if node.has_input(2) and (len(x.dims) == 2 or x.contiguous):
        return (Kernel("addmm", mac, results, True),)
    return (Kernel("mm", mac, results),)


def _addmm(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """addmm, which has an addend even where it is multiplied by nothing."""
    return (Kernel("addmm", mac, node.output().numel, True),)


def _gemm(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """addmm with a third input, else mm."""
    return (Kernel("addmm" if node.has_input(2) else "mm", mac, node.output().numel, node.has_input(2)),)


def _matmul(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """mm of matrices, bmm of batches; a vector on the right goes to mv or dot."""
    right = len(node.input(1).dims)
    if right == 1:
        return ()
    return (Kernel("bmm" if right > 2 else "mm", mac, node.output().numel),)


def _inner(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
    """mm over the last axes; dot for two vectors."""
    if {len(node.input(0).dims), len(node.input(1).dims)} == {1}:
        return ()
    return (Kernel("mm", mac, node.output().numel),)


def _same(name: str) -> Rule:
    """The operator is a kernel itself."""

    def rule(node: Node, mac: int, fused: bool) -> tuple[Kernel, ...]:
        return (Kernel(name, mac, node.output().numel),)

    return rule


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
    args = node.attrs.get("args", {})
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
    turned = not packed and bool(node.attrs["args"].get("arg8", False)) and 1 not in x.dims[:2]
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
    "linear": _linear,
    **dict.fromkeys(("matmul", "linalg_matmul", "__rmatmul__"), _matmul),
    **dict.fromkeys(("mm", "chain_matmul", "linalg_multi_dot"), _same("mm")),
    "tensordot": _tensordot,
    "bmm": _same("bmm"),
    "addmm": _addmm,
    "baddbmm": _same("baddbmm"),
    "_scaled_mm": _same("_scaled_mm"),
    "inner": _inner,
    "einsum": _einsum,
    **{f"{kind}{rank}d": _convolution for kind in ("conv", "conv_transpose") for rank in (1, 2, 3)},
    **dict.fromkeys(("convolution", "_convolution"), _convolution),
    "scaled_dot_product_attention": _attention,
    "flex_attention": _same("flex_attention"),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **{f"{name}_cell": _cell for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
}

#: Operator of a file -> the kernels of the PyTorch operator of the same meaning.
_FILE: dict[str, Rule] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Einsum": _einsum,
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
    "Attention": _attention,
    "LSTM": lambda node, mac, fused: () if fused else (Kernel("addmm", mac, 0),),
    **dict.fromkeys(("GRU", "RNN"), _same("addmm")),
}

#: Matrix products that end in kernels which nobody counts.
_UNSEEN = """
    mv dot vdot linalg_vecdot addmv addr addbmm bilinear cdist conv_tbc _grouped_mm grouped_mm _scaled_mm_v2 _int_mm
    _weight_int8pack_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu _sparse_mm sspaddmm _addmm_activation
"""

_PRODUCTS: frozenset[str] = frozenset(_UNSEEN.split())


def of_program(node: Node) -> bool:
    """True for a call in a PyTorch program; the operators of a file may say that they come from one."""
    return "args" in node.attrs


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
