"""Tensors written without their elements, so that the file keeps their names, shapes and types and stays valid.

ONNX has no initialiser without elements. A Constant operator with a sparse tensor in which every element is zero takes
its place: it needs no data, and onnx, onnxruntime and Netron read it. Our reader takes it back for an initialiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import numpy_helper

from flopwise.errors import InputError, ModelError
from flopwise.readers.onnx.file.skeleton import CODES, kept
from flopwise.readers.onnx.file.stripped import MARK
from flopwise.readers.onnx.file.tensors import Tensor
from flopwise.readers.onnx.file.weights import load
from flopwise.readers.source.source import Source

#: First operator set in which a Constant may be sparse.
SPARSE = 11


class Hollow:
    """What writes the tensors of one model without their elements; small ones, which may steer shapes, keep theirs."""

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
        try:
            loaded = load(tensor.stored(), self.name, self.reopen)
        except ModelError:  # the data is not there
            return None
        return bytes(numpy_helper.from_array(loaded, tensor.name).SerializeToString())

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
        return None if _stays(tensor) else bytes(self.zeros(tensor.code, tensor.dims).SerializeToString())

    def _constant(self, name: str, code: int, dims: Sequence[int]) -> bytes:
        node = onnx.NodeProto(op_type="Constant", output=[name])
        node.attribute.append(self.zeros(code, dims))
        node.metadata_props.add(key=MARK)
        return bytes(node.SerializeToString())

    def zeros(self, code: int, dims: Sequence[int]) -> onnx.AttributeProto:
        """The attribute of a Constant operator for a tensor of zeros.

        Raises:
            InputError: the operator set has none.
        """
        if self.version < SPARSE:
            raise InputError(
                f"operator set {self.version} cannot write a tensor without its elements; "
                f"convert the model to {SPARSE} or later first (onnx.version_converter does it)"
            )
        values = onnx.TensorProto(data_type=code, dims=[0])
        indices = onnx.TensorProto(data_type=onnx.TensorProto.INT64, dims=[0])
        sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=dims)
        return onnx.AttributeProto(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=sparse)


def _stays(tensor: Tensor) -> bool:
    """Whether a tensor keeps its elements: words are not weights, and small tensors steer shapes."""
    return tensor.code == CODES["string"] or kept(tensor.code, tensor.dims)
