"""One step of a reduced language model, counted by flopwise and by PyTorch's own counter around the real program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from tests.formats.torch.test_transformers import SIZES, TOKENS
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import flopwise
from flopwise.formats.torch.arguments import STATES
from flopwise.formats.torch.language.model import built
from flopwise.formats.torch.language.state import state_tensors, step
from flopwise.formats.torch.read import NeedsMemoryError


@dataclass(frozen=True)
class Way:
    """A way to make a configuration small."""

    layers: int
    #: Sizes that stay as they are.
    kept: frozenset[str] = frozenset()
    #: What all widths are divided by, so that they keep their proportions; 0: each is cut to a number of its own.
    factor: int = 0


def _kept(*names: str) -> frozenset[str]:
    return frozenset(names)


#: Ways to make a configuration small, tried one after the other.
WAYS = (
    Way(2),
    Way(2, _kept("num_key_value_heads")),
    Way(2, _kept("num_key_value_heads", "head_dim", "n_routed_experts", "num_experts_per_tok")),
    Way(2, _kept("head_dim", "num_heads", "hidden_size", "num_attention_heads", "num_key_value_heads")),
    Way(4, _kept("num_key_value_heads")),
    Way(8, _kept("head_dim")),
    Way(8, _kept("head_dim", "num_heads", "hidden_size", "num_attention_heads", "num_key_value_heads", "d_model")),
    Way(2, factor=16),
    Way(4, factor=8),
    Way(2, factor=4),
)

#: What a family asks for beyond small numbers; a dotted name is of a configuration inside.
MORE: dict[str, dict[str, Any]] = {
    "codegen": {"rotary_dim": 4},
    "gptj": {"rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "reformer": {"axial_pos_embds": False},
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 8, "attn_layer_indices": [1]},
    "granitemoehybrid": {
        "mamba_n_heads": 8,
        "mamba_d_head": 8,
        "layer_types": ["linear_attention", "full_attention"],
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "dbrx": {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}},
    },
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "ministral": {"head_dim": 8},
    "gemma4_assistant": {"hidden_size_per_layer_input": 0},
    "xmod": {"default_language": "en_XX"},
    **{key: {"num_key_value_heads": 4} for key in ("deepseek_v32", "glm_moe_dsa")},
    **{key: {"num_key_value_heads": 4, "qk_rope_head_dim": 8, "head_dim": 8} for key in ("deepseek_v3", "axk1")},
    "deepseek_v2": {"num_key_value_heads": 4, "num_experts_per_tok": 2},
    "nemotron": {"head_dim": 8, "num_key_value_heads": 4},
    "dots1": {"n_group": 1, "topk_group": 1, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
}

_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers")

#: Names of widths, and of numbers that are none though their names look so.
_WIDTH = re.compile(r"hidden|intermediate|embed|_dim|dim_|d_model|d_kv|d_ff|d_head|rank|ffn|channels|d_state|_size$")
_NO_WIDTH = re.compile(r"vocab|layer|kernel|window|patch|chunk|group|batch|(^|_)(num|n|max|min)_|codebook|ngram|block")

#: Experts that are left, and entries of a vocabulary.
_EXPERTS, _VOCABULARY = 16, 99


def reduced(kind: str, way: Way) -> Any:
    """The configuration of a type with small sizes, and with lists for each layer cut to the layers that are left."""
    cls = transformers.CONFIG_MAPPING[kind]
    more = MORE.get(kind, {})
    own = {key: value for key, value in more.items() if "." not in key}
    try:
        plain = cls()
    except Exception:  # its own sizes do not fit together
        plain = cls(**own)
    return cls(**{**_sizes(plain, way, more), **own})


def _sizes(config: Any, way: Way, more: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of a configuration made small, and the configurations that it holds with theirs."""
    values = vars(config)
    before = next((values[name] for name in _LAYERS if type(values.get(name)) is int), 0)
    whole = {k: v for k, v in values.items() if type(v) is int}
    if way.factor:
        numbers = _in_proportion(whole, before, way)
    else:
        numbers = {k: min(v, SIZES[k]) for k, v in whole.items() if k in SIZES and k not in way.kept}
        numbers |= {k: min(values[k], way.layers) for k in numbers if "layer" in k}
    now = next((numbers[name] for name in _LAYERS if name in numbers), 0)
    lists = {k: _cut(v, now) for k, v in values.items() if type(v) is list and before and len(v) == before}
    if way.factor:
        lists |= {k: [n // way.factor if type(n) is int else n for n in v] for k, v in lists.items() if _is_width(k)}
    held = {k: v for k, v in values.items() if isinstance(v, transformers.PretrainedConfig)}
    parts: dict[str, Any] = {}
    for key, part in held.items():
        inner = {name.partition(".")[2]: value for name, value in more.items() if name.startswith(f"{key}.")}
        own = {name: value for name, value in inner.items() if "." not in name}
        parts[key] = {**part.to_dict(), **_sizes(part, way, inner), **own}
        parts[key].pop("per_layer_config", None)  # what single layers have of their own
    return {**numbers, **lists, **{k: v for k, v in TOKENS.items() if hasattr(config, k)}, **parts}


def _is_width(name: str) -> bool:
    return bool(_WIDTH.search(name)) and not _NO_WIDTH.search(name)


def _in_proportion(whole: Mapping[str, int], before: int, way: Way) -> dict[str, int]:
    """Whole numbers with all widths divided by the same, so that what has to fit together still does."""
    numbers: dict[str, int] = {}
    for key, value in whole.items():
        if "vocab" in key:
            numbers[key] = min(value, _VOCABULARY)
        elif key in _LAYERS or key in ("num_blocks", "depth"):
            numbers[key] = min(value, way.layers)
        elif (
            "layer" in key and before and 0 < value <= before and not re.search(r"step|group|every|freq|interval", key)
        ):
            numbers[key] = value * way.layers // before  # such as the layers that share a cache
        elif re.search(r"(n|num)_(expert_)?groups?$", key) or key == "topk_group":
            numbers[key] = min(value, 2 - (key == "topk_group"))
        elif re.search(r"experts_per_tok|top_?k", key):
            numbers[key] = min(value, 2)
        elif "expert" in key and value > _EXPERTS and not _WIDTH.search(key):
            numbers[key] = _EXPERTS
        elif _is_width(key) and value % way.factor == 0:
            numbers[key] = value // way.factor
        elif key.endswith(("token_id", "token_index")):
            numbers[key] = min(value, _VOCABULARY - 9)
        elif key in SIZES and "position" in key:
            numbers[key] = min(value, SIZES[key])
    return numbers


def _cut(values: list[Any], count: int) -> list[Any]:
    """So many of the values, the last kind of layer among them."""
    rare = [v for v in values if v != values[0]][:1]
    return values[: count - len(rare)] + rare if count else values


@contextmanager
def _counted() -> Iterator[FlopCounterMode]:
    """PyTorch's counter; attention that a program calls by itself runs as products, since fused it is not seen."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        yield counter


def light_model(kind: str, way: Way) -> Any:
    """A reduced model without memory as flopwise builds it."""
    config = reduced(kind, way)
    if not config.is_encoder_decoder and hasattr(config, "is_decoder"):
        config.is_decoder = True  # else an encoder's type is one, and keeps nothing
    return built(config, kind)


def models(kind: str, way: Way) -> tuple[Any, Any]:
    """A reduced model without memory as flopwise builds it, and the same with memory and eager attention."""
    light = light_model(kind, way)
    if sum(p.numel() for p in light.parameters()) > 1e8:
        raise ValueError("the reduced model is too large to be run")
    torch.manual_seed(0)
    heavy = type(light)._from_config(light.config, attn_implementation="eager")
    return light, heavy.eval().requires_grad_(False)


def compare(kind: str, past: int, new: int, batch: int) -> str:
    """ "equal" with what has to be said of it, or in a line what differs.

    By the first way to reduce it in which the real program runs. A program that asks its tensors for elements, such as
    how many tokens are routed to an expert, is counted with its weights in memory.
    """
    first = ""
    for way in WAYS:
        try:
            light, heavy = models(kind, way)
            inputs, result, counted = _ran(heavy, past, batch)
        except Exception as error:  # the sizes do not fit together
            first = first or f"not reduced: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
            continue
        try:
            return _compared(light, heavy, inputs, result, counted, (past, new, batch))
        except NeedsMemoryError:
            inputs, result, counted = _ran(heavy, past, batch)
            return _in_memory(heavy, inputs, result, counted, (past, new, batch))
    return first


def _in_memory(heavy: Any, inputs: dict[str, Any], result: Any, counted: int, sizes: tuple[int, int, int]) -> str:
    """The same with the real program, its real tokens and the state that it made."""
    past, new, batch = sizes
    encoder = "decoder_input_ids" in inputs
    keep = {} if encoder else {"use_cache": True}
    ours = flopwise.profile(heavy, {**inputs, **keep}, convention="torch")
    if ours.total("count") != counted or ours.unknown:
        return f"prefill: {ours.total('count')} for {counted} {dict(ours.unknown)}"
    name = _states(result)[0]
    token: dict[str, Any] = {
        "decoder_input_ids" if encoder else "input_ids": torch.ones(batch, new, dtype=torch.long),
        **keep,
    }
    if encoder:
        with torch.no_grad():
            token["encoder_outputs"] = heavy.get_encoder()(inputs["input_ids"])
    _, again, _ = _ran(heavy, past, batch)
    ours = flopwise.profile(heavy, {**token, name: result[name]}, convention="torch")
    with _counted() as counter:
        heavy(**token, **{name: again[name]})
    if ours.total("count") != counter.get_total_flops() or ours.unknown:
        return f"step: {ours.total('count')} for {counter.get_total_flops()} {dict(ours.unknown)}"
    return "equal with weights in memory"


def _ran(heavy: Any, past: int, batch: int) -> tuple[dict[str, Any], Any, int]:
    """The real prefill: its inputs, its result and what PyTorch counts."""
    ids = torch.ones(batch, past, dtype=torch.long)
    encoder = bool(heavy.config.is_encoder_decoder)
    inputs = {"input_ids": ids, "decoder_input_ids": ids} if encoder else {"input_ids": ids}
    with _counted() as counter:
        result = heavy(
            **inputs, **({} if encoder and getattr(heavy.config, "use_cache", False) else {"use_cache": True})
        )
    return inputs, result, int(counter.get_total_flops())


def _states(result: Any) -> list[str]:
    """The names under which a result holds a state; those that a release renamed are no items of it."""
    return [name for name in STATES if dict(result.items()).get(name) is not None]


def _compared(
    light: Any, heavy: Any, inputs: dict[str, Any], result: Any, counted: int, sizes: tuple[int, int, int]
) -> str:
    past, new, batch = sizes
    ours = flopwise.profile(light, step(light, 0, past, batch).inputs, convention="torch")
    if ours.total("count") != counted or ours.unknown:
        return f"prefill: {ours.total('count')} for {counted} {dict(ours.unknown)}"
    names = _states(result)
    if not names:
        return "equal without a state"
    state = result[names[0]]
    bytes_ = sum(tensor.nbytes for _, tensor in state_tensors(state, names[0]))
    call = step(light, past, new, batch)
    if call.state_bytes != bytes_:
        return f"state: {call.state_bytes} bytes for {bytes_}"
    token = torch.ones(batch, new, dtype=torch.long)
    more: dict[str, Any] = {"decoder_input_ids": token} if "decoder_input_ids" in inputs else {"input_ids": token}
    if "decoder_input_ids" in inputs:
        with torch.no_grad():
            more["encoder_outputs"] = heavy.get_encoder()(inputs["input_ids"])
    with _counted() as counter:
        heavy(**more, **{names[0]: state}, **({} if "encoder_outputs" in more else {"use_cache": True}))
    ours = flopwise.profile(light, call.inputs, convention="torch")
    if ours.total("count") != counter.get_total_flops() or ours.unknown:
        return f"step: {ours.total('count')} for {counter.get_total_flops()} {dict(ours.unknown)}"
    return "equal"
