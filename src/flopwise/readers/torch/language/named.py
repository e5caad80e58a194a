"""Widths by name: what the tools of a quantisation make of a model's weights, without a configuration that says so."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from torch import nn

from flopwise.errors import InputError
from flopwise.graph.ggml import TYPES
from flopwise.readers.torch.kinds import Config, Model
from flopwise.readers.torch.language.widths import Widths, widths_of_settings

#: Name -> the settings that the tools which write such files put into ``quantization_config``.
_SETTINGS: dict[str, dict[str, Any]] = {
    "int8": {"quant_method": "compressed-tensors", "bits": 8},
    "fp8": {"quant_method": "compressed-tensors", "bits": 8, "type": "float"},
    "fp8-block": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "int4": {"quant_method": "compressed-tensors", "bits": 4, "group_size": 128},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
    "mxfp4": {"quant_method": "mxfp4"},
}

#: Bytes of an element by ggml's types.
_BYTES = {one.name: Fraction(one.nbytes, one.elements) for one in TYPES.values() if one.nbytes}

#: Name of a mixture of llama.cpp -> the type that most of its matrices have.
_MOST = {
    "q2_k": "q2_K",
    **dict.fromkeys(("q3_k_s", "q3_k_m", "q3_k_l"), "q3_K"),
    **dict.fromkeys(("q4_k_s", "q4_k_m"), "q4_K"),
    **dict.fromkeys(("q5_k_s", "q5_k_m"), "q5_K"),
    "q6_k": "q6_K",
    **{name: name for name in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")},
}

#: Every name.
NAMES = (*_SETTINGS, *_MOST)

#: Type -> what llama.cpp takes where a row is no multiple of its block.
_SHORT_ROWS = {"q2_K": "q4_0", "q3_K": "q4_0", "q4_K": "q5_0", "q5_K": "q5_1", "q6_K": "q8_0"}

_LAYER = re.compile(r"\.(\d+)\.")


def named_widths(module: nn.Module, name: str) -> Widths:
    """The widths in which the tools of a quantisation store weights.

    Names of ggml's types, alone or as mixtures, are those of llama.cpp's ``llama-quantize`` without a matrix of
    importance: tables of embeddings are quantised, vectors and routers in single precision. The others leave
    embeddings, the scores of the vocabulary, norms and routers in the model's type; ``mxfp4`` takes experts alone where
    there are any.

    Args:
        module: the model.
        name: one of ``NAMES``.

    Raises:
        InputError: it is not.
    """
    key = name.lower().replace("-", "_") if name.lower().replace("-", "_") in _MOST else name.lower()
    if key in _MOST:
        return _of_mixture(module, key)
    if key not in _SETTINGS:
        raise InputError(f"unknown width {name!r} of the weights; known: {', '.join(NAMES)}")
    settings = dict(_SETTINGS[key])
    if settings["quant_method"] == "compressed-tensors":
        weights = {"num_bits": settings["bits"], "group_size": settings.get("group_size"), "type": settings.get("type")}
        settings["config_groups"] = {"group_0": {"weights": weights, "targets": ["Linear"]}}
    experts = [path for path, one in module.named_parameters() if one.dim() == 3]
    if key == "mxfp4" and experts:
        linear = (path for path, part in module.named_modules() if isinstance(part, nn.Linear))
        settings["modules_to_not_convert"] = list(linear)
    return widths_of_settings(module, settings)


def _of_mixture(module: Model, name: str) -> Widths:
    """The widths of llama.cpp's mixtures, by ``llama_tensor_get_type`` of src/llama-quant.cpp, version b4000."""
    config = module.config.get_text_config(decoder=True)
    sizes = _Sizes(config)
    tied = bool(getattr(config, "tie_word_embeddings", False))
    types = {}
    for path, parameter in module.named_parameters():
        kind = "float32" if parameter.dim() < 2 or _is_router(path) else _type_of(path, name, sizes, tied)
        row = parameter.shape[-1]
        types[path] = _SHORT_ROWS.get(kind, kind) if row % 256 else kind
    elements = {path: _BYTES.get(kind, Fraction(4)) for path, kind in types.items()}
    note = f"weights as llama-quantize {name.upper()} stores them"
    return Widths(
        elements, types, (note + "; the program here multiplies them in plain numbers, as after dequantisation",)
    )


