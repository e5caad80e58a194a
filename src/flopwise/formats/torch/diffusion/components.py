"""The components of a pipeline of diffusers, from its configuration files: modules are built without memory."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from flopwise.errors import ModelError
from flopwise.formats.language.source import read_object, refuse_long_lists
from flopwise.formats.sources.location import in_words
from flopwise.formats.sources.text import JsonObject, json_object
from flopwise.formats.torch.diffusion.format import FILE
from flopwise.formats.torch.kinds import Kwargs, Model
from flopwise.formats.torch.language.config import offline, read_config, silent
from flopwise.formats.torch.language.model import built, counted_modules
from flopwise.formats.torch.libraries import imported, repaired
from flopwise.formats.torch.record.keep import constructed

#: Endings of classes that read no tensors, or whose result no denoiser takes.
_NO_MODULES = ("Tokenizer", "TokenizerFast", "Processor", "FeatureExtractor")

#: What filters finished images.
_FILTERS = ("safety_checker", "watermarker")


@dataclass(frozen=True)
class Components:
    """The parts of a pipeline."""

    #: Where it comes from, and its class in diffusers.
    source: str
    kind: type
    #: Modules by the name of their component, on the meta device and in eval mode.
    modules: Mapping[str, nn.Module]
    #: Everything else that the class is made with: schedulers, settings, None for what there is none of.
    others: JsonObject
    #: The most tokens of a prompt, by the name of each tokenizer.
    tokenizers: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def denoisers(self) -> set[str]:
        """The modules of diffusers that decode nothing: those that run in each step."""
        return {
            name
            for name, module in self.modules.items()
            if not hasattr(module, "decode") and type(module).__module__.startswith("diffusers.")
        }


def read_components(
    model: str | os.PathLike[str], dtype: torch.dtype, progress: Callable[[str], None] = lambda step: None
) -> Components:
    """The components that a ``model_index.json`` names, from the configuration files beside it; no weights are read.

    Args:
        model: path of the file, or of the folder that holds it.
        dtype: element type of all weights.
        progress: called with the name of each step.

    Raises:
        ModelError: a file is missing or damaged, or names what is not part of diffusers or transformers.
    """
    name = os.fsdecode(model)
    path = Path(name) / FILE if os.path.isdir(name) else Path(name)
    index = read_object(path)
    diffusers = _diffusers()
    kind = _part(diffusers, index.get("_class_name"), diffusers.DiffusionPipeline, f"{path}: _class_name")
    modules: dict[str, nn.Module] = {}
    others: Kwargs = {}
    tokenizers: dict[str, int] = {}
    left_out = []
    for key, value in index.items():
        if key.startswith("_"):
            continue
        if not isinstance(value, list):
            others[key] = value
        elif len(value) != 2 or value[0] is None or key in _FILTERS:
            others[key] = None
            left_out += [key] if key in _FILTERS and value[0] is not None else []
        elif str(value[1]).endswith(_NO_MODULES):
            others[key] = None
            if "Tokenizer" in str(value[1]):
                tokenizers[key] = _longest_prompt(path.parent / key, str(value[1]))
        else:
            progress(f"building {key}")
            part = _component(path.parent / key, value[0], value[1], diffusers, dtype)
            (modules if isinstance(part, nn.Module) else others)[key] = part
    notes = (f"{' and '.join(left_out)}: not counted, engines do without",) if left_out else ()
    return Components(name, kind, modules, others, tokenizers, notes)


def _component(folder: Path, library: object, kind: object, diffusers: ModuleType, dtype: torch.dtype) -> Any:
    """A module without memory, or a scheduler.

    Raises:
        ModelError: it is of neither library, or cannot be built.
    """
    what = f"{folder.parent / FILE}: {folder.name}"
    if library == "transformers":
        import transformers

        _part(transformers, kind, transformers.PreTrainedModel, what)
        config = read_config(str(folder))
        config.architectures = [kind]
        return built(config, str(folder), dtype)
    if library != "diffusers":
        raise ModelError(f"{what} is {library}.{kind}, which is not part of diffusers or transformers; it is not run")
    maker = _part(diffusers, kind, (diffusers.ModelMixin, diffusers.SchedulerMixin), what)
    if issubclass(maker, diffusers.SchedulerMixin):
        with _one_line(str(folder)):
            return maker.from_config(dict(read_object(folder / "scheduler_config.json")))  # type: ignore[attr-defined]
    file = folder / "config.json"
    settings = dict(read_object(file))
    refuse_long_lists(settings, str(file))
    with _one_line(str(file)), counted_modules(str(file)):
        module: Model = constructed(maker, lambda: maker.from_config(settings), torch.device("meta"))  # type: ignore[attr-defined]
        module = module.to(device="meta", dtype=dtype).eval()
        for path, part in module.named_modules():
            if path.rpartition(".")[2] in (module._keep_in_fp32_modules or ()):
                part.to(torch.float32)
        for key, buffer in module._buffers.items():  # statistics of latents, with which pipelines compute themselves
            module._buffers[key] = torch.ones(buffer.shape, dtype=buffer.dtype)
    return module


def _part(library: ModuleType, name: object, parents: Any, what: str) -> type:
    """The class of a library by its name.

    Raises:
        ModelError: there is none, or it is of another kind.
    """
    kind = getattr(library, name, None) if isinstance(name, str) and not name.startswith("_") else None
    if not isinstance(kind, type) or not issubclass(kind, parents):
        raise ModelError(f"{what} is {name!r}, which {library.__name__} {library.__version__} does not have")
    return kind


def _longest_prompt(folder: Path, kind: str) -> int:
    """The most tokens of a prompt: as the tokenizer's configuration says, else 77 for CLIP's and 512 for others."""
    most = json_object(str(folder / "tokenizer_config.json")).get("model_max_length")
    return most if isinstance(most, int) and 2 < most < 1 << 20 else 77 if kind.startswith("CLIP") else 512


def _diffusers() -> Any:
    """The library; parts of it and of transformers need torchvision where that is installed."""
    transformers = imported("transformers")
    repaired(lambda: transformers.PreTrainedModel)
    with silent():
        diffusers = imported("diffusers")
        repaired(lambda: diffusers.DiffusionPipeline)
    return diffusers


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """diffusers and transformers log nothing while the context lasts, nothing warns, and no hub is asked."""
    logger = logging.getLogger("diffusers")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with silent(), offline():
            yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Whatever diffusers raises about a configuration, as one line that names the file."""
    try:
        with quiet():
            yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{name}: {in_words(error, 300)}") from error
