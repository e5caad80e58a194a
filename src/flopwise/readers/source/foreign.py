"""Files of other programs that people hand over: how one is told, and what makes a model of it that can be read.

Sources of the marks: the formats' own documents and schemas (FlatBuffers' file identifiers "TFL3", "ORTM" and "ET12",
HDF5's and ZIP's signatures) and the headers that the tools of Huawei, Rockchip, Hailo and NVIDIA write.
"""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from flopwise.readers.source.location import ending_of

_MADE_FROM = "which holds a network for one kind of hardware; give the ONNX file or the module that it was made from"

_PICKLE = "a Python pickle, which is never loaded; export the model to ONNX"


class Foreign(NamedTuple):
    """A kind of file that flopwise does not read as a model."""

    #: What it is, and what to do; ``{file}`` is its name, ``{stem}`` the last part of that without its ending.
    what: str
    #: Endings of its name; in a directory of such a name lies a model too.
    endings: tuple[str, ...] = ()
    #: Bytes that it begins with.
    starts: tuple[bytes, ...] = ()
    #: The four bytes after the first four.
    identifier: bytes = b""


#: Where two fit, the first is meant.
FOREIGN: tuple[Foreign, ...] = (
    Foreign("a TensorFlow Lite model; name it {stem}.tflite", identifier=b"TFL3"),
    Foreign(
        "a model in onnxruntime's own form; give the .onnx file that it was made from", (".ort",), identifier=b"ORTM"
    ),
    Foreign("an ExecuTorch program; name it {stem}.pte", identifier=b"ET12"),
    Foreign(f"a TensorRT engine, {_MADE_FROM}", (".engine", ".plan", ".trt"), (b"ptrt", b"ftrt")),
    Foreign(f"a model of Huawei's CANN, {_MADE_FROM}", (".om",), (b"IMOD",)),
    Foreign(f"a model of Rockchip's RKNN, {_MADE_FROM}", (".rknn",), (b"RKNN",)),
    Foreign(f"a model of Hailo's compiler, {_MADE_FROM}", (".hef", ".har"), (b"\x01HEF",)),
    Foreign(f"a model of Qualcomm's SNPE, {_MADE_FROM}", (".dlc",)),
    Foreign(
        "a Core ML model that was compiled for a device; give the .mlpackage that it was made from", (".mlmodelc",)
    ),
    Foreign("an HDF5 file; if it is a Keras model, name it {stem}.h5", starts=(b"\x89HDF\r\n",)),
    Foreign("a model of ncnn; give the ONNX file or the module that it was converted from", (".param",), (b"7767517",)),
    Foreign("a model of MNN; give the ONNX file or the module that it was converted from", (".mnn",)),
    Foreign(
        "a model of PaddlePaddle; 'paddle2onnx --model_dir DIR --model_filename {file} --save_file {stem}.onnx' makes "
        "an ONNX file of it",
        (".pdmodel", ".pdiparams"),
    ),
    Foreign(
        "a ZIP archive (a PyTorch checkpoint or TorchScript file?); export the model to ONNX", starts=(b"PK\x03\x04",)
    ),
    Foreign("an empty ZIP archive", starts=(b"PK\x05\x06",)),
    Foreign(_PICKLE, (".pkl", ".pickle", ".joblib"), tuple(b"\x80" + bytes([version]) for version in range(2, 6))),
    Foreign("gzip data; unpack it first", (".gz", ".tgz"), (b"\x1f\x8b",)),
    Foreign("bzip2 data; unpack it first", (".bz2",), (b"BZh",)),
    Foreign("xz data; unpack it first", (".xz",), (b"\xfd7zXZ",)),
    Foreign("zstd data; unpack it first", (".zst",), (b"(\xb5/\xfd",)),
    Foreign("a GGUF weight file; it holds no graph", starts=(b"GGUF",)),
    Foreign("a NumPy array; it holds no graph", starts=(b"\x93NUMPY",)),
    Foreign("a Git LFS pointer; fetch the file with 'git lfs pull'", starts=(b"version https://git-lfs",)),
    Foreign("an HTML page; the download went wrong", starts=(b"<!DOCTYPE", b"<!doctype", b"<html")),
)


def by_content(head: bytes, name: str) -> str | None:
    """The kind of file that begins with these bytes, 32 at least, and what to do; None if none is known.

    >>> by_content(b"GGUF" + bytes(28), "m.gguf")
    'a GGUF weight file; it holds no graph'
    """
    found = (one for one in FOREIGN if head.startswith(one.starts) or (one.identifier and head[4:8] == one.identifier))
    if head.startswith(b"PK\x03\x04") and (named := by_name(name)):
        return named  # archives of all kinds begin alike
    return next((_filled(one, name) for one in found), None)


def by_name(name: str) -> str | None:
    """The kind of file that a name stands for, and what to do; None if none is known.

    >>> by_name("net.mlmodelc")
    'a Core ML model that was compiled for a device; give the .mlpackage that it was made from'
    """
    ending = os.path.splitext(ending_of(name).rstrip("/\\"))[1]
    return next((_filled(one, name) for one in FOREIGN if ending in one.endings), None)


def in_directory(folder: str) -> str | None:
    """The kind of model that a directory is, and what to do; None if none is known."""
    return by_name(folder)


def _filled(one: Foreign, name: str) -> str:
    """The kind of file, its command with a name that a shell and Python take as it stands, else with FILE."""
    file = name if shlex.quote(name) == name else "FILE"
    return one.what.format(file=file, stem=os.path.splitext(os.path.basename(file))[0])
