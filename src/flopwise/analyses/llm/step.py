"""One step of a language model: tokens fed, tokens in the state, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from flopwise.analyses.llm.traffic import WeightTraffic, weight_traffic
from flopwise.analyses.needed.needed import needed
from flopwise.analyses.timing.quantities import Work, products, works
from flopwise.memory.attention import Unfused, is_fused, unfused_attention
from flopwise.profiles.profile import Profile
from flopwise.rows import Row


@dataclass(frozen=True)
class Step:
    """The cost of one call of a model."""

    #: Sequences, tokens in the state of each, and tokens that are fed to each.
    batch: int
    past: int
    new: int
    #: Multiply-accumulates that the kernels execute, and those that an engine needs: the pairs that the masks of
    #: attention leave, latents absorbed where that is less, and the vocabulary scored where it is asked for.
    macs: int
    needed_macs: int
    flops: int
    #: The part of ``macs`` in attention's products of queries, keys and values.
    attention_macs: int
    weights: WeightTraffic
    #: Bytes of the state before the step, all of which it reads, and of what it adds.
    state_bytes: int
    #: Bytes of activations alive at once, the state left out; None when a size is missing.
    activation_bytes: int | None
    #: Whether every figure is the exact one; else the counts are lower bounds.
    exact: bool = True
    #: Whether the multiply-accumulates are exact, whatever else depends on the data (such as the sorting of top-k).
    macs_exact: bool = True
    #: Products of attention that are operators of their own, of whose masks nothing is known: all of their
    #: multiply-accumulates are in ``needed_macs``.
    unknown_masks: int = 0
    #: Types that products may be computed in -> multiply-accumulates that no engine can do without.
    products: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    #: Operations of attention that scale queries and keys.
    scaling_flops: int = 0
    #: The rewrites by which ``needed_macs`` are fewer than ``macs``, and those by which ``products`` are fewer still.
    rewrites: tuple[str, ...] = ()
    floors: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens fed, over all sequences."""
        return self.batch * self.new

    @property
    def bytes(self) -> int:
        """Bytes that a step must read: weights that it touches, and the state."""
        return self.weights.most + self.state_bytes

    @property
    def least_bytes(self) -> int:
        """Bytes that no engine can do without: of experts those that one token takes."""
        return self.weights.least + self.state_bytes

    @property
    def intensity(self) -> Fraction:
        """FLOPs for each byte that must be read."""
        return Fraction(self.flops, max(self.bytes, 1))


def step_of(
    profile: Profile,
    *,
    batch: int,
    past: int,
    new: int,
    state_bytes: int = 0,
    widths: dict[str, Fraction] | None = None,
    types: Mapping[str, str] | None = None,
    state_type: str | None = None,
    last_logits: bool = True,
) -> Step:
    """The figures of a step from its profile.

    Args:
        profile: the call.
        batch: sequences.
        past: tokens in the state of each.
        new: tokens that are fed to each.
        state_bytes: bytes of the state before the step.
        widths: bytes of each element of stored tensors, by name.
        types: the element types that they are stored in, by name, where the program multiplies others.
        state_type: the element type of the state, where it is not that of the program.
        last_logits: whether the vocabulary is scored for the last position of each sequence alone.
    """
    unfused, need = unfused_attention(profile.graph), needed(profile, last_logits)
    attention = _attention(profile, unfused)
    each = works_of(profile, need.least, types, state_type)
    peak = profile.peak_activation_bytes
    return Step(
        batch=batch,
        past=past,
        new=new,
        macs=profile.total("macs"),
        needed_macs=sum(count or 0 for count in need.macs),
        flops=profile.total("flops"),
        attention_macs=sum(row.macs or 0 for row in profile.rows if id(row) in attention),
        weights=weight_traffic(profile, batch * new, widths),
        state_bytes=state_bytes,
        activation_bytes=None if peak is None else peak - profile.state_bytes,
        exact=profile.exact,
        macs_exact=_macs_exact(profile),
        unknown_masks=sum(len(one.places) for one in unfused if one.left is None),
        products=products(each),
        scaling_flops=sum(_scaling(row) for row in profile.rows if is_fused(row.node)),
        rewrites=need.rewrites,
        floors=need.floors,
    )


def works_of(
    profile: Profile, least: Sequence[int | None], types: Mapping[str, str] | None, state_type: str | None
) -> list[Work]:
    """The work of each row of a call; attention multiplies the state's element type, where that is not the program's.

    Args:
        profile: the call.
        least: the multiply-adds that each row's result needs.
        types: the element types that weights are stored in, by name, where the program multiplies others.
        state_type: the element type of the state, where it is not that of the program.
    """
    each = works(profile, least, types)
    if state_type is None:
        return each
    attention = _attention(profile, unfused_attention(profile.graph))
    return [
        replace(work, dtypes=(*work.dtypes, state_type)) if id(row) in attention else work
        for row, work in zip(profile.rows, each, strict=True)
    ]


def _attention(profile: Profile, unfused: Sequence[Unfused]) -> set[int]:
    """The rows that multiply queries, keys and values, by identity."""
    products_of_attention = {id(profile.graph.nodes[place]) for one in unfused for place in one.places}
    return {id(row) for row in profile.rows if is_fused(row.node) or id(row.node) in products_of_attention}


def _scaling(row: Row) -> int:
    """Multiplications of an attention that scale its queries and, for each query's head, its keys."""
    query, key = row.node.input(0).shape, row.node.input(1).shape
    if query is None or key is None or len(query) != 4 or row.macs is None:
        return 0
    batch, heads, new, width = (int(n) for n in query)
    return batch * heads * width * (new + int(key[-2])) * int(row.times or 1)


def _macs_exact(profile: Profile) -> bool:
    """True where the multiply-accumulates are exact: every row has a count, and none that multiplies is a bound."""
    bounded = set(profile.bounded)
    gaps = any(row.unknown for row in profile.rows) or profile.unresolved or profile.graph.program.guessed
    return not gaps and not any(row.macs for row in profile.rows if row.name in bounded)
