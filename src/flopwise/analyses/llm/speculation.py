"""Speculative decoding: a draft model guesses some tokens, one step of the model checks them all.

Leviathan et al. 2023, https://arxiv.org/abs/2211.17192: where each of G guesses is accepted with the probability A,
independently, a round gives (1 - A^(G+1)) / (1 - A) tokens on average (equation 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from flopwise._results import fields
from flopwise.analyses.llm.runs import Call, Runs
from flopwise.analyses.llm.serving.memory import Cache, Memory
from flopwise.analyses.llm.serving.serving import Floors
from flopwise.analyses.llm.serving.split import Divisible
from flopwise.analyses.llm.step import CountedCall, Step
from flopwise.analyses.timing.device import roofline
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device


class Request(Protocol):
    """The properties of a request that decide its rounds."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def prompt(self) -> int: ...
    @property
    def decode(self) -> Step | None: ...
    @property
    def weight_bytes(self) -> int: ...
    @property
    def final_cache_bytes(self) -> int: ...
    @property
    def divisible(self) -> Divisible | None: ...


@dataclass(frozen=True)
class Speculation:
    """The rounds of a model with a draft model."""

    draft: str
    source: str
    #: The share of guesses that are accepted, and guesses of a round.
    acceptance: float
    guesses: int
    #: A step of the draft, and the step that checks a round's guesses and adds a token, both after the prompt.
    step: Step
    check: Step
    draft_weight_bytes: int
    #: Bytes of the draft's cache after the last token.
    draft_cache_bytes: int
    #: The least time of a round on the device, or on those of the best split; None where none was named.
    round_seconds: float | None = None

    @property
    def tokens_per_round(self) -> float:
        """Tokens of a sequence that a round gives on average."""
        if self.acceptance == 1:
            return self.guesses + 1
        return (1 - self.acceptance ** (self.guesses + 1)) / (1 - self.acceptance)

    @property
    def said(self) -> str:
        """The guesses of a round in words."""
        return f"{self.guesses:,} draft token{'' if self.guesses == 1 else 's'}"

    @property
    def macs_per_round(self) -> int:
        """Multiply-accumulates of a round: the guesses, and the step that checks them."""
        return self.guesses * self.step.macs + self.check.macs

    def floors(self, plain: Floors) -> Floors:
        """The least times with the draft, of a token on average.

        Args:
            plain: those of the model alone.
        """
        if not self.round_seconds:
            return plain
        token = self.round_seconds / self.tokens_per_round
        return replace(plain, decode_seconds=token, tokens_per_second=self.check.batch / token)

    def to_dict(self) -> Mapping[str, object]:
        """The key "speculation" of ``flopwise.llm/1``."""
        return {
            **fields(self, "draft source acceptance guesses tokens_per_round draft_weight_bytes draft_cache_bytes"),
            "draft_macs": self.step.macs,
            "check_macs": self.check.macs,
            "round_macs": self.macs_per_round,
            "round_ns": None if self.round_seconds is None else round(self.round_seconds * 1e9),
        }


def check_settings(acceptance: float, guesses: int) -> None:
    """Refuse settings out of range.

    Raises:
        InputError: the acceptance is not from 0 to 1, or there is no guess.
    """
    if not 0 <= acceptance <= 1:
        raise InputError(f"accept {acceptance:g}: the share of guesses that are accepted is from 0 to 1")
    if guesses < 1:
        raise InputError(f"draft_tokens {guesses}: must be at least 1")


def speculation(
    request: Request, draft: Request, acceptance: float, guesses: int, device: Device | None
) -> tuple[Speculation, CountedCall]:
    """The rounds of a request with a draft model, and the step that checks the guesses.

    Args:
        request: the request to the model, whose calls can be run.
        draft: the same request to the draft model.
        acceptance: the share of guesses that are accepted.
        guesses: guesses of a round.
        device: the device; None for none.

    Raises:
        InputError: one of the models has no steps, or an encoder.
    """
    for one in (request, draft):
        if one.decode is None or one.decode.past != one.prompt:
            raise InputError(
                f"draft: {one.name} takes no steps after the prompt: give a decoder and tokens to generate"
            )
    assert request.divisible is not None
    assert draft.decode is not None
    own = request.divisible.runs
    check = Runs(own.program, own.batch, progress=own.progress, last_logits=False)
    run = check.run(Call(request.prompt, guesses + 1))
    checked = run.cost
    seconds = None
    if device is not None:
        each = [roofline(device, step.products, step.least_bytes).seconds for step in (draft.decode, checked)]
        seconds = guesses * each[0] + each[1]
    rounds = Speculation(
        draft=draft.name,
        source=draft.source,
        acceptance=acceptance,
        guesses=guesses,
        step=draft.decode,
        check=checked,
        draft_weight_bytes=draft.weight_bytes,
        draft_cache_bytes=draft.final_cache_bytes,
        round_seconds=seconds,
    )
    return rounds, run.call


def with_draft(own: Memory | None, draft: Memory | None) -> Memory | None:
    """The memory of a model and its draft, of which one runs at a time; None where that of one is not known."""
    if own is None or draft is None:
        return None
    cache = Cache((*own.cache.kept, *draft.cache.kept), own.cache.fixed_bytes + draft.cache.fixed_bytes)
    workspace = replace(own.workspace, shares=(*own.workspace.shares, *draft.workspace.shares))
    return replace(own, weight_bytes=own.weight_bytes + draft.weight_bytes, cache=cache, workspace=workspace)
