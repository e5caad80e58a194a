"""Operators of ``com.microsoft`` on tokens and strings: hashes, n-grams, and what compares tokens.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.graph.dtypes import has_width
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.onnx import movement
from flopwise.operators.operator import Operator, by, counted_as, nothing, unknown


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

OPERATORS: dict[str, Operator] = {
    "com.microsoft::MurmurHash3": by(murmur_hash, types="tokens:murmur_hash"),
    "com.microsoft::NGramHashMapping": by(ngram_hashes, types="tokens:hashes"),
    "com.microsoft::VarlenNGramHashMapping": by(packed_ngram_hashes, types="tokens:hashes"),
    "com.microsoft::NGramRepeatBlock": by(repeated_ngrams, "bound", types="tokens:repeated"),
    "com.microsoft::BifurcationDetector": by(bifurcation, "bound", types="tokens:bifurcation"),
    "com.microsoft::SpeculativePrefixCommit": by(accepted_prefix, "bound", types="tokens:committed"),
    "com.microsoft::WordConvEmbedding": by(word_convolution, "bound", types="tokens:words"),
    "com.microsoft::Unique": counted_as(movement.OPERATORS["Unique"], types="tokens:unique"),
    "com.microsoft::Tokenizer": nothing("works on the characters of strings, not on numbers", types="tokens:tokenized"),
    # Searches for the best words: containers whose models are not operators of the graph around them.
    "com.microsoft::BeamSearch": unknown(_SEARCHES, types="tokens:beams"),
    "com.microsoft::WhisperBeamSearch": unknown(_SEARCHES, types="tokens:beams"),
    "com.microsoft::GreedySearch": unknown(_SEARCHES, types="tokens:sequences"),
    "com.microsoft::Sampling": unknown(_SEARCHES, types="tokens:sequences"),
}
