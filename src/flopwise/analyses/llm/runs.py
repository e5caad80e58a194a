"""A language model that can be run, and the calls of a request, each of which is run once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from operator import sub
from typing import NamedTuple, Protocol

from flopwise._results import Json, fields
from flopwise.analyses.llm.serving.memory import Cache, EngineStep, Growth, cache_of
from flopwise.analyses.llm.step import CountedCall, Step, stored_bytes
from flopwise.analyses.needed import absorbed_mla
from flopwise.conventions.convention import Convention
from flopwise.errors import ModelError
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile

# The calls of a request: the prompt, and one for each token after it.


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


# Sums over many steps whose costs are straight lines in the length of the context, with few kinks.


def summed(cost: Callable[[int], tuple[int, ...]], first: int, last: int) -> tuple[int, ...]:
    """The sum of ``cost(n)`` for n from ``first`` to ``last``, both included.

    Costs of a step are straight lines in the context's length, with a kink where a window is full. Where the middle of
    a stretch lies on the line between its ends, the stretch is summed as a line, in whole numbers; else it is halved.

    Args:
        cost: several costs of a step, all at once.
        first: the first length.
        last: the last one.

    >>> summed(lambda n: (3 * n + 1, min(n, 10)), 1, 20)
    (650, 155)
    """
    sums: dict[int, tuple[int, ...]] = {}

    def cost_at(length: int) -> tuple[int, ...]:
        if length not in sums:
            sums[length] = cost(length)
        return sums[length]

    def stretch(start: int, end: int) -> list[int]:
        low, high, steps = cost_at(start), cost_at(end), end - start
        if steps <= 1:
            return [a + (b if steps else 0) for a, b in zip(low, high, strict=True)]
        middle = (start + end) // 2
        centre = cost_at(middle)
        straight = all((c - a) * steps == (b - a) * (middle - start) for a, b, c in zip(low, high, centre, strict=True))
        if straight:
            return [(a + b) * (steps + 1) // 2 for a, b in zip(low, high, strict=True)]
        left, right = stretch(start, middle), stretch(middle + 1, end)
        return [a + b for a, b in zip(left, right, strict=True)]

    return tuple(stretch(first, last)) if last >= first else tuple(0 for _ in cost_at(first))


def shares(rows: Sequence[tuple[int, ...]]) -> dict[int, Fraction]:
    """The places of a few rows, and weights by which they add up to the sum of all: of costs, too, that follow from the
    rows along straight lines.

    >>> shares([(1, 5), (1, 6), (1, 7), (1, 8)])
    {0: Fraction(-2, 1), 1: Fraction(6, 1)}
    """
    basis: list[tuple[int, list[Fraction], dict[int, Fraction]]] = []  # pivot, reduced row, as a sum of rows

    def reduced(row: Sequence[Fraction], made: dict[int, Fraction]) -> tuple[list[Fraction], dict[int, Fraction]]:
        left = list(row)
        for pivot, other, parts in basis:
            if factor := left[pivot]:
                left = [a - factor * b for a, b in zip(left, other, strict=True)]
                for place, part in parts.items():
                    made[place] = made.get(place, Fraction(0)) - factor * part
        return left, made

    kinks: dict[tuple[int, ...], int] = {}  # the first place of each slope
    for place, (row, after) in enumerate(pairwise(rows)):
        kinks.setdefault(tuple(map(sub, after, row)), place)
    for place in dict.fromkeys(end for start in (0, *kinks.values()) for end in (start, min(start + 1, len(rows) - 1))):
        row = rows[place]
        left, made = reduced([Fraction(n) for n in row], {place: Fraction(1)})
        pivot = next((n for n, value in enumerate(left) if value), None)
        if pivot is not None:
            scale = left[pivot]
            basis.append((pivot, [a / scale for a in left], {n: part / scale for n, part in made.items()}))
        if len(basis) == len(row):
            break
    _, made = reduced([Fraction(sum(column)) for column in zip(*rows, strict=True)], {})
    return {place: -part for place, part in made.items() if part}


# Cost and memory of a model against the length of the context: a few lengths, each of them run.


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


@dataclass(frozen=True)
class Run:
    """One call that was run."""

    call: CountedCall
    cost: Step
    #: Multiply-accumulates with MLA's latents absorbed; None where nothing can be.
    absorbed: int | None
    #: What each convention counts.
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Runs:
    """A program at a batch size, run call by call."""

    program: Program
    batch: int
    conventions: Sequence[Convention] = ()
    progress: Callable[[str], None] = lambda step: None
    last_logits: bool = True
    _runs: dict[Call, Run] = field(default_factory=dict)

    def run(self, call: Call) -> Run:
        """The cost of a call."""
        if call not in self._runs:
            self._runs[call] = self._run(call)
        return self._runs[call]

    def _run(self, call: Call) -> Run:
        past = call.past
        self.progress(
            f"a step after {past} token{'s' if past > 1 else ''}" if past else f"prefill of {call.tokens} tokens"
        )
        program = self.program
        profile = program.profile(call, self.batch)
        counted = CountedCall(
            profile, self.batch, past, call.tokens, program.widths, program.types, program.state_type, self.last_logits
        )
        counts = tuple(profile_graph(profile.graph, convention).total("count") for convention in self.conventions)
        cost = counted.step(self.state(call) if past else 0)
        return Run(counted, cost, absorbed_mla(profile) if past else None, counts)

    def state(self, call: Call) -> int:
        """Bytes of the state before a call."""
        return sum(self.program.state(call, self.batch).values())

    def growth(self, prompt: int, generate: int) -> Growth:
        """The growth of a sequence's state with its tokens; behind an encoder with those of the prompt, before as many
        generated ones."""
        program = self.program
        if not program.keeps_state:
            return Growth({}, {}, 1)

        def state(tokens: int) -> Mapping[str, int]:
            return program.state(step(program, tokens, generate if program.encodes else 0), 1)

        if program.encoder_length is not None:
            return Growth(state(prompt), state(prompt), prompt)
        far = prompt if program.encodes else prompt + generate
        if not self._unrolled(prompt):
            far = max(far, program.longest or 0)
        return Growth(state(1), state(far), far)

    def cache(self, prompt: int, generate: int) -> Cache | None:
        """The state of a sequence; None where it is no sum of straight lines up to windows, or not known of one token.

        Raises:
            ModelError: a call fails.
        """
        program = self.program
        if not program.keeps_state:
            return Cache()
        try:
            cache = cache_of(self.growth(prompt, generate))
        except ModelError:
            if not program.encodes:
                raise
            return None  # its encoder reads no single sample of sound
        known = step(program, prompt, generate if program.encodes else 0)
        same = program.encoder_length is not None or self.batch * cache.nbytes(prompt) == self.state(known)
        return cache if same else None

    def _unrolled(self, prompt: int) -> bool:
        """True where the program goes through its prompt token by token, which takes long for many tokens."""
        calls = prefill(self.program, prompt), step(self.program, prompt)
        rows, of_step = (len(self.run(call).call.profile.rows) for call in calls)
        return rows > 4 * of_step

    def ends(self, prompt: int, generate: int, cache: Cache | None) -> tuple[int, int, int]:
        """Bytes of the state after the prompt, after one token more, and after all that are generated."""
        if not self.program.keeps_state:
            return 0, 0, 0
        if cache is None or self.program.encodes:
            first, second, last = (self.state(step(self.program, prompt, tokens)) for tokens in (0, 1, generate))
        else:
            first, second, last = (self.batch * cache.nbytes(prompt + tokens) for tokens in (0, 1, generate))
        return first, second, last

    def largest_step(self, prompt: int, tokens: int) -> EngineStep:
        """A step of so many tokens, as sequences that are no longer than the model was made for; of a
        program that goes through its prompt token by token, the whole prompt. Without a cache prompts are not cut, nor
        where an encoder reads no less than a prompt of sound."""
        program = self.program
        if program.keeps_state and self._unrolled(prompt):
            return EngineStep(self.run(prefill(program, prompt)).call.profile, self.batch * prompt, self.last_logits)
        longest = program.encoder_length or min(tokens, program.longest or tokens)
        if not program.keeps_state:
            tokens, longest = max(tokens, prompt), max(longest, prompt)
        sequences = -(-tokens // longest)
        call = prefill(program, program.encoder_length or -(-tokens // sequences))
        if (call, sequences) == (prefill(program, prompt), self.batch):
            return EngineStep(self.run(call).call.profile, tokens, self.last_logits)
        self.progress(f"a step of {tokens} tokens")
        try:
            return EngineStep(program.profile(call, sequences), tokens, self.last_logits)
        except ModelError:
            if not program.encodes:
                raise
            return EngineStep(self.run(prefill(program, prompt)).call.profile, self.batch * prompt, self.last_logits)

    def generation(self, prompt: int, tokens: int) -> tuple[tuple[int, ...], dict[tuple[str, ...], int]]:
        """MACs, FLOPs, bytes that are read, those at least, absorbed MACs and what each convention counts, of so many
        steps; and the MACs that no engine can do without, by the types that they may be computed in."""
        if not tokens:
            return (0,) * (5 + len(self.conventions)), {}
        types = tuple(self.run(step(self.program, prompt)).cost.products)

        def cost(generated: int) -> tuple[int, ...]:
            run = self.run(step(self.program, prompt, generated))
            own = run.cost
            products = (own.products.get(dtypes, 0) for dtypes in types)
            return own.macs, own.flops, own.bytes, own.least_bytes, run.absorbed or 0, *run.counts, *products

        pasts = [step(self.program, prompt, n).past for n in range(tokens)]
        if (first := self.program.lengths(pasts[0])) is not None:
            rows = [(1, *first), *((1, *(self.program.lengths(past) or ())) for past in pasts[1:])]
            parts = [[part * figure for figure in cost(place)] for place, part in shares(rows).items()]
            sums = tuple(int(sum(figures)) for figures in zip(*parts, strict=True))
        else:
            sums = summed(cost, 0, tokens - 1)
        return sums[: -len(types) or None], dict(zip(types, sums[-len(types) :], strict=True)) if types else {}

    def weight_bytes(self, profile: Profile) -> int:
        """Bytes of the stored tensors of a call, in the widths that they are stored in."""
        return stored_bytes(profile, self.program.widths)

    def curve(self, contexts: Sequence[int], weight_bytes: int) -> tuple[Point, ...]:
        """Cost and memory at several lengths of the prompt."""
        points = []
        for context in contexts:
            first, then = prefill(self.program, context), step(self.program, context)
            if not self.program.keeps_state:
                points.append(Point(context, self.run(first).cost, None, 0, weight_bytes))
                continue
            points.append(Point(context, self.run(first).cost, self.run(then).cost, self.state(then), weight_bytes))
        return tuple(points)
