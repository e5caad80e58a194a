"""Kinds of models that are Keras': objects, and names of callables."""

from __future__ import annotations

import os
import sys

from flopwise.formats.sources.location import is_callable
from flopwise.formats.sources.text import json_object

#: Packages whose callables make models of Keras.
PACKAGES = ("keras", "keras_hub", "keras_cv", "keras_nlp")

#: The file of a preset's folder that says what model it is.
PRESET = "config.json"

#: What stands before a name that is one of Keras'.
PREFIX = "keras:"


def is_object(model: object) -> bool:
    """True for a layer or model of Keras 3; asks Keras only when somebody has imported it."""
    if "keras" not in sys.modules:
        return False
    return any((base.__module__, base.__name__) == ("keras.src.layers.layer", "Layer") for base in type(model).__mro__)


def is_name(model: object) -> bool:
    """True for the name of a callable in a package of Keras', or with ``keras:`` before it.

    >>> is_name("keras.applications:ResNet50"), is_name("keras:net.py:model"), is_name("torchvision:vit_b_16")
    (True, True, False)
    """
    if not isinstance(model, str):
        return False
    if model.startswith(PREFIX) and is_callable(model.removeprefix(PREFIX)):
        return True
    return is_callable(model) and model.rpartition(":")[0].partition(".")[0] in PACKAGES


def is_preset(folder: str) -> bool:
    """True for a folder that keras_hub has saved a preset in, with its weights or without."""
    return str(json_object(os.path.join(folder, PRESET)).get("module")).startswith("keras_hub.")
