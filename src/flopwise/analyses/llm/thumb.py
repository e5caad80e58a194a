"""The rules of thumb by which training runs state their FLOPs for each token, forward and backward together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from flopwise.analyses.llm.traffic import weight_traffic
from flopwise.graph.lineage import following, token_ids
from flopwise.operators.folding import fold
from flopwise.profiles.profile import Profile


@dataclass(frozen=True)
class Sizes:
    """What the rules of thumb ask of a model."""

    #: Parameters: all (of a mixture those that are active), of embeddings that are looked up, of position embeddings.
    params: int
    embedding: int
    positions: int
    #: Layers with attention, and heads × elements of a head, summed over them.
    layers: int
    heads_width: int
    #: Tokens of a sequence, width of the model and entries of the vocabulary.
    sequence: int
    width: int
    vocabulary: int


def sizes_of(profile: Profile, sequence: int, tokens: int) -> Sizes:
    """The sizes, read from the program: its look-ups in tables, its attentions and its mixtures of experts.

    Args:
        profile: a step.
        sequence: tokens of a sequence.
        tokens: tokens of the step.
    """
    folding = fold(profile.graph)
    ids = token_ids(profile.graph)
    by_ids = following(profile.graph, {ids} if ids else ())
    used: dict[str, set[str]] = {}
    tables: dict[str, tuple[int, int, bool]] = {}
    layers = heads_width = 0
    for row in profile.rows:
        node = row.node
        if all(t.name in folding.sources for t in node.known_outputs):
            continue
        for tensor in folding.stored(node):
            used.setdefault(tensor.name, set()).add(node.op)
            if node.op == "Gather" and tensor.kind == "weight" and len(tensor.dims) == 2:
                by_token = node.has_input(1) and node.input(1).name in by_ids
                tables[tensor.name] = (int(tensor.dims[0]), int(tensor.dims[1]), by_token)
        if node.op in ("Attention", "ai.onnx.preview::FlexAttention") and len(node.input(0).dims) == 4:
            layers += 1
            heads_width += int(node.input(0).dims[1]) * int(node.input(0).dims[3])
    looked_up = {name: table for name, table in tables.items() if used[name] == {"Gather"}}
    token_tables = [table for table in tables.values() if table[2]] or list(tables.values())[:1]
    vocabulary, width = max((table[:2] for table in token_tables), default=(0, 0))
    return Sizes(
        params=weight_traffic(profile, tokens).active,
        embedding=sum(rows * columns for rows, columns, _ in looked_up.values()),
        positions=sum(rows * columns for rows, columns, by_token in looked_up.values() if not by_token),
        layers=layers,
        heads_width=heads_width,
        sequence=sequence,
        width=width,
        vocabulary=vocabulary,
    )


def kaplan(sizes: Sizes) -> Fraction:
    """6 N: two for each parameter forward, four backward (https://arxiv.org/abs/2001.08361)."""
    return Fraction(6 * sizes.params)


def palm(sizes: Sizes) -> Fraction:
    """6 N + 12 L H Q T, N being all parameters (https://arxiv.org/abs/2204.02311, appendix B)."""
    return Fraction(6 * sizes.params + 12 * sizes.heads_width * sizes.sequence)


def nanogpt(sizes: Sizes) -> Fraction:
    """6 N + 12 L H Q T, N without position embeddings (nanoGPT, model.py, estimate_mfu)."""
    return Fraction(6 * (sizes.params - sizes.positions) + 12 * sizes.heads_width * sizes.sequence)


def torchtitan(sizes: Sizes) -> Fraction:
    """6 N + 12 L H Q T, N without the embeddings that are looked up (torchtitan, torchtitan/models/utils.py)."""
    return Fraction(6 * (sizes.params - sizes.embedding) + 12 * sizes.heads_width * sizes.sequence)


def megatron(sizes: Sizes) -> Fraction:
    """72 L h² (1 + T / 6h + V / 12Lh), h being the model's width, nothing computed twice.

    Source: https://arxiv.org/abs/2104.04473, section 5.1, whose 96 holds with full recomputation.
    """
    layers, width = sizes.layers, sizes.width
    if not layers or not width:
        return Fraction(0)
    return (
        72
        * layers
        * width**2
        * (1 + Fraction(sizes.sequence, 6 * width) + Fraction(sizes.vocabulary, 12 * layers * width))
    )


#: Name -> FLOPs for each token of a step.
RULES: Mapping[str, Callable[[Sizes], Fraction]] = {
    "6N": kaplan,
    "palm": palm,
    "nanogpt": nanogpt,
    "torchtitan": torchtitan,
    "megatron": megatron,
}
