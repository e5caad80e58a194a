"""Costs of language models worked out by hand, from the definitions of their architectures.

Nothing here reads a configuration or calls flopwise: sizes are written out, masks are added up query by query, and each
kind of layer is the sum of its products. Conventions are flopwise's own, so that they are not put to the test: a window
keeps all its keys but one, states are float32, a prompt expands latents and a step absorbs them, an index's scores are
weighed as values are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

#: Which keys a query sees: all before it and itself, the last few, those of its chunk, the best few, or every one.
Sight = tuple[str, int]
FULL: Sight = ("full", 0)


def window(size: int) -> Sight:
    """The last ``size`` keys, the query's own among them."""
    return ("window", size)


def chunk(size: int) -> Sight:
    """The keys of the query's own chunk of ``size`` tokens, up to the query's own."""
    return ("chunk", size)


def best(count: int) -> Sight:
    """The ``count`` keys with the best scores of an index."""
    return ("best", count)


def blocks(size: int, count: int) -> Sight:
    """Keys of ``count`` blocks of ``size``, the query's own, which it sees in part, among them."""
    return (f"blocks of {size}", count)


def seen(sight: Sight, position: int) -> int:
    """Keys that the query at a position, from 0, sees."""
    kind, size = sight
    if kind == "full":
        return position + 1
    if kind == "chunk":
        return position % size + 1
    if kind.startswith("blocks of "):
        each = int(kind.removeprefix("blocks of "))
        return position + 1 if position < each * size else (size - 1) * each + position % each + 1
    return min(position + 1, size)


@cache
def pairs(sight: Sight, tokens: int) -> int:
    """Pairs of a query and a key in a prompt."""
    return sum(seen(sight, position) for position in range(tokens))


def remembered(sight: Sight, tokens: int) -> int:
    """Keys that the next token may need: those that its own mask reaches."""
    kind, size = sight
    return min(tokens, size - 1) if kind in ("window", "chunk") else tokens


@dataclass(frozen=True)
class Cost:
    """What a part of a model stores, multiplies and remembers."""

    params: int = 0
    #: Parameters that a token does not use: those of the experts that it does not choose.
    idle: int = 0
    #: Multiply-adds of a token whatever came before it; and of an attended pair, by what queries see.
    macs: int = 0
    attended: tuple[tuple[int, Sight], ...] = ()
    #: The same where a step has another order of products than a prompt (latent attention).
    step_macs: int | None = None
    step_attended: tuple[tuple[int, Sight], ...] | None = None
    #: Bytes that a token leaves in the cache, by what queries see; and of a state that does not grow.
    cached: tuple[tuple[int, Sight], ...] = ()
    state: int = 0

    def __add__(self, other: Cost) -> Cost:
        steps = None
        if self.step_attended is not None or other.step_attended is not None:
            steps = (*self._step_attended, *other._step_attended)
        return Cost(
            self.params + other.params,
            self.idle + other.idle,
            self.macs + other.macs,
            (*self.attended, *other.attended),
            self._step_macs + other._step_macs,
            steps,
            (*self.cached, *other.cached),
            self.state + other.state,
        )

    def __mul__(self, layers: int) -> Cost:
        each = lambda parts: tuple((layers * size, sight) for size, sight in parts)  # noqa: E731
        return Cost(
            layers * self.params,
            layers * self.idle,
            layers * self.macs,
            each(self.attended),
            layers * self._step_macs,
            None if self.step_attended is None else each(self.step_attended),
            each(self.cached),
            layers * self.state,
        )

    __rmul__ = __mul__

    @property
    def _step_macs(self) -> int:
        return self.macs if self.step_macs is None else self.step_macs

    @property
    def _step_attended(self) -> tuple[tuple[int, Sight], ...]:
        return self.attended if self.step_attended is None else self.step_attended