class _Sizes:
    """The sizes of a model by which mixtures differ."""

    def __init__(self, config: Config) -> None:
        self.layers = int(config.num_hidden_layers)
        heads = getattr(config, "num_attention_heads", 1) or 1
        self.shared = heads // (getattr(config, "num_key_value_heads", None) or heads)
        self.experts = int(getattr(config, "num_local_experts", 0) or 0)

    def takes_more(self, layer: int) -> bool:
        """True for the layers that are given more bits: the first and last eighths, and of the others each third."""
        eighth = self.layers // 8
        return layer < eighth or layer >= 7 * self.layers // 8 or (layer - eighth) % 3 == 2


def _is_router(path: str) -> bool:
    return re.search(r"\.(?:mlp|block_sparse_moe|feed_forward)\.(?:gate|router)\.", path) is not None


def _type_of(path: str, name: str, sizes: _Sizes, tied: bool) -> str:
    """The type of a matrix in a mixture."""
    most = _MOST[name]
    match = _LAYER.search(path)
    if match is None:
        scores = "lm_head" in path or "embed_out" in path or (tied and "embed" in path)
        return "q6_K" if scores and most != "q8_0" else most
    layer, place = int(match[1]), path[match.end() :]
    if "k_proj" in place or "v_proj" in place:
        if sizes.experts == 8:
            return "q8_0"
        return _of_values(name, layer, sizes) if "v_proj" in place else most
    if "qkv" in place:
        return {"q3_k_m": "q4_K", "q3_k_l": "q4_K", "q4_k_m": "q5_K", "q5_k_m": "q6_K"}.get(name, most)
    if "o_proj" in place:
        return _of_attention(name, sizes)
    return _of_down(name, layer, sizes) if "down_proj" in place else most


def _of_values(name: str, layer: int, sizes: _Sizes) -> str:
    """The type of the matrix that makes values."""
    most = _MOST[name]
    kind = {"q2_k": "q4_K" if sizes.shared >= 4 else "q3_K", "q3_k_l": "q5_K"}.get(name, most)
    if name == "q3_k_m":
        kind = "q5_K" if layer < 2 else "q4_K"
    elif name in ("q4_k_m", "q5_k_m") and sizes.takes_more(layer):
        kind = "q6_K"
    elif name == "q4_k_s" and layer < 4:
        kind = "q5_K"
    return "q5_K" if sizes.layers == 80 and kind in ("q3_K", "q4_K") else kind


def _of_attention(name: str, sizes: _Sizes) -> str:
    """The type of the matrix behind attention."""
    if (sizes.experts == 8 and name[:2] in ("q2", "q3")) or (sizes.experts == 8 and name[:4] == "q4_k"):
        return "q5_K"
    return {"q2_k": "q3_K", "q3_k_m": "q4_K", "q3_k_l": "q5_K"}.get(name, _MOST[name])


def _of_down(name: str, layer: int, sizes: _Sizes) -> str:
    """The type of the matrix that leads back from the inner features."""
    eighth, sixteenth = layer < sizes.layers // 8, layer < sizes.layers // 16
    by_name = {
        "q2_k": "q3_K",
        "q3_k_m": "q5_K" if sixteenth else "q4_K",
        "q3_k_l": "q5_K",
        "q4_k_s": "q5_K" if eighth else "q4_K",
        "q4_k_m": "q6_K" if sizes.takes_more(layer) else "q4_K",
        "q5_k_m": "q6_K" if sizes.takes_more(layer) else "q5_K",
    }
    return by_name.get(name, _MOST[name])
