"""Models by the names of libraries: ``timm:resnet50``, ``torchvision:vit_b_16``, ``transformers:bert``.

Weights are never asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.torch.kinds import Function, Model


class Catalogue(NamedTuple):
    """The models of a library by their names."""

    #: All names.
    names: Callable[[], Sequence[str]]
    #: A name -> the callable that makes the model.
    maker: Callable[[str], Function]
    #: A name and the model -> the size of an image that the library states for it: channels, height and width.
    image: Callable[[str, Any], tuple[int, ...] | None]


def _torchvision_names() -> Sequence[str]:
    names: Sequence[str] = imported("torchvision.models").list_models()
    return names


def _torchvision_maker(name: str) -> Function:
    library = imported("torchvision.models")
    own = {"weights": None, **({"weights_backbone": None} if "weights_backbone" in _parameters(library, name) else {})}
    return partial(library.get_model_builder(name), **own)


def _parameters(library: ModuleType, name: str) -> Sequence[str]:
    import inspect

    return tuple(inspect.signature(library.get_model_builder(name)).parameters)


def _torchvision_image(name: str, model: Model) -> tuple[int, ...] | None:
    """The size to which presets of the default weights bring an image; detectors and videos have none."""
    library = imported("torchvision.models")
    weights = getattr(library.get_model_weights(name), "DEFAULT", None) if name in library.list_models() else None
    preset = getattr(getattr(weights, "transforms", None), "keywords", {})
    side = getattr(model, "image_size", None) or preset.get("crop_size", preset.get("resize_size"))
    return (3, side, side) if isinstance(side, int) else None


def _timm_image(name: str, model: Model) -> tuple[int, ...] | None:
    stated = getattr(model, "pretrained_cfg", None)
    return tuple(stated["input_size"]) if isinstance(stated, dict) and stated.get("input_size") else None


def _timm_maker(name: str) -> Function:
    return partial(imported("timm").create_model, name, pretrained=False)


def _transformers_maker(name: str) -> Callable[..., object]:
    """The model of a type's own configuration, which takes the arguments."""
    library = imported("transformers")

    def make(**arguments: Any) -> Any:
        return repaired(lambda: library.AutoModel.from_config(library.AutoConfig.for_model(name, **arguments)))

    return make


def _transformers_names() -> Sequence[str]:
    imported("transformers")
    return list(imported("transformers.models.auto.modeling_auto").MODEL_MAPPING_NAMES)


#: Name before the colon -> the library's models.
CATALOGUES = {
    "timm": Catalogue(lambda: list(imported("timm").list_models()), _timm_maker, _timm_image),
    "torchvision": Catalogue(_torchvision_names, _torchvision_maker, _torchvision_image),
    "transformers": Catalogue(_transformers_names, _transformers_maker, lambda name, model: None),
}


def maker_of(library: str, name: str) -> Callable[..., object]:
    """The callable that makes a model of a library.

    Args:
        library: a key of CATALOGUES.
        name: of the model there; timm's may end in the tag of weights, as ``resnet50.a1_in1k``.

    Raises:
        ModelError: the library has no such model; the nearest names are in the message.
    """
    names = CATALOGUES[library].names()
    if name.partition(".")[0] not in names and name not in names:
        from difflib import get_close_matches

        near = get_close_matches(name, names, 3) or sorted(n for n in names if name.lower() in n.lower())[:3]
        raise ModelError(
            f"{library}:{name}: {library} has no model {name!r}"
            + (f"; did you mean {' or '.join(f'{library}:{one}' for one in near)}?" if near else "")
        )
    return CATALOGUES[library].maker(name)


def stated_image(source: str, model: object) -> tuple[int, ...] | None:
    """Channels, height and width of the image that a library states for a model; None for any other model.

    Args:
        source: where the model comes from, as ``timm:resnet50`` or ``torchvision.models:resnet50``.
        model: the module.
    """
    library, _, name = source.partition(":")
    if not hasattr(model, "pretrained_cfg") and library.partition(".")[0] != "torchvision":
        return None
    which = "timm" if hasattr(model, "pretrained_cfg") else "torchvision"
    return CATALOGUES[which].image(name.rpartition(".")[2] or name, model)


# Imports that need torchvision where its compiled part is missing.


def imported(module: str, *parts: str) -> Any:
    """A module, with others that it may have left out, after torchvision is repaired where they need it.

    Raises:
        ImportError: one cannot be imported.
    """
    return repaired(lambda: [import_module(name) for name in (*parts, module)][-1])


def repaired(work: Callable[[], object]) -> Any:
    """The result of some work, repeated with torchvision's missing operators declared if it failed for lack of them."""
    try:
        return work()
    except (ImportError, RuntimeError) as error:
        cause: BaseException | None = error
        while cause is not None and "torchvision::nms does not exist" not in str(cause):
            cause = cause.__cause__ or cause.__context__
        if cause is None or _DECLARED:
            raise
        _declare_missing()
        return work()


#: The library that holds the declarations: they are gone with the object.
_DECLARED: list[object] = []


def _declare_missing() -> None:
    """Declare the operators that torchvision expects of a compiled part which is not there; none of them is run."""
    import torch

    maker: Any = torch.library.Library
    library = maker("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(library)
    for name in [n for n in sys.modules if n == "torchvision" or n.startswith("torchvision.")]:
        del sys.modules[name]
