"""The element types that weights and cache are stored in: as files, a quantisation's settings or its name say.

A published model may store its weights in 8 or 4 bits with scales; the logical parameters stay the same.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from flopwise.errors import InputError, ModelError
from flopwise.formats.sources.source import Source
from flopwise.formats.weights.read import open_parts, open_safetensors, open_weights
from flopwise.formats.weights.tensor import StoredTensors
from flopwise.graph.dtypes import ALIASES, BITS, TYPES


class Weights(NamedTuple):
    """The weights of a model as tools of quantisation see them."""

    #: The shape of each, by name.
    shapes: Mapping[str, tuple[int, ...]]
    #: Those of products: of linear layers, [out, in], and stacks of experts.
    products: Sequence[str]
    #: Modules that tools leave as they are where settings name none: the output layer, tied tables.
    plain: Sequence[str] = ("lm_head",)
    layers: int = 1
    #: Heads of queries to one of keys and values, experts of a layer; whether scores use the table of embeddings.
    shared: int = 1
    experts: int = 0
    tied: bool = False


@dataclass(frozen=True)
class Widths:
    """Storage of a model's weights."""

    #: Bytes of each element, scales and zero points among them, by the name of the weight.
    elements: Mapping[str, Fraction] = field(default_factory=dict)
    #: The element types that they are stored in, by name: of numbers, of ggml's blocks, or "nf4" for places in a table.
    types: Mapping[str, str] = field(default_factory=dict)
    #: What a reader should know.
    notes: tuple[str, ...] = ()