@dataclass(frozen=True)
class Pair:
    """An encoder with its decoder, which starts with one token.

    ``cross`` is what the decoder's attention to the encoder's results stores; its keys and values are products of the
    encoder's tokens, made once.
    """

    encoder: Cost
    decoder: Cost
    #: Products of the decoder's tokens with cross attention, and of the encoder's tokens with it; a pair's.
    queries: Cost
    memory: Cost
    crossed: int
    table: int
    scores: int
    #: Multiply-adds before the encoder's layers (convolutions of sound).
    front: int = 0

    @property
    def params(self) -> int:
        return self.encoder.params + self.decoder.params + self.queries.params + self.memory.params + self.table

    @property
    def active(self) -> int:
        """Parameters that a token of the decoder uses: not those that the encoder's tokens alone go through."""
        return self.decoder.params + self.queries.params + self.table

    def prefill(self, tokens: int) -> int:
        """The encoder's tokens, all of which see each other, and the decoder's first."""
        encoded = tokens * self.encoder.macs + sum(macs * tokens**2 for macs, _ in self.encoder.attended)
        attended = sum(macs for macs, _ in self.decoder.attended) + self.crossed * tokens
        return (
            self.front
            + encoded
            + tokens * self.memory.macs
            + self.decoder.macs
            + self.queries.macs
            + attended
            + self.scores
        )

    def step(self, tokens: int) -> int:
        """The decoder's second token."""
        attended = 2 * sum(macs for macs, _ in self.decoder.attended) + self.crossed * tokens
        return self.decoder.macs + self.queries.macs + attended + self.scores

    def cache(self, tokens: int) -> int:
        """Bytes after the decoder's first token."""
        return sum(size for size, _ in self.decoder.cached) + tokens * sum(size for size, _ in self.memory.cached)


@dataclass(frozen=True)
class Hand:
    """A model: its layers, and the product that scores the vocabulary for one position."""

    body: Cost
    scores: int

    @property
    def params(self) -> int:
        return self.body.params

    @property
    def active(self) -> int:
        """Parameters that one token uses; all of the table of embeddings counts."""
        return self.body.params - self.body.idle

    def prefill(self, tokens: int) -> int:
        """Multiply-adds that a prompt needs, the vocabulary scored for its last position alone."""
        attended = sum(macs * pairs(sight, tokens) for macs, sight in self.body.attended)
        return tokens * self.body.macs + attended + self.scores

    def step(self, past: int) -> int:
        """Multiply-adds that the token after so many needs."""
        attended = sum(macs * seen(sight, past) for macs, sight in self.body._step_attended)
        return self.body._step_macs + attended + self.scores

    def cache(self, tokens: int) -> int:
        """Bytes that a sequence leaves after so many tokens."""
        return sum(size * remembered(sight, tokens) for size, sight in self.body.cached) + self.body.state


# Parts.


def table(rows: int, width: int) -> Cost:
    """Vectors that are looked up."""
    return Cost(rows * width)


def vectors(count: int) -> Cost:
    """Weights of norms, biases of a choice: nothing is multiplied and added up."""
    return Cost(count)


def linear(inputs: int, outputs: int, bias: bool = False) -> Cost:
    return Cost(inputs * outputs + bias * outputs, macs=inputs * outputs)


def attention(
    hidden: int,
    heads: int,
    groups: int,
    head: int,
    sight: Sight = FULL,
    *,
    value: int | None = None,
    bias: bool = False,
    out_bias: bool = False,
    keys_bias: bool | None = None,
    width: int = 2,
) -> Cost:
    """Queries by keys, values by weights: head + value multiply-adds a pair and head; keys and values are kept."""
    value = head if value is None else value
    products = linear(hidden, heads * head, bias) + linear(
        hidden, groups * head, bias if keys_bias is None else keys_bias
    )
    products += linear(hidden, groups * value, bias) + linear(heads * value, hidden, out_bias)
    return products + Cost(
        attended=((heads * (head + value), sight),), cached=((width * groups * (head + value), sight),)
    )


