"""The cost of one batch."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from flopwise.operators.counts import FLOPS
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: How a cost was found: by the formula, by a profile of a batch of these shapes, or, of several batches, by both.
How: TypeAlias = Literal["formula", "profile", "both"]

#: Figures of a batch that profiles and formulas give, by name; of checkpoints and fused kernels see ``recomputed``.
FIGURES = (
    "forward_flops",
    "forward_macs",
    "backward_flops",
    "backward_macs",
    "checkpointed_flops",
    "checkpointed_macs",
    "kernel_flops",
    "kernel_macs",
    "bytes",
    "saved_bytes",
)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a batch, or of several that were added up."""

    #: Forward and backward pass, nothing twice: what MFU counts. Two for a multiply-accumulate, one for every other
    #: arithmetic operation.
    flops: int
    #: Multiply-accumulates of it.
    macs: int
    forward_flops: int
    backward_flops: int
    #: What checkpoints and fused kernels of attention execute once more on the way back.
    recomputed_flops: int
    #: Bytes that the operators of the forward pass read and write.
    bytes: int
    #: Bytes of activations that the backward pass needs; None where there is no formula of them.
    saved_bytes: int | None
    #: Places in the sequences of a language model, padding included; None where the inputs are no tokens.
    tokens: int | None
    #: The size of the first axis of the first input.
    samples: int
    how: How
    #: False where figures are bounds, because an operator has no rule or the data decide about sizes, and where the
    #: elements of tensors decide what runs: another batch of these shapes may then cost something else.
    exact: bool = True
    #: How many batches they are.
    batches: int = 1

    @property
    def hardware_flops(self) -> int:
        """All that is executed, what runs twice included: what HFU counts."""
        return self.flops + self.recomputed_flops

    def __add__(self, other: Cost) -> Cost:
        """The cost of both together, as of batches whose gradients are accumulated."""
        return replace(
            self,
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMS},
            saved_bytes=_sum(self.saved_bytes, other.saved_bytes),
            tokens=_sum(self.tokens, other.tokens),
            how=self.how if self.how == other.how else "both",
            exact=self.exact and other.exact,
        )

    def __mul__(self, number: int) -> Cost:
        """The cost of so many batches like this one."""
        return replace(
            self,
            **{name: number * getattr(self, name) for name in _SUMS},
            saved_bytes=_product(self.saved_bytes, number),
            tokens=_product(self.tokens, number),
        )

    def to_dict(self) -> dict[str, Any]:
        """The figures by name."""
        names = [*self.__slots__, "hardware_flops"]
        return {name: getattr(self, name) for name in names}


def total(costs: Sequence[Cost]) -> Cost:
    """The cost of several batches together, many of which are alike; at least one."""
    return functools.reduce(operator.add, [cost * number for cost, number in Counter(costs).items()])


#: Figures of a cost that are always known.
_SUMS = ("flops", "macs", "forward_flops", "backward_flops", "recomputed_flops", "bytes", "samples", "batches")


def _product(figure: int | None, number: int) -> int | None:
    return None if figure is None else figure * number


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


_SIZES = operator.attrgetter("read_bytes", "written_bytes", "saved_bytes")


def figures_of(row: Row) -> tuple[Any, ...]:
    """The figures of a row in the order of FIGURES; what is not known is 0."""
    read, written, saved = (0 if size is None else size for size in _SIZES(row))
    figures: list[Any] = []
    for counts in (row.counts, row.backward_counts, row.checkpointed, row.recomputed):
        figures += (0, 0) if counts is None else (counts.dot(FLOPS), counts.mac)
    return (*figures, read + written, saved)


def figures_of_profile(profile: Profile) -> dict[str, int]:
    """The figures of a profile."""
    rows = [figures_of(row) for row in profile.rows]
    return {name: sum(row[place] for row in rows) for place, name in enumerate(FIGURES)}


def cost_of(figures: dict[str, int], tokens: int | None, samples: int, how: How, exact: bool) -> Cost:
    """The cost with these figures.

    Args:
        figures: by the names of FIGURES; those of the backward pass have what checkpoints run once more.
        tokens: of the batch.
        samples: of the batch.
        how: where the figures come from.
        exact: whether they are no lower bounds.
    """
    backward = figures["backward_flops"] - figures["checkpointed_flops"]
    return Cost(
        flops=figures["forward_flops"] + backward,
        macs=figures["forward_macs"] + figures["backward_macs"] - figures["checkpointed_macs"],
        forward_flops=figures["forward_flops"],
        backward_flops=backward,
        recomputed_flops=figures["checkpointed_flops"] + figures["kernel_flops"],
        bytes=figures["bytes"],
        saved_bytes=figures.get("saved_bytes"),
        tokens=tokens,
        samples=samples,
        how=how,
        exact=exact,
    )
