"""The sizes of a decoder in its configuration, with the defaults of its family in transformers.

https://github.com/huggingface/transformers, ``src/transformers/models/*/configuration_*.py``, 5.23
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from flopwise._limits import within_limit
from flopwise.errors import ModelError
from flopwise.graph.dtypes import ALIASES, BITS
from flopwise.readers.source.text import json_object


class Family(NamedTuple):
    """Defaults of transformers for a type of model, for keys that its configuration lacks."""

    #: How its classes begin: "Llama" for LlamaForCausalLM.
    title: str
    #: Heads of keys and values; None: as many as queries have.
    groups: int | None
    #: Elements of a head; None: hidden size / heads.
    head: int | None = None
    #: Whether queries, keys and values have biases, and whether queries and keys are normalised.
    qkv_bias: bool = False
    qk_norm: bool = False


#: ``model_type`` -> its family.
FAMILIES = {
    "llama": Family("Llama", None),
    "mistral": Family("Mistral", 8),
    "qwen2": Family("Qwen2", 32, qkv_bias=True),
    "qwen3": Family("Qwen3", 32, 128, qk_norm=True),
}

#: Keys under which a configuration has what is not built here.
_OTHER = ("quantization_config", "text_config", "auto_map")

#: Scalings of rotary positions that add no operator.
_ROPES = ("default", "linear", "llama3", "yarn")

#: What a configuration of another kind asks for.
NEEDS = "needs PyTorch and transformers: pip install 'flopwise[llm]'"


class Decoder(NamedTuple):
    """A decoder of equal layers: attention with rotary positions and a gated feed-forward network."""

    family: Family
    source: str
    layers: int
    hidden: int
    inner: int
    heads: int
    groups: int
    head: int
    vocabulary: int
    #: Whether the scores of the vocabulary are those of the embeddings' table.
    tied: bool
    #: Whether the four products of attention, and the three of the feed-forward network, have biases.
    attention_bias: bool
    mlp_bias: bool
    dtype: str
    #: The longest context that it was made for; None where the configuration says nothing.
    longest: int | None
    #: What norms add to the mean square.
    epsilon: float = 1e-6
    #: What a reader should know.
    notes: tuple[str, ...] = ()


def decoder_of(model: str | os.PathLike[str], dtype: str | None = None) -> Decoder:
    """The sizes in a configuration.

    Args:
        model: path of a ``config.json`` or of the folder that holds one.
        dtype: element type of the weights ("bf16", "fp16", "fp32"); None: as the configuration says.

    Raises:
        ModelError: it is of another family, has parts that are not built here, or says no size.
    """
    name = os.fsdecode(model)
    config = json_object(os.path.join(name, "config.json") if os.path.isdir(name) else name)
    family = FAMILIES.get(str(config.get("model_type")))
    if family is None:
        kind = config.get("model_type") or "model"
        raise ModelError(f"{name}: a {kind} {NEEDS}; without them: {', '.join(FAMILIES)}")
    if other := _other(config, family):
        raise ModelError(f"{name}: {other} {NEEDS}")

    def size(key: str, default: int | None = None) -> int:
        value = config.get(key)
        value = default if value is None else value
        if type(value) is not int or not 0 < value < 1 << 40:
            raise ModelError(f"{name}: {key} is {value!r}; a number of at least 1 is expected")
        return value

    heads, hidden = size("num_attention_heads"), size("hidden_size")
    usual = heads if family.groups is None or "num_key_value_heads" in config else family.groups
    groups = size("num_key_value_heads", usual)  # null stands for as many as queries have
    if heads % groups:
        raise ModelError(f"{name}: num_attention_heads {heads} is not a multiple of num_key_value_heads {groups}")
    kind = str(dtype or config.get("dtype") or config.get("torch_dtype") or "float32").lower()
    element_type = ALIASES.get(kind, kind)
    if element_type not in BITS:
        raise ModelError(f"{name}: dtype is {kind[:40]!r}; an element type such as bfloat16 is expected")
    layers = size("num_hidden_layers")
    within_limit("language_layers", layers, f"{name}: num_hidden_layers is", "layers")
    longest = config.get("max_position_embeddings")
    epsilon = config.get("rms_norm_eps")
    unnamed = f"the configuration names no architectures; counted as {family.title}ForCausalLM"
    return Decoder(
        family,
        name,
        layers,
        hidden,
        size("intermediate_size"),
        heads,
        groups,
        size("head_dim", family.head or hidden // heads),
        size("vocab_size"),
        config.get("tie_word_embeddings") is True,
        config.get("attention_bias") is True and family.title != "Mistral" and not family.qkv_bias,
        config.get("mlp_bias") is True and family.title == "Llama",
        element_type,
        longest if type(longest) is int else None,
        float(epsilon) if isinstance(epsilon, int | float) else 1e-6,
        () if config.get("architectures") else (unnamed,),
    )


def _other(config: Mapping[str, object], family: Family) -> str:
    """The part of a configuration that is not built here; "" where all of it is."""
    named = config.get("architectures")
    own = f"{family.title}ForCausalLM"
    if named not in (None, [], [own]):
        return f"another head than {own}"
    if keys := [key for key in _OTHER if config.get(key)]:
        return keys[0]
    if config.get("hidden_act", "silu") != "silu":
        return f"hidden_act {config['hidden_act']!r}"
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    kind = rope.get("rope_type", rope.get("type", "default")) if isinstance(rope, Mapping) else "default"
    if kind not in _ROPES:
        return f"rope_type {kind!r}"
    windows = config.get("use_sliding_window") is True or (
        family.title == "Mistral" and config.get("sliding_window", 4096) is not None
    )
    return "attention in a window" if windows else ""
