"""Tensors written without their elements, so that the file keeps their names, shapes and types and stays valid.

ONNX has no initialiser without elements. A Constant operator with a sparse tensor in which every element is zero takes
its place: it needs no data, and onnx, onnxruntime and Netron read it. Our reader takes it back for an initialiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flopwise.errors import InputError, ModelError
from flopwise.formats.onnx.file.skeleton import CODES, RAW, kept
from flopwise.formats.onnx.file.stripped import MARK
from flopwise.formats.onnx.file.tensors import Tensor
from flopwise.formats.onnx.file.weights import external_bytes
from flopwise.formats.sources.source import Source
from flopwise.formats.sources.wire import message, number_field

#: The type of an attribute that is a sparse tensor.
_SPARSE_TENSOR = 11

#: First operator set in which a Constant may be sparse.
SPARSE = 11


class Hollow:
    """Tensors of one model as messages without elements; small ones, which may steer shapes, keep theirs."""

    def __init__(self, version: int, name: str, reopen: Callable[[], Source]) -> None:
        """
        Args:
            version: of the standard operators.
            name: the model, for messages.
            reopen: opens its source, for small tensors whose data lies beside the model.
        """
        self.version = version
        self.name = name
        self.reopen = reopen

    def inline(self, tensor: Tensor) -> bytes | None:
        """A small tensor whose data lies beside the model, with its elements; None for any other."""
        if not tensor.external or not kept(tensor.code, tensor.dims):
            return None
        stored = tensor.stored()
        try:
            data = external_bytes(stored, self.name, self.reopen)
        except ModelError:  # the data is not there
            return None
        if len(data) != stored.nbytes:
            return None
        head = [*(number_field(1, d) for d in tensor.dims), number_field(2, tensor.code)]
        return b"".join([*head, message(8, [tensor.name.encode()]), message(RAW, [data])])

    def initializer(self, tensor: Tensor) -> bytes | None:
        """The operator that stands for an initialiser; None for one that stays as it is.

        Raises:
            InputError: the operator set has no such operator.
        """
        return None if _stays(tensor) else self._constant(tensor.name, tensor.code, tensor.dims)

    def sparse(self, values: Tensor, dims: Sequence[int]) -> bytes:
        """The operator that stands for a sparse initialiser."""
        return self._constant(values.name, values.code, dims)

    def attribute(self, tensor: Tensor) -> bytes | None:
        """The attribute of a Constant operator in place of the one that holds the tensor; None if that stays."""
        return None if _stays(tensor) else self.zeros(tensor.code, tensor.dims)

    def _constant(self, name: str, code: int, dims: Sequence[int]) -> bytes:
        parts = [message(2, [name.encode()]), message(4, [b"Constant"]), message(5, [self.zeros(code, dims)])]
        return b"".join([*parts, message(9, [message(1, [MARK.encode()])])])

    def zeros(self, code: int, dims: Sequence[int]) -> bytes:
        """The attribute of a Constant operator for a tensor of zeros.

        Raises:
            InputError: the operator set has none.
        """
        if self.version < SPARSE:
            raise InputError(
                f"operator set {self.version} cannot write a tensor without its elements; "
                f"convert the model to {SPARSE} or later first (onnx.version_converter does it)"
            )
        values, indices = (number_field(1, 0) + number_field(2, kind) for kind in (code, CODES["int64"]))
        sparse = [message(1, [values]), message(2, [indices]), *(number_field(3, d) for d in dims)]
        return message(1, [b"sparse_value"]) + number_field(20, _SPARSE_TENSOR) + message(22, sparse)


def _stays(tensor: Tensor) -> bool:
    """True where a tensor keeps its elements: words are not weights, and small tensors steer shapes."""
    return tensor.code == CODES["string"] or kept(tensor.code, tensor.dims)
