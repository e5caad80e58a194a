"""Which reader a model is for, by the name of its file."""

from __future__ import annotations

import os

#: Endings of Caffe's files: a net as text, a net with its weights.
CAFFE = (".prototxt", ".caffemodel", ".caffemodel.h5")


def is_caffe(model: object) -> bool:
    """Whether a model is a file of Caffe's."""
    return isinstance(model, (str, os.PathLike)) and str(os.fspath(model)).lower().endswith(CAFFE)