class Scheme(NamedTuple):
    """Storage of a weight: its element type, and bits of an element, of a scale, and of each input beside."""

    dtype: str
    bits: int
    #: Bits of the scale and zero point of so many elements (0: a row), or of a block of so many rows and columns.
    scale: Fraction | int = 0
    group: int = 0
    block: tuple[int, int] | None = None
    column: int = 0

    def width(self, shape: Sequence[int]) -> Fraction:
        """Bytes of an element of a weight of this shape."""
        if self.block is not None:
            rows, columns = (-(-size // by) for size, by in zip(shape[-2:], self.block, strict=True))
            return (self.bits + Fraction(rows * columns * self.scale, shape[-2] * shape[-1])) / 8
        return (self.bits + Fraction(self.scale) / (self.group or shape[-1]) + Fraction(self.column, shape[-2])) / 8


#: Bits of a scale in half and in single precision.
_HALF, _SINGLE = 16, 32

_FP8 = Scheme("float8e4m3fn", 8)
_FP8_BLOCKS = Scheme("float8e4m3fn", 8, _SINGLE, 0, (128, 128))
_NVFP4 = Scheme("float4e2m1", 4, 8, 16)
_MXFP4 = Scheme("float4e2m1", 4, 8, 32)
_INT4 = Scheme("int4", 4, _HALF, 128)

#: ModelOpt's names -> their schemes (https://github.com/NVIDIA/Model-Optimizer, modelopt/torch/export/quant_utils.py).
_ALGORITHMS = {
    **dict.fromkeys(("NVFP4", "W4A16_NVFP4", "NVFP4_AWQ"), _NVFP4),
    **dict.fromkeys(("FP8", "FP8_PER_CHANNEL_PER_TOKEN"), _FP8),
    **dict.fromkeys(("W4A8_AWQ", "INT4_AWQ"), _INT4),
    "FP8_PB_WO": _FP8_BLOCKS,
    "MXFP8": Scheme("float8e4m3fn", 8, 8, 32),
    "MXFP4": _MXFP4,
    "W8A8_SQ_PER_CHANNEL": Scheme("int8", 8),
}

#: What a reader should know of all weights that are stored in fewer bits.
_MULTIPLIED = "the program here multiplies them in plain numbers, as after dequantisation"

#: The class of modules that settings mean where they name none.
_LINEAR = "Linear"

#: Keys under which settings name modules that stay as they are.
_SKIPS = ("modules_to_not_convert", "llm_int8_skip_modules", "ignore", "exclude_modules", "ignored_layers")

#: What is never quantised unless settings name it: routers are no linear layers, tables are looked up in.
_PLAIN = re.compile(r"(^|\.)(\w*embed\w*|lm_head|conv1d|(mlp\.)?gate|vectors\d*|\w*norm\w*|weights_proj)$")

#: The parts of a stack of experts -> what published files call them in each expert.
_EXPERTS = {
    "gate_up_proj": ("gate_proj", "up_proj", "w1", "w3"),
    "up_proj": ("up_proj", "w1"),
    "down_proj": ("down_proj", "w2"),
}

#: What files call the parts of a layer -> what they are called here, one after the other.
_SPELLINGS = (
    (r"^(model\.)?language_model\.(model\.)?|^backbone\.|^(?=layers\.)", "model."),
    (r"\.(block_sparse_moe|feed_forward|ffn|moe)(?=\.|$)", ".mlp"),
    (r"(?<=\d)\.experts(?=\.|$)", ".experts_block.experts"),
    (r"\.(attn|attention|linear_attn|mamba)(?=\.|$|\*)", ".self_attn"),
    (r"\.shared_expert(?=\.|$)", ".shared_experts"),
    (r"\.(router|gate\.wg)(?=\.|$)", ".gate"),
    (r"\.mixer\.(?=experts|shared_experts|gate|up_proj|down_proj)", ".mlp."),
    (r"\.mixer(?=\.|$)", ".self_attn"),
    (r"^head$", "lm_head"),
)


#: What any of these changes.
_ODD = re.compile("|".join(pattern for pattern, _ in _SPELLINGS))
_RESPELLED = [(re.compile(pattern), text) for pattern, text in _SPELLINGS]


def _spelled(name: str) -> str:
    """A name of a module as it is called here."""
    if _ODD.search(name) is None:
        return name
    for pattern, text in _RESPELLED:
        name = pattern.sub(text, name, count=1)
    return name


#: Seconds that the patterns of a file may take, which somebody may have made to take for ever.
PATIENCE = 2.0

#: Repeated groups and repetitions of repetitions, which may take for ever on names of a few letters.
_NESTED = re.compile(r"\)[*+{]|[*+}][*+{]")


class _Rules:
    """The schemes of a model's modules: by path, by ``re:`` and a pattern that the path matches, of all others."""

    def __init__(self, targets: Mapping[str, Scheme | None], skipped: Sequence[str], experts: Scheme | None) -> None:
        self._default, self._experts = targets.get(_LINEAR), experts
        self._paths = {_spelled(name): scheme for name, scheme in targets.items() if not name.startswith("re:")}
        self._patterns = {_pattern(name): scheme for name, scheme in targets.items() if name.startswith("re:")}
        self._skipped = {_spelled(name) for name in skipped if not name.startswith("re:") and "*" not in name}
        self._left = [_pattern(name) for name in skipped if name.startswith("re:") or "*" in name]
        self._began = time.monotonic()

    def of(self, weight: str) -> Scheme | None:
        """The scheme of a weight; None where it stays in the type that is multiplied."""
        path = weight.removesuffix(".weight")
        head, _, last = path.rpartition(".")
        if head.endswith(".experts") and self._experts is not None:
            return self._experts
        names = [path]
        if last in _EXPERTS and head.endswith("experts"):
            names += [*(f"{head}.0.{part}" for part in _EXPERTS[last]), head]
        spelled = [_spelled(name) for name in names]
        for name in spelled:
            if name in self._paths:
                return self._paths[name]
        if any(self._skips(name) for name in (*names, *spelled)):
            return None
        for pattern, scheme in self._patterns.items():
            if any(self._matches(pattern, name) for name in (*names, *spelled)):
                return scheme
        return None if _PLAIN.search(path) else self._default

    def _skips(self, name: str) -> bool:
        parts = name.split(".")
        starts = (".".join(parts[: n + 1]) for n in range(len(parts)))
        ends = (".".join(parts[n:]) for n in range(1, len(parts)))
        if not self._skipped.isdisjoint((*starts, *ends)):
            return True
        return any(self._matches(pattern, name) for pattern in self._left)

    def _matches(self, pattern: re.Pattern[str], name: str) -> bool:
        """True if a pattern matches a path from its start; all patterns together may take ``PATIENCE`` seconds.

        Raises:
            InputError: they take longer.
        """
        if time.monotonic() - self._began > PATIENCE:
            raise InputError(f"quantization_config: the pattern {pattern.pattern[:100]!r} takes too long")
        return pattern.match(name) is not None


def _pattern(name: str) -> re.Pattern[str]:
    """The regular expression of a name that is one, or that has ``*`` for anything.

    Raises:
        InputError: it is none, or one that may take for ever.
    """
    text = name[3:] if name.startswith("re:") else ".*".join(map(re.escape, _spelled(name).split("*"))) + r"(?:\.|$)"
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(f"quantization_config: {text[:100]!r} is not a regular expression ({error})") from None
    if _NESTED.search(text) or len(re.findall(r"[*+{]", text)) > 6:
        raise InputError(f"quantization_config: the pattern {text[:100]!r} takes too long")
    return pattern


# What settings say.


def widths_of_settings(weights: Weights, settings: Mapping[str, Any], experts: object = None) -> Widths:
    """The widths that a quantisation's settings stand for.

    Args:
        weights: the model's.
        settings: ``quantization_config``, or what ModelOpt writes beside the configuration.
        experts: ``expert_dtype`` of the configuration, where it says one.

    Raises:
        InputError: a setting is none that the method has.
    """
    method = settings.get("quant_method") or ("modelopt" if settings.get("quant_algo") else "")
    if not isinstance(method, str):
        raise InputError(f"quantization_config: quant_method is {method!r}; the name of a method is expected")
    method = method.lower().replace("-", "_")
    targets = _targets(method, settings)
    if not targets:
        note = (
            f"quantization_config names {repr(method) if method else 'no method'}, whose widths are not known: counted "
            "as plain weights, the most that must fit"
        )
        return Widths(notes=(note,))
    fp4, named = experts == "fp4" and method == "fp8", isinstance(settings.get("quantized_layers"), Mapping)
    rules = [_Rules(targets, _skipped(weights, method, settings), _MXFP4 if fp4 and not named else None)]
    if fp4 and named:  # a tool packed the experts anew and left all else in the type of the file that it read
        rules.append(_Rules({_LINEAR: _of_method(method, settings)}, (), None))
    schemes = {
        name: scheme
        for name in weights.products
        if (scheme := next(filter(None, (rule.of(name) for rule in rules)), None)) is not None
    }
    note = f"quantised ({method}): {len(schemes)} weights are stored in fewer bits, with their scales; {_MULTIPLIED}"
    elements = {name: scheme.width(weights.shapes[name]) for name, scheme in schemes.items()}
    return Widths(elements, {name: scheme.dtype for name, scheme in schemes.items() if scheme.dtype}, (note,))


def _targets(method: str, settings: Mapping[str, Any]) -> dict[str, Scheme | None]:
    """Schemes by the modules that they are for: a path, ``re:`` and a pattern, or ``Linear`` for all; empty where the
    method is unknown."""
    groups, kind, layers = (settings.get(key) for key in ("config_groups", "quant_type", "quantized_layers"))
    if isinstance(layers, Mapping):
        named = {name: str(own.get("quant_algo")) for name, own in layers.items() if isinstance(own, Mapping)}
        return {name: _ALGORITHMS[own] for name, own in named.items() if own in _ALGORITHMS}
    if isinstance(groups, Mapping):
        return dict(_of_groups(groups))
    if method == "torchao" and isinstance(kind, Mapping):
        return dict(_of_torchao(kind.get("default", kind)))
    if (algorithm := str(settings.get("quant_algo") or "")) in _ALGORITHMS:
        return {_LINEAR: _ALGORITHMS[algorithm]}
    scheme = _of_method(method, settings)
    return {} if scheme is None else {_LINEAR: scheme}


def _of_method(method: str, settings: Mapping[str, Any]) -> Scheme | None:
    """The one scheme of a method; None for a method that is not known."""
    if method in ("fp8", "fbgemm_fp8"):
        block = settings.get("weight_block_size")
        if not block:
            return _FP8
        if not (isinstance(block, list) and len(block) == 2 and all(type(size) is int and size > 0 for size in block)):
            raise InputError(f"quantization_config: weight_block_size is {str(block)[:50]}; two sizes are expected")
        return _FP8_BLOCKS._replace(block=(block[0], block[1]))
    if method == "mxfp4":
        return _MXFP4
    if method in ("gptq", "awq", "autoround", "auto_round"):
        bits = _number(settings, ("bits", "w_bit"), 4, (2, 3, 4, 8))
        group = _number(settings, ("group_size", "q_group_size"), 128, None)
        return Scheme(number_type(bits), bits, _HALF + bits, max(group, 0), column=_SINGLE if method == "gptq" else 0)
    if method.startswith("bitsandbytes"):
        if not (settings.get("load_in_4bit") or settings.get("_load_in_4bit") or method.endswith("4bit")):
            return Scheme("int8", 8, _SINGLE)
        twice = settings.get("bnb_4bit_use_double_quant")
        return Scheme("nf4", 4, 8 + Fraction(_SINGLE, 256) if twice else _SINGLE, 64)  # places in a table of 16 numbers
    stated = stated_bits(method, settings)
    if stated is None:
        return None
    words = str(settings.get("weights" if method == "quanto" else "quant_type"))
    group = max(_number(_weight_settings(settings), ("group_size",), -1, None), 0)
    return Scheme(number_type(stated, words.startswith(("float", "fp"))), stated, _HALF, group)


def _of_groups(groups: Mapping[str, object]) -> Iterator[tuple[str, Scheme | None]]:
    """Each target in ``config_groups`` of compressed-tensors with its scheme; the first group that names it counts.

    https://github.com/vllm-project/compressed-tensors, ``QuantizationConfig``
    """
    seen: set[str] = set()
    for name, group in groups.items():
        if not isinstance(group, Mapping):
            raise InputError(f"quantization_config: {name} is {group!r}; an object of settings is expected")
        weights, targets = group.get("weights"), group.get("targets") or [_LINEAR]
        for target in targets if isinstance(targets, list) else [targets]:
            if target not in seen:
                seen.add(target)
                yield str(target), _scheme(weights, "num_bits", 8) if isinstance(weights, Mapping) else None


def _scheme(settings: Mapping[str, object], key: str, default: int) -> Scheme:
    bits, group = settings.get(key, default), settings.get("group_size")
    if type(bits) is not int or not 1 <= bits <= 16:
        raise InputError(f"quantization_config: {key} is {bits!r}; expected: 1 to 16")
    if group is not None and (type(group) is not int or (group < 1 and group != -1)):
        raise InputError(f"quantization_config: group_size is {group!r}; expected: -1 or a number of at least 1")
    floating = settings.get("type") == "float"
    if floating and bits == 4 and group in (16, 32):  # NVFP4 and MXFP4, whose scales take a byte
        return _NVFP4._replace(group=group)
    return Scheme(number_type(bits, floating), bits, _HALF, max(group or 0, 0))


def _of_torchao(config: object) -> Iterator[tuple[str, Scheme | None]]:
    """Targets and schemes that ``torchao.core.config.config_to_dict`` writes: for all linear layers, or by path.

    Raises:
        InputError: a configuration does not say how many bits a weight has.
    """
    data = config.get("_data") if isinstance(config, Mapping) else None
    data = data if isinstance(data, Mapping) else {}
    by_path = data.get("module_fqn_to_config") or data.get("fqn_to_config")
    if isinstance(by_path, Mapping):
        for path, own in by_path.items():
            inner = dict(_of_torchao(own)) if own is not None else {_LINEAR: None}
            yield (_LINEAR if path == "_default" else path), inner[_LINEAR]
        return
    name = str(config.get("_type", "")) if isinstance(config, Mapping) else str(config)
    stored = re.search(r"(?:Int|Float|FP)(\d+)Weight|FP(\d)", name) or re.search(
        r"(?:int|float)(\d+)", str(data.get("weight_dtype") or data.get("dtype") or "")
    )
    if stored is None:
        raise InputError(f"quantization_config: quant_type {name[:60]!r} does not say how many bits a weight has")
    bits = next(int(part) for part in stored.groups() if part)
    kind = "float" if stored[0].lower().startswith(("float", "fp")) else "int"
    yield _LINEAR, _scheme({**data, "bits": bits, "type": kind}, "bits", bits)


def number_type(bits: int, floating: bool = False) -> str:
    """The element type of so many bits; "" for more than 8.

    >>> number_type(4), number_type(5), number_type(8, floating=True)
    ('int4', 'int8', 'float8e4m3fn')
    """
    floats, integers = {4: "float4e2m1", 6: "float6e2m3"}, {2: "int2", 3: "int3", 4: "int4"}
    names = {**floats, 8: "float8e4m3fn"} if floating else {**integers, 8: "int8"}
    return next((name for most, name in names.items() if bits <= most), "")


def _number(settings: Mapping[str, object], keys: Sequence[str], default: int, choices: Sequence[int] | None) -> int:
    """The whole number under the first key that is there.

    Raises:
        InputError: it is none of the choices; without those, it is neither -1 nor at least 1.
    """
    key = next((key for key in keys if settings.get(key) is not None), None)
    if key is None:
        return default
    value = settings[key]
    if type(value) is not int or (value not in choices if choices else value < 1 and value != -1):
        expected = ", ".join(map(str, choices)) if choices else "-1 or a number of at least 1"
        raise InputError(f"quantization_config: {key} is {value!r}; expected: {expected}")
    return value


def _weight_settings(settings: Mapping[str, object]) -> Mapping[str, object]:
    """The settings of the weights, where a method has them inside others."""
    inner: Any = settings
    for keys in (("quant_config", "quant_type_kwargs"), ("weight_quant_params", "weights")):
        inner = next((inner[key] for key in keys if isinstance(inner.get(key), Mapping)), inner)
    return inner  # type: ignore[no-any-return]


def stated_bits(method: str, settings: Mapping[str, object]) -> int | None:
    """The bits of a weight that a method's settings say plainly; None where they do not.

    >>> stated_bits("quanto", {"weights": "int4"}), stated_bits("torchao", {"quant_type": "int8_weight_only"})
    (4, 8)
    """
    fixed = {"eetq": 8, "bitnet": 2}
    if method in fixed:
        return fixed[method]
    inner = _weight_settings(settings)
    for key in ("num_bits", "nbits"):
        if inner.get(key) is not None:
            return _number(inner, (key,), 8, (1, 2, 3, 4, 5, 6, 7, 8))
    words = settings.get("weights" if method == "quanto" else "quant_type")
    stated = re.match(r"(?:u?int|float|fp)([248])(?!\d)", words) if isinstance(words, str) else None
    return int(stated[1]) if stated else None


def _skipped(weights: Weights, method: str, settings: Mapping[str, object]) -> list[str]:
    """The modules that stay as they are: those that settings name; where they name none, and with AWQ and GPTQ always,
    the output layer and what is tied (``add_default_skips`` of transformers).

    Raises:
        InputError: the settings name them otherwise than as a list.
    """
    key = next((key for key in _SKIPS if settings.get(key)), "")
    named = settings.get(key)
    if named is not None and not isinstance(named, (list, tuple)):
        raise InputError(f"quantization_config: {key} is {named!r}; a list of names is expected")
    names = [str(name) for name in named or ()]
    return names if names and method not in ("awq", "gptq") else [*names, *weights.plain]


def element_type(content: Mapping[str, Any], asked: str | None) -> tuple[str, tuple[str, ...]]:
    """The element type that a model multiplies, and a note where its configuration names none.

    Raises:
        ModelError: it names one that is none.
    """
    parts = [content, *(content[k] for k in ("text_config", "llm_config") if isinstance(content.get(k), Mapping))]
    keys = ("dtype", "torch_dtype")
    key, stated = next(((k, p[k]) for p in parts for k in keys if p.get(k) not in (None, "auto")), ("", ""))
    kind = str(asked or stated or "bfloat16").removeprefix("torch.").lower()
    kind = ALIASES.get(kind, kind)
    if kind not in BITS or (not asked and "float" not in kind):
        if asked:
            raise InputError(f"dtype {asked!r}: an element type such as bf16 is expected")
        raise ModelError(f"{key} is {stated!r}, which is not an element type such as 'bfloat16'")
    note = "the configuration names no element type: counted as bfloat16, in which such models are published"
    return kind, () if stated or asked else (note,)


#: The file in which NVIDIA's ModelOpt says how weights are stored, beside the configuration.
BESIDE = "hf_quant_config.json"


def quantisation_of(name: str, content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The settings of a quantisation, wherever they stand: in the configuration, that of the text, or a file beside.

    Args:
        name: path of the configuration or its folder; of another name nothing lies beside.
        content: the configuration.

    Raises:
        InputError: they are no object.
    """
    text = content.get("text_config")
    for part in (content, text if isinstance(text, Mapping) else {}):
        settings = part.get("quantization_config")
        if settings is not None and not isinstance(settings, Mapping):
            what = type(settings).__name__
            raise InputError(f"quantization_config is {what}; an object of settings is expected")
        if isinstance(settings, Mapping):
            return settings
    path = os.path.join(name if os.path.isdir(name) else os.path.dirname(name), BESIDE)
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            own = json.load(file).get("quantization")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path}: is no object of settings ({error})") from error
    return {**own, "quant_method": "modelopt"} if isinstance(own, Mapping) else None


def cache_type_of(settings: Mapping[str, Any] | None) -> str | None:
    """The name of the cache's element type that a quantisation states; None where it states none."""
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        stated = (settings or {}).get(key)
        if isinstance(stated, Mapping):
            return "fp8" if stated.get("num_bits") == 8 else "nvfp4" if stated.get("num_bits") == 4 else None
        if isinstance(stated, str):
            return "nvfp4" if "4" in stated else "fp8" if "8" in stated else None
    return None


# What files hold.

#: How a pointer of Git LFS begins (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
_LFS = b"version https://git-lfs.github.com/spec/"


def widths_of_files(weights: Callable[[], Weights], folder: str) -> Widths | None:
    """The stored bytes of the files of weights in a folder; None where there are none.

    Raises:
        ModelError: a file is damaged.
    """
    if not os.path.isdir(folder) or not any(name.endswith(".safetensors") for name in os.listdir(folder)):
        return None
    try:
        file = _file_in(folder)
    except ModelError as error:  # shards without an index
        return Widths(notes=(f"stored widths are not known: {error}",))
    with open(file, "rb") as head:
        if head.read(len(_LFS)) == _LFS:  # what a checkout without Git LFS has in place of the weights
            pointer = f"stored widths are not known: {os.path.basename(file)} is a Git LFS pointer, not weights"
            return Widths(notes=(pointer,))
    whole = file.lower().endswith(_SHARDS)
    with open_weights(_open_shards if whole else open_safetensors, file) as stored:
        return widths_of_tensors(weights(), stored, os.path.basename(folder.rstrip("/")))


def widths_of_tensors(
    weights: Weights, stored: StoredTensors, where: str, names: Mapping[str, str] | None = None
) -> Widths:
    """The stored bytes of tensors, in the share in which the weights have them.

    A weight with a tensor of its name and size has that tensor's width; the others share what is left.

    Args:
        weights: the model's.
        stored: the tensors.
        where: what holds them, for the note.
        names: what the tensors are called here, by their own names; None: they have no other names.
    """
    total = sum(tensor.nbytes for tensor in stored.tensors)
    by_name = {(names or {}).get(tensor.name, tensor.name): tensor for tensor in stored.tensors}
    widths: dict[str, Fraction] = {}
    types: dict[str, str] = {}
    left, by_type = total, dict.fromkeys((tensor.dtype for tensor in stored.tensors), 0)
    unmatched: dict[str, int] = {}
    for tensor in stored.tensors:
        by_type[tensor.dtype] += tensor.numel
    for name, shape in weights.shapes.items():
        numel = math.prod(shape)
        own = by_name.get(name)
        if own is not None and own.numel == numel:
            widths[name], types[name] = Fraction(own.nbytes, max(numel, 1)), own.dtype
            left -= own.nbytes
        else:
            unmatched[name] = numel
    share = Fraction(max(left, 0), max(sum(unmatched.values()), 1))
    widths.update(dict.fromkeys(unmatched, share))
    if not types and by_type:  # in blocks, under names of their own: most elements are of one type
        types = dict.fromkeys(unmatched, max(by_type, key=lambda dtype: by_type[dtype]))
    return Widths(widths, types, (f"weights as stored in {where}: {total:,} bytes",))


#: Endings of the index of a model's shards, and of its files with weights.
_SHARDS, _WEIGHTS = ".safetensors.index.json", ".safetensors"


def _open_shards(source: Source) -> StoredTensors:
    return open_parts(source, "safetensors", open_safetensors, (_WEIGHTS,))


def _file_in(folder: str) -> str:
    """The index of a folder's shards, or its only file with weights.

    Raises:
        ModelError: there are several files and no index.
    """
    names = [name for name in sorted(os.listdir(folder)) if not name.startswith(".")]
    for ending in (_SHARDS, _WEIGHTS):
        found = [name for name in names if name.lower().endswith(ending)]
        if len(found) == 1:
            return os.path.join(folder, found[0])
        if found:
            raise ModelError(f"{folder}: holds {len(found)} files ending in {ending} and no index; give one of them")
    raise ModelError(f"{folder}: no file with weights in this directory")


def stored_widths(weights: Callable[[], Weights], name: str, content: Mapping[str, Any]) -> Widths:
    """Storage of the weights: as the files beside the configuration say, else as a quantisation's settings say.

    Args:
        weights: makes the model's, where they are asked for.
        name: path of the configuration or its folder.
        content: the configuration.

    Raises:
        InputError: a setting of the quantisation is none that its method has.
        ModelError: a file of weights is damaged.
    """
    settings = quantisation_of(name, content)
    stated = None if settings is None else widths_of_settings(weights(), settings, content.get("expert_dtype"))
    stored = widths_of_files(weights, os.path.dirname(name) if os.path.isfile(name) else name)
    if stored is None:
        return Widths() if stated is None else stated
    return stored if stated is None else replace(stored, types=stated.types)


# What names stand for.

#: Name -> the settings that the tools which write such files put into ``quantization_config``.
_SETTINGS: dict[str, dict[str, Any]] = {
    "int8": {"quant_method": "compressed-tensors", "config_groups": {"": {"weights": {"num_bits": 8}}}},
    "fp8": {"quant_method": "compressed-tensors", "config_groups": {"": {"weights": {"num_bits": 8, "type": "float"}}}},
    "fp8-block": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "int4": {
        "quant_method": "compressed-tensors",
        "config_groups": {"": {"weights": {"num_bits": 4, "group_size": 128}}},
    },
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
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
_ROUTER = re.compile(r"\.(?:mlp|block_sparse_moe|feed_forward)\.(?:gate|router)\.")


def named_widths(weights: Weights, name: str) -> Widths:
    """The widths in which the tools of a quantisation store weights, without a configuration that says so.

    Names of ggml's types, alone or as mixtures, are those of llama.cpp's ``llama-quantize`` without a matrix of
    importance (``llama_tensor_get_type`` of src/llama-quant.cpp, version b4000): tables of embeddings are quantised,
    vectors and routers in single precision. The others leave embeddings, the scores of the vocabulary, norms and
    routers in the model's type; ``mxfp4`` takes experts alone where there are any.

    Args:
        weights: the model's.
        name: one of ``NAMES``.

    Raises:
        InputError: it is not.
    """
    key = name.lower().replace("-", "_") if name.lower().replace("-", "_") in _MOST else name.lower()
    if key in _MOST:
        types = {}
        for path, shape in weights.shapes.items():
            plain = len(shape) < 2 or _ROUTER.search(path) is not None or min(shape) == 1
            kind = "float32" if plain else type_in_mixture(path, key, weights)
            types[path] = _SHORT_ROWS.get(kind, kind) if shape[-1] % 256 else kind
        note = f"weights as llama-quantize {key.upper()} stores them; {_MULTIPLIED}"
        return Widths({path: _BYTES.get(kind, Fraction(4)) for path, kind in types.items()}, types, (note,))
    if key not in _SETTINGS:
        raise InputError(f"unknown width {name!r} of the weights; known: {', '.join(NAMES)}")
    stacks = [path for path in weights.products if len(weights.shapes[path]) == 3]
    if key == "mxfp4" and stacks:
        weights = weights._replace(products=stacks)
    return widths_of_settings(weights, _SETTINGS[key])


def type_in_mixture(path: str, name: str, weights: Weights) -> str:
    """The type of a matrix in a mixture of llama.cpp."""
    most = _MOST[name]
    match = _LAYER.search(path)
    if match is None:
        scores = "lm_head" in path or "embed_out" in path or (weights.tied and "embed" in path)
        return "q6_K" if scores and most != "q8_0" else most
    layer, place, eight = int(match[1]), path[match.end() :], weights.experts == 8
    eighth = weights.layers // 8
    #: Layers that are given more bits: the first and last eighths, and of the others each third.
    more = layer < eighth or layer >= 7 * weights.layers // 8 or (layer - eighth) % 3 == 2
    if "k_proj" in place or "v_proj" in place:
        if eight:
            return "q8_0"
        if "v_proj" not in place:
            return most
        kind = {
            "q2_k": "q4_K" if weights.shared >= 4 else "q3_K",
            "q3_k_l": "q5_K",
            "q3_k_m": "q5_K" if layer < 2 else "q4_K",
            "q4_k_m": "q6_K" if more else most,
            "q5_k_m": "q6_K" if more else most,
            "q4_k_s": "q5_K" if layer < 4 else most,
        }.get(name, most)
        return "q5_K" if weights.layers == 80 and kind in ("q3_K", "q4_K") else kind
    if "qkv" in place:
        return {"q3_k_m": "q4_K", "q3_k_l": "q4_K", "q4_k_m": "q5_K", "q5_k_m": "q6_K"}.get(name, most)
    if "o_proj" in place:
        if eight and (name[:2] in ("q2", "q3") or name[:4] == "q4_k"):
            return "q5_K"
        return {"q2_k": "q3_K", "q3_k_m": "q4_K", "q3_k_l": "q5_K"}.get(name, most)
    if "down_proj" not in place:
        return most
    return {
        "q2_k": "q3_K",
        "q3_k_m": "q5_K" if layer < weights.layers // 16 else "q4_K",
        "q3_k_l": "q5_K",
        "q4_k_s": "q5_K" if layer < eighth else "q4_K",
        "q4_k_m": "q6_K" if more else "q4_K",
        "q5_k_m": "q6_K" if more else "q5_K",
    }.get(name, most)
