"""The configuration of a language model, from a file, a folder, a hub's cache or a GGUF header."""

from __future__ import annotations

import importlib
import logging
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from flopwise._user_code import user_code
from flopwise.errors import ModelError
from flopwise.formats.language.gguf import TYPES, settings_of_gguf
from flopwise.formats.language.source import (
    FILE,
    GGUF,
    HUB,
    LIBRARY,
    content_on_hub,
    read_object,
    refuse_long_lists,
)
from flopwise.formats.sources.location import in_words

#: Keys that name a model inside a model, and what is a path or an address there and not a name.
_BACKBONE = re.compile(r"(^|\.)(backbone|architecture)$")
_PLACE = re.compile(r"[./~\\]|[a-z-]+:")

_NEEDS = "language models need PyTorch and transformers: pip install 'flopwise[llm]'"


class UnknownArchitectureError(ModelError):
    """A model is of an architecture that transformers cannot build; the tensors of a GGUF file can still be listed."""


def require(model: str | os.PathLike[str], trust_code: bool = False) -> None:
    """Say what is missing for a model that transformers must build, before transformers is imported.

    Raises:
        ModelError: PyTorch or transformers is not installed, or does not know its type.
    """
    from importlib.util import find_spec

    name, library = os.fsdecode(model), find_spec("transformers")
    if name.lower().endswith(GGUF):
        raise unknown_gguf(name)
    if find_spec("torch") is None or library is None:
        raise ModelError(f"{name}: {_NEEDS}")
    content, known = stated_settings(name), set(_types_of(library))
    kind = content.get("model_type")
    if known and isinstance(kind, str) and kind not in known and not (trust_code and "auto_map" in content):
        raise UnknownArchitectureError(f"{name}: {_unknown(known, kind, 'auto_map' in content)}")


def _types_of(library: ModuleSpec) -> Iterator[str]:
    """The types of models that an installed transformers names, as its files spell them: importing it takes seconds."""
    for folder in library.submodule_search_locations or ():
        for name in ("auto_mappings.py", "configuration_auto.py"):
            with suppress(OSError):
                text = (Path(folder) / "models" / "auto" / name).read_text("utf-8")
                yield from re.findall(r"""["']([\w.-]+)["'](?:,|:)\s*["']\w+Config["']""", text)


def read_config(model: str | os.PathLike[str], trust_code: bool = False) -> Any:
    """The configuration as transformers understands it.

    Args:
        model: path of a ``config.json`` or of a folder that holds one, ``hf:org/name``, ``transformers:type``, whose
            own configuration it is, or a GGUF file.
        trust_code: whether code that belongs to the model may run, where transformers does not know its type.

    Raises:
        ModelError: it cannot be read, or transformers does not know this type of model.
    """
    name = os.fsdecode(model)
    transformers = _transformers(name)
    if name.startswith((HUB, LIBRARY)):
        return _of_content(transformers, stated_settings(name), name, name.partition(":")[2], trust_code)
    if name.lower().endswith(GGUF):
        raise unknown_gguf(name)
    path = Path(name) / FILE if os.path.isdir(name) else Path(name)
    return _of_content(transformers, read_object(path), str(path), str(path.parent), trust_code)


def unknown_gguf(name: str) -> ModelError:
    """The error of a GGUF file that describes no model, or one whose architecture is not in the table."""
    kind = settings_of_gguf(name)["model_type"]  # which says what is wrong with a header
    if kind in TYPES.values():
        return ModelError(f"{name}: this asks for transformers' program: give the config.json of the model")
    near = ", ".join(get_close_matches(kind, TYPES, n=3))
    hint = f"; near: {near}" if near else ""
    return UnknownArchitectureError(
        f"{name}: GGUF's architecture {kind!r} is not in the table{hint}; 'flopwise weights {name}' lists its tensors"
    )


def stated_settings(model: str | os.PathLike[str]) -> Mapping[str, object]:
    """The configuration as it is spelled, before transformers reads it; empty for a GGUF file."""
    name = os.fsdecode(model)
    if name.lower().endswith(GGUF):
        return {}
    if name.startswith(HUB):
        return content_on_hub(name, FILE)
    if name.startswith(LIBRARY):
        return {"model_type": name[len(LIBRARY) :]}
    return read_object(Path(name) / FILE if os.path.isdir(name) else Path(name))


