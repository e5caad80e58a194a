"""One step of a language model: tokens fed, tokens in the state, the weights that it touches, and its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from flopwise.analyses.needed import Needed, needed
from flopwise.analyses.timing.quantities import Work, products, works
from flopwise.graph import Node, Tensor
from flopwise.operators.folding import constant
from flopwise.operators.masks import ABSORBED
from flopwise.profiles.profile import Profile
from flopwise.rows import Row
from flopwise.storage.attention import Unfused, is_fused, unfused_attention
from flopwise.storage.experts import Experts, experts_of, picked_for

# Bytes of weights that one step touches: whole tensors, but of a table the rows, and of experts those with tokens.


#: Look-ups of rows in a stored table.
_LOOK_UPS = frozenset({"Gather", "aten::embedding"})


@dataclass(frozen=True)
class WeightTraffic:
    """Bytes of weights that a step touches, and elements of weights that one token is multiplied with."""

    #: Bytes at most, on average under uniform routing, and at least: where all tokens choose the same experts.
    most: int
    expected: int
    least: int
    #: Elements of trained weights that are active: of experts those that are chosen, of tables all.
    active: int
    experts: tuple[Experts, ...] = ()


class Touched(NamedTuple):
    """The parts of the stored tensors that a step touches."""

    #: By the name of a tensor: the parts that are touched at most, on average and at least, and the part that one token
    #: is multiplied with.
    shares: Mapping[str, tuple[Fraction, ...]]
    experts: tuple[Experts, ...]


def touched(profile: Profile, tokens: int) -> Touched:
    """The parts of the stored tensors that a step touches.

    Args:
        profile: the step.
        tokens: tokens that are fed in it, over all sequences.
    """
    folding = constant(profile.graph)
    shares_by_name: dict[str, tuple[Fraction, ...]] = {}
    experts: list[Experts] = []
    stacks = {row.node.module: stack for row in profile.rows if (stack := experts_of(row.name, row.node))}
    for row in profile.rows:
        if all(t.name in folding.sources for t in row.node.known_outputs):
            continue  # a view of a weight is not a use of it
        stack = experts_of(row.name, row.node)
        experts += [stack] * row.node.copies if stack else []
        for tensor in folding.stored(row.node):
            if tensor.kind in ("weight", "buffer") and tensor.sized:
                shares = _shares(row.node, tensor, stack or picked_for(row.node, tensor, stacks), tokens)
                shares_by_name[tensor.name] = tuple(map(max, shares_by_name.get(tensor.name, shares), shares))
    return Touched(shares_by_name, tuple(experts))


def weight_traffic(touched: Touched, profile: Profile, nbytes: Mapping[str, Fraction]) -> WeightTraffic:
    """Bytes of the stored tensors that a step touches.

    Args:
        touched: the parts of them.
        profile: the step.
        nbytes: bytes of each stored tensor, by name.
    """
    shares = touched.shares
    most, expected, least = (sum(nbytes[name] * parts[i] for name, parts in shares.items()) for i in range(3))
    active = Fraction(0)
    for name, (tensor, copies) in stored_tensors(profile).items():
        if tensor.kind == "weight" and name in shares:
            active += copies * tensor.numel * shares[name][3]
    return WeightTraffic(round(most), round(expected), round(least), round(active), touched.experts)


def _shares(
    node: Node, tensor: Tensor, stack: Experts | None, tokens: int
) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Parts of a tensor that a step touches at most, on average and at least, and the part that one token is multiplied
    with."""
    one = Fraction(1)
    if stack is not None and stack.hold(tensor):
        one_token = stack.active(tokens)
        return (
            Fraction(stack.touched, stack.matrices),
            stack.expected(tokens) / stack.matrices,
            one_token,
            one_token,
        )
    if node.op in _LOOK_UPS and node.has_input(0) and node.input(0).name == tensor.name and node.outputs[0] is not None:
        picked = min(one, Fraction(node.output().numel, max(tensor.numel, 1)))
        return picked, picked, picked, one
    return one, one, one, one


def stored_bytes(profile: Profile, widths: Mapping[str, Fraction]) -> int:
    """Bytes of the stored tensors of a call.

    Args:
        profile: the call.
        widths: bytes of each element of stored tensors, by name, where they are not stored in the program's type.
    """
    if not widths:
        return profile.total("weight_bytes")
    return round(sum(bytes_by_name(profile, widths).values()))


def bytes_by_name(profile: Profile, widths: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Bytes of each weight and buffer of a call, by name; see ``stored_bytes``."""
    tensors = stored_tensors(profile).items()
    return {name: n * bytes_of(t, widths) for name, (t, n) in tensors if t.kind in ("weight", "buffer")}


def stored_tensors(profile: Profile) -> dict[str, tuple[Tensor, int]]:
    """The stored tensors of a call, and for how many each stands, by name."""
    folding = constant(profile.graph)
    return {t.name: (t, row.node.copies) for row in profile.rows for t in folding.stored(row.node) if t.sized}


def bytes_of(tensor: Tensor, widths: Mapping[str, Fraction]) -> Fraction:
    """Bytes of a stored tensor in the width that it is stored in: that of its type, where ``widths`` names no other."""
    return tensor.numel * widths[tensor.name] if tensor.name in widths else Fraction(tensor.nbytes)


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
