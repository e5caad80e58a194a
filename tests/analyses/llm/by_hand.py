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
    def window(self) -> int | None: ...

    def share(self, tp: int) -> int:
        """Parameters on one of so many devices: heads are divided, and those of keys repeated where they are fewer."""

    def kept_share(self, tp: int) -> int:
        """Numbers of a token in the cache of one of so many devices."""

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
    #: Whether queries, keys and values have biases, and whether the result has one.
    biased: bool = False
    out_biased: bool = False
    #: Numbers of the norms of queries and keys.
    norms: int = 0
    #: Whether each head has a sink (https://arxiv.org/abs/2309.17453), a score of its own.
    sinks: bool = False

    @property
    def weights(self) -> int:
        return self.width * self.head * (2 * self.heads + 2 * self.groups)

    def share(self, tp: int) -> int:
        heads, groups = self.heads // tp, max(1, self.groups // tp)
        made = (heads + 2 * groups) * self.head * (self.width + self.biased)
        out = heads * self.head * self.width + self.width * self.out_biased
        return made + out + self.norms + heads * self.sinks

    def kept_share(self, tp: int) -> int:
        return 2 * max(1, self.groups // tp) * self.head

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
    def _down(self) -> int:
        """Weights that make latents of a token."""
        return self.width * (self.query_rank + self.rank + self.rotated)

    @property
    def _around(self) -> int:
        """Weights of products of a token that are there either way."""
        queries = self.query_rank * self.heads * (self.plain + self.rotated)
        return self._down + queries + self.heads * self.value * self.width

    @property
    def _up(self) -> int:
        """Weights that make keys and values of a latent."""
        return self.rank * self.heads * (self.plain + self.value)

    def share(self, tp: int) -> int:
        """What makes latents, and their two norms, are on each device."""
        whole = self._down + self.query_rank + self.rank
        return whole + (self._around - self._down + self._up) // tp

    def kept_share(self, tp: int) -> int:
        """The latents, on each device."""
        return self.rank + self.rotated

    def executed(self, queries: int, keys: int, pairs: int) -> int:
        """Keys and values of all tokens are made anew, or the matrices that make them are multiplied with queries and
        results, where that is less."""
        pair = self.heads * (self.plain + self.rotated + self.value)
        expanded = queries * self._around + keys * self._up + pairs * pair
        absorbed = queries * (self._around + self._up) + pairs * self.heads * (2 * self.rank + self.rotated)
        return min(absorbed, expanded)

    needed = executed


@dataclass(frozen=True)
class Gated:
    """A gated linear unit (https://arxiv.org/abs/2002.05202): three matrices."""

    width: int
    inner: int

    @property
    def active(self) -> int:
        return 3 * self.width * self.inner

    def share(self, tp: int, ep: int) -> int:
        """Parameters on one of so many devices: the inner width is divided."""
        return self.active // tp


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

    def share(self, tp: int, ep: int) -> int:
        """Parameters on a device: ``ep`` divides the experts among devices, and what is left of ``tp`` each of them."""
        own, inner = self.experts // ep, self.inner // max(1, tp // ep)
        router = self.experts * (self.width + self.biased)
        biases = own * (2 * inner + self.width) if self.biased else 0
        return router + own * 3 * self.width * inner + self.shared * self.expert // tp + biases

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
        return self.share(1)

    def share(self, tp: int, ep: int = 1) -> int:
        """Parameters on a device, where ``tp`` divides each layer and ``ep`` the experts."""
        tables = (1 if self.tied else 2) * self.width * self.vocabulary // tp
        layers = sum(one.mixer.share(tp) + one.feed.share(tp, ep) + one.norms * self.width for one in self.layers)
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

    def cache(self, tokens: int, tp: int = 1) -> int:
        """Bytes of the cache of a sequence in bfloat16, on one of ``tp`` devices; a window keeps one token less, as the
        next one is new."""
        return 2 * sum(
            layer.mixer.kept_share(tp) * min(tokens, (layer.mixer.window or tokens + 1) - 1) for layer in self.layers
        )

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
