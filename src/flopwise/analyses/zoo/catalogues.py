"""The catalogues of libraries: their models by name, each with its own input size, its family and its paper's year."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from flopwise.analyses.zoo.entry import Entry
from flopwise.formats.torch.libraries import imported

#: What says the year and month of a paper in a text or a link.
_ARXIV = re.compile(r"arxiv(?:\.org/(?:abs|pdf)/|:)\s*(\d\d)(\d\d)\.\d{4,5}", re.IGNORECASE)

#: Rooms of torchvision's models, and the names of them that are tags.
_ROOMS = ("segmentation", "video", "optical_flow")


def year_of(*texts: str | None) -> int | None:
    """The year of the first paper that the texts name, by its number at arXiv.

    >>> year_of(None, "Deep Residual Learning - https://arxiv.org/abs/1512.03385"), year_of("arXiv:2010.11929")
    (2015, 2020)
    """
    match = next(filter(None, (_ARXIV.search(text) for text in texts if text)), None)
    return None if match is None else 2000 + int(match[1])


def torchvision(pattern: str) -> Iterator[Entry]:
    """torchvision's models whose names match, each at the input size of its weights."""
    models = imported("torchvision").models
    for name in models.list_models():
        if not fnmatchcase(name, pattern):
            continue
        builder = models.get_model_builder(name)
        kind = builder.__module__.partition("torchvision.models.")[2].partition(".")[0]
        if kind in ("detection", "quantization"):
            continue  # what they do follows from the elements of their weights, which a catalogue has not
        room = kind if kind in _ROOMS else ""
        family = builder.__module__.rpartition(".")[2]
        yield Entry(
            f"torchvision/{name}",
            f"torchvision.models{'.' + room if room else ''}:{name}",
            *_torchvision_call(models.get_model_weights(name).DEFAULT, name, room),
            family=family,
            year=year_of(builder.__doc__, getattr(inspect.getmodule(builder), "__doc__", None)),
            tags=(room or "classification",),
        )


def _torchvision_call(weights: Any, name: str, room: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The inputs and arguments of a model: the size that its weights are evaluated at."""
    arguments = {"weights": "None"}
    if room == "segmentation":
        arguments["weights_backbone"] = "None"
    if name in ("inception_v3", "googlenet"):
        arguments["init_weights"] = "False"
    keywords = getattr(weights.transforms, "keywords", {})
    crop = keywords.get("crop_size") or keywords.get("resize_size") or 224
    sides = [crop, crop] if isinstance(crop, int) else list(crop) * (2 if len(crop) == 1 else 1)
    if name.startswith("vit_") and sides[0] != 224:
        arguments["image_size"] = str(sides[0])
    size = f"{sides[0]}x{sides[-1]}"
    if room == "video":
        return (f"1x3x16x{size}",), arguments
    if room == "optical_flow":
        return ("1x3x512x512", "1x3x512x512"), arguments
    return (f"1x3x{size}",), arguments


def timm(pattern: str) -> Iterator[Entry]:
    """timm's models whose names match, each at its own input size."""
    library = imported("timm")
    for name in library.list_models():
        if not fnmatchcase(name, pattern):
            continue
        config = library.get_pretrained_cfg(name)
        size = getattr(config, "input_size", None) or (3, 224, 224)
        papers = getattr(config, "paper_ids", None) or ""
        maker = library.model_entrypoint(name)
        module: Any = inspect.getmodule(maker)
        yield Entry(
            f"timm/{name}",
            "timm:create_model",
            ("x".join(map(str, (1, *size))),),
            {"model_name": name},
            family=module.__name__.rpartition(".")[2],
            year=year_of(maker.__doc__, module.__doc__, papers if isinstance(papers, str) else " ".join(papers)),
            tags=("classification",),
        )


def transformers(pattern: str) -> Iterator[Entry]:
    """The model types of transformers whose names match, each with its default configuration and inputs."""
    auto = "transformers.models.auto"  # its names alone: to import all of them takes a minute
    configurations = imported(f"{auto}.configuration_auto").CONFIG_MAPPING_NAMES
    models = imported(f"{auto}.modeling_auto").MODEL_MAPPING_NAMES
    for kind, name in configurations.items():
        if kind in models and fnmatchcase(kind, pattern):
            arguments = {"config": f"transformers:{name}"}
            yield Entry(f"transformers/{kind}", "transformers:AutoModel", (), arguments, family=kind.replace("-", "_"))


#: Name of each catalogue -> its models whose names match a pattern.
CATALOGUES: dict[str, Callable[[str], Iterator[Entry]]] = {
    "torchvision": torchvision,
    "timm": timm,
    "transformers": transformers,
}
