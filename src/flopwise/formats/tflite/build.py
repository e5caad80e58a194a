"""The nodes and tensors of a TensorFlow Lite model."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from flopwise.formats.tflite.lower.lowered import Application
from flopwise.formats.tflite.parts import parts
from flopwise.formats.tflite.stored import stored_tensor
from flopwise.formats.weights.storage import SourceStorage
from flopwise.formats.weights.tensor import in_storage
from flopwise.graph import Kind, StoredTensor, Tensor
from flopwise.readers.subgraphs import tensors as file
from flopwise.readers.subgraphs.build import Builder
from flopwise.readers.subgraphs.lowered import Lowered, Part
from flopwise.readers.subgraphs.program import Graph, Node
from flopwise.sizes.scope import Scope


class LiteBuilder(Builder):
    """Nodes with their fused activations and requantisations, stored tensors with their scales."""

    def __init__(self, storage: SourceStorage, prefix: str = "") -> None:
        super().__init__(storage, prefix)
        #: Stored tensors of the same bytes are one.
        self._same: dict[Any, Tensor] = {}

    def lowered(self, node: Node, scope: Scope) -> Lowered:
        """The operator of the house; a FULLY_CONNECTED sees rows of as many elements as its weights take."""
        lowered = node.lowered
        if lowered.op != "Gemm" or len(node.given) < 2:
            return lowered
        x, w = (scope.tensors[name].extents if name else None for name in node.given[:2])
        if x is None or w is None or len(w) != 2 or not w[1] or x[-1:] == (w[1],):
            return lowered
        return lowered._replace(views={0: (math.prod(x) // w[1], w[1])})

    def parts(self, node: Node, graph: Graph) -> list[Part]:
        return parts(_application(node, graph), node.lowered)

    def stored(self, name: str, tensor: file.Tensor, kind: Kind) -> Tensor:
        key = (tensor.data, tensor.shape, tensor.dtype)
        known = self._same.get(key)
        if known is None:
            fresh = self.names.fresh(name)
            known = self._same[key] = Tensor(fresh, tensor.shape, tensor.dtype, kind)
            one = stored_tensor(fresh, tensor, self.storage)
            if one is not None:
                self.weights[fresh] = self._with_scales(one, tensor)
        return known

    def _with_scales(self, stored: StoredTensor, tensor: file.Tensor) -> StoredTensor:
        quantization = tensor.quantization
        if quantization is None:
            return stored
        scale = self.names.fresh(f"{stored.name}/scale")
        shape = (quantization.number,) if quantization.number > 1 else ()
        places = (quantization.scales,)
        self.weights[scale] = in_storage(scale, shape, "float32", self.storage, places, role="constant")
        zero = ""
        if quantization.shifted and len(quantization.zero_points) == quantization.number:
            zero = self.names.fresh(f"{stored.name}/zero point")
            places = (quantization.zeros,)
            self.weights[zero] = in_storage(zero, shape, "int64", self.storage, places, role="constant")
        return replace(stored, scale=scale, zero_point=zero)


def _application(node: Node, graph: Graph) -> Application:
    sides = ([graph.tensors[name] if name else None for name in side] for side in (node.given, node.outputs))
    inputs, outputs = map(tuple, sides)
    return Application(node.operator, inputs, outputs, lambda place: None)
