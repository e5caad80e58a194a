"""Products of PyTorch's that ONNX has no operator for."""

from __future__ import annotations

from flopwise.counts import Counts
from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.ops.attention import attention
from flopwise.ops.extents import extent, product
from flopwise.ops.operator import Operator, by


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
    """numel(Y) × K mac, K the product of the contracted extents.

    https://docs.pytorch.org/docs/stable/generated/torch.tensordot.html
    """
    left = node.input(0)
    return Counts(mac=node.output().numel * product(extent(node, left, axis) for axis in node.attrs.get("dims", ())))


def bilinear(node: Node) -> Counts:
    """P mac + P mul, P = numel(Y) × in1 × in2; numel(Y) add when B is given: y = x₁ᵀ W x₂ + b.

    W is (out, in1, in2). The terms are multiplied from left to right and the last product is accumulated, as in Einsum.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.Bilinear.html
    """
    outputs = node.output().numel
    terms = outputs * product(node.input(2).dims[1:])
    return Counts(mac=terms, mul=terms, add=outputs if node.has_input(3) else 0)


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
    """numel(X) mac: one product per pair of elements.

    https://docs.pytorch.org/docs/stable/generated/torch.linalg.vecdot.html
    """
    return Counts(mac=max(node.input(0).numel, node.input(1).numel))


def addmm_activation(node: Node) -> Counts:
    """numel(Y) × (K mac + 1 add + 1 cmp), K the last extent of A; with gelu (1 div + 1 erf + 1 add + 2 mul) in place of
    the cmp.
    """
    once = Counts(add=1) + (Counts(div=1, erf=1, add=1, mul=2) if node.attrs.get("gelu", 0) else Counts(cmp=1))
    return (once + Counts(mac=extent(node, node.input(0), -1))) * node.output().numel


def sparse_mm(node: Node) -> Counts:
    """nnz × N mac, nnz the stored elements of the sparse matrix and N the columns of the other.

    https://docs.pytorch.org/docs/stable/generated/torch.sparse.mm.html

    Raises:
        ShapeError: nobody knows how many elements are stored.
    """
    if "nnz" not in node.attrs:
        raise ShapeError(f"{node.op} {node.name!r}: how many elements the sparse matrix stores is not known")
    return Counts(mac=node.attrs["nnz"] * extent(node, node.input(1), -1))


def quantized_layer(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(Y) add when B is given; the result is rescaled, numel(Y) × (1 mul + 1 add
    + 3 cmp). Dynamic: X is quantized first, numel(X) × (1 div + 1 add + 5 cmp), and Y only scaled, numel(Y) mul.

    https://docs.pytorch.org/docs/stable/quantization.html
    """
    outputs = node.output().numel
    counts = Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(2) else 0)
    if node.attrs.get("dynamic", 0):
        return counts + Counts(div=1, add=1, cmp=5) * node.input(0).numel + Counts(mul=outputs)
    return counts + Counts(mul=1, add=1, cmp=3) * outputs


def half_layer(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(Y) add when B is given: the weight is kept in 16 bits."""
    outputs = node.output().numel
    return Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(2) else 0)


def distances(node: Node) -> Counts:
    """numel(Y) × D × (1 add + 1 mac) + numel(Y) sqrt for p = 2, × (2 add + 1 bit) for p = 1, × (1 add + 1 bit + 1 cmp)
    for p = ∞, else × (2 add + 1 bit + 1 pow) + numel(Y) pow; D = X.shape[-1].

    https://docs.pytorch.org/docs/stable/generated/torch.cdist.html
    """
    outputs, p = node.output().numel, node.attrs.get("p", 2.0)
    cells = outputs * extent(node, node.input(0), -1)
    if p == 2:
        return Counts(add=cells, mac=cells, sqrt=outputs)
    if p == 1:
        return Counts(add=2 * cells, bit=cells)
    if p == float("inf"):
        return Counts(add=cells, bit=cells, cmp=cells)
    return Counts(add=2 * cells, bit=cells, pow=cells + outputs)


