"""Twelve language models twice: the figures of their public configurations, and their layers as papers define them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.analyses.llm.by_hand import Gated, Grouped, Latent, Layer, Mixture, Model


class Card(NamedTuple):
    """A published model."""

    #: What ``config.json`` says of its sizes.
    config: dict[str, Any]
    #: Layers of it -> the model worked out by hand.
    model: Callable[[int], Model]
    #: The parameters of its checkpoint.
    params: int
    #: The fewest layers that hold all kinds of them.
    shallow: int = 2


def _dense(
    kind: str, width: int, inner: int, layers: int, heads: int, groups: int, vocabulary: int, **more: Any
) -> dict[str, Any]:
    return {
        "model_type": kind,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "vocab_size": vocabulary,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
        **more,
    }


def _alike(layer: Layer, vocabulary: int, *, tied: bool = False) -> Callable[[int], Model]:
    """A model of equal layers."""
    width = layer.feed.width
    return lambda layers: Model(width, vocabulary, (layer,) * layers, tied)


def _turns(layers: tuple[Layer, Layer], vocabulary: int, *, tied: bool = False) -> Callable[[int], Model]:
    """A model whose layers are of two kinds in turn."""
    width = layers[0].feed.width
    return lambda number: Model(width, vocabulary, tuple(layers[n % 2] for n in range(number)), tied)


def _led(first: Layer, leading: int, others: Layer, vocabulary: int) -> Callable[[int], Model]:
    """A model whose first layers are of another kind."""
    width = first.feed.width
    return lambda layers: Model(width, vocabulary, (first,) * leading + (others,) * (layers - leading))


def _deepseek(**sizes: Any) -> dict[str, Any]:
    return {
        "model_type": "deepseek_v3",
        "architectures": ["DeepseekV3ForCausalLM"],
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
        **sizes,
    }


def _latent(heads: int, feed: Gated | Mixture) -> Layer:
    return Layer(Latent(7168, heads, query_rank=1536, rank=512, plain=128, rotated=64, value=128), feed)


def _sunk(window: int | None) -> Layer:
    """A layer of gpt-oss."""
    attention = Grouped(2880, 64, 8, 64, window, biased=True, out_biased=True, sinks=True)
    return Layer(attention, Mixture(2880, 2880, 32, 4, biased=True))


CARDS: dict[str, Card] = {
    "Llama-3-8B": Card(
        _dense("llama", 4096, 14336, 32, 32, 8, 128256, architectures=["LlamaForCausalLM"]),
        _alike(Layer(Grouped(4096, 32, 8, 128), Gated(4096, 14336)), 128256),
        8_030_261_248,
    ),
    "Llama-3.1-70B": Card(
        _dense("llama", 8192, 28672, 80, 64, 8, 128256, architectures=["LlamaForCausalLM"]),
        _alike(Layer(Grouped(8192, 64, 8, 128), Gated(8192, 28672)), 128256),
        70_553_706_496,
    ),
    "Mistral-7B-v0.1": Card(
        _dense("mistral", 4096, 14336, 32, 32, 8, 32000, sliding_window=4096, architectures=["MistralForCausalLM"]),
        _alike(Layer(Grouped(4096, 32, 8, 128, window=4096), Gated(4096, 14336)), 32000),
        7_241_732_096,
    ),
    "Qwen2.5-7B": Card(
        _dense("qwen2", 3584, 18944, 28, 28, 4, 152064, architectures=["Qwen2ForCausalLM"]),
        _alike(Layer(Grouped(3584, 28, 4, 128, biased=True), Gated(3584, 18944)), 152064),
        7_615_616_512,
    ),
    "OLMo-2-1124-7B": Card(
        _dense("olmo2", 4096, 11008, 32, 32, 32, 100352, architectures=["Olmo2ForCausalLM"]),
        _alike(Layer(Grouped(4096, 32, 32, 128, norms=2 * 4096), Gated(4096, 11008)), 100352),
        7_298_617_344,
    ),
    "Phi-4-mini": Card(
        _dense(
            "phi3",
            3072,
            8192,
            32,
            24,
            8,
            200064,
            partial_rotary_factor=0.75,
            tie_word_embeddings=True,
            sliding_window=262144,
            architectures=["Phi3ForCausalLM"],
            pad_token_id=199999,
        ),
        _alike(Layer(Grouped(3072, 24, 8, 128), Gated(3072, 8192)), 200064, tied=True),
        3_836_021_760,
    ),
    "Gemma-2-9B": Card(
        _dense(
            "gemma2",
            3584,
            14336,
            42,
            16,
            8,
            256000,
            head_dim=256,
            sliding_window=4096,
            tie_word_embeddings=True,
            architectures=["Gemma2ForCausalLM"],
        ),
        _turns(
            (
                Layer(Grouped(3584, 16, 8, 256, window=4096), Gated(3584, 14336), norms=4),
                Layer(Grouped(3584, 16, 8, 256), Gated(3584, 14336), norms=4),
            ),
            256000,
            tied=True,
        ),
        9_241_705_984,
    ),
    "Mixtral-8x7B": Card(
        _dense(
            "mixtral",
            4096,
            14336,
            32,
            32,
            8,
            32000,
            num_local_experts=8,
            num_experts_per_tok=2,
            sliding_window=None,
            architectures=["MixtralForCausalLM"],
        ),
        _alike(Layer(Grouped(4096, 32, 8, 128), Mixture(4096, 14336, 8, 2)), 32000),
        46_702_792_704,
    ),
    "Qwen3-30B-A3B": Card(
        _dense(
            "qwen3_moe",
            2048,
            6144,
            48,
            32,
            4,
            151936,
            head_dim=128,
            moe_intermediate_size=768,
            num_experts=128,
            num_experts_per_tok=8,
            architectures=["Qwen3MoeForCausalLM"],
        ),
        _alike(Layer(Grouped(2048, 32, 4, 128, norms=2 * 128), Mixture(2048, 768, 128, 8)), 151936),
        30_532_122_624,
    ),
    "gpt-oss-20b": Card(
        _dense(
            "gpt_oss",
            2880,
            2880,
            24,
            64,
            8,
            201088,
            head_dim=64,
            sliding_window=128,
            num_local_experts=32,
            num_experts_per_tok=4,
            architectures=["GptOssForCausalLM"],
        ),
        _turns(
            (_sunk(128), _sunk(None)),
            201088,
        ),
        20_914_757_184,
    ),
    "DeepSeek-V3": Card(
        _deepseek(
            first_k_dense_replace=3,
            n_group=8,
            topk_group=4,
            n_routed_experts=256,
            num_attention_heads=128,
            num_key_value_heads=128,
            vocab_size=129280,
        ),
        _led(_latent(128, Gated(7168, 18432)), 3, _latent(128, Mixture(7168, 2048, 256, 8, shared=1)), 129280),
        671_026_419_200 - 58 * 256,  # the corrections of the routers are buffers
        shallow=4,
    ),
    "Kimi-K2": Card(
        _deepseek(
            first_k_dense_replace=1,
            n_group=1,
            topk_group=1,
            n_routed_experts=384,
            num_attention_heads=64,
            num_key_value_heads=64,
            vocab_size=163840,
        ),
        _led(_latent(64, Gated(7168, 18432)), 1, _latent(64, Mixture(7168, 2048, 384, 8, shared=1)), 163840),
        1_026_408_232_448 - 60 * 384,
    ),
}
