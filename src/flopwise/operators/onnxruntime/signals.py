"""Sampling, signals and linear algebra of com.microsoft, tokens, and recurrent state."""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node, Shape, Tensor
from flopwise.graph.dtypes import has_width
from flopwise.operators import shape
from flopwise.operators.counts import RMS, RMS_ROW, SIGMOID, SILU, SOFTMAX, SOFTPLUS, Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.fourier import fourier
from flopwise.operators.inputs import DATA, FACTOR, SETTING, STATE, inputs
from flopwise.operators.onnx import attention, linear, movement, spatial
from flopwise.operators.operator import Operator, by, counted_as, each_input, nothing, unknown

# Pooling, sampling, Fourier transforms, distances and inverses of ``com.microsoft``.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md


def crop_and_resize(node: Node) -> Counts:
    """numel(Y) × (4 mul + 4 add) (bilinear: 4 neighbours) and rois × h × w × 4 mul (their weights); each of the rois ×
    (h + w) rows and columns takes 1 mul + 1 add (its place), 2 cmp (the edges) and 2 cmp + 2 add (its neighbours and
    their weights), each of the rois 4 mul + 2 add + 2 div. nearest: no averages and weights, and 1 cmp in place of 2
    cmp + 2 add.

    Y is (rois, C, h, w). Places beyond the edge are processed like any other.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CropAndResize
    """
    y = node.output()
    regions, _, height, width = (extent(node, y, axis) for axis in range(4))
    lines = regions * (height + width)
    work = Counts(mul=4, add=2, div=2) * regions + Counts(mul=1, add=1, cmp=2) * lines
    if node.attrs.get("mode", "bilinear") == "nearest":
        return work + Counts(cmp=lines)
    return (
        work + Counts(cmp=2, add=2) * lines + Counts(mul=4, add=4) * y.numel + Counts(mul=4 * regions * height * width)
    )