def solve(node: Node) -> Counts:
    """for each n × n matrix and k right sides, (n³ − n) / 3 + n² k mac, n (n − 1) / 2 + n k div: elimination and two
    triangular solutions; pivots are found with n (n + 1) / 2 cmp.
    """
    matrix = node.input(0)
    size = extent(node, matrix, -1)
    sides = node.output().numel // max(1, product(matrix.dims[:-2]) * size)
    once = Counts(
        mac=(size**3 - size) // 3 + size * size * sides,
        div=size * (size - 1) // 2 + size * sides,
        cmp=size * (size + 1) // 2,
    )
    return once * product(matrix.dims[:-2])


def inverse(node: Node) -> Counts:
    """for each n × n matrix, a solution for n right sides: (n³ − n) / 3 + n³ mac, n (n − 1) / 2 + n² div, n (n + 1) / 2
    cmp.
    """
    return solve(node)


def cholesky(node: Node) -> Counts:
    """for each n × n matrix, n (n² − 1) / 6 mac + n (n − 1) / 2 div + n sqrt."""
    matrix = node.input(0)
    size = extent(node, matrix, -1)
    once = Counts(mac=size * (size * size - 1) // 6, div=size * (size - 1) // 2, sqrt=size)
    return once * product(matrix.dims[:-2])


def triangular(node: Node) -> Counts:
    """for each of k right sides of an n × n triangle, n (n − 1) / 2 mac + n div."""
    matrix, sides = node.input(0), node.output()
    size = extent(node, matrix, -1)
    return Counts(mac=(size - 1) * sides.numel // 2, div=sides.numel)


def eliminate(node: Node) -> Counts:
    """at most, for each n × n matrix, n (n − 1) (2n − 1) / 6 mac + n (n − 1) / 2 div + n (n + 1) / 2
    cmp: elimination with pivots."""
    matrix = node.input(0)
    size = extent(node, matrix, -1)
    once = Counts(mac=size * (size - 1) * (2 * size - 1) // 6, div=size * (size - 1) // 2, cmp=size * (size + 1) // 2)
    return once * product(matrix.dims[:-2])


def matrix_power(node: Node) -> Counts:
    """n³ mac for each product: bits(p) − 1 squares and one product for each further one bit of p."""
    matrix = node.input(0)
    power = abs(int(node.attrs.get("n", 1)))
    products = max(0, power.bit_length() - 1 + power.bit_count() - 1) if power else 0
    return Counts(mac=products * matrix.numel * extent(node, matrix, -1))


def fourier(node: Node) -> Counts:
    """at most numel(Y) × N × 4 mac for each transformed axis, the definition's sum over N terms (a fast transform needs
    fewer); a complex product is 4 mac. The factors are constants.

    https://docs.pytorch.org/docs/stable/fft.html
    """
    x, y = node.input(0), node.output()
    axes = node.attrs.get("axes") or [-1]
    larger: Tensor = y if y.numel >= x.numel else x
    return Counts(mac=sum(4 * larger.numel * extent(node, larger, axis) for axis in axes))


OPERATORS: dict[str, Operator] = {
    "aten::conv_tbc": by(conv_tbc),
    "aten::chain_matmul": by(chain),
    "aten::addr": by(addr),
    "aten::addbmm": by(addbmm),
    "aten::tensordot": by(tensordot),
    "aten::bilinear": by(bilinear),
    "aten::_grouped_mm": by(grouped_mm),
    "aten::_weight_only_mm": by(weight_only),
    "aten::linalg_vecdot": by(vecdot),
    "aten::_addmm_activation": by(addmm_activation),
    "aten::_sparse_mm": by(sparse_mm),
    "quantized::linear": by(quantized_layer),
    "quantized::conv": by(quantized_layer),
    "quantized::linear_fp16": by(half_layer),
    "aten::cdist": by(distances),
    "aten::pdist": by(distances),
    "aten::flex_attention": by(attention),
    "aten::linalg_solve": by(solve),
    "aten::linalg_inv": by(inverse),
    "aten::linalg_cholesky": by(cholesky),
    "aten::linalg_solve_triangular": by(triangular),
    "aten::linalg_lu": by(eliminate, "bound"),
    "aten::matrix_power": by(matrix_power),
    "aten::fft": by(fourier, "bound"),
}
