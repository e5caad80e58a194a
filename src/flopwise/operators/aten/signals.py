"""Spectra, linear algebra and distances of PyTorch's that ONNX has no operator for."""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.graph.dtypes import is_complex
from flopwise.operators.aten.linear import eliminate, norm, triangular
from flopwise.operators.complex import Complex
from flopwise.operators.counts import Counts
from flopwise.operators.extents import broadcast, extent, product
from flopwise.operators.fourier import fourier, lines
from flopwise.operators.operator import Operator, by, each


def stft(node: Node) -> Counts:
    """at most the transform of N = n_fft numbers for each frame: 5 N log₂ N operations for a power of two, other
    lengths as for DFT, half of that for a real signal; a window: N mul for each frame, or 2N; normalized: 2 numel(Y)
    mul.

    https://docs.pytorch.org/docs/stable/generated/torch.stft.html
    """
    y, length = node.output(), int(node.attrs.get("n_fft", 1))
    as_pairs = int(len(y.dims) > 0 and y.dims[-1] == 2 and not is_complex(y.dtype))
    bins = y.numel // (2 if as_pairs else 1)
    frames: int = bins // extent(node, y, -3 if as_pairs else -2)
    real = not is_complex(node.input(0).dtype)
    windowed = frames * length * (1 if real else 2) if node.attrs.get("windowed", 0) else 0
    scaled = 2 * bins if node.attrs.get("normalized", 0) else 0
    return fourier(node, length, real) * frames + Counts(mul=windowed + scaled)


def istft(node: Node) -> Counts:
    """at most the transform of N = n_fft numbers for each frame, half of 5 N log₂ N operations for a power of two,
    other lengths as for DFT; and frames × N × (1 div + 2 mul + 2 add) + numel(Y) div for the scale, the window and the
    overlap; normalized: frames × N mul.

    https://docs.pytorch.org/docs/stable/generated/torch.istft.html
    """
    x, length = node.input(0), int(node.attrs.get("n_fft", 1))
    frames = lines(node, x, -2)
    once = Counts(div=1, mul=2 + int(node.attrs.get("normalized", 0)), add=2)
    real = not is_complex(node.output().dtype)
    return (fourier(node, length, real) + once * length) * frames + Counts(div=node.output().numel)


def slogdet(node: Node) -> Counts:
    """at most, for each n × n matrix, the elimination, n (n − 1) (2n − 1) / 6 mac + n (n − 1) / 2 div + n (n + 1) / 2 ×
    (1 cmp + 1 bit), and n × (1 log + 1 add + 1 bit).

    https://docs.pytorch.org/docs/stable/generated/torch.linalg.slogdet.html
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

    Raises:
        ShapeError: the observations have weights.
    """
    if len(node.known_inputs) > 1:
        raise ShapeError(f"{node.op} {node.name!r}: weights of the observations are not counted")
    x = node.input(0)
    width = extent(node, x, 0) if len(x.dims) > 1 else 1
    return Counts(add=2, mac=width) * x.numel + Counts(div=width + width * width)


def corrcoef(node: Node) -> Counts:
    """a cov, and d sqrt + d × d × (2 div + 2 cmp): divided by both deviations, between −1 and 1.

    https://docs.pytorch.org/docs/stable/generated/torch.corrcoef.html
    """
    x = node.input(0)
    width = extent(node, x, 0) if len(x.dims) > 1 else 1
    return cov(node) + Counts(sqrt=width) + Counts(div=2, cmp=2) * (width * width)


def cosine_similarity(node: Node) -> Counts:
    """numel × (1 mac + 2 mul + 2 add) + numel(Y) × (2 sqrt + 2 cmp + 1 mul + 1 div): a product and two norms for each
    pair, numel of both broadcast.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineSimilarity.html
    """
    elements = product(broadcast(node.input(0).dims, node.input(1).dims))
    return Counts(mac=1, mul=2, add=2) * elements + Counts(sqrt=2, cmp=2, mul=1, div=1) * node.output().numel


def pairwise_distance(node: Node) -> Counts:
    """numel × (3 add + 1 mul) + numel(Y) sqrt for p = 2 (one add is for ε), numel × (3 add + 1 bit) for p = 1, numel
    × (2 add + 1 bit + 1 cmp) for p = ∞, else numel × (3 add + 1 bit + 1 pow) + numel(Y) pow; numel of both broadcast.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.PairwiseDistance.html
    """
    element, result = norm(node.attrs.get("p", 2.0))
    elements = product(broadcast(node.input(0).dims, node.input(1).dims))
    return (Counts(add=2) + element) * elements + result * node.output().numel


def trapezoid(node: Node) -> Counts:
    """P × (2 add + 1 mul), P the pairs of neighbours: (yᵢ + yᵢ₋₁) × Δx / 2, added up; when x is given 1 add + 1 div
    more for each pair of its neighbours: (xᵢ − xᵢ₋₁) / 2.

    https://docs.pytorch.org/docs/stable/generated/torch.trapezoid.html
    """
    y, axis = node.input(0), node.attrs.get("dim", -1)
    steps = extent(node, y, axis)
    counts = Counts(add=2, mul=1) * (y.numel // steps * (steps - 1))
    if not node.has_input(1):
        return counts
    x = node.input(1)
    own = x.numel // steps * (steps - 1)
    return counts + Counts(add=1, div=1) * own


def ctc_loss(node: Node) -> Counts:
    """at most N × (T − 1) × (2S + 1) × (2 cmp + 8 add + 3 exp + 1 log): the sum over three predecessors for each state
    of each step after the first, and N × (1 cmp + 5 add + 2 exp + 1 log + 1 bit) for the sum of the last two states;
    reduction mean: N add + N div + 1 div, sum: N add.

    log_probs is (T, N, C), targets (N, S); S is the longest target.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html
    """
    logs, targets = node.input(0), node.input(1)
    steps, samples = extent(node, logs, 0), product(logs.dims[1:-1])
    counts = alignments(samples, steps, extent(node, targets, -1))
    reduction = node.attrs.get("reduction", "mean")
    if reduction == "none":
        return counts
    return counts + Counts(add=samples, div=samples + 1 if reduction == "mean" else 0)


def alignments(samples: int, steps: int, labels: int) -> Counts:
    """The sum over all ways in which labels lie along the steps of a sample, without what reduces it."""
    each_state = Counts(cmp=2, add=8, exp=3, log=1) * (samples * (steps - 1) * (2 * labels + 1))
    return each_state + Counts(cmp=1, add=5, exp=2, log=1, bit=1) * samples


OPERATORS: dict[str, Operator] = {
    "aten::stft": by(stft, "bound", complex=Complex(stft)),
    "aten::istft": by(istft, "bound", complex=Complex(istft)),
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
