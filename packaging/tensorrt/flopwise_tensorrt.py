"""Layers of a TensorRT engine, written by ``trtexec --exportLayerInfo``, as a format of flopwise's."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flopwise._limits import within_limit
from flopwise.errors import ModelError
from flopwise.formats.format import Context, Format
from flopwise.formats.limits import refuse_huge
from flopwise.formats.sources.location import naming
from flopwise.formats.sources.open import open_source
from flopwise.formats.tensorrt import node_of, tensor_of
from flopwise.graph import Graph, Node, StoredTensor, Tensor
from flopwise.graph.names import FreshNames, primed

#: Bytes in which the name of the list of layers stands.
_HEAD = 512

#: Layers that only bring elements into another order, type or shape.
_MOVES = frozenset({"Reformat", "NoOp", "Shuffle", "Identity"})

#: Operators of ONNX that a layer may be.
_COUNTED = frozenset({"Conv", "ConvTranspose", "MatMul", "MaxPool", "AveragePool"})

#: Fused activations -> the operator of ONNX.
_ACTIVATIONS = {
    "RELU": "Relu",
    "CLIPPED_RELU": "Clip",
    "CLIP": "Clip",
    "SIGMOID": "Sigmoid",
    "TANH": "Tanh",
    "ELU": "Elu",
    "LEAKY_RELU": "LeakyRelu",
    "GELU_ERF": "Gelu",
    "GELU_TANH": "Gelu",
}

#: What information that makes no sense raises.
_WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _matches(context: Context) -> bool:
    """True for a file of JSON that begins with a list of layers."""
    return context.ends_in(".json") and b'"Layers"' in context.head[:_HEAD]


def _read(model: object, inputs: Any, dims: Any, batch_size: Any, progress: Any, options: Any) -> Graph:
    progress("reading the layers")
    with contextlib.closing(open_source(model)) as source, naming(source.name):
        within_limit("text_bytes", source.size, f"{source.name}: has")
        try:
            content = json.loads(source.read(0, source.size))
            layers = content["Layers"]
        except (RecursionError, *_WRONG) as error:
            raise ModelError(f"{source.name}: no layers of an engine as JSON ({type(error).__name__})") from None
        if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
            raise ModelError(f"{source.name}: names alone: build the engine with --profilingVerbosity=detailed")
        bindings = content.get("Bindings")
        return _graph(source.name, layers, bindings if isinstance(bindings, list) else ())


def _graph(name: str, layers: Sequence[Mapping[str, Any]], bindings: Sequence[str]) -> Graph:
    builder = _Builder(name)
    for number, layer in enumerate(layers, 1):
        try:
            builder.layer(layer)
        except (RecursionError, *_WRONG) as error:
            raise ModelError(
                f"{name}: layer {number} is none of TensorRT's ({type(error).__name__}: {error})"
            ) from None
    ends = [builder.tensors[one] for one in bindings if isinstance(one, str) and one in builder.tensors]
    return Graph(
        os.path.splitext(os.path.basename(name))[0],
        "tensorrt",
        name,
        tuple(tensor for tensor in ends if tensor.name not in builder.made),
        tuple(tensor for tensor in ends if tensor.name in builder.made),
        tuple(builder.nodes),
        builder.weights,
        ("layers of an engine, as its builder fused them; weights are those of its kernels",),
    )


class _Builder:
    """Nodes and tensors, layer by layer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.weights: dict[str, StoredTensor] = {}
        self.tensors: dict[str, Tensor] = {}
        self.made: set[str] = set()
        self._names = FreshNames(form=primed)

    def layer(self, layer: Mapping[str, Any]) -> None:
        """Take in a layer, with what is fused to it as rows behind it."""
        name, kind = str(layer["Name"]), str(layer["LayerType"])
        inputs, outputs = (tuple(map(self._tensor, layer.get(side) or ())) for side in ("Inputs", "Outputs"))
        self.made.update(tensor.name for tensor in outputs)
        if not outputs:
            return
        node = node_of(name, layer, inputs, outputs)
        if kind in _MOVES:
            same = inputs and inputs[0].dtype == outputs[0].dtype
            attrs = {} if same else {"to": outputs[0].dtype}
            node = Node("Identity" if same else "Cast", name, inputs[:1], outputs, attrs)
        elif kind == "Constant":
            node = Node("Identity", name, (), outputs)
        elif node.op not in _COUNTED:
            node = replace(node, op=f"tensorrt::{node.op}")
        node = replace(node, inputs=tuple([self._stored(name, t) for t in node.inputs if t is not None]), origin=kind)
        more = list(self._fused(node, layer, inputs))
        self._append(node, more)

    def _append(self, node: Node, more: list[Node]) -> None:
        """Take in a node and those that are fused to it; each reads what the one before it has made."""
        last = node.outputs
        before: Tensor | None = None
        for number, one in enumerate([node, *more]):
            final = number == len(more)
            made = last if final else (replace(node.output(), name=self._names.fresh(f"{node.name}/{number}")),)
            taken = one.inputs if not number else (before, *one.inputs[1:])
            self.nodes.append(replace(one, inputs=taken, outputs=made))
            before = made[0]

    def _fused(self, node: Node, layer: Mapping[str, Any], inputs: tuple[Tensor, ...]) -> Iterator[Node]:
        """A sum with a further input, and the activation."""
        y = node.output()
        if node.op in ("Conv", "ConvTranspose"):
            for other in inputs[1:]:
                yield Node("Add", f"{node.name}/Add", (y, other), (y,), origin="fused", fused=True)
        activation = str(layer.get("Activation") or "NONE")
        if activation in _ACTIVATIONS:
            attrs = {"min": 0.0, "max": 6.0} if activation in ("CLIPPED_RELU", "CLIP") else {}
            yield Node(
                _ACTIVATIONS[activation], f"{node.name}/{activation}", (y,), (y,), attrs, origin="fused", fused=True
            )

    def _stored(self, layer: str, tensor: Tensor) -> Tensor:
        """A tensor, under the layer's name where it is stored."""
        if tensor.kind != "weight":
            return tensor
        stored = replace(tensor, name=self._names.fresh(f"{layer}/{tensor.name.removeprefix('#')}"))
        self.weights[stored.name] = StoredTensor(stored.name, stored.dims, stored.dtype or "float32", stored.nbytes)
        return stored

    def _tensor(self, described: Mapping[str, Any]) -> Tensor:
        tensor = tensor_of(described)
        if min(tensor.dims, default=0) < 0:
            raise ValueError(f"{tensor.name!r} has open sizes")
        refuse_huge(tensor.name, tensor.dims)
        return self.tensors.setdefault(tensor.name, tensor)


TENSORRT = Format(
    "tensorrt",
    "layers of TensorRT engines (.json)",
    _read,
    endings=(".engine.json",),
    matches=_matches,
    in_directories=(".engine.json",),
    no_formulas="whose sizes are fixed",
)
