"""Bytes from files, streams and memory, read only where somebody asks; and files of other programs."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.sources.location import ending_of

# Files of other programs that people hand over: how one is told, and what makes a model of it that can be read.
#
# Sources of the marks: the formats' own documents and schemas (FlatBuffers' file identifiers "TFL3", "ORTM" and
# "ET12", HDF5's and ZIP's signatures) and the headers that the tools of Huawei, Rockchip, Hailo and NVIDIA write.

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


# Seekable bytes: a file, an open stream or a buffer, read only where somebody asks.


class Source(ABC):
    """Bytes with a length that can be read at any place."""

    #: What to call it in a message.
    name: str
    #: Length in bytes.
    size: int
    #: The folder in which files named in the model lie; None when the bytes did not come from a file.
    folder: Path | None = None
    #: Whether each read may cost a request over the network.
    remote: bool = False
    #: Whether several threads may read at the same time.
    threadsafe: bool = False

    def read(self, offset: int, length: int) -> bytes:
        """Bytes [offset, offset + length).

        Raises:
            ModelError: the source ends before that, or cannot be read.
        """
        missing = offset + length - self.size
        if missing > 0:  # asked first: a file may claim any length, and reading would allocate it
            raise ModelError(f"{self.name}: ends at byte {self.size}, but {missing} more were expected")
        try:
            data = self.part(offset, length)
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.name}: cannot be read ({_reason(error)})") from error
        if len(data) != length:
            raise ModelError(f"{self.name}: changed while it was read; it ends at byte {offset + len(data)} now")
        return data

    def at_hand(self, offset: int) -> int:
        """The number of bytes from an offset on that can be read in one go; what follows has to be made first."""
        return self.size - offset

    @abstractmethod
    def part(self, offset: int, length: int) -> bytes:
        """The same bytes, fewer where the source ends."""

    def later(self) -> Callable[[], Source]:
        """A function that opens the same bytes again when this source is closed."""
        return lambda: self

    def network_summary(self) -> str:
        """The bytes that came over the network so far, in words; "" where none did."""
        return ""

    def beside(self, location: str, what: str) -> Source:
        """The file of a name in the same folder.

        Args:
            location: path of the file, from the folder.
            what: what wants it, for messages.

        Raises:
            ModelError: there is no folder, or no such file in it.
        """
        if self.folder is None:
            raise ModelError(
                f"{what} lies in the file {location!r} beside the model; give the model as a path to load it"
            )
        if "\0" in location:
            raise ModelError(f"{what} lies in the file {location!r}, and there is no such file")
        path = self.folder / location
        inside = os.path.realpath(path).startswith(os.path.join(os.path.realpath(self.folder), ""))
        if not inside:  # a link may lead out of the folder although the text does not
            raise ModelError(f"the data of {what} are in {location!r}, outside the model's folder; refused")
        if not os.path.exists(path):  # names that are near to it are the model's own
            raise ModelError(f"{what} lies in the file {location!r}, and there is no such file")
        return FileSource(path)

    def close(self) -> None:  # noqa: B027 - nothing to let go of is the usual case
        """Close what this source opened itself; what the caller opened stays open."""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def exactly(stream: IO[bytes], name: str, length: int) -> bytes:
    """The next bytes of a stream that may give fewer at a time than asked for (the system stops at 2 GB)."""
    parts: list[bytes] = []
    missing = length
    while missing and (part := stream.read(missing)):
        if not isinstance(part, bytes):
            raise ModelError(f"{name}: gives text, not bytes; open it with mode 'rb'")
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def head(path: str | os.PathLike[str], size: int) -> bytes:
    """The first bytes of a regular file; b"" of any other thing, as a pipe or a device would be read for ever."""
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb", buffering=0) as file:
            return file.read(size)
    except (OSError, ValueError):
        return b""


#: So many names of a folder are looked at for one that may have been meant.
MANY = 10_000


def missing(name: str) -> str:
    """The error for a file that is not there; a dotted name may have been meant for a callable.

    >>> missing("net.onnx"), missing("torchvision.models.resnet50")
    ('no such file', 'no such file; a callable is given as torchvision.models:resnet50')
    """
    home, _, last = name.rpartition(".")
    parts = name.split(".")
    dotted = len(parts) > 2 or os.path.isfile(f"{home}.py") if home else False
    if dotted and all(part.isidentifier() for part in parts):
        return f"no such file; a callable is given as {home}:{last}"
    if name.isidentifier() and (models := _in_libraries(name)):
        return f"no such file; a model of this name is {' or '.join(models)}"
    near = _nearest(name)
    return f"no such file; did you mean {near!r}?" if near else "no such file"


def _nearest(path: str) -> str:
    """The path that is there and nearest to one that is not, the folders in it looked at one by one; "" if none is."""
    from difflib import get_close_matches

    folder, file = os.path.split(path)
    if folder and folder != path and not os.path.isdir(folder):
        folder = _nearest(folder)
        if not folder or os.path.exists(os.path.join(folder, file)):
            return os.path.join(folder, file) if folder else ""
    try:
        with os.scandir(folder or ".") as entries:
            there = [entry.name for entry, _ in zip(entries, range(MANY), strict=False)]
    except (OSError, ValueError):
        return ""
    near = get_close_matches(file, there, 1) if file else []
    return os.path.join(folder, near[0]) if near else ""


#: Library -> the pattern of the files that say of a model that it is there, and what stands in one of them.
_LIBRARIES = {
    "torchvision": ("models/**/*.py", "def {}("),
    "timm": ("models/*.py", "def {}("),
    "transformers": ("models/{}/configuration_*.py", "class "),
}


def _in_libraries(name: str) -> list[str]:
    """``library:name`` for each installed library that has a model of this name; its files are read, not run."""
    from importlib.util import find_spec

    found = []
    for library, (pattern, text) in _LIBRARIES.items():
        with contextlib.suppress(OSError, ValueError, ImportError):
            spec = find_spec(library)
            places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
            files = (file for place in places for file in place.glob(pattern.format(name)))
            if any(text.format(name) in file.read_text("utf-8") for file in files):
                found.append(f"{library}:{name}")
    return found


class FileSource(Source):
    """A file on disk, opened at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fsdecode(path)
        self.folder = Path(self.name).parent
        if os.path.isdir(self.name):
            raise ModelError(f"{self.name}: {in_directory(self.name) or 'is a directory'}")
        if not os.path.isfile(self.name):
            raise ModelError(
                f"{self.name}: {'not a regular file' if os.path.exists(self.name) else missing(self.name)}"
            )
        try:
            self._file = open(self.name, "rb", buffering=0)  # noqa: SIM115 - open until close()
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.name}: cannot be read ({_reason(error)})") from error
        self.size = os.fstat(self._file.fileno()).st_size

    def part(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(length)
        return data if len(data) == length else data + exactly(self._file, self.name, length - len(data))

    def later(self) -> Callable[[], Source]:
        return functools.partial(FileSource, self.name)

    def close(self) -> None:
        self._file.close()


class StreamSource(Source):
    """An open binary stream that can seek; its position is put back after each read, so the caller keeps it.

    The model is all of the stream, wherever its position is.
    """

    def __init__(self, stream: IO[bytes], name: str = "") -> None:
        own = getattr(stream, "name", "")  # a number when the file has no name
        self.name = name or (own if isinstance(own, str) and own else "<stream>")
        self.folder = Path(self.name).parent if os.path.isfile(self.name) else None
        self._stream = stream
        try:
            here = stream.tell()
            stream.seek(0, os.SEEK_END)
            self.size = stream.tell()
            stream.seek(here)
        except (OSError, ValueError, AttributeError) as error:
            raise ModelError(f"{self.name}: cannot seek in it; save it to a file first") from error

    def part(self, offset: int, length: int) -> bytes:
        here = self._stream.tell()
        try:
            self._stream.seek(offset)
            return exactly(self._stream, self.name, length)
        finally:
            self._stream.seek(here)


class BytesSource(Source):
    """Bytes in memory; only the bytes that are read are copied."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "<bytes>") -> None:
        self.name = name
        try:
            self._view = memoryview(data).cast("B")
        except (TypeError, ValueError) as error:
            raise ModelError(f"{name}: cannot be read ({error})") from error
        self.size = len(self._view)

    def part(self, offset: int, length: int) -> bytes:
        return bytes(self._view[offset : offset + length])
