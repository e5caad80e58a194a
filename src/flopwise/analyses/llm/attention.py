"""The rows of a language model that multiply queries, keys and values, as one operator or as products of their own."""

from __future__ import annotations

from flopwise.operators.folding import fold
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: Operators that are a whole attention.
_FUSED = frozenset({"Attention", "ai.onnx.preview::FlexAttention", "com.microsoft::GroupQueryAttention"})


def fused_attention(profile: Profile) -> list[Row]:
    """The rows whose operator is a whole attention."""
    return [row for row in profile.rows if row.node.op in _FUSED]


def attention_products(profile: Profile) -> list[Row]:
    """The products before and after a Softmax, where a program computes its attention operator by operator.

    The first multiplies two tensors that are no weights, and nothing but operators without products stands between it
    and the Softmax; the second multiplies what comes from that Softmax with a tensor that is no weight.
    """
    folding = fold(profile.graph)
    scores: dict[str, frozenset[int]] = {}  # tensor -> products whose results it holds
    probabilities: dict[str, frozenset[int]] = {}  # the same, behind a Softmax
    products: set[int] = set()
    for place, row in enumerate(profile.rows):
        node = row.node
        results = [tensor.name for tensor in node.known_outputs]
        names = [tensor.name for tensor in node.known_inputs]
        if node.op in _FUSED:
            continue
        if row.macs:
            if any(tensor.kind == "weight" for tensor in folding.stored(node)):
                continue
            before = [probabilities[name] for name in names[:2] if name in probabilities]
            if before:
                products |= {place}.union(*before)
            else:
                scores.update(dict.fromkeys(results, frozenset({place})))
            continue
        held, behind = (frozenset().union(*(of[n] for n in names if n in of)) for of in (scores, probabilities))
        if node.op == "Softmax":
            held, behind = frozenset(), held | behind
        scores.update(dict.fromkeys(results, held) if held else {})
        probabilities.update(dict.fromkeys(results, behind) if behind else {})
    return [profile.rows[place] for place in sorted(products)]
