"""Scores of the vocabulary for every position, where the next token needs those of the last."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.attention import pairs_used, relates_positions
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject
from flopwise.analyses.needed.needed import logits_of
from flopwise.graph import Node, Tensor
from flopwise.memory.attention import Unfused, is_fused, unfused_attention
from flopwise.rows import Row


def find(subject: Subject) -> Iterator[Change]:
    """The product that scores the vocabulary, against one of a single position."""
    logits = logits_of(subject.profile)
    if logits is None or logits.positions < 2 or _sees_all(subject):
        return
    node = subject.profile.rows[logits.place].node
    position = next(p for p, other in enumerate(subject.nodes) if other is node)
    source, result = node.input(0), node.output()
    if len(source.dims) != 3:
        return
    batch, _, width = source.dims
    last = Tensor(f"{source.name}.last", (batch, 1, width), source.dtype)
    scores = Tensor(result.name, (batch, 1, result.dims[-1]), result.dtype)
    after = Node(node.op, node.name, (last, *node.inputs[1:]), (scores,), node.attrs, version=node.version)
    text = f"{logits.positions:,} positions are scored over {int(result.dims[-1]):,} entries; the next token needs one"
    yield Change((position,), text, (after,))


def _sees_all(subject: Subject) -> bool:
    """True for an encoder: each position sees those behind it, so that it does not generate."""
    fused = [each for each in subject.profile.rows if is_fused(each.node) and each.macs]
    unfused = [each for each in unfused_attention(subject.graph) if each.pairs]
    if not fused and not unfused:
        return False
    return all(map(_fused_beyond_causal, fused)) and all(_beyond_causal(subject, each) for each in unfused)


def _fused_beyond_causal(attention: Row) -> bool:
    """True where a mask leaves more pairs than a causal one does."""
    queries = int(attention.node.input(0).dims[-2])
    return 2 * queries * (attention.needed_macs or 0) > (queries + 1) * (attention.macs or 0)


def _beyond_causal(subject: Subject, attention: Unfused) -> bool:
    """The same of an attention operator by operator; a mask that follows from positions counts as causal."""
    queries = int(subject.nodes[attention.scores[0]].output().dims[-2])
    used = pairs_used(subject, attention)
    causal = attention.causal is not None and relates_positions(subject, attention)
    return not causal and 2 * queries * used > (queries + 1) * attention.pairs


RULE = Rule(
    name="all-logits",
    about="Score the vocabulary for the last position alone, where the model generates.",
    exactness="same",
    source="arithmetic: of generation; training and perplexity need all positions. transformers: logits_to_keep",
    find=find,
    code=lambda change: "head(hidden[:, -1:]) in place of head(hidden)[:, -1:]",
    trained=False,
)
