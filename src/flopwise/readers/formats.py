"""Which reader a model is for, by the name of its file or by what it is."""

from __future__ import annotations

import os
import re
import sys

from flopwise.errors import ModelError

#: Endings of Caffe's files: a net as text, a net with its weights.
CAFFE = (".prototxt", ".caffemodel", ".caffemodel.h5")

#: Endings of files that PyTorch writes.
TORCH = (".pt2", ".pt", ".pth", ".ckpt", ".bin", ".ts", ".torchscript")

#: Those of files that hold a program beside the tensors.
PROGRAMS = (".pt2", ".ts", ".torchscript")

#: Endings of files that hold tensors and no graph -> the format.
WEIGHTS = {
    ".safetensors": "safetensors",
    ".safetensors.index.json": "safetensors-index",
    ".bin.index.json": "torch-index",
    ".gguf": "gguf",
    ".npz": "npz",
    ".npy": "npy",
}

#: What a folder with weights is searched for, best first.
IN_FOLDER = (".safetensors.index.json", ".bin.index.json", ".safetensors", ".gguf", ".npz", ".bin", ".pth", ".pt")


def is_url(model: object) -> bool:
    """Whether a model is given by its URL."""
    return isinstance(model, str) and bool(_URL.match(model))


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def shown(model: str) -> str:
    """A model's name for messages: of a URL neither the user nor the query, which may hold secrets.

    >>> shown("https://user:secret@example.org/a.onnx?token=1"), shown("a.onnx")
    ('https://example.org/a.onnx', 'a.onnx')
    """
    if not is_url(model):
        return model
    scheme, _, rest = model.partition("://")
    rest = rest.partition("#")[0].partition("?")[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def ending_of(model: str) -> str:
    """What the endings of a model are looked for in: its name in lower case, of a URL its path."""
    return shown(model).lower()


def is_weights(model: object) -> bool:
    """Whether a model is a file with tensors and no graph; of PyTorch's files only a look inside tells."""
    return isinstance(model, (str, os.PathLike)) and ending_of(os.fsdecode(model)).endswith(tuple(WEIGHTS))


def is_checkpoint(model: object) -> bool:
    """Whether a model is a file of PyTorch's with tensors and no program; by URL every one is taken for that.

    A file that is not there is none, so that whoever reads programs says so.
    """
    if not isinstance(model, (str, os.PathLike)) or not is_torch_file(model):
        return False
    name = os.fsdecode(model)
    if is_url(name):
        return not ending_of(name).endswith(PROGRAMS)
    from flopwise.readers.torch.load import holds_program, members

    return os.path.isfile(name) and not name.lower().endswith(PROGRAMS) and not holds_program(members(name))


def weight_file(model: str) -> tuple[str, str]:
    """The file that a name stands for, and its format; "" for the format of one that has a graph.

    A folder stands for the index in it, or for the only file with weights.

    Raises:
        ModelError: the folder holds no such file, or several.
    """
    if os.path.isdir(model):
        model = in_folder(model)
    ending = ending_of(model)
    kind = next((kind for end, kind in WEIGHTS.items() if ending.endswith(end)), "")
    return model, kind or ("torch" if ending.endswith(TORCH) else "")


def in_folder(folder: str) -> str:
    """The index in a folder, or the only file with weights, or the only model with a graph.

    Raises:
        ModelError: there is none, or there are several.
    """
    try:
        files = sorted(os.listdir(folder))
    except OSError as error:
        raise ModelError(f"{folder}: cannot be read ({error.strerror or error})") from error
    for ending in (*IN_FOLDER, ".onnx", ".caffemodel"):
        found = [f for f in files if f.lower().endswith(ending) and not f.startswith(".")]
        if len(found) == 1:
            return os.path.join(folder, found[0])
        if found:
            raise ModelError(f"{folder}: holds {len(found)} files ending in {ending} and no index; give one of them")
    raise ModelError(f"{folder}: no file with weights in this directory")


def is_callable(model: object) -> bool:
    """Whether a text names a callable, as ``package.module:callable`` or ``file.py:callable``."""
    if not isinstance(model, str) or "://" in model or os.path.exists(model):
        return False
    where, colon, name = model.rpartition(":")
    if not colon or not all(part.isidentifier() for part in name.split(".")):
        return False
    return where.endswith(".py") or all(part.isidentifier() for part in where.split("."))


def is_torch_file(model: object) -> bool:
    """Whether a model is a file of PyTorch's."""
    return isinstance(model, (str, os.PathLike)) and ending_of(os.fsdecode(model)).endswith(TORCH)


def is_caffe(model: object) -> bool:
    """Whether a model is a file of Caffe's."""
    return isinstance(model, (str, os.PathLike)) and ending_of(os.fsdecode(model)).endswith(CAFFE)


def is_module(model: object) -> bool:
    """Whether a model is a PyTorch module; asks PyTorch only when somebody has imported it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(model, torch.nn.Module) or (
        "torch.export" in sys.modules and isinstance(model, torch.export.ExportedProgram)
    )
