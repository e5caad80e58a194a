"""HDF5 files: the datasets in them and their elements, by h5py in a process of its own.

HDF5 is native code that trusts a file, and in some damaged ones it goes round and round for ever. So it never runs in
this process: a child asks for each byte that it needs, and is ended when it works for long without asking.

Source: https://docs.hdfgroup.org/hdf5/latest/_f_m_t3.html
"""

from __future__ import annotations

import base64
import contextlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise._child import Child, EndedError, LateError, LostError, Parent, limit_memory, limit_processor
from flopwise._limits import current, native_seconds
from flopwise._results import Json
from flopwise.errors import ModelError, message
from flopwise.formats.sources.source import Source

if TYPE_CHECKING:
    import h5py

#: Bytes of a page of the file, pages that the child keeps, and bytes of elements that it sends at once.
_PAGE, _KEPT, _PIECE = 1 << 12, 1 << 14, 8 << 20

#: How often the bytes of a file may be asked for on average.
_OFTEN = 16

#: Bytes of memory that HDF5 may take for what steers the reading.
_MEMORY = 512 << 20

#: Seconds for each one of the processor's: other programs run, too.
_WAIT = 20.0


class Dataset(NamedTuple):
    """A dataset: its elements are in the file in one stretch where ``offset`` is a number."""

    #: The names of the groups around it and its own, with "/" between them.
    place: str
    shape: tuple[int, ...] | None
    #: NumPy's short name of the element type, and its long one.
    code: str
    dtype: str
    offset: int | None
    #: Bytes in the file, and in memory.
    stored: int
    nbytes: int
    #: Whether its elements lie in other files.
    elsewhere: bool
    #: What its group calls itself; "" where it does not.
    title: str = ""


class Content(NamedTuple):
    """What stands in a file."""

    datasets: tuple[Dataset, ...]
    groups: tuple[str, ...]
    #: Members that lead to another place, or to another file; they are not followed.
    links: tuple[str, ...]


