"""A language model as a module without memory for its weights, with the head that its configuration names."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from flopwise._limits import within_limit
from flopwise._user_code import place_of, user_code
from flopwise.errors import InputError, ModelError
from flopwise.formats.language.gguf import widths_of_gguf
from flopwise.formats.language.source import GGUF
from flopwise.formats.language.stored import Weights, Widths, named_widths, stored_widths
from flopwise.formats.sources.location import in_words
from flopwise.formats.torch.kinds import Config, Kwargs, Model
from flopwise.formats.torch.language.config import offline, read_config, silent, stated_settings
from flopwise.formats.torch.libraries import repaired
from flopwise.formats.torch.record.keep import constructed
from flopwise.graph.dtypes import ALIASES

#: What transformers calls the automatic classes of an encoder with its decoder.
_PAIRS = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq")

#: And all of them, the most telling head first.
_HEADS = ("AutoModelForCausalLM", *_PAIRS, "AutoModelForImageTextToText", "AutoModel")

#: Element types that weights are kept in.
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def language_model(
    model: str | os.PathLike[str], dtype: str | None = None, trust_code: bool = False, in_memory: bool = False
) -> nn.Module:
    """The module of a configuration, on the meta device and in eval mode.

    Args:
        model: as in ``flopwise.formats.torch.language.config.read_config``.
        dtype: element type of the weights ("bf16", "fp16", "fp32"); None: as the configuration says.
        trust_code: whether code that belongs to the model may run.
        in_memory: whether its weights have elements, at random, and are on the CPU.

    Raises:
        ModelError: the configuration cannot be read, or transformers cannot build a model from it.
        InputError: the element type is unknown.
    """
    kind = None if dtype is None else element_type(dtype)
    config = read_config(model, trust_code)
    return built(config, os.fsdecode(model), kind, trust_code, in_memory)


def element_type(dtype: str) -> torch.dtype:
    """The element type of weights by one of its names.

    Raises:
        InputError: it is unknown.
    """
    kind = ALIASES.get(dtype.lower(), dtype.lower())
    if kind not in DTYPES:
        raise InputError(f"unknown element type {dtype!r}; known: bf16, fp16, fp32")
    return DTYPES[kind]


def built(
    config: Config, name: str, dtype: torch.dtype | None = None, trust_code: bool = False, in_memory: bool = False
) -> nn.Module:
    """The module that transformers builds from a configuration, without memory for its weights unless asked.

    Raises:
        ModelError: transformers cannot build one.
    """
    _check(config, name)
    maker, config = _maker(config)
    options: Kwargs = {} if dtype is None else {"dtype": dtype}
    if trust_code and getattr(config, "auto_map", None):  # which transformers' own classes do not take
        options["trust_remote_code"] = True
    device = torch.device("cpu" if in_memory else "meta")
    hub = nullcontext() if trust_code else offline()
    try:
        with silent(), counted_modules(name), hub, user_code(name, "it made the module"):
            module: nn.Module = constructed(maker, lambda: repaired(lambda: maker(config, **options)), device)
    except ModelError:
        raise
    except Exception as error:
        words = in_words(error, 300)
        place = place_of(error) if trust_code else ""
        raise ModelError(f"{name}: transformers cannot build a {config.model_type} from it: {words}{place}") from error
    return module.eval()


def predicts_tokens(module: Model) -> bool:
    """True if a module predicts the next token; False for encoders, and for models without scores of the vocabulary."""
    from transformers import AutoModelForMaskedLM

    if not getattr(module, "can_generate", lambda: True)():
        return False
    config = module.config
    fills_in = type(config) in AutoModelForMaskedLM._model_mapping and not getattr(config, "is_encoder_decoder", False)
    return not fills_in or bool(getattr(config, "is_decoder", False))


def head_notes(module: nn.Module, model: str | os.PathLike[str]) -> tuple[str, ...]:
    """That the configuration does not say which class the module is, where that is so, and what transformers takes
    otherwise than it says; a GGUF file says neither."""
    if os.fsdecode(model).lower().endswith(GGUF):
        return ()
    named, kind = getattr(module.config, "architectures", None) or (), type(module).__name__
    overridden = tuple(_overridden(module.config, stated_settings(model)))
    if kind in named:
        return overridden
    why = f"transformers has no {' or '.join(map(str, named))}" if named else "the configuration names no architectures"
    return (f"{why}; counted as {kind}", *overridden)


def _overridden(config: object, stated: Mapping[str, object]) -> Iterator[str]:
    """A note for each switch that the configuration states, and that transformers sets to something else."""
    if stated.get("model_type") != getattr(config, "model_type", None):  # the module is of a part of it
        return
    for key, value in stated.items():
        used = vars(config).get(key, value)
        if isinstance(value, bool) and isinstance(used, bool) and used is not value:
            said, made = str(value).lower(), str(used).lower()
            yield f"{key} is {said} in the configuration, and transformers takes it as {made}; so it is counted"


def _check(config: Config, name: str) -> None:
    """Refuse sizes that no model can have.

    Raises:
        ModelError: one cannot be, or the heads of keys and values do not divide those of queries.
    """
    text = config.get_text_config(decoder=True)
    if not hasattr(text, "__dict__"):
        raise ModelError(f"{name}: its text_config has no 'model_type', which says what kind of model it is")
    for key, value in vars(text).items():
        if type(value) is int and value < 0 and (key.startswith(("num_", "n_")) or key.endswith(("_size", "_dim"))):
            raise ModelError(f"{name}: {key} is {value}")
    if _size(text, "hidden_size") == 0:
        raise ModelError(f"{name}: hidden_size is 0")
    heads, groups = (_size(text, key) for key in ("num_attention_heads", "num_key_value_heads"))
    if type(heads) is int and type(groups) is int and (groups == 0 or heads % groups):
        raise ModelError(f"{name}: num_attention_heads {heads} is not a multiple of num_key_value_heads {groups}")


def _size(config: Config, key: str) -> object:
    """A size of a configuration; None where it has none, or each layer has its own."""
    try:
        return getattr(config, key, None)
    except Exception:
        return None


@contextmanager
def counted_modules(name: str) -> Iterator[None]:
    """Stop the building of a model in this thread when it gets more modules than the limit."""
    thread, seen = threading.get_ident(), 0

    def count(module: nn.Module, key: str, submodule: nn.Module | None) -> None:
        nonlocal seen
        if threading.get_ident() == thread:
            seen += 1
            if seen & 1023 == 0:
                within_limit("language_modules", seen, f"{name}: the model has at least", "modules")

    handle = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def _maker(config: Config) -> tuple[Any, object]:
    """The class that builds the model, and its part of the configuration.

    That is the class that the configuration names, else the automatic class that knows its type. A class for text
    alone is built from the configuration's part for text, as ``from_pretrained()`` does it.
    """
    import transformers

    for architecture in getattr(config, "architectures", None) or ():
        kind = getattr(transformers, str(architecture), None)
        if isinstance(kind, type) and hasattr(kind, "_from_config") and getattr(kind, "config_class", None):
            return kind._from_config, config
    pair = getattr(config, "is_encoder_decoder", False)  # whose decoder alone may be a causal model as well
    for head in (*_PAIRS, *_HEADS) if pair else _HEADS:
        automatic = getattr(transformers, head)
        if type(config) in automatic._model_mapping:
            kind = automatic._model_mapping[type(config)]
            text = config.get_text_config(decoder=True)
            if type(text) is not type(config) and getattr(kind, "config_class", None) is type(text):
                return kind._from_config, text
            return automatic.from_config, config
    return transformers.AutoModel.from_config, config


# Bytes in which the weights of a model of transformers are stored, by the rules that hold for every model.


def module_widths(module: nn.Module, model: object = None, name: str | None = None) -> Widths:
    """Storage of a module's weights: by the name of a quantisation, else as files and configuration say.

    Args:
        module: the model that transformers built.
        model: the path that it was built from.
        name: the quantisation; None: the model's own.

    Raises:
        InputError: a setting of the quantisation is none that its method has, or its name is unknown.
        ModelError: a file of weights is damaged.
    """
    weights = weights_of_module(module)
    if name is not None:
        return named_widths(weights, name)
    path = os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else ""
    if path.lower().endswith(".gguf"):
        return widths_of_gguf(weights, path)
    settings: Any = getattr(module.config, "quantization_config", None)
    if settings is not None and not isinstance(settings, Mapping):
        if not hasattr(settings, "to_dict"):
            raise InputError(f"quantization_config is {type(settings).__name__}; an object of settings is expected")
        settings = settings.to_dict()
    return stored_widths(lambda: weights, path, {} if settings is None else {"quantization_config": settings})


def weights_of_module(module: nn.Module) -> Weights:
    """The weights of a module as tools of quantisation see them: those of linear layers, and stacks of experts."""
    shapes = {path: tuple(parameter.shape) for path, parameter in module.named_parameters()}
    products = []
    for path, part in module.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            linear = isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"
            if (linear and name == "weight") or parameter.dim() == 3:
                products.append(f"{path}.{name}" if path else name)
    head = getattr(module, "get_output_embeddings", lambda: None)()
    tied = getattr(module, "all_tied_weights_keys", None) or {}
    last = list(shapes)[-1:]
    default = [path for path, part in module.named_modules() if head is not None and part is head]
    plain = [*default, "lm_head", *(name.removesuffix(".weight") for name in (*tied, *tied.values(), *last))]
    config: Any = module.config
    config = config.get_text_config(decoder=True)
    heads = getattr(config, "num_attention_heads", 1) or 1
    shared = heads // (getattr(config, "num_key_value_heads", None) or heads)
    experts = int(getattr(config, "num_local_experts", 0) or 0)
    layers = int(getattr(config, "num_hidden_layers", 1) or 1)
    return Weights(
        shapes, products, plain, layers, shared, experts, bool(getattr(config, "tie_word_embeddings", False))
    )
