"""One step of a reduced language model, counted by flopwise and by PyTorch's own counter around the real program."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from tests.readers.torch.test_transformers import SIZES, TOKENS
from torch.utils.flop_counter import FlopCounterMode
from transformers.modeling_outputs import BaseModelOutput

import flopwise
from flopwise.readers.torch.inputs.arguments import STATES
from flopwise.readers.torch.language.model import built
from flopwise.readers.torch.language.state import state_tensors, step

#: Ways to make a configuration small, tried one after the other: numbers of layers, and sizes that stay as they are.
WAYS: tuple[tuple[int, frozenset[str]], ...] = (
    (2, frozenset()),
    (2, frozenset({"num_key_value_heads"})),
    (2, frozenset({"num_key_value_heads", "head_dim", "n_routed_experts", "num_experts_per_tok"})),
    (2, frozenset({"head_dim", "num_heads", "hidden_size", "num_attention_heads", "num_key_value_heads"})),
    (4, frozenset({"num_key_value_heads"})),
    (8, frozenset({"head_dim"})),
    (8, frozenset({"head_dim", "num_heads", "hidden_size", "num_attention_heads", "num_key_value_heads", "d_model"})),
)

#: What a family asks for beyond small numbers.
MORE: dict[str, dict[str, Any]] = {
    "codegen": {"rotary_dim": 4},
    "gptj": {"rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "reformer": {"axial_pos_embds": False},
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 8},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 8},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "ministral": {"head_dim": 8},
    "gemma4_assistant": {"hidden_size_per_layer_input": 0},
    "xmod": {"default_language": "en_XX"},
    **{key: {"num_key_value_heads": 4} for key in ("deepseek_v32", "glm_moe_dsa", "kimi_linear")},
    **{key: {"num_key_value_heads": 4, "qk_rope_head_dim": 8, "head_dim": 8} for key in ("deepseek_v3", "axk1")},
    "deepseek_v2": {"num_key_value_heads": 4, "num_experts_per_tok": 2},
    "nemotron": {"head_dim": 8, "num_key_value_heads": 4},
    "dots1": {"n_group": 1, "topk_group": 1, "n_routed_experts": 4},
}

_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers")


def reduced(kind: str, way: tuple[int, frozenset[str]]) -> Any:
    """The configuration of a type with small sizes, and with lists for each layer cut to the layers that are left."""
    layers, kept = way

    def sizes(config: Any) -> dict[str, Any]:
        values = vars(config)
        before = next((values[name] for name in _LAYERS if type(values.get(name)) is int), 0)
        numbers = {k: min(v, SIZES[k]) for k, v in values.items() if type(v) is int and k in SIZES and k not in kept}
        numbers |= {k: min(values[k], layers) for k in numbers if "layer" in k}
        now = next((numbers[name] for name in _LAYERS if name in numbers), 0)
        lists = {k: _cut(v, now) for k, v in values.items() if type(v) is list and before and len(v) == before}
        return {**numbers, **lists, **{k: v for k, v in TOKENS.items() if hasattr(config, k)}}

    cls = transformers.CONFIG_MAPPING[kind]
    plain = cls()
    held = {k: v for k, v in vars(plain).items() if isinstance(v, transformers.PretrainedConfig)}
    parts = {k: {**v.to_dict(), **sizes(v)} for k, v in held.items()}
    return cls(**{**sizes(plain), **parts, **MORE.get(kind, {})})


def _cut(values: list[Any], count: int) -> list[Any]:
    """So many of the values, the last kind of layer among them."""
    rare = [v for v in values if v != values[0]][:1]
    return values[: count - len(rare)] + rare if count else values


def models(kind: str, way: tuple[int, frozenset[str]]) -> tuple[Any, Any]:
    """A reduced model without memory as flopwise builds it, and the same with memory and eager attention."""
    config = reduced(kind, way)
    if not config.is_encoder_decoder and hasattr(config, "is_decoder"):
        config.is_decoder = True  # else an encoder's type is one, and keeps nothing
    light = built(config, kind)
    if sum(p.numel() for p in light.parameters()) > 3e8:
        raise ValueError("the reduced model is too large to be run")
    torch.manual_seed(0)
    heavy = type(light)._from_config(config, attn_implementation="eager")
    return light, heavy.eval().requires_grad_(False)


def compare(kind: str, past: int, new: int, batch: int) -> str:
    """ "equal", or in a line what differs, by the first way to reduce it in which the real program runs."""
    first = ""
    for way in WAYS:
        try:
            light, heavy = models(kind, way)
            inputs, result, counted = _ran(heavy, past, batch)
        except Exception as error:  # the sizes do not fit together
            first = first or f"not reduced: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
            continue
        return _compared(light, heavy, inputs, result, counted, (past, new, batch))
    return first


def _ran(heavy: Any, past: int, batch: int) -> tuple[dict[str, Any], Any, int]:
    """The real prefill: its inputs, its result and what PyTorch counts."""
    ids = torch.ones(batch, past, dtype=torch.long)
    encoder = bool(heavy.config.is_encoder_decoder)
    inputs = {"input_ids": ids, "decoder_input_ids": ids} if encoder else {"input_ids": ids}
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        result = heavy(**inputs, use_cache=True)
    return inputs, result, int(counter.get_total_flops())


def _compared(
    light: Any, heavy: Any, inputs: dict[str, Any], result: Any, counted: int, sizes: tuple[int, int, int]
) -> str:
    past, new, batch = sizes
    ours = flopwise.profile(light, step(light, 0, past, batch).inputs, convention="torch")
    if ours.total("count") != counted or ours.unknown:
        return f"prefill: {ours.total('count')} for {counted} {dict(ours.unknown)}"
    names = [name for name in STATES if result.get(name) is not None]
    if not names:
        return "keeps no state"
    state = result[names[0]]
    bytes_ = sum(tensor.nbytes for _, tensor in state_tensors(state, names[0]))
    call = step(light, past, new, batch)
    if call.state_bytes != bytes_:
        return f"state: {call.state_bytes} bytes for {bytes_}"
    token = torch.ones(batch, new, dtype=torch.long)
    more: dict[str, Any] = {"decoder_input_ids": token} if "decoder_input_ids" in inputs else {"input_ids": token}
    if "decoder_input_ids" in inputs:
        more["encoder_outputs"] = BaseModelOutput(last_hidden_state=result["encoder_last_hidden_state"])
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        heavy(**more, **{names[0]: state}, use_cache=True)
    ours = flopwise.profile(light, call.inputs, convention="torch")
    if ours.total("count") != counter.get_total_flops() or ours.unknown:
        return f"step: {ours.total('count')} for {counter.get_total_flops()} {dict(ours.unknown)}"
    return "equal"