def _of_content(
    transformers: ModuleType, content: Mapping[str, object], name: str, place: str, trust_code: bool
) -> object:
    """The configuration that a JSON object spells.

    Args:
        transformers: the library.
        content: the object.
        name: what to call it in a message.
        place: the folder or repository that holds it, with its code if it has any.
        trust_code: whether that code may run.

    Raises:
        ModelError: transformers does not know this type of model, or its settings cannot be right.
    """
    kind = content.get("model_type")
    if not isinstance(kind, str):
        raise ModelError(f"{name}: has no 'model_type', which says what kind of model it is")
    mapping = transformers.CONFIG_MAPPING
    if kind not in mapping:
        if "auto_map" in content and trust_code:
            with _one_line(name), user_code(name, "its configuration was read"):
                return transformers.AutoConfig.from_pretrained(place, trust_remote_code=True)
        raise UnknownArchitectureError(f"{name}: {_unknown(mapping, kind, 'auto_map' in content)}")
    refuse_long_lists(content, name)
    _check(content, name)
    if not trust_code:
        refuse_foreign_parts(content, name)
    with _one_line(name), offline(), silent():
        try:
            return mapping[kind].from_dict({key: value for key, value in content.items() if key != "auto_map"})
        except ZeroDivisionError:
            zero = ", ".join(key for key, value in content.items() if type(value) is int and value == 0)
            raise ModelError(f"{name}: sizes cannot be 0: {zero or 'one that others are divided by'}") from None


def _check(content: Mapping[str, object], name: str) -> None:
    """Refuse element types, quantisation and architectures of the wrong kind.

    Raises:
        ModelError: they are not.
    """
    import torch

    settings = content.get("quantization_config")
    if settings is not None and not isinstance(settings, Mapping):
        raise ModelError(f"{name}: quantization_config is {type(settings).__name__}; an object of settings is expected")
    heads = content.get("architectures")
    if heads is not None and not (isinstance(heads, list) and all(isinstance(head, str) for head in heads)):
        raise ModelError(f"{name}: architectures is {str(heads)[:50]}; a list of names is expected")
    for key in ("torch_dtype", "dtype"):
        kind = content.get(key)
        if not isinstance(kind, str) or kind == "auto":
            continue
        if not isinstance(getattr(torch, kind.removeprefix("torch."), None), torch.dtype):
            raise ModelError(f"{name}: {key} is {kind!r}, which is not an element type such as 'bfloat16'")


def refuse_foreign_parts(content: Mapping[str, object], name: str) -> None:
    """Refuse a configuration that names files or code elsewhere; transformers would load them.

    Raises:
        ModelError: its backbone is a path, or its implementation of attention or experts is code on a hub.
    """
    for key, value in content.items():
        if isinstance(value, Mapping):
            refuse_foreign_parts({f"{key}.{inner}": part for inner, part in value.items()}, name)
        elif isinstance(value, str) and _is_foreign(key, value):
            what = f"{name}: {key} is {value[:100]!r}, which is not part of transformers"
            raise ModelError(f"{what}; it is used only with --trust-code")


def _is_foreign(key: str, value: str) -> bool:
    if "_implementation" in key:
        return "/" in value
    return _BACKBONE.search(key) is not None and (_PLACE.match(value) is not None or os.path.exists(value))


@contextmanager
def offline() -> Iterator[None]:
    """Keep what is built from a configuration from asking a hub for weights, code or further configurations."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _unknown(known: Iterable[str], kind: str, has_code: bool) -> str:
    """Why a type of model cannot be built, and what is near."""
    from importlib.metadata import version

    near = get_close_matches(kind, list(known), n=3)
    hint = f"; near: {', '.join(near)}" if near else ""
    code = "; it comes with its own code, which runs only with --trust-code" if has_code else ""
    return f"transformers {version('transformers')} does not know the model type {kind!r}{hint}{code}"


def _transformers(name: str) -> ModuleType:
    try:
        import torch  # noqa: F401 - transformers without it builds no models

        from flopwise.formats.torch.libraries import repaired

        transformers: ModuleType = repaired(lambda: importlib.import_module("transformers"))
        repaired(lambda: transformers.CONFIG_MAPPING["llama"])  # parts of it need torchvision where that is installed
        return transformers
    except ImportError:
        raise ModelError(f"{name}: {_NEEDS}") from None


@contextmanager
def silent() -> Iterator[None]:
    """transformers logs nothing while the context lasts, and nothing warns: what a configuration leaves out has a
    default, and errors are raised.
    """
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Whatever transformers raises about a configuration, as one line that names the file."""
    try:
        yield
    except (ModelError, ImportError):
        raise
    except Exception as error:
        raise ModelError(f"{name}: {in_words(error, 300)}") from error
