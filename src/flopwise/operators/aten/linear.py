"""Products and recurrent layers of PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import is_complex
from flopwise.operators import gradient
from flopwise.operators.complex import Complex
from flopwise.operators.counts import SOFTMAX, Counts
from flopwise.operators.extents import broadcast, extent, product
from flopwise.operators.fourier import fourier, half_spectrum, lines
from flopwise.operators.inputs import Input, Weight, inputs
from flopwise.operators.masks import pairs_within
from flopwise.operators.onnx.attention import attention, needed_attention
from flopwise.operators.onnx.linear import ACTIVATIONS
from flopwise.operators.operator import Operator, Rule, by, unknown

# Products of PyTorch's that ONNX has no operator for.


def ragged_attention(node: Node) -> Counts:
    """P × (d + dv) mac (QKᵀ and AV) + numel(Q) mul and numel(K) × Hq / Hk mul (Q and K scaled) + P × (1 cmp + 2 add + 1
    exp + 1 div) (softmax), P = Hq × the sum of S × T over the sequences: each attends to itself alone.

    https://docs.pytorch.org/docs/stable/nested.html

    Raises:
        ShapeError: the lengths of the sequences are not known.
    """
    return _ragged(node, operator.mul)


def needed_ragged_attention(node: Node) -> Counts:
    """As ``ragged_attention``, with the pairs that is_causal and a window leave."""
    left, right = node.attrs.get("window", (None, None))
    right = 0 if node.attrs.get("is_causal") else right
    return _ragged(node, lambda queries, keys: pairs_within(queries, keys, keys - queries, left, right))


def _ragged(node: Node, pairs_of: Callable[[int, int], int]) -> Counts:
    pairs = pairs_in_a_row(node, pairs_of)
    heads, groups = node.attrs["heads"]
    query, key, value = (node.input(place) for place in range(3))
    widths = extent(node, query, -1) + extent(node, value, -1)
    counts = Counts(mac=pairs * widths, mul=query.numel + key.numel * (heads // groups))
    return counts + SOFTMAX * pairs


def pairs_in_a_row(node: Node, pairs_of: Callable[[int, int], int] = operator.mul) -> int:
    """Pairs of queries and keys of a ``ragged_attention``, of all heads. A single sequence is as long as its row.

    Raises:
        ShapeError: the lengths of the sequences are not known.
    """
    lengths = node.attrs.get("lengths")
    if not lengths:
        raise ShapeError(
            f"{node.op} {node.name!r}: the lengths of its sequences are data, which do not follow from constants"
        )
    rows = [extent(node, node.input(place), 0) for place in range(2)]
    if [[int(row)] for row in rows] == [list(each) for each in lengths]:
        lengths = [[row] for row in rows]
    pairs: int = node.attrs["heads"][0] * sum(pairs_of(queries, keys) for queries, keys in zip(*lengths, strict=True))
    return pairs


def norm(p: float) -> tuple[Counts, Counts]:
    """Counts of a p-norm for each element, and for each result.

    Args:
        p: 0 counts the elements that are not 0.

    >>> norm(1.0)[0].add
    1
    """
    if p == 2:
        return Counts(mul=1, add=1), Counts(sqrt=1)
    if p == 1:
        return Counts(bit=1, add=1), Counts()
    if p == 0:
        return Counts(cmp=1, add=1), Counts()
    if abs(p) == float("inf"):
        return Counts(bit=1, cmp=1), Counts()
    return Counts(bit=1, pow=1, add=1), Counts(pow=1)


def conv_tbc(node: Node) -> Counts:
    """numel(Y) × W.shape[0] × W.shape[1] mac + numel(Y) add: a convolution over time with time first.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_tbc.html
    """
    weight, outputs = node.input(1), node.output().numel
    return Counts(mac=outputs * extent(node, weight, 0) * extent(node, weight, 1), add=outputs)


def chain(node: Node) -> Counts:
    """the cheapest order of the products, M × K × N mac each.

    https://docs.pytorch.org/docs/stable/generated/torch.linalg.multi_dot.html
    """
    shapes = [t.dims for t in node.known_inputs]
    if not shapes or any(not 1 <= len(s) <= 2 for s in shapes):
        raise ShapeError(f"{node.op} {node.name!r}: needs matrices")
    first = (1, shapes[0][0]) if len(shapes[0]) == 1 else shapes[0]
    middle = [s[0] for s in shapes[1:]]
    last = [] if len(shapes) == 1 and len(shapes[0]) == 2 else [shapes[-1][1] if len(shapes[-1]) == 2 else 1]
    sizes = [int(d) for d in (first[0], first[1], *middle[1:], *last)] if len(shapes) > 1 else [int(d) for d in first]
    count = len(sizes) - 1
    best = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for start in range(count - length):
            stop = start + length
            best[start][stop] = min(
                best[start][cut] + best[cut + 1][stop] + sizes[start] * sizes[cut + 1] * sizes[stop + 1]
                for cut in range(start, stop)
            )
    return Counts(mac=best[0][count - 1] if count else 0)


def addr(node: Node) -> Counts:
    """numel(Y) mul (the outer product); alpha ≠ 1: numel(Y) mul; when C is given numel(Y) add, and beta ≠ 1: numel(C)
    mul.

    https://docs.pytorch.org/docs/stable/generated/torch.addr.html
    """
    outputs = node.output().numel
    return Counts(mul=outputs) + _added(node, outputs)


def addbmm(node: Node) -> Counts:
    """numel(A) × N mac, summed over the batch; alpha ≠ 1: numel(Y) mul; when C is given numel(Y) add, and beta ≠ 1:
    numel(C) mul.

    https://docs.pytorch.org/docs/stable/generated/torch.addbmm.html
    """
    return Counts(mac=node.input(0).numel * extent(node, node.input(1), -1)) + _added(node, node.output().numel)


def _added(node: Node, outputs: int) -> Counts:
    """alpha × the product + beta × C."""
    counts = Counts(mul=outputs if node.attrs.get("alpha", 1.0) != 1.0 else 0)
    if node.has_input(2):
        counts += Counts(add=outputs, mul=node.input(2).numel if node.attrs.get("beta", 1.0) != 1.0 else 0)
    return counts


def tensordot(node: Node) -> Counts:
    """numel(Y) × K mac, K the product of the contracted extents; numel(Y) mul where none is contracted.

    https://docs.pytorch.org/docs/stable/generated/torch.tensordot.html
    """
    left, outputs, axes = node.input(0), node.output().numel, node.attrs.get("dims", ())
    return Counts(mac=outputs * product(extent(node, left, axis) for axis in axes)) if axes else Counts(mul=outputs)


def bilinear(node: Node) -> Counts:
    """numel(Y) × (in1 × in2 + in2) mac: x₁ᵀ W, then its product with x₂; numel(Y) add when B is given.

    W is (out, in1, in2).

    https://docs.pytorch.org/docs/stable/generated/torch.nn.Bilinear.html
    """
    outputs, weight = node.output().numel, node.input(2)
    terms = (extent(node, weight, 1) + 1) * extent(node, weight, 2)
    return Counts(mac=outputs * terms, add=outputs if node.has_input(3) else 0)


def grouped_mm(node: Node) -> Counts:
    """numel(Y) × K mac, K the last extent of A; where both are matrices whose shared extent is split among the groups,
    M × N × K. numel(Y) add when a bias is given.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grouped_mm.html
    """
    left, right = node.input(0), node.input(1)
    add = node.output().numel if node.has_input(3) else 0
    if len(left.dims) == len(right.dims) == 2:
        return Counts(mac=left.numel * extent(node, right, 1), add=add)
    return Counts(mac=node.output().numel * extent(node, left, -1), add=add)


def weight_only(node: Node) -> Counts:
    """numel(Y) × K mac, K the last extent of A: the weights are unpacked inside the kernel."""
    return Counts(mac=node.output().numel * extent(node, node.input(0), -1))


def vecdot(node: Node) -> Counts:
    """numel mac, numel of both broadcast: one product per pair of elements.

    https://docs.pytorch.org/docs/stable/generated/torch.linalg.vecdot.html
    """
    return Counts(mac=product(broadcast(node.input(0).dims, node.input(1).dims)))


def addmm_activation(node: Node) -> Counts:
    """numel(Y) × (K mac + 1 add + 1 cmp), K the last extent of A; with gelu (1 div + 1 erf + 1 add + 2 mul) in place of
    the cmp; alpha ≠ 1: numel(Y) mul; beta ≠ 1: numel(C) mul, and beta = 0 leaves C and its add out.
    """
    outputs = node.output().numel
    once = Counts(div=1, erf=1, add=1, mul=2) if node.attrs.get("gelu", 0) else Counts(cmp=1)
    return (once + Counts(mac=extent(node, node.input(0), -1))) * outputs + _added(node, outputs)


def sparse_mm(node: Node) -> Counts:
    """nnz × N mac, nnz the stored elements of the sparse matrix and N the columns of the other.

    https://docs.pytorch.org/docs/stable/generated/torch.sparse.mm.html

    Raises:
        ShapeError: it is unknown how many elements are stored.
    """
    if "nnz" not in node.attrs:
        raise ShapeError(f"{node.op} {node.name!r}: how many elements the sparse matrix stores is not known")
    return Counts(mac=node.attrs["nnz"] * extent(node, node.input(1), -1))


def distances(node: Node) -> Counts:
    """numel(Y) × D × (2 add + 1 mul) + numel(Y) sqrt for p = 2, × (2 add + 1 bit) for p = 1, × (1 add + 1 bit + 1 cmp)
    for p = ∞, × (2 add + 1 cmp) for p = 0, else × (2 add + 1 bit + 1 pow) + numel(Y) pow; D = X.shape[-1].

    https://docs.pytorch.org/docs/stable/generated/torch.cdist.html
    """
    outputs = node.output().numel
    element, result = norm(node.attrs.get("p", 2.0))
    return ((Counts(add=1) + element) * extent(node, node.input(0), -1) + result) * outputs


def solve(node: Node) -> Counts:
    """for each n × n matrix and k right sides, n (n − 1) (2n − 1) / 6 + n (n − 1) k mac, n (n − 1) / 2 + n k div:
    elimination and two triangular solutions; the largest pivots are found with n (n + 1) / 2 × (1 cmp + 1 bit).

    https://docs.pytorch.org/docs/stable/generated/torch.linalg.solve.html
    """
    matrix = node.input(0)
    size = extent(node, matrix, -1)
    sides = node.output().numel // max(1, product(matrix.dims[:-2]) * size)
    once = Counts(mac=size * (size - 1) * sides, div=size * sides)
    return eliminate(node) + once * product(matrix.dims[:-2])


def cholesky(node: Node) -> Counts:
    """for each n × n matrix, n (n² − 1) / 6 mac + n (n − 1) / 2 div + n sqrt."""
    matrix = node.input(0)
    size = extent(node, matrix, -1)
    once = Counts(mac=size * (size * size - 1) // 6, div=size * (size - 1) // 2, sqrt=size)
    return once * product(matrix.dims[:-2])


def triangular(node: Node) -> Counts:
    """for each of k right sides of an n × n triangle, n (n − 1) / 2 mac + n div; unitriangular: no div.

    https://docs.pytorch.org/docs/stable/generated/torch.linalg.solve_triangular.html
    """
    matrix, sides = node.input(0), node.output()
    size = extent(node, matrix, -1)
    return Counts(mac=(size - 1) * sides.numel // 2, div=0 if node.attrs.get("unit", 0) else sides.numel)


def eliminate(node: Node) -> Counts:
    """at most, for each m × n matrix, r = min(m, n), Σ (m − i) (n − i) mac + Σ (m − i) div + Σ (m − i + 1) × (1 cmp +
    1 bit) for i = 1 … r: elimination with the largest pivots; n × n: n (n − 1) (2n − 1) / 6 mac + n (n − 1) / 2 div + n
    (n + 1) / 2 × (1 cmp + 1 bit).

    https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu_factor.html
    """
    matrix = node.input(0)
    rows, columns = extent(node, matrix, -2), extent(node, matrix, -1)
    steps = rows if rows == columns else min(rows, columns)
    places = steps * (steps - 1) // 2
    below = steps * (rows - 1) - places
    products = steps * (rows - 1) * (columns - 1) - (rows + columns - 2) * places
    once = Counts(mac=products + places * (2 * steps - 1) // 3, div=below, cmp=below + steps, bit=below + steps)
    return once * product(matrix.dims[:-2])


def matrix_power(node: Node) -> Counts:
    """n³ mac for each product: bits(p) − 1 squares and one product for each further one bit of p; p < 0: an inverse
    first.

    https://docs.pytorch.org/docs/stable/generated/torch.linalg.matrix_power.html
    """
    matrix = node.input(0)
    exponent = int(node.attrs.get("n", 1))
    power = abs(exponent)
    products = max(0, power.bit_length() - 1 + power.bit_count() - 1) if power else 0
    counts = Counts(mac=products * matrix.numel * extent(node, matrix, -1))
    return counts + solve(node) if exponent < 0 else counts


def transforms(node: Node) -> Counts:
    """at most 5 N log₂ N operations (2 N log₂ N mul + 3 N log₂ N add) for each line of N complex numbers along each
    transformed axis, N a power of two, other lengths as for DFT; half of that along the last one where X or Y is real.
    An inverse, and a norm that scales: 2 numel(Y) div.

    https://docs.pytorch.org/docs/stable/fft.html
    """
    x, y = node.input(0), node.output()
    axes = list(node.attrs.get("axes") or [-1])
    real = not (is_complex(x.dtype) and is_complex(y.dtype))
    bins = y if is_complex(y.dtype) else x
    counts = Counts(div=2 * y.numel if node.attrs.get("scaled", 0) else 0)
    for axis in axes:
        length, number = extent(node, bins, axis), lines(node, bins, axis)
        if real and axis == axes[-1]:
            counts += _real(node, axis) * number
        else:
            counts += fourier(node, length, real=False) * number
    return counts


def _real(node: Node, axis: int) -> Counts:
    """The transform of a line between real numbers and a spectrum that may be written by its first half."""
    x, y = node.input(0), node.output()
    if not is_complex(y.dtype):
        return fourier(node, extent(node, y, axis), real=True)
    before, after = extent(node, x, axis), extent(node, y, axis)
    if after in (before, before // 2 + 1):
        return fourier(node, before, real=True)
    return half_spectrum(node, after)


_ITERATES = "repeats until it converges, so the number of steps is data"

#: Decompositions, which stay without a count.
_DECOMPOSITIONS = (
    *("linalg_svd", "linalg_svdvals", "svd", "linalg_eig", "linalg_eigh", "linalg_eigvals", "linalg_eigvalsh"),
    *("linalg_lstsq", "linalg_pinv", "pinverse", "linalg_matrix_rank", "linalg_cond", "matrix_exp"),
    "linalg_matrix_exp",
)

OPERATORS: dict[str, Operator] = {
    "aten::conv_tbc": by(conv_tbc, gradient=gradient.by("linear:contraction", gradient.factors)),
    "aten::chain_matmul": by(chain),
    "aten::addr": by(addr, gradient=gradient.by("linear:contraction", gradient.factors)),
    "aten::addbmm": by(addbmm, gradient=gradient.by("linear:contraction", gradient.factors)),
    "aten::tensordot": by(tensordot, gradient=gradient.by("linear:contraction", gradient.factors)),
    "aten::bilinear": by(bilinear, gradient=gradient.by("linear:bilinear", gradient.inputs_at(0, 1, 2))),
    "aten::_grouped_mm": by(grouped_mm, gradient=gradient.by("linear:contraction", gradient.factors)),
    "aten::_weight_only_mm": by(weight_only),
    "aten::linalg_vecdot": by(vecdot, gradient=gradient.by("linear:contraction", gradient.factors)),
    "aten::_addmm_activation": by(addmm_activation),
    "aten::_sparse_mm": by(sparse_mm),
    "aten::cdist": by(distances, gradient=gradient.by("linear:cdist", gradient.all_of_it)),
    "aten::pdist": by(distances),
    "aten::flex_attention": by(
        attention, gradient=gradient.by("linear:attention", "linear:keeps"), needed=needed_attention
    ),
    "aten::ragged_attention": by(
        ragged_attention,
        gradient=gradient.by("linear:ragged", "linear:keeps_in_a_row", again="linear:recomputed_in_a_row"),
        needed=needed_ragged_attention,
    ),
    "aten::linalg_solve": by(solve),
    "aten::linalg_inv": Operator(
        solve,
        "for each n × n matrix, a solution for n right sides: n (n − 1) (2n − 1) / 6 + n² (n − 1) mac, n (n − 1) / 2 + "
        "n² div, n (n + 1) / 2 × (1 cmp + 1 bit)",
    ),
    "aten::linalg_cholesky": by(cholesky),
    "aten::linalg_solve_triangular": by(triangular),
    "aten::linalg_lu": by(eliminate, "bound"),
    "aten::matrix_power": by(matrix_power),
    "aten::fft": by(transforms, "bound", complex=Complex(transforms)),
    "aten::data_dependent": unknown("what runs follows from the elements of tensors"),
    **{f"aten::{op}": unknown(_ITERATES) for op in _DECOMPOSITIONS},
}


# Stacks of recurrent layers, and single cells, as PyTorch calls them: counted as the LSTM, GRU and RNN of ONNX.

_TANH, _SIGMOID, _RELU = ACTIVATIONS["tanh"], ACTIVATIONS["sigmoid"], ACTIVATIONS["relu"]

#: Number of gates, and the pointwise work of one hidden unit in one step without biases.
_KINDS: dict[str, tuple[int, Counts]] = {
    "lstm": (4, Counts(add=4 + 1, mul=3) + _SIGMOID * 3 + _TANH * 2),
    "gru": (3, Counts(add=3 + 2, mul=3) + _SIGMOID * 2 + _TANH),
    "rnn_tanh": (1, Counts(add=1) + _TANH),
    "rnn_relu": (1, Counts(add=1) + _RELU),
}


def _layers(kind: str) -> Rule:
    gates, once = _KINDS[kind]

    def rule(node: Node) -> Counts:
        x = node.input(0)
        steps = x.numel // max(1, extent(node, x, -1))
        total = Counts()
        for w_ih, w_hh, biased, projection in _weights(node, gates):
            hidden = extent(node, w_ih, 0) // gates
            inner = extent(node, w_ih, 1) + extent(node, w_hh, 1)
            own = once + Counts(add=2 * gates if biased else 0, mac=gates * inner)
            total += own * (steps * hidden)
            if projection is not None:
                total += Counts(mac=steps * projection.numel)
        if node.attrs.get("dropout", 0):
            per_layer = node.attrs.get("layers", 1)
            total += Counts(cmp=1, mul=2) * ((per_layer - 1) * node.output().numel)
        return total

    return rule


def _weights(node: Node, gates: int) -> Iterator[tuple[Tensor, Tensor, bool, Tensor | None]]:
    """The weights of each layer and direction: two matrices, two biases, and a projection where the state that the
    second matrix takes is not as wide as the gates.

    Raises:
        ShapeError: they are not as many as the layers need.
    """
    parts = node.attrs.get("layers", 1) * node.attrs.get("directions", 1)
    biased = bool(node.attrs.get("biases", 1))
    weights = node.known_inputs[1:]
    projected = len(weights) > 1 and extent(node, weights[1], 1) * gates != extent(node, weights[1], 0)
    each = (4 if biased else 2) + int(projected)
    if len(weights) < parts * each:
        raise ShapeError(f"{node.op} {node.name!r}: {len(weights)} weights for {parts} layers and directions")
    for part in range(parts):
        own = weights[part * each : (part + 1) * each]
        yield own[0], own[1], biased, own[-1] if projected else None


def _cell(kind: str) -> Rule:
    gates, once = _KINDS[kind]

    def rule(node: Node) -> Counts:
        x, w_ih, w_hh = node.input(0), node.input(1), node.input(2)
        samples = x.numel // max(1, extent(node, x, -1))
        biases = sum(int(node.has_input(i)) for i in (3, 4))
        inner = extent(node, w_ih, 1) + extent(node, w_hh, 1)
        own = once + Counts(add=biases * gates, mac=gates * inner)
        return own * (samples * (extent(node, w_ih, 0) // gates))

    return rule


def _row(rule: Rule, formula: str, kind: str) -> Operator:
    """A row for layers of cells, or one cell; the matrices lie in a row among states and biases."""
    back = gradient.by(f"recurrent:{kind}", f"recurrent:{kind}_keeps")
    return Operator(rule, formula, gradient=back, inputs=inputs(repeated=(Input(weight=Weight("matrices")),)))


_OF = "steps × samples × H times, for each layer and direction: "
_TEXTS = {
    "lstm": "4 (I + H) mac, 4 add (join), 8 add with biases, 3 sigmoid, 2 tanh, 3 mul + 1 add; a projection: P × H mac",
    "gru": "3 (I + H) mac, 3 add (join), 6 add with biases, 2 sigmoid, 1 tanh, 3 mul + 2 add",
    "rnn_tanh": "(I + H) mac, 1 add (join), 2 add with biases, 1 tanh",
    "rnn_relu": "(I + H) mac, 1 add (join), 2 add with biases, 1 cmp",
}

RECURRENT: dict[str, Operator] = {
    **{f"aten::{kind}": _row(_layers(kind), _OF + text, "stack") for kind, text in _TEXTS.items()},
    **{f"aten::{kind}_cell": _row(_cell(kind), "samples × H times: " + text, "cell") for kind, text in _TEXTS.items()},
}
