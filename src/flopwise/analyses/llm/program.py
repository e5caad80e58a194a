"""A language model that can be run, and the calls of a request: the prompt, and one for each token after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, Protocol

from flopwise.profiles.profile import Profile


class Call(NamedTuple):
    """One call of a program, by tokens of each sequence."""

    #: In the state before the call.
    past: int
    #: Fed by it.
    new: int
    #: That an encoder reads in this call or read before it; None for a model without one.
    encoded: int | None = None

    @property
    def tokens(self) -> int:
        """Tokens that the call goes through: those of the prompt, if an encoder reads it here, else those fed."""
        return self.new if self.past or self.encoded is None else self.encoded


class Program(Protocol):
    """A language model that can be run on tensors without memory."""

    #: What it is called, and where it comes from.
    name: str
    source: str
    #: The longest context that it was made for; None where it says nothing.
    longest: int | None
    #: Element type of its weights, and bytes of each element by tensor name where they are stored in another width.
    dtype: str
    widths: Mapping[str, Fraction]
    #: Element types that the weights are stored in, by tensor name, and that of the state, where those of the program
    #: are others.
    types: Mapping[str, str]
    state_type: str | None
    #: The element type that most of its weights are stored in.
    weight_type: str
    #: What a reader should know about it.
    notes: tuple[str, ...]
    #: Whether an encoder reads the prompt, so that the state before the first generated token is one of the decoder.
    encodes: bool
    #: Positions that its encoder reads whatever the prompt, such as those of 30 seconds of sound; None where it reads
    #: the prompt, or where there is none.
    encoder_length: int | None

    #: Whether it predicts the next token, so that the scores of the last position are enough; an encoder does not.
    predicts: bool

    @property
    def keeps_state(self) -> bool:
        """True if tokens are generated, so that a state is kept between calls; an encoder alone has no steps."""

    def profile(self, call: Call, batch: int) -> Profile:
        """The profile of a call."""

    @property
    def order(self) -> Sequence[Sequence[str]] | None:
        """For each layer the modules whose operators stand for it, such as those of an encoder and a decoder, where
        layers that are alike stand once; None where every layer has operators of its own."""

    def lengths(self, past: int) -> tuple[int, ...] | None:
        """Numbers along which the cost of a step after so many tokens is a straight line; None where nobody knows."""

    def state(self, call: Call, batch: int) -> Mapping[str, int]:
        """Bytes of the state before a call, by tensor."""


def prefill(program: Program, prompt: int) -> Call:
    """The call that goes through a prompt: an encoder reads it, and the decoder starts with one token."""
    return Call(0, 1, prompt) if program.encodes else Call(0, prompt)


def step(program: Program, prompt: int, generated: int = 0) -> Call:
    """The call of one token after a prompt and ``generated`` tokens."""
    return Call(1 + generated, 1, prompt) if program.encodes else Call(prompt + generated, 1)
