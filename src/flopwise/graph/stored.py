"""A tensor that is stored with a model: what it is, and its elements in a stream when somebody asks for them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from flopwise.errors import ModelError
from flopwise.graph.construction import record

if TYPE_CHECKING:
    import numpy

#: An array of numpy's, which is not imported before there is one.
Array: TypeAlias = "numpy.ndarray[Any, Any]"
DType: TypeAlias = "numpy.dtype[Any]"

#: Elements of a block.
BLOCK = 1 << 18


class Storage(Protocol):
    """The file, or the files side by side, that hold elements. It opens by itself at the first read."""

    def hold(self) -> None:
        """Keep the file open between one tensor and the next, until ``close()``."""

    def release(self) -> None:
        """A tensor has been read: close the file unless it is held."""

    def close(self) -> None:
        """Close the file; arrays that look into it stay valid."""

    def network_summary(self) -> str:
        """The bytes that came over the network so far, in words; "" where none did."""


class Stored(Protocol):
    """A stored tensor whose elements come in the order of storage: a ``StoredTensor``, or one that is unpacked."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    def blocks(self, elements: int = ...) -> Iterator[Array]:
        """One-dimensional arrays, decoded."""

    def raw(self) -> Array | None:
        """All elements as a view of the file; None where that is impossible."""


class Elements(ABC):
    """The elements of a stored tensor, wherever they are stored."""

    #: What is to be closed when nobody needs the elements any more; None where nothing is open.
    storage: Storage | None = None

    @property
    def place(self) -> tuple[str, int] | None:
        """The file beside the model that holds the elements, and the byte at which they begin; None elsewhere."""
        return None

    @abstractmethod
    def blocks(self, elements: int) -> Iterator[Array]:
        """The elements as numbers, in one-dimensional arrays of about ``elements``."""

    def raw(self) -> Array | None:
        """All elements as they are stored, in a view that cannot be written to; None where that cannot be."""
        return None

    def array(self) -> Array | None:
        """All elements as one array of numbers, where they come at once; None where they come in blocks."""
        return None


class NoElements(Elements):
    """The elements of a tensor that has none."""

    def blocks(self, elements: int) -> Iterator[Array]:
        return iter(())


class Packed(NamedTuple):
    """The type and shape of the elements that are packed into the words of a stored tensor."""

    #: The type of an element ("int4", "nf4", "float4e2m1"), and their shape.
    dtype: str
    shape: tuple[int, ...]


@record
class StoredTensor:
    """A tensor that is stored with a model. Nothing is read before somebody asks for its elements."""

    #: As in the file.
    name: str
    shape: tuple[int, ...]
    #: A name of ``flopwise.graph.dtypes``, or the block type of a GGUF file ("q4_K").
    dtype: str
    #: Stored bytes.
    nbytes: int
    #: The operator or module it belongs to: in a graph the first operator that uses it, through operators on stored
    #: tensors alone; else the name without its last part. "" where it is unknown.
    layer: str = ""
    #: The operator that uses it ("Conv"); "" where it is unknown.
    op: str = ""
    #: "weight", "buffer" or "constant".
    role: str = "weight"
    #: Position among the stored tensors of its layer (weight 0, bias 1).
    slot: int = 0
    #: Names of the stored tensors with its zero points and scales; "" where there are none.
    zero_point: str = ""
    scale: str = ""
    #: Whether the model stores one value that stands for all elements (ConstantOfShape).
    repeated: bool = False
    #: Of words that several weights are packed into (GPTQ, AWQ, MXFP4, NF4): what they hold.
    packed: Packed | None = None
    elements: Elements = field(default_factory=NoElements, repr=False, compare=False)

    @property
    def numel(self) -> int:
        """Number of elements as they are stored."""
        return math.prod(self.shape)

    def blocks(self, elements: int = BLOCK) -> Iterator[Array]:
        """The elements in the row-major order of the shape, in one-dimensional arrays of about ``elements``.

        Floats of 16 bits and less come as float32, integers of less than a byte as int8 or uint8; all others in their
        own type. What is stored in blocks (GGUF) is dequantised to float32.

        Raises:
            ModelError: the elements are not there, or cannot be read.
        """
        count = 0
        try:
            for block in self.elements.blocks(max(elements, 1)):
                count += block.size
                yield block
        finally:
            if self.elements.storage is not None:
                self.elements.storage.release()
        if count != self.numel:
            raise ModelError(f"tensor {self.name!r} of shape {self.shape} has {count:,} elements")

    def raw(self) -> Array | None:
        """All elements in their stored type (bfloat16 as uint16) as a one-dimensional view that cannot be written to.

        None where that cannot be: packed, compressed, remote, or in another order.
        """
        view = self.elements.raw()
        if self.elements.storage is not None:
            self.elements.storage.release()
        return view if view is not None and view.size == self.numel else None

    def array(self) -> Array:
        """All elements in the tensor's shape, in the types that ``blocks`` gives.

        Raises:
            ModelError: as for ``blocks``.
        """
        import numpy

        array, at = self.elements.array(), 0
        if array is not None and array.shape == self.shape:
            return array
        array = None
        for block in self.blocks():
            if array is None:
                array = block if block.size == self.numel else numpy.empty(self.numel, block.dtype)
            if array is not block:
                array[at : at + block.size] = block
            at += block.size
        return (numpy.empty(0, numpy.float32) if array is None else array).reshape(self.shape)
