"""Documents that are packed into the sequences of a training step, each with an attention of its own.

Documents stand end to end and are cut where a sequence is full, as in most pre-training; there is no padding. A token
costs what it costs in its document: attention sees no other one (Krell et al. 2021, https://arxiv.org/abs/2107.02027).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import cycle
from operator import mul

from flopwise.analyses.llm.training import TrainingStep
from flopwise.errors import InputError

#: Lengths that are run one by one where costs are no parabola of the length, as behind a window.
MOST_LENGTHS = 64

#: The figures of a step that add up over its documents.
_ADDED = ("forward_flops", "backward_flops", "recomputed_flops", "saved_bytes")

#: The same of a rank.
_ADDED_OF_RANK = ("forward_flops", "backward_flops", "saved_bytes")


def packed(lengths: Sequence[int], sequences: int, tokens: int) -> list[Counter[int]]:
    """The lengths of the documents in each sequence, or of the parts of them.

    Args:
        lengths: those of the documents, over and over.
        sequences: how many sequences there are.
        tokens: tokens of each.

    >>> packed([5, 3], 2, 10)
    [Counter({5: 1, 3: 1, 2: 1}), Counter({3: 2, 4: 1})]
    """
    rows, left, documents = [], 0, cycle(lengths)
    for _ in range(sequences):
        row: Counter[int] = Counter()
        room = tokens
        while room:
            left = left or next(documents)
            part = min(left, room)
            row[part] += 1
            room, left = room - part, left - part
        rows.append(row)
    return rows


def packed_step(one: Callable[[int], TrainingStep], rows: Sequence[Counter[int]], ranks: int) -> TrainingStep:
    """A training step on packed sequences.

    Args:
        one: number of tokens -> the step of a single document of so many, on all devices and on a rank.
        rows: the lengths of the documents in each sequence.
        ranks: how many ranks divide the sequences; the one described has the most to do.

    Raises:
        InputError: there are too many lengths for a model whose costs are no parabola of the length.
    """
    documents = sum(rows, Counter())
    longest = one(max(documents))
    rules = tuple(longest.rules_of_thumb)

    def cost(tokens: int) -> tuple[int, ...]:
        step = one(tokens)
        of_rank = () if step.rank is None else (getattr(step.rank, name) for name in _ADDED_OF_RANK)
        return (
            *(getattr(step, name) for name in _ADDED),
            *(step.rules_of_thumb[name] for name in rules),
            *of_rank,
        )

    share = len(rows) // ranks
    parts = [sum(rows[n : n + share], Counter()) for n in range(0, len(rows), share)]
    own = max(parts, key=lambda part: sum(count * tokens**2 for tokens, count in part.items()))
    whole, of_rank = (summed(cost, counts) for counts in (documents, own))
    first, rank = len(_ADDED) + len(rules), longest.rank
    if rank is not None:
        forward, backward, saved = of_rank[first:]
        rank = replace(rank, forward_flops=forward, backward_flops=backward, saved_bytes=saved)
    forward, backward, recomputed, saved = whole[: len(_ADDED)]
    return replace(
        longest,
        batch=len(rows),
        sequence=sum(tokens * count for tokens, count in rows[0].items()),
        forward_flops=forward,
        backward_flops=backward,
        recomputed_flops=recomputed,
        saved_bytes=saved,
        rules_of_thumb=dict(zip(rules, whole[len(_ADDED) : first], strict=True)),
        rank=rank,
    )


def summed(cost: Callable[[int], tuple[int, ...]], counts: Mapping[int, int]) -> tuple[int, ...]:
    """The sums of some figures over documents: of the parabolas through three lengths, where a fourth lies on them,
    else of each length.

    Args:
        cost: length -> the figures.
        counts: length -> documents.

    Raises:
        InputError: the figures are no parabolas, and there are too many lengths to run each.
    """
    lengths = sorted(counts)
    if len(lengths) > 4:
        chosen = [lengths[0], lengths[len(lengths) // 2], lengths[-1]]
        known = [cost(tokens) for tokens in chosen]

        def parabola(tokens: int) -> tuple[Fraction, ...]:
            weights = [
                reduce(mul, (Fraction(tokens - other, own - other) for other in chosen if other != own), Fraction(1))
                for own in chosen
            ]
            return tuple(
                sum((w * f for w, f in zip(weights, each, strict=True)), Fraction(0))
                for each in zip(*known, strict=True)
            )

        check = lengths[len(lengths) // 4]
        if parabola(check) == cost(check):
            each = [[count * figure for figure in parabola(tokens)] for tokens, count in counts.items()]
            return tuple(round(sum(figures)) for figures in zip(*each, strict=True))
        if len(lengths) > MOST_LENGTHS:
            raise InputError(
                f"lengths: {len(lengths)} different ones, and the model's costs are no parabola of the length, as "
                f"behind a window: at most {MOST_LENGTHS}"
            )
    alone = [[count * figure for figure in cost(tokens)] for tokens, count in counts.items()]
    return tuple(sum(figures) for figures in zip(*alone, strict=True))
