"""The largest request that still fits on a device, by runs of the program itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flopwise.analyses.llm.program import Program, prefill, step
from flopwise.errors import FlopwiseError

if TYPE_CHECKING:
    from flopwise.analyses.llm.inference import Inference

#: Runs that a search takes at most; where memory grows in straight lines it takes three or four.
RUNS = 14

#: Where a search stops: more of it is no limit by memory.
FAR = 1 << 40


def largest_batch(program: Program, request: Inference, have: int) -> int | None:
    """Sequences of the request's length that fit into ``have`` bytes; None where a size is missing or nothing grows."""

    def memory(batch: int) -> int | None:
        return _memory(program, request, request.prompt, batch)

    return largest(memory, have, request.batch, request.memory_bytes)


def largest_context(program: Program, request: Inference, have: int) -> int | None:
    """Tokens of prompt and generation that fit with the request's batch and as many generated tokens; 0: not one of the
    prompt fits; None: a size is missing, nothing grows, an encoder always reads the same, or the program goes through
    its prompt token by token, which takes too long at such lengths."""
    if program.encoder_length is not None:
        return None
    if program.keeps_state and "recurrent state" in program.state(step(program, request.prompt), request.batch):
        rows, longer = (len(program.profile(prefill(program, tokens), request.batch).rows) for tokens in (4, 16))
        if longer > 2 * rows:
            return None

    def memory(prompt: int) -> int | None:
        return _memory(program, request, prompt, request.batch)

    prompt = largest(memory, have, request.prompt, request.memory_bytes)
    return prompt + request.generate if prompt else prompt


def _memory(program: Program, request: Inference, prompt: int, batch: int) -> int | None:
    """Memory of the request with another prompt or batch, in bytes; None where the program does not take it."""
    try:
        steps = [step(program, prompt)] if program.keeps_state else []
        alive = [
            (run.peak_activation_bytes, run.state_bytes)
            for run in (program.profile(call, batch) for call in (prefill(program, prompt), *steps))
        ]
        last = [step(program, prompt, request.generate)] if program.keeps_state else []
        state = sum(sum(program.state(call, batch).values()) for call in last)
    except FlopwiseError:
        return None
    if any(peak is None for peak, _ in alive):
        return None
    return request.weight_bytes + state + max((peak or 0) - state_bytes for peak, state_bytes in alive)


def largest(memory: Callable[[int], int | None], have: int, start: int, at_start: int | None) -> int | None:
    """The largest number whose memory is at most ``have`` bytes; 0 where that of 1 is more.

    Args:
        memory: number -> bytes, which grow with it; None where that cannot be run.
        have: bytes.
        start: a number whose bytes are there.
        at_start: its bytes.

    Returns:
        The number: the one after it does not fit, unless the runs were used up, when a larger one may fit too. None
        where the bytes at the start are missing or grow no further.

    >>> largest(lambda n: 100 + 7 * n, 1000, 1, 107)
    128
    >>> largest(lambda n: n * n, 10_000, 3, 9)
    100
    """
    if at_start is None:
        return None
    low, high = (start, FAR) if at_start <= have else (0, start)
    last, point = (start, at_start), (2 * start if low else start // 2)
    for run in range(RUNS):
        if high - low == 1:
            break
        point = min(max(point, low + 1), high - 1)
        size = memory(point)
        if size is not None and size <= have:
            low = point
        else:
            high = point
        point, last = _next(low, high, last, (point, size), have, run)
    return None if high == FAR else low


def _next(
    low: int, high: int, last: tuple[int, int], now: tuple[int, int | None], have: int, run: int
) -> tuple[int, tuple[int, int]]:
    """The next length to run, on a line through two points or each fourth time halfway; the last point with a size."""
    (before, old), (point, size) = last, now
    middle = (low + high) // 2 if high < FAR else 16 * point
    if size is None:
        return middle, last
    if size == old or point == before or (run % 4 == 3 and high < FAR):
        return middle, (point, size)
    return before + (have - old) * (point - before) // (size - old), (point, size)
