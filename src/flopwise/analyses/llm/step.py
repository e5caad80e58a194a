"""One step of a language model: tokens fed, tokens in the state, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from flopwise.analyses.llm.traffic import Touched, WeightTraffic, bytes_by_name, touched, weight_traffic
from flopwise.analyses.needed.needed import Needed, needed
from flopwise.analyses.timing.quantities import Work, products, works
from flopwise.memory.attention import Unfused, is_fused, unfused_attention
from flopwise.operators.masks import ABSORBED
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


@dataclass(frozen=True)
class CountedCall:
    """A call of a program, and its work row by row."""

    profile: Profile
    #: Sequences, tokens in the state of each, and tokens that are fed to each.
    batch: int
    past: int
    new: int
    #: Bytes of each element of stored tensors, by name, where they differ from those of the tensor's type; and the
    #: element types that they are stored in, where the program multiplies others.
    widths: Mapping[str, Fraction] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    #: The element type of the state, where it is not that of the program.
    state_type: str | None = None
    #: Whether the vocabulary is scored for the last position of each sequence alone.
    last_logits: bool = True

    @property
    def tokens(self) -> int:
        """Tokens fed, over all sequences."""
        return self.batch * self.new

    @cached_property
    def unfused(self) -> Sequence[Unfused]:
        """The attentions that are computed operator by operator."""
        return unfused_attention(self.profile.graph)

    @cached_property
    def attention(self) -> frozenset[int]:
        """The nodes that multiply queries, keys and values, by identity."""
        nodes = self.profile.graph.nodes
        apart = {id(nodes[place]) for one in self.unfused for place in one.places}
        return frozenset(apart.union(id(row.node) for row in self.profile.rows if is_fused(row.node)))

    @cached_property
    def needed(self) -> Needed:
        """The work that the results need."""
        return needed(self.profile, self.last_logits)

    @cached_property
    def works(self) -> list[Work]:
        """The work of each row; attention multiplies the state's element type, where that is not the program's."""
        each = works(self.profile, self.needed.least, self.types)
        if self.state_type is None:
            return each
        return [
            replace(work, dtypes=(*work.dtypes, self.state_type)) if id(row.node) in self.attention else work
            for row, work in zip(self.profile.rows, each, strict=True)
        ]

    @cached_property
    def touched(self) -> Touched:
        """The parts of the stored tensors that it touches."""
        return touched(self.profile, self.tokens)

    @cached_property
    def nbytes(self) -> Mapping[str, Fraction]:
        """Bytes of each weight and buffer, by name."""
        return bytes_by_name(self.profile, self.widths)

    def step(self, state_bytes: int = 0) -> Step:
        """Its figures.

        Args:
            state_bytes: bytes of the state before it.
        """
        profile, need, unfused = self.profile, self.needed, self.unfused
        peak = profile.peak_activation_bytes
        return Step(
            batch=self.batch,
            past=self.past,
            new=self.new,
            macs=profile.total("macs"),
            needed_macs=sum(count or 0 for count in need.macs),
            flops=profile.total("flops"),
            attention_macs=sum(row.macs or 0 for row in profile.rows if id(row.node) in self.attention),
            weights=weight_traffic(self.touched, profile, self.nbytes),
            state_bytes=state_bytes,
            activation_bytes=None if peak is None else peak - profile.state_bytes,
            exact=profile.exact,
            macs_exact=_macs_exact(profile),
            unknown_masks=sum(len(one.places) for one in unfused if one.left is None),
            products=products(self.works),
            scaling_flops=sum(_scaling(row) for row in profile.rows if is_fused(row.node)),
            rewrites=need.rewrites,
            floors=need.floors,
        )


def _scaling(row: Row) -> int:
    """Multiplications of an attention that scale its queries and, for each query's head, its keys."""
    query, key = row.node.input(0).shape, row.node.input(1).shape
    if query is None or key is None or len(query) != 4 or row.macs is None:
        return 0
    batch, heads, new, width = (int(n) for n in query)
    scaled = 0 if row.node.attrs.get(ABSORBED) else int(key[-2])
    return batch * heads * width * (new + scaled) * int(row.times or 1)


def _macs_exact(profile: Profile) -> bool:
    """True where the multiply-accumulates are exact: every row has a count, and none that multiplies is a bound."""
    bounded = set(profile.bounded)
    gaps = any(row.unknown for row in profile.rows) or profile.unresolved or profile.graph.program.guessed
    return not gaps and not any(row.macs for row in profile.rows if row.name in bounded)
