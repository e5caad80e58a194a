"""One step of a language model: tokens fed, tokens in the state, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flopwise.analyses.llm.attention import attention_products, fused_attention
from flopwise.analyses.llm.traffic import WeightTraffic, weight_traffic
from flopwise.profiles.profile import Profile


@dataclass(frozen=True)
class Step:
    """What one call of a model costs."""

    #: Sequences, tokens in the state of each, and tokens that are fed to each.
    batch: int
    past: int
    new: int
    #: Multiply-accumulates that the kernels execute, and those of them that the masks of attention leave.
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
    #: Products of attention that are operators of their own: no mask of theirs is in ``needed_macs``.
    attention_products: int = 0

    @property
    def tokens(self) -> int:
        """Tokens fed, over all sequences."""
        return self.batch * self.new

    @property
    def bytes(self) -> int:
        """Bytes that a step must read: weights that it touches, and the state."""
        return self.weights.most + self.state_bytes

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
) -> Step:
    """The figures of a step from its profile.

    Args:
        profile: the call.
        batch: sequences.
        past: tokens in the state of each.
        new: tokens that are fed to each.
        state_bytes: bytes of the state before the step.
        widths: bytes of each element of stored tensors, by name.
    """
    products = attention_products(profile)
    peak = profile.peak_activation_bytes
    return Step(
        batch=batch,
        past=past,
        new=new,
        macs=profile.total("macs"),
        needed_macs=profile.sum.needed_macs,
        flops=profile.total("flops"),
        attention_macs=sum(row.macs or 0 for row in (*fused_attention(profile), *products)),
        weights=weight_traffic(profile, batch * new, widths),
        state_bytes=state_bytes,
        activation_bytes=None if peak is None else peak - profile.state_bytes,
        exact=profile.exact,
        macs_exact=_macs_exact(profile),
        attention_products=len(products),
    )


def _macs_exact(profile: Profile) -> bool:
    """Whether nothing unknown or bounded multiplies and adds."""
    bounded = set(profile.bounded)
    gaps = any(row.unknown for row in profile.rows) or profile.unresolved or profile.graph.guessed
    return not gaps and not any(row.macs for row in profile.rows if row.name in bounded)