def distances(node: Node) -> Counts:
    """numel(C) × N × (2 add + 1 mul): a difference, its square and their sum, for N features; metric euclidean:
    numel(C) sqrt.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CDist

    Raises:
        ShapeError: the metric is another one.
    """
    metric = node.attrs.get("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise ShapeError(f"{node.op} {node.name!r}: there is no count for the metric {metric!r}")
    pairs = node.output().numel
    terms = pairs * extent(node, node.input(0), -1)
    return Counts(add=2 * terms, mul=terms, sqrt=pairs if metric == "euclidean" else 0)


def spectrum(node: Node) -> Counts:
    """at most 2.5 N log₂ N operations (N log₂ N mul + 1.5 N log₂ N add) for each real line of N elements, N a power of
    two, other lengths as for DFT; signal_ndim > 1: the transform of the bins along each further axis, twice that.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Rfft
    """
    signal, axes = node.input(0), integer(node, "signal_ndim", 1)
    return _transforms(node, signal.dims, node.output().dims[:-1], axes)


def signal_of_spectrum(node: Node) -> Counts:
    """at most as Rfft, the other way round, and numel(Y) div.

    X is (..., n / 2 + 1, 2): the other half of the spectrum mirrors the one that is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Irfft
    """
    y = node.output()
    return _transforms(node, y.dims, node.input(0).dims[:-1], integer(node, "signal_ndim", 1)) + Counts(div=y.numel)


def _transforms(node: Node, signal: Shape, bins: Shape, axes: int) -> Counts:
    """A transform between real numbers and bins along the last axis, and of the bins along those before it."""
    if not 1 <= axes <= len(signal) == len(bins):
        raise ShapeError(f"{node.op} {node.name!r}: {signal} and {bins} do not fit each other")
    counts = fourier(node, signal[-1], real=True) * product(signal[:-1])
    for axis in range(-axes, -1):
        counts += fourier(node, bins[axis], real=False) * (product(bins[:axis]) * product(bins[axis:][1:]))
    return counts


def inverse(node: Node) -> Counts:
    """at most, for each M × M matrix, M³ mac + M² div (elimination beside the identity) and M (M + 1) / 2 × (1 bit + 1
    cmp) (the largest pivot of each column).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Inverse
    """
    x = node.input(0)
    size = extent(node, x, -1)
    pivots = size * (size + 1) // 2
    return Counts(mac=size * size * size, div=size * size, bit=pivots, cmp=pivots) * product(x.dims[:-2])


OPERATORS: dict[str, Operator] = {
    "com.microsoft::MaxpoolWithMask": counted_as(spatial.POOLING["MaxPool"], shape=shape.twin("MaxPool")),
    "com.microsoft::NhwcMaxPool": counted_as(spatial.POOLING["MaxPool"], types="movement:max_pool"),
    "com.microsoft::GridSample": counted_as(
        spatial.RESIZE["GridSample"], shape=shape.twin("GridSample", (0, 1), ("mode",))
    ),
    "com.microsoft::CropAndResize": by(crop_and_resize, types="movement:cropped"),
    "com.microsoft::CDist": by(distances, types="products:pairs"),
    "com.microsoft::Inverse": by(inverse, "bound", shape=shape.alike),
    "com.microsoft::Rfft": by(spectrum, "bound", types="products:spectrum"),
    "com.microsoft::Irfft": by(signal_of_spectrum, "bound", types="products:signal"),
    "com.microsoft::DynamicTimeWarping": each_input(
        Counts(cmp=3, add=1), note="the cheapest of three ways to each cell", types="products:warping_path"
    ),
}


# Operators of ``com.microsoft`` on tokens and strings: hashes, n-grams, and what compares tokens.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md


def murmur_hash(node: Node) -> Counts:
    """numel(X) × (w × (3 mul + 1 add + 3 bit) + 2 mul + 7 bit), w the 4-byte words of an element: MurmurHash3_x86_32; a
    rotation is 1 bit.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MurmurHash3

    Raises:
        ShapeError: the elements are strings, whose lengths are data.
    """
    x = node.input(0)
    if not has_width(x.dtype):
        raise ShapeError(f"{node.op} {node.name!r}: the lengths of the strings in {x.name!r} depend on the data")
    words = x.nbytes // 4
    return Counts(mul=3, add=1, bit=3) * words + Counts(mul=2, bit=7) * x.numel


def ngram_hashes(node: Node) -> Counts:
    """tokens × (n mul + (n − 1) bit + heads div), n = max_ngram_size, heads = the last extent of hash_ids: products and
    exclusive ors, which each longer n-gram goes on with, and remainders; head_offsets: tokens × heads add; reset_on_eos
    and segment_ids: tokens cmp each.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NGramHashMapping
    """
    return _hashed(node, offsets=4, segments=6)


def packed_ngram_hashes(node: Node) -> Counts:
    """as NGramHashMapping.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.VarlenNGramHashMapping
    """
    return _hashed(node, offsets=5, segments=7)


def _hashed(node: Node, offsets: int, segments: int) -> Counts:
    y, longest = node.output(), integer(node, "max_ngram_size")
    tokens = product(y.dims[:-1])
    compared = int(bool(node.attrs.get("reset_on_eos", 0))) + int(node.has_input(segments))
    return Counts(div=1, add=int(node.has_input(offsets))) * y.numel + Counts(
        mul=longest * tokens, bit=(longest - 1) * tokens, cmp=compared * tokens
    )


def repeated_ngrams(node: Node) -> Counts:
    """at most B × S × (ngram_size − 1) cmp: the last tokens are compared with those before each position.

    input_ids is (B, S).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NGramRepeatBlock
    """
    return Counts(cmp=node.input(0).numel * (integer(node, "ngram_size") - 1))


def bifurcation(node: Node) -> Counts:
    """at most numel(pred_tokens) cmp (where predicted and source tokens part), and numel(src_tokens) × (m + ... + n)
    cmp, m = min_ngram_size, n = max_ngram_size (the last n-grams are looked up in the source tokens).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BifurcationDetector
    """
    shortest, longest = integer(node, "min_ngram_size", 1), integer(node, "max_ngram_size", 3)
    lengths = (shortest + longest) * (longest - shortest + 1) // 2
    predicted = node.input(3).numel if node.has_input(3) else 0
    return Counts(cmp=predicted + node.input(0).numel * lengths)


def accepted_prefix(node: Node) -> Counts:
    """at most B × (head_rows − 1) cmp (each draft token with the verifier's prediction) and numel(status) bit (the
    status words are or-ed).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SpeculativePrefixCommit
    """
    drafts = node.output().numel * (integer(node, "head_rows", 8) - 1)
    return Counts(cmp=drafts, bit=node.input(2).numel)


def word_convolution(node: Node) -> Counts:
    """at most places × filters × (prod(W.shape[1:]) mac + 1 add + 1 tanh + 1 cmp), places = max(L − window + 1, 1) for
    each word of L characters: a convolution over its characters, a bias, tanh, and the largest of each filter.

    Sequence is (words, L); W is (filters, 1, window, char_embedding_size). Padding ends a word sooner.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.WordConvEmbedding
    """
    sequence, kernel = node.input(0), node.input(1)
    length, window = extent(node, sequence, -1), extent(node, kernel, 2)
    places = max(length - window + 1, 1) if isinstance(length, int) else length
    results = product(sequence.dims[:-1]) * places * extent(node, kernel, 0)
    return Counts(mac=product(kernel.dims[1:]), add=1, tanh=1, cmp=1) * results


_SEARCHES = "holds whole models and runs them until the data say stop, at most max_length times"

TOKENS: dict[str, Operator] = {
    "com.microsoft::MurmurHash3": by(murmur_hash, types="language:murmur_hash"),
    "com.microsoft::NGramHashMapping": by(ngram_hashes, types="language:hashes"),
    "com.microsoft::VarlenNGramHashMapping": by(packed_ngram_hashes, types="language:hashes"),
    "com.microsoft::NGramRepeatBlock": by(repeated_ngrams, "bound", types="language:repeated"),
    "com.microsoft::BifurcationDetector": by(bifurcation, "bound", types="language:bifurcation"),
    "com.microsoft::SpeculativePrefixCommit": by(accepted_prefix, "bound", types="language:committed"),
    "com.microsoft::WordConvEmbedding": by(word_convolution, "bound", types="language:words"),
    "com.microsoft::Unique": counted_as(movement.OPERATORS["Unique"], types="language:unique"),
    "com.microsoft::Tokenizer": nothing(
        "works on the characters of strings, not on numbers", types="language:tokenized"
    ),
    # Searches for the best words: containers whose models are not operators of the graph around them.
    "com.microsoft::BeamSearch": unknown(_SEARCHES, types="language:beams"),
    "com.microsoft::WhisperBeamSearch": unknown(_SEARCHES, types="language:beams"),
    "com.microsoft::GreedySearch": unknown(_SEARCHES, types="language:sequences"),
    "com.microsoft::Sampling": unknown(_SEARCHES, types="language:sequences"),
}


# Operators of ``com.microsoft`` for models with a recurrent state, and the gates around them.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md


def causal_convolution(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, and numel(Y) add when bias is given; activation silu or swish: numel(Y) × (1
    mul + 1 bit + 1 exp + 1 add + 1 div).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CausalConvWithState
    """
    return _convolved(node, bias=2)


def packed_causal_convolution(node: Node) -> Counts:
    """as CausalConvWithState; kernel_delta: numel(Y) × (2 add + 1 mul) (both taps of each element, and the mask).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.VarlenCausalConvWithState
    """
    work = _convolved(node, bias=3)
    return work + Counts(add=2, mul=1) * node.output().numel if node.has_input(6) else work


def _convolved(node: Node, bias: int) -> Counts:
    outputs = node.output().numel
    work = Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(bias) else 0)
    return work + (SILU * outputs if node.attrs.get("activation", "none") != "none" else Counts())


def gated_delta_net(node: Node) -> Counts:
    """S × (1 mac + 1 add) (k ⊗ v added to the state), S = tokens × Nv × dk × dv; S mac + numel(Y) mul (read and
    scaled). Update rules gated and gated_delta: S mul + numel(decay) exp; delta and gated_delta: S mac + tokens × Nv ×
    dv × (1 add + 1 mul). gate_activation softplus, or qwen: numel(decay) × (2 add + 1 exp + 1 log + 1 mul) + Nv × (1
    exp + 1 bit); sigmoid, or kda: numel(decay) × (2 add + 2 mul + 1 bit + 1 exp + 1 div) + Nv exp; beta_activation:
    numel(beta) × (1 bit + 1 exp + 1 add + 1 div); qk_l2_norm: each element of Q and K (1 mul + 1 add + 1 div), each of
    their rows 1 sqrt.

    Y is (tokens, Nv, dv); dk is the last extent of Q, or of initial_state where Q, K and V are packed.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedDeltaNet
    """
    y, packed = node.output(), not node.has_input(1)
    size = extent(node, node.input(6), -1) if packed else extent(node, node.input(0), -1)
    state = y.numel * size
    update = node.attrs.get("update_rule", "gated_delta")
    if update not in attention.UPDATES:
        raise ShapeError(f"{node.op} {node.name!r}: unknown update_rule {update!r}")
    work = Counts(mac=2 * state, add=state, mul=y.numel)
    if "gated" in update:
        work += Counts(mul=state, exp=node.input(4).numel)
    if "delta" in update:
        work += Counts(mac=state) + Counts(add=1, mul=1) * y.numel
    gate = node.attrs.get("gate_activation", "none")
    if gate in ("softplus", "qwen"):
        work += (SOFTPLUS + Counts(add=1, mul=1)) * node.input(4).numel + Counts(exp=1, bit=1) * node.input(7).numel
    elif gate in ("sigmoid", "kda"):
        work += (SIGMOID + Counts(add=1, mul=2)) * node.input(4).numel + Counts(exp=node.input(7).numel)
    elif gate != "none":
        raise ShapeError(f"{node.op} {node.name!r}: unknown gate_activation {gate!r}")
    if node.attrs.get("beta_activation", "none") == "sigmoid":
        work += SIGMOID * node.input(5).numel
    if node.attrs.get("qk_l2_norm", 0):
        elements = node.input(0).numel - y.numel if packed else node.input(0).numel + node.input(1).numel
        work += Counts(mul=1, add=1, div=1) * elements + Counts(sqrt=elements // size)
    return work


def linear_attention_gate(node: Node) -> Counts:
    """numel(a) × (2 add + 1 exp + 1 log + 1 mul): decay_scale × softplus(a + dt_bias); and numel(b) × (1 bit + 1 exp +
    1 add + 1 div) when b is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.LinearAttentionGate
    """
    work = (SOFTPLUS + Counts(add=1, mul=1)) * node.input(0).numel
    return work + (SIGMOID * node.input(3).numel if node.has_input(3) else Counts())


def gated_rms_normalization(node: Node) -> Counts:
    """numel(X) × (2 mul + 1 add + 1 div) + rows × (1 div + 1 add + 1 sqrt) (RMSNormalization of rows as long as scale),
    and numel(X) × 1 mul by the gate's silu, 1 mul + 1 bit + 1 exp + 1 add + 1 div; activation sigmoid: 1 mul less.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRMSNorm
    """
    x = node.input(0)
    gate = SIGMOID if node.attrs.get("activation", "silu") == "sigmoid" else SILU
    return (RMS + gate + Counts(mul=1)) * x.numel + RMS_ROW * (x.numel // node.input(1).numel)


def engram_gate(node: Node) -> Counts:
    """RMSNormalization of key and query, numel(key) mac (their products), rows × (1 div + 1 bit + 2 cmp + 1 sqrt + 1
    mul + a sigmoid of 1 bit + 1 exp + 1 add + 1 div) (the gate), numel(Y) mul; gated_value_normed: RMSNormalization of
    Y.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EngramGate
    """
    key, y = node.input(0), node.output()
    rows = product(key.dims[:-1])
    norms = 2 + int(len(node.outputs) > 1 and node.outputs[1] is not None)
    gate = Counts(div=1, bit=1, cmp=2, sqrt=1, mul=1) + SIGMOID
    normed = RMS * key.numel + RMS_ROW * rows
    return normed * norms + Counts(mac=key.numel, mul=y.numel) + gate * rows


def mamba(node: Node) -> Counts:
    """c × (k mac + 1 add) and c × (1 mul + 1 bit + 1 exp + 1 add + 1 div) (convolution and silu of the R × channels
    elements, k taps); R × heads × (2 add + 2 exp + 1 log + 1 cmp + 1 mul) (the step, and its decay); S × (1 mul + 2 mac
    + 1 add) (the state decays, takes x ⊗ B up, and is read), S = numel(Y) × d_state; numel(Y) × (2 mul + 1 add) (the
    step times x, D times x); numel(Y) × (2 mul + 1 bit + 1 exp + 1 add + 1 div) (the gate's silu); and RMSNormalization
    of Y in n_groups rows for each token.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Mamba2Verify
    """
    y, taps = node.output(), node.input(3)
    rows, heads, groups = extent(node, y, 0), integer(node, "heads"), integer(node, "n_groups")
    convolved = rows * extent(node, taps, 0)
    work = (Counts(mac=extent(node, taps, -1), add=1) + SILU) * convolved
    work += (SOFTPLUS + Counts(add=1, cmp=1, mul=1, exp=1)) * (rows * heads)
    work += Counts(mac=2, mul=1, add=1) * (y.numel * integer(node, "d_state", 128))
    return work + (Counts(mul=3, add=1) + SILU + RMS) * y.numel + RMS_ROW * (rows * groups)


def attended_lstm(node: Node) -> Counts:
    """as LSTM whose input is X beside the attention, as wide as W says; numel(M) × A mac once for each direction (the
    keys); and for each direction, step and sample H × A mac (the query), Tm × A × (1 add + 1 tanh + 1 mac) + softmax
    over Tm (alignment), Tm × Dm mac (context), and (H + Dm) × aw mac when AW is given.

    M is (B, Tm, Dm), MW is (directions, Dm, A), AW is (directions, Dm + H, aw). All steps count.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.AttnLSTM
    """
    x, w, r, memory, keys = node.input(0), node.input(1), node.input(2), node.input(11), node.input(9)
    wide = Tensor(x.name, (*x.dims[:2], extent(node, w, -1)), x.dtype)
    plain = linear.lstm(Node("LSTM", node.name, (wide, *node.inputs[1:8]), node.outputs, node.attrs))
    length, depth, hidden = extent(node, memory, 1), extent(node, memory, 2), extent(node, r, -1)
    attended = extent(node, keys, -1)
    layer = extent(node, node.input(13), 1) * extent(node, node.input(13), 2) if node.has_input(13) else 0
    once = Counts(mac=hidden * attended + length * depth + layer)
    once += Counts(add=1, tanh=1, mac=1) * (length * attended) + SOFTMAX * length
    steps = extent(node, x, 0) * extent(node, x, 1)
    return plain + (once * steps + Counts(mac=memory.numel * attended)) * extent(node, w, 0)


RECURRENT_STATE: dict[str, Operator] = {
    "com.microsoft::AttnLSTM": by(attended_lstm, types="language:lstm"),
    "com.microsoft::CausalConvWithState": by(
        causal_convolution, inputs=inputs(FACTOR, FACTOR), types="language:causal_convolution"
    ),
    "com.microsoft::VarlenCausalConvWithState": by(
        packed_causal_convolution, types="language:packed_causal_convolution"
    ),
    "com.microsoft::LinearAttention": by(
        attention.linear_attention, inputs=inputs(FACTOR, FACTOR, FACTOR), types="language:linear_attention"
    ),
    "com.microsoft::LinearAttentionGate": by(linear_attention_gate, types="language:gates"),
    "com.microsoft::GatedDeltaNet": by(gated_delta_net, types="language:gated_delta_net"),
    "com.microsoft::GatedRMSNorm": by(gated_rms_normalization, shape=shape.alike),
    "com.microsoft::Mamba2Verify": by(
        mamba, inputs=inputs(FACTOR, STATE, STATE, FACTOR, *(DATA,) * 5, SETTING), types="language:mamba"
    ),
    "com.microsoft::ConvStateReplay": nothing(
        "copies elements of a state and of what was captured after it",
        inputs=inputs(STATE, DATA, DATA, SETTING),
        types="language:written",
    ),
    "com.microsoft::GatedDeltaNetStateReplay": unknown(
        "repeats as many updates of a state as its metadata say, which are data, as is the size of the state",
        inputs=inputs(STATE, DATA, DATA, SETTING),
        types="language:written",
    ),
    "com.microsoft::EngramGate": by(engram_gate, shape=shape.both_alike),
}
