"""Text: strings are not numbers, so what is done to them is not counted; counting n-grams is."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import Counts
from flopwise.operators.extents import required
from flopwise.operators.operator import Operator, by, nothing


def tf_idf_vectorizer(node: Node) -> Counts:
    """at most numel(X) × (max_skip_count + 1) × (max_gram_length cmp + (max_gram_length − min_gram_length + 1) add),
    an n-gram of each length looked up from each element and counted; mode IDF: numel(Y) × (1 cmp + 1 mul); TFIDF:
    numel(Y) × 1 mul.

    A look-up of one more element is one comparison. How many n-grams are in the pool depends on the data.

    https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html
    """
    longest: int = required(node, "max_gram_length")
    shortest: int = required(node, "min_gram_length")
    skips: int = required(node, "max_skip_count")
    lookup = Counts(cmp=longest, add=max(0, longest - shortest + 1))
    weigh = {"IDF": Counts(cmp=1, mul=1), "TFIDF": Counts(mul=1)}.get(required(node, "mode"), Counts())
    return lookup * (node.input(0).numel * (skips + 1)) + weigh * node.output().numel


OPERATORS: dict[str, Operator] = {
    "StringConcat": nothing("works on the characters of strings, not on numbers", shape=shape.common),
    "StringNormalizer": nothing(
        "works on the characters of strings, not on numbers", shape="making:normalized_strings"
    ),
    "StringSplit": nothing(
        "works on the characters of strings, not on numbers", shape="making:split_strings", dtype=("string", "int64")
    ),
    "RegexFullMatch": nothing("works on the characters of strings, not on numbers", shape=shape.alike, dtype="bool"),
    "TfIdfVectorizer": by(tf_idf_vectorizer, "bound", shape="making:occurrences", dtype="float32"),
}