def latent(
    hidden: int,
    heads: int,
    queries: int,
    latents: int,
    plain: int,
    turned: int,
    value: int,
    sight: Sight = FULL,
) -> Cost:
    """Attention over latents (DeepSeek-V2, section 2.1.2).

    A prompt expands its latents to keys and values; a step multiplies its queries and its result with the expansion
    instead, so that it attends to the latents themselves.
    """
    if queries:
        products = linear(hidden, queries) + vectors(queries) + linear(queries, heads * (plain + turned))
    else:
        products = linear(hidden, heads * (plain + turned))
    products += linear(hidden, latents + turned) + vectors(latents) + linear(latents, heads * (plain + value))
    products += linear(heads * value, hidden)
    expanded = ((heads * (plain + turned + value), sight),)
    absorbed = ((heads * (2 * latents + turned), sight),)
    return products + Cost(attended=expanded, step_attended=absorbed, cached=((2 * (latents + turned), FULL),))


def index(hidden: int, queries: int, heads: int, head: int) -> Cost:
    """The index of DeepSeek sparse attention: each head's score with one key, weighed and added up over heads."""
    products = linear(queries, heads * head) + linear(hidden, head) + linear(hidden, heads) + vectors(2 * head)
    return products + Cost(
        attended=((heads * (head + 1), FULL),), step_attended=((heads * (head + 1), FULL),), cached=((2 * head, FULL),)
    )


def gated(hidden: int, inner: int, bias: bool = False) -> Cost:
    """down(act(gate(x)) * up(x))."""
    return 2 * linear(hidden, inner, bias) + linear(inner, hidden, bias)


def plain(hidden: int, inner: int, bias: bool = False) -> Cost:
    """down(act(up(x)))."""
    return linear(hidden, inner, bias) + linear(inner, hidden, bias)


def experts(hidden: int, network: Cost, count: int, chosen: int, router_bias: bool = False) -> Cost:
    """A router, and ``chosen`` of ``count`` networks for each token."""
    router = linear(hidden, count, router_bias)
    return router + Cost(count * network.params, (count - chosen) * network.params, chosen * network.macs)


def convolution(channels: int, kernel: int, bias: bool = False, width: int = 2) -> Cost:
    """Each channel by its last few tokens, which are kept."""
    return Cost(channels * (kernel + bias), macs=channels * kernel, state=width * channels * kernel)


def delta_rule(heads: int, key: int, value: int) -> Cost:
    """S = a S + b k (v - S'k)'; y = S'q: three products of the state's size a token; the state is kept in float32."""
    return Cost(macs=3 * heads * key * value, state=4 * heads * key * value)


def scan(inner: int, state: int) -> Cost:
    """h = a h + (dt x) B'; y = h C: two products of the state's size a token; the state is kept in float32."""
    return Cost(macs=2 * inner * state, state=4 * inner * state)


def mamba(hidden: int, inner: int, state: int, rank: int, kernel: int, norms: bool = False, width: int = 2) -> Cost:
    """Mamba (Gu and Dao 2023), figure 3: a state of each channel, with its own A and D."""
    products = linear(hidden, 2 * inner) + convolution(inner, kernel, True, width) + linear(inner, rank + 2 * state)
    products += linear(rank, inner, bias=True) + linear(inner, hidden)
    return products + vectors(inner * state + inner + norms * (rank + 2 * state)) + scan(inner, state)


def mamba2(hidden: int, heads: int, head: int, state: int, groups: int, kernel: int, norm: bool = True) -> Cost:
    """Mamba-2 (Dao and Gu 2024), section 7: heads with one A, D and bias of the step each."""
    inner = heads * head
    channels = inner + 2 * groups * state
    products = (
        linear(hidden, inner + channels + heads) + convolution(channels, kernel, bias=True) + linear(inner, hidden)
    )
    return products + vectors(3 * heads + norm * inner) + scan(inner, state)


def model(vocabulary: int, hidden: int, *layers: Cost, tied: bool = False, norm: int = 1, bias: bool = False) -> Hand:
    """A table of embeddings, layers, a last norm of so many vectors, and the scores of the vocabulary."""
    body = table(vocabulary, hidden) + vectors(norm * hidden + bias * vocabulary)
    for layer in layers:
        body += layer
    return Hand(body + (Cost() if tied else table(vocabulary, hidden)), vocabulary * hidden)
