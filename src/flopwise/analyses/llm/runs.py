"""The calls of a request that were run, each of them once, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from flopwise.analyses.llm.curve import Point
from flopwise.analyses.llm.generation import shares, summed
from flopwise.analyses.llm.program import Call, Program, prefill, step
from flopwise.analyses.llm.serving.memory import Cache, Growth, cache_of
from flopwise.analyses.llm.serving.workspace import EngineStep
from flopwise.analyses.llm.step import CountedCall, Step
from flopwise.analyses.llm.traffic import stored_bytes
from flopwise.analyses.needed.latents import absorbed_mla
from flopwise.conventions.convention import Convention
from flopwise.errors import ModelError
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile


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
