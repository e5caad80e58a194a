"""The formulas of engines and trainers, by the sizes of a configuration: multiply-adds of a prompt's forward pass.

Each follows the file that the convention of its name cites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

#: Types of models whose layers with a window and without one take turns.
TURNS = ("gemma2", "gpt_oss")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a configuration, under one name each."""

    config: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.config[name]

    @property
    def head(self) -> int:
        return int(self.config.get("head_dim") or self.hidden_size // self.num_attention_heads)

    @property
    def latent(self) -> bool:
        return "kv_lora_rank" in self.config

    @property
    def experts(self) -> int:
        names = ("n_routed_experts", "num_experts", "num_local_experts")
        return next((int(self.config[name]) for name in names if name in self.config), 0)

    @property
    def mixtures(self) -> int:
        """Layers of experts."""
        return self.num_hidden_layers - self.config.get("first_k_dense_replace", 0) if self.experts else 0

    @property
    def expert(self) -> int:
        return int(self.config.get("moe_intermediate_size", self.intermediate_size))

    @property
    def taken(self) -> int:
        """Experts that a token goes through, shared ones among them."""
        return int(self.num_experts_per_tok + self.config.get("n_shared_experts", 0))

    @property
    def projections(self) -> int:
        """Weights of an attention's products."""
        width, heads = self.hidden_size, self.num_attention_heads
        if not self.latent:
            return int(2 * width * self.head * (heads + self.num_key_value_heads))
        key = self.qk_nope_head_dim + self.qk_rope_head_dim
        queries = self.q_lora_rank * (width + heads * key)
        down = width * (self.kv_lora_rank + self.qk_rope_head_dim)
        up = self.kv_lora_rank * heads * (self.qk_nope_head_dim + self.v_head_dim)
        return int(queries + down + up + heads * self.v_head_dim * width)

    @property
    def feeds(self) -> int:
        """Weights of dense layers and of the experts of a token, in all layers, without routers."""
        dense = self.num_hidden_layers - self.mixtures
        each = 3 * self.hidden_size
        routed = self.mixtures * self.taken * self.expert if self.experts else 0
        return int(each * (dense * self.intermediate_size + routed))

    @property
    def routers(self) -> int:
        return int(self.mixtures * self.hidden_size * self.experts)

    @property
    def pair(self) -> int:
        """Multiply-adds of a query with a key and the key's value, in all heads."""
        widths = self.qk_nope_head_dim + self.qk_rope_head_dim + self.v_head_dim if self.latent else 2 * self.head
        return int(self.num_attention_heads * widths)

    @property
    def vocabulary(self) -> int:
        return int(self.hidden_size * self.vocab_size)

    def windows(self, tokens: int) -> list[int]:
        """The most tokens that a query sees, layer by layer."""
        window = min(self.config.get("sliding_window") or tokens, tokens)
        layers = self.num_hidden_layers
        if self.model_type in TURNS:
            return [tokens if layer % 2 else window for layer in range(layers)]
        return [window] * layers

    def pairs(self, tokens: int) -> int:
        """Multiply-adds of the pairs that causal masks and windows leave."""
        windows = self.windows(tokens)
        return self.pair * sum(w * (w + 1) // 2 + (tokens - w) * w for w in windows)


#: Multiply-adds by what they are for.
Terms: TypeAlias = dict[str, int]


def linear(sizes: Sizes, tokens: int, *, routers: bool) -> Terms:
    """Products of all tokens with weights, the vocabulary's left out."""
    terms = {"projections": sizes.num_hidden_layers * sizes.projections, "feed-forward": sizes.feeds}
    return {name: tokens * weights for name, weights in (terms | {"routers": sizes.routers * routers}).items()}


def needed(sizes: Sizes, tokens: int) -> Terms:
    """The exact count: pairs that masks leave, and the vocabulary for the last position."""
    pairs = sizes.pairs(tokens)
    return linear(sizes, tokens, routers=True) | {"pairs": pairs, "vocabulary": sizes.vocabulary}


def vllm(sizes: Sizes, tokens: int) -> Terms:
    pairs = tokens * sum(sizes.windows(tokens)) * sizes.pair
    return linear(sizes, tokens, routers=False) | {"pairs": pairs, "vocabulary": sizes.vocabulary}


def sglang(sizes: Sizes, tokens: int) -> Terms:
    layers, head = sizes.num_hidden_layers, 256 if sizes.latent else sizes.head
    heads = sizes.num_attention_heads
    return {
        "projections": layers * tokens * sizes.hidden_size * head * 2 * (heads + sizes.num_key_value_heads),
        "feed-forward": layers * tokens * 3 * sizes.hidden_size * sizes.intermediate_size,
        "pairs": layers * 2 * heads * head * (tokens * (tokens + 1) // 2),
    }


def verl(sizes: Sizes, tokens: int) -> Terms:
    seen = sizes.windows(tokens) if sizes.model_type in TURNS else [tokens] * sizes.num_hidden_layers
    width = sizes.qk_nope_head_dim + sizes.qk_rope_head_dim if sizes.latent else sizes.head
    return linear(sizes, tokens, routers=True) | {
        "pairs": tokens * sum(seen) * 2 * width * sizes.num_attention_heads,
        "vocabulary": tokens * sizes.vocabulary,
        "embeddings": tokens * sizes.vocabulary,
    }


def veomni(sizes: Sizes, tokens: int) -> Terms:
    width = sizes.qk_nope_head_dim + sizes.qk_rope_head_dim if sizes.latent else sizes.head
    pairs = sizes.num_hidden_layers * tokens**2 * 2 * width * sizes.num_attention_heads
    return verl(sizes, tokens) | {"pairs": pairs}


def torch(sizes: Sizes, tokens: int) -> Terms:
    """Lightning's ``measure_flops``: the products that PyTorch's FlopCounterMode sees of transformers' program."""
    terms = linear(sizes, tokens, routers=True)
    if sizes.experts:  # in one grouped product, which the tool does not know
        taken = sizes.num_experts_per_tok * 3 * sizes.hidden_size * sizes.expert
        terms["feed-forward"] -= tokens * sizes.mixtures * taken
    return terms | {
        "pairs": sizes.num_hidden_layers * tokens**2 * sizes.pair,
        "vocabulary": tokens * sizes.vocabulary,
    }


def megatron_bridge(sizes: Sizes, tokens: int) -> Terms:
    norms = sizes.num_hidden_layers * (sizes.q_lora_rank + sizes.kv_lora_rank) if sizes.latent else 0
    twice = sum(w * (w + 1) + 2 * (tokens - w) * w if w < tokens else tokens**2 for w in sizes.windows(tokens))
    return linear(sizes, tokens, routers=False) | {
        "pairs": sizes.pair * twice // 2,
        "vocabulary": tokens * -(-sizes.vocab_size // 128) * 128 * sizes.hidden_size,
        "norms and biases": tokens * norms,
    }


def torchtitan(sizes: Sizes, tokens: int, params: int) -> Terms:
    """``params``: all parameters; those of experts that a token does not take leave, and tables looked up."""
    biases = 2 * sizes.expert + sizes.hidden_size if sizes.model_type == "gpt_oss" else 0
    idle = sizes.experts - sizes.num_experts_per_tok if sizes.experts else 0
    out = idle * sizes.mixtures * (3 * sizes.hidden_size * sizes.expert + biases)
    table = 0 if sizes.config.get("tie_word_embeddings") else sizes.vocabulary
    terms = linear(sizes, tokens, routers=True) | {"vocabulary": tokens * sizes.vocabulary}
    rest = tokens * (params - out - table) - sum(terms.values())
    return terms | {"pairs": tokens * sum(sizes.windows(tokens)) * sizes.pair, "norms and biases": rest}


def transformers(sizes: Sizes, tokens: int, params: int) -> Terms:
    """``params``: all parameters, of which the table of embeddings is left out."""
    idle = sizes.experts - sizes.num_experts_per_tok if sizes.experts else 0
    terms = linear(sizes, tokens, routers=True)
    terms["feed-forward"] += tokens * idle * sizes.mixtures * 3 * sizes.hidden_size * sizes.expert
    terms["vocabulary"] = 0 if sizes.config.get("tie_word_embeddings") else tokens * sizes.vocabulary
    return terms | {"norms and biases": tokens * (params - sizes.vocabulary) - sum(terms.values())}


#: By the convention's name; those of the second table take the number of parameters as well.
BY_SIZES: dict[str, Callable[[Sizes, int], Terms]] = {
    "vllm": vllm,
    "sglang": sglang,
    "verl": verl,
    "veomni": veomni,
    "torch": torch,
    "megatron-bridge": megatron_bridge,
}
BY_PARAMETERS: dict[str, Callable[[Sizes, int, int], Terms]] = {"torchtitan": torchtitan, "transformers": transformers}


def stated(convention: str, sizes: Sizes, tokens: int, params: int) -> Terms:
    """What a tool states for a forward pass of a prompt."""
    if convention in BY_SIZES:
        return BY_SIZES[convention](sizes, tokens)
    return BY_PARAMETERS[convention](sizes, tokens, params)