class Hdf5:
    """An HDF5 file, or one that lies in another file.

    Args:
        opened: opens the file.
        start: where it begins there.
        size: its bytes; None for all.
    """

    def __init__(self, opened: Callable[[], Source], start: int = 0, size: int | None = None) -> None:
        self._opened, self._start, self._size = opened, start, size
        self._lock = threading.Lock()
        self._child: Child | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Hdf5, (self._opened, self._start, self._size)

    def content(self) -> Content:
        """What stands in the file; no element is read.

        Raises:
            ModelError: it is damaged, or HDF5 does not come to an end with it.
        """
        answer = next(self._answers({"content": True}, _MEMORY))
        self.close()
        datasets = [Dataset(place, None if shape is None else tuple(shape), *rest)
                    for place, shape, *rest in answer["datasets"]]  # fmt: skip
        return Content(tuple(datasets), tuple(answer["groups"]), tuple(answer["links"]))

    def elements(self, dataset: Dataset) -> Any:
        """The elements of a dataset as an array of NumPy.

        Raises:
            ModelError: the file is damaged, HDF5 does not come to an end with it, or they are no numbers.
        """
        import numpy

        data = bytearray()
        for answer in self._answers({"elements": dataset.place}, _MEMORY + 4 * dataset.nbytes):
            data += base64.b64decode(answer["part"])
        return numpy.frombuffer(data, dataset.code).reshape(dataset.shape or ())

    def close(self) -> None:
        """End the process; it starts again when somebody asks."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _answers(self, request: Json, memory: int) -> Iterator[Json]:
        """The answers of the child to one request, while the bytes that it asks for are handed to it."""
        with self._lock, contextlib.closing(self._opened()) as source:
            size = source.size - self._start if self._size is None else self._size
            seconds, room = native_seconds(size), _OFTEN * size + (_PAGE << 4)
            try:
                if self._child is None:
                    self._child = Child("flopwise.formats.weights.hdf5:serve")
                    weakref.finalize(self, self._child.end)
                self._child.send({**request, "size": size, "seconds": seconds, "memory": memory})
                while "end" not in (answer := self._child.receive(_WAIT * (1 + seconds))):
                    if "read" in answer:
                        start, end = answer["read"]
                        room -= end - start
                        if not 0 <= start <= end <= size or room < 0:
                            raise ModelError(f"{source.name}: truncated or damaged (HDF5 reads it over and over)")
                        data = source.read(self._start + start, end - start)
                        self._child.send(base64.b64encode(data).decode())
                    elif "error" in answer:
                        raise ModelError(f"{source.name}: truncated or damaged ({answer['error'][:150]})")
                    else:
                        yield answer
            except LostError as error:
                self.close()
                raise ModelError(f"{source.name}: {_why(error)}") from None
            except BaseException:
                self.close()
                raise


def _why(error: LostError) -> str:
    if isinstance(error, LateError) or (isinstance(error, EndedError) and error.late):
        seconds = f"{current().native_seconds:g} seconds of the processor (the limit native_seconds)"
        return f"truncated or damaged: HDF5 comes to no end with it within {seconds}"
    return f"truncated or damaged: the process in which HDF5 reads it {error}"


def serve() -> None:
    """Answer the requests of the parent, which hands over the bytes of the file."""
    parent = Parent()
    os.environ["HDF5_PLUGIN_PATH"] = "::"  # filters are code, which a file must not choose
    import h5py

    for request in parent.requests():
        try:
            limit_memory(request["memory"])
            with h5py.File(_Bytes(parent, request["size"], request["seconds"]), "r") as file:
                if "content" in request:
                    parent.tell(_content(file))
                else:
                    for part in _parts(file[request["elements"]]):
                        parent.tell({"part": base64.b64encode(part).decode()})
            parent.tell({"end": True})
        except MemoryError:
            parent.tell({"error": "takes more memory than a file of its size may"})
        except Exception as error:  # h5py raises all kinds for damaged files
            parent.tell({"error": message(error) or type(error).__name__})


class _Bytes:
    """The file as h5py reads it: pages that the parent hands over."""

    def __init__(self, parent: Parent, size: int, seconds: float) -> None:
        self._parent, self._size, self._seconds, self._at = parent, size, seconds, 0
        self._pages: OrderedDict[int, bytes] = OrderedDict()
        limit_processor(seconds)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + {0: 0, 1: self._at, 2: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:
        end = min(self._at + len(buffer), self._size)
        first = self._at
        if end - first > _PAGE:
            buffer[: end - first] = self._ask(first, end)
        else:
            for number in range(first // _PAGE, -(-end // _PAGE)):
                begin = number * _PAGE
                low, high = max(first, begin), min(end, begin + _PAGE)
                buffer[low - first : high - first] = self._page(number)[low - begin : high - begin]
        self._at = max(first, end)
        return max(end - first, 0)

    def read(self, size: int = -1) -> bytes:
        data = bytearray(self._size - self._at if size < 0 else size)
        return bytes(data[: self.readinto(memoryview(data))])

    def _page(self, number: int) -> bytes:
        page = self._pages.pop(number, None)
        if page is None:
            page = self._ask(number * _PAGE, min((number + 1) * _PAGE, self._size))
            if len(self._pages) >= _KEPT:
                self._pages.popitem(last=False)
        self._pages[number] = page
        return page

    def _ask(self, start: int, end: int) -> bytes:
        data = base64.b64decode(self._parent.ask({"read": [start, end]}))
        limit_processor(self._seconds)
        return data

    def write(self, data: bytes) -> int:
        raise OSError("read only")

    def truncate(self, size: int | None = None) -> int:
        raise OSError("read only")

    def flush(self) -> None:
        pass


def _content(file: h5py.File) -> Json:
    import h5py

    places: list[str] = []
    file.visit(places.append)
    datasets, groups, links = [], [], []
    for place in ("/", *places):
        member = file[place]
        if isinstance(member, h5py.Group):
            groups.append(place)
            inside = "" if place == "/" else f"{place}/"
            kinds = ((name, member.get(name, getclass=True, getlink=True)) for name in member)
            links += [inside + name for name, kind in kinds if kind is not h5py.HardLink]
        elif isinstance(member, h5py.Dataset):
            datasets.append(_dataset(place, member, file))
    return {"datasets": datasets, "groups": groups, "links": links}


def _dataset(place: str, dataset: h5py.Dataset, file: h5py.File) -> tuple[object, ...]:
    around, _, _ = place.rpartition("/")
    title = file[around].attrs.get("name") if around.endswith("vars") else ""
    dtype, shape = dataset.dtype, dataset.shape
    return (
        place,
        None if shape is None else [int(size) for size in shape],
        dtype.str,
        str(dtype),
        None if file.userblock_size else dataset.id.get_offset(),
        dataset.id.get_storage_size(),
        int(dataset.size or 0) * dtype.itemsize,
        bool(dataset.external or dataset.is_virtual),
        title if isinstance(title, str) else "",
    )


def _parts(dataset: h5py.Dataset) -> Iterator[memoryview]:
    """The bytes of the elements, some megabytes at a time."""
    if dataset.dtype.hasobject or dataset.external or dataset.is_virtual:
        raise ValueError("the dataset holds no numbers")
    data = memoryview(dataset[...].tobytes())
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]
