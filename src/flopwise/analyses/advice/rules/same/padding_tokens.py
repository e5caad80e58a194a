"""Tokens that are padding in every sequence of a batch."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject


def find(subject: Subject) -> Iterator[Change]:
    """The whole model, against itself without the tokens that the given mask takes out of every sequence."""
    if subject.unpadded is None:
        return
    shorter = {t.name: t for t in subject.unpadded.graph.inputs}
    sizes = [(t.dims[1], shorter[t.name].dims[1]) for t in subject.graph.inputs if t.shape != shorter[t.name].shape]
    tokens, used = sizes[0]
    text = f"{tokens - used} of {tokens} tokens are padding in every sequence: cut them off"
    yield Change(tuple(range(len(subject.nodes))), text, tuple(subject.unpadded.graph.nodes))


RULE = Rule(
    name="padding-tokens",
    about="Cut batches to their longest sequence (of an attention mask that is given with -i NAME:DTYPE:SHAPE:DATA).",
    exactness="same",
    source="arithmetic: what is masked reaches no token that counts",
    find=find,
    executed=False,
    code=lambda change: "{name: tensor[:, mask.any(0)] for name, tensor in batch.items()} in place of batch",
)
