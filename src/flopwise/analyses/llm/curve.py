"""Cost and memory of a model against the length of the context: a few lengths, each of them run."""

from __future__ import annotations

from dataclasses import dataclass

from flopwise._results import Json, fields
from flopwise.analyses.llm.step import Step

#: Lengths of a curve, and how often the longest context of a request may be exceeded by one.
LENGTHS, BEYOND = 8, 4


@dataclass(frozen=True)
class Point:
    """A length of the context: a prompt of as many tokens, and one step after it."""

    context: int
    prefill: Step
    #: None for an encoder alone.
    decode: Step | None
    #: Bytes of the state after so many tokens, and of weights that are in memory.
    cache_bytes: int
    weight_bytes: int

    @property
    def activation_bytes(self) -> int | None:
        """Bytes of activations alive at once in the larger of the two; None when a size is missing."""
        alive = [step.activation_bytes for step in (self.prefill, self.decode) if step is not None]
        return None if None in alive else max(n for n in alive if n is not None)

    @property
    def memory_bytes(self) -> int | None:
        """Weights, state and activations together."""
        alive = self.activation_bytes
        return None if alive is None else self.weight_bytes + self.cache_bytes + alive

    def to_dict(self) -> Json:
        """The point in the key "curve" of ``flopwise.llm/1``."""
        steps = (("prefill", self.prefill), ("decode", self.decode))
        return {
            "context": self.context,
            **{
                f"{name}_{key}": None if step is None else getattr(step, key)
                for name, step in steps
                for key in ("macs", "needed_macs", "flops", "bytes", "activation_bytes")
            },
            **fields(self, "cache_bytes weight_bytes memory_bytes"),
        }


def lengths(prompt: int, end: int, longest: int | None) -> tuple[int, ...]:
    """The lengths of a curve: the prompt, and from the longest context downwards always the half.

    Args:
        prompt: tokens of the request's prompt.
        end: tokens of its whole context.
        longest: the longest context that the model was made for; None where it says nothing.

    >>> lengths(512, 768, 2048)
    (16, 32, 64, 128, 256, 512, 1024, 2048)
    >>> lengths(3, 5, None)
    (2, 3, 5, 10, 20)
    """
    top = max(end, min(longest or BEYOND * end, BEYOND * end))
    halves = [top >> shift for shift in range(LENGTHS) if top >> shift > 1]
    return tuple(sorted({*(halves or [top]), prompt}))
