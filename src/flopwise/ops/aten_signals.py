"""Spectra, linear algebra and distances of PyTorch's that ONNX has no operator for."""

from __future__ import annotations

from flopwise.counts import Counts
from flopwise.graph import Node
from flopwise.ops.aten_linear import eliminate, triangular
from flopwise.ops.extents import extent, product
from flopwise.ops.operator import Operator, by, each


def stft(node: Node) -> Counts:
    """at most numel(Y) × N × 2 mac, the definition's sum over N = n_fft terms of each frame (a fast transform needs
    fewer); a window: N mul for each frame.

    https://docs.pytorch.org/docs/stable/generated/torch.stft.html
    """
    y, length = node.output(), int(node.attrs.get("n_fft", 1))
    real = int(len(y.dims) > 0 and y.dims[-1] == 2 and not (y.dtype or "").startswith("complex"))
    bins = y.numel // (2 if real else 1)
    frames: int = bins // (length // 2 + 1)
    return Counts(mac=2 * bins * length, mul=frames * length if node.attrs.get("windowed", 0) else 0)


def istft(node: Node) -> Counts:
    """at most numel(X) × N × 4 mac, the definition's sum over the bins for each of N = n_fft elements of a frame, and
    frames × N × (2 mul + 2 add) + numel(Y) div for the window and the overlap.

    https://docs.pytorch.org/docs/stable/generated/torch.istft.html
    """
    x, length = node.input(0), int(node.attrs.get("n_fft", 1))
    frames = x.numel // (length // 2 + 1)
    return Counts(mac=4 * x.numel * length) + Counts(mul=2, add=2) * (frames * length) + Counts(div=node.output().numel)


def slogdet(node: Node) -> Counts:
    """at most, for each n × n matrix, the elimination, n (n − 1) (2n − 1) / 6 mac + n (n − 1) / 2 div + n (n + 1) / 2
    cmp, and n × (1 log + 1 add + 1 bit).
    """
    matrix = node.input(0)
    diagonal = product(matrix.dims[:-2]) * extent(node, matrix, -1)
    return eliminate(node) + Counts(log=1, add=1, bit=1) * diagonal


def cholesky_solve(node: Node) -> Counts:
    """two triangular solutions: for each of k right sides of an n × n matrix, n (n − 1) mac + 2n div."""
    return triangular(node) * 2


def cov(node: Node) -> Counts:
    """numel(X) × 2 add + d div (the means) + d × d × n mac + d × d div, X is (d, n).

    https://docs.pytorch.org/docs/stable/generated/torch.cov.html
    """
    x = node.input(0)
    width = extent(node, x, 0) if len(x.dims) > 1 else 1
    return Counts(add=2, mac=width) * x.numel + Counts(div=width + width * width)


def corrcoef(node: Node) -> Counts:
    """a cov, and d sqrt + d × d × 2 div.

    https://docs.pytorch.org/docs/stable/generated/torch.corrcoef.html
    """
    x = node.input(0)
    width = extent(node, x, 0) if len(x.dims) > 1 else 1
    return cov(node) + Counts(sqrt=width, div=2 * width * width)


def cosine_similarity(node: Node) -> Counts:
    """numel(X) × 3 mac + numel(Y) × (2 sqrt + 2 cmp + 1 mul + 1 div): a product and two norms for each pair.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineSimilarity.html
    """
    elements = max(node.input(0).numel, node.input(1).numel)
    return Counts(mac=3 * elements) + Counts(sqrt=2, cmp=2, mul=1, div=1) * node.output().numel


def pairwise_distance(node: Node) -> Counts:
    """numel(X) × (2 add + 1 mac) + numel(Y) sqrt for p = 2 (the second add is ε); else numel(X) × (3 add + 1 bit +
    1 pow) + numel(Y) pow.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.PairwiseDistance.html
    """
    elements, outputs = max(node.input(0).numel, node.input(1).numel), node.output().numel
    if node.attrs.get("p", 2.0) == 2:
        return Counts(add=2, mac=1) * elements + Counts(sqrt=outputs)
    return Counts(add=3, bit=1, pow=1) * elements + Counts(pow=outputs)


def trapezoid(node: Node) -> Counts:
    """numel(y) × (2 add + 1 mul + 1 div), and 1 add more when x is given.

    https://docs.pytorch.org/docs/stable/generated/torch.trapezoid.html
    """
    return Counts(add=2 + int(node.has_input(1)), mul=1, div=1) * node.input(0).numel


def ctc_loss(node: Node) -> Counts:
    """at most T × N × (2S + 1) × (2 cmp + 6 add + 3 exp + 1 log): the sum over three predecessors for each state of
    each step.

    log_probs is (T, N, C), targets (N, S); S is the longest target.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html
    """
    steps, targets = node.input(0), node.input(1)
    rows = product(steps.dims[:-1])
    longest = extent(node, targets, -1)
    return Counts(cmp=2, add=6, exp=3, log=1) * (rows * (2 * longest + 1))


OPERATORS: dict[str, Operator] = {
    "aten::stft": by(stft, "bound"),
    "aten::istft": by(istft, "bound"),
    "aten::slogdet": by(slogdet, "bound"),
    "aten::cholesky_solve": by(cholesky_solve),
    "aten::cov": by(cov),
    "aten::corrcoef": by(corrcoef),
    "aten::cross": each("a cross product has 2 products and 1 difference for each element", mul=2, add=1),
    "aten::cosine_similarity": by(cosine_similarity),
    "aten::pairwise_distance": by(pairwise_distance),
    "aten::trapezoid": by(trapezoid),
    "aten::ctc_loss": by(ctc_loss, "bound"),
}
