"""What language models cost, worked out from papers and model cards in whole numbers, without flopwise.

MACs are multiply-adds of products with weights and of attention. A token goes through each layer's products once; a
query and a key that it sees make a *pair*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Mixer(Protocol):
    """The part of a layer that looks at other tokens."""

    @property
    def params(self) -> int: ...
    @property
    def window(self) -> int | None: ...

    @property
    def kept(self) -> int:
        """Numbers of a token in the cache."""

    def executed(self, queries: int, keys: int, pairs: int) -> int:
        """MACs of one sequence's queries, with all keys that the layer holds."""

    def needed(self, queries: int, keys: int, pairs: int) -> int:
        """The same where a rewrite with the same result is cheaper."""


@dataclass(frozen=True)
class Grouped:
    """Grouped-query attention (https://arxiv.org/abs/2305.13245): several heads of queries share one of keys."""

    width: int
    heads: int
    groups: int
    head: int
    window: int | None = None
    #: Numbers beside the four matrices: biases, norms of queries and keys, sinks.
    vectors: int = 0

    @property
    def weights(self) -> int:
        return self.width * self.head * (2 * self.heads + 2 * self.groups)

    @property
    def params(self) -> int:
        return self.weights + self.vectors

    @property
    def kept(self) -> int:
        return 2 * self.groups * self.head

    def executed(self, queries: int, keys: int, pairs: int) -> int:
        return queries * self.weights + pairs * 2 * self.heads * self.head

    needed = executed


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (https://arxiv.org/abs/2405.04434, section 2.1): a cache of latents."""

    width: int
    heads: int
    query_rank: int
    rank: int
    plain: int
    rotated: int
    value: int
    window: None = None

    @property
    def _around(self) -> int:
        """Weights of products of a token that are there either way."""
        down = self.width * (self.query_rank + self.rank + self.rotated)
        return down + self.query_rank * self.heads * (self.plain + self.rotated) + self.heads * self.value * self.width

    @property
    def _up(self) -> int:
        """Weights that make keys and values of a latent."""
        return self.rank * self.heads * (self.plain + self.value)

    @property
    def params(self) -> int:
        return self._around + self._up + self.query_rank + self.rank  # two norms

    @property
    def kept(self) -> int:
        return self.rank + self.rotated

    def executed(self, queries: int, keys: int, pairs: int) -> int:
        """Keys and values of all tokens are made anew."""
        pair = self.heads * (self.plain + self.rotated + self.value)
        return queries * self._around + keys * self._up + pairs * pair

    def needed(self, queries: int, keys: int, pairs: int) -> int:
        """The matrices that make keys and values are multiplied with queries and results, where that is less."""
        absorbed = queries * (self._around + self._up) + pairs * self.heads * (2 * self.rank + self.rotated)
        return min(absorbed, self.executed(queries, keys, pairs))


@dataclass(frozen=True)
class Gated:
    """A gated linear unit (https://arxiv.org/abs/2002.05202): three matrices."""

    width: int
    inner: int

    @property
    def params(self) -> int:
        return 3 * self.width * self.inner

    active = params


@dataclass(frozen=True)
class Mixture:
    """A mixture of gated experts behind a router, some of them shared by all tokens."""

    width: int
    inner: int
    experts: int
    taken: int
    shared: int = 0
    #: Biases of the router and of each expert's matrices.
    biased: bool = False

    @property
    def expert(self) -> int:
        return 3 * self.width * self.inner

    @property
    def params(self) -> int:
        biases = self.experts * (1 + 2 * self.inner + self.width) if self.biased else 0
        return self.width * self.experts + (self.experts + self.shared) * self.expert + biases

    @property
    def active(self) -> int:
        return self.width * self.experts + (self.taken + self.shared) * self.expert


@dataclass(frozen=True)
class Layer:
    """A mixer, a feed-forward part, and norms of the model's width."""

    mixer: Mixer
    feed: Gated | Mixture
    norms: int = 2


@dataclass(frozen=True)
class Model:
    """A decoder: a table of embeddings, layers, a last norm and scores of the vocabulary."""

    width: int
    vocabulary: int
    layers: tuple[Layer, ...]
    tied: bool = False

    @property
    def params(self) -> int:
        tables = (1 if self.tied else 2) * self.width * self.vocabulary
        layers = sum(one.mixer.params + one.feed.params + one.norms * self.width for one in self.layers)
        return tables + layers + self.width

    def prefill(self, tokens: int) -> int:
        """MACs of a prompt as programs without a fused kernel execute it: all pairs, scores for each token."""
        mixers = sum(layer.mixer.executed(tokens, tokens, tokens * tokens) for layer in self.layers)
        return mixers + tokens * (self._feeds + self.width * self.vocabulary)

    def needed_prefill(self, tokens: int) -> int:
        """MACs of a prompt: the pairs that causal masks and windows leave, scores for the last token."""
        mixers = sum(layer.mixer.needed(tokens, tokens, _pairs(tokens, layer.mixer.window)) for layer in self.layers)
        return mixers + tokens * self._feeds + self.width * self.vocabulary

    def step(self, past: int) -> int:
        """MACs of one token after so many, as programs execute it."""
        mixers = sum(layer.mixer.executed(1, seen, seen) for layer, seen in self._seen(past))
        return mixers + self._feeds + self.width * self.vocabulary

    def needed_step(self, past: int) -> int:
        """MACs of one token after so many, latents absorbed."""
        mixers = sum(layer.mixer.needed(1, seen, seen) for layer, seen in self._seen(past))
        return mixers + self._feeds + self.width * self.vocabulary

    def cache(self, tokens: int) -> int:
        """Bytes of the cache of a sequence in bfloat16; a window keeps one token less, as the next one is new."""
        held = (layer.mixer.kept * min(tokens, (layer.mixer.window or tokens + 1) - 1) for layer in self.layers)
        return 2 * sum(held)

    @property
    def _feeds(self) -> int:
        return sum(layer.feed.active for layer in self.layers)

    def _seen(self, past: int) -> list[tuple[Layer, int]]:
        """Each layer with the keys that a token after so many sees."""
        return [(layer, min(past + 1, layer.mixer.window or past + 1)) for layer in self.layers]


def _pairs(tokens: int, window: int | None) -> int:
    """Pairs that a causal mask leaves: the first tokens see those before them, later ones a full window."""
    first = min(tokens, window or tokens)
    return first * (first + 1) // 2 + (tokens - first) * first
