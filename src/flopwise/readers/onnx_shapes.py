"""Shapes of every tensor of an ONNX model: onnx's C++ inference first, then what it leaves unresolved.

What it leaves is mostly shape arithmetic (Shape, Gather, Concat, Where, ... into Reshape). A second walk evaluates that
on small tensors with onnx's reference operators and infers the rest node by node with onnx's own rules, so that no rule
for a standard operator is written here.
"""

from __future__ import annotations

import math
import warnings as python_warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx
from onnx import TypeProto, defs, numpy_helper, shape_inference

from flopwise.errors import ModelError
from flopwise.readers.onnx_wire import DTYPES

#: Tensors up to this many elements are evaluated when they depend on shapes and constants only.
EVALUATED = 8192

#: No tensor can have as many elements: its bytes could not be addressed.
TOO_MANY = 1 << 63

#: How many contradictions are told one by one.
TOLD = 5


class Shapes:
    """Element type and shape of each tensor by name, and what the user should know about them."""

    def __init__(self, types: Mapping[str, TypeProto]) -> None:
        self.types = dict(types)
        self.warnings: list[str] = []
        self._concrete: dict[str, tuple[int, ...] | None] = {}

    def set(self, name: str, found: TypeProto) -> None:
        """Write down what was found out about a tensor."""
        self.types[name] = found
        self._concrete.pop(name, None)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor if every dim is known, else None."""
        if name not in self._concrete:
            found = self.types.get(name)
            self._concrete[name] = None if found is None else concrete(found)
        return self._concrete[name]

    def dtype(self, name: str) -> str | None:
        """Element type of a tensor, None when unknown."""
        found = self.types.get(name)
        return None if found is None else DTYPES.get(found.tensor_type.elem_type)


def concrete(found: TypeProto) -> tuple[int, ...] | None:
    """The shape of a tensor type if every dim is a number, else None."""
    if not found.HasField("tensor_type"):
        return None
    tensor = found.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims: list[int] = []
    for dim in tensor.shape.dim:
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            return None
        dims.append(dim.dim_value)
    return tuple(dims)


def resolve(model: onnx.ModelProto, declared_holds: bool) -> Shapes:
    """The shapes of a model whose inputs have concrete shapes.

    Args:
        model: a model without weights; its intermediate and output shapes are taken out of it.
        declared_holds: whether the shapes written in the file are for these inputs, so that they may fill in what
            cannot be inferred, and a contradiction is worth a warning.

    Raises:
        ModelError: a tensor has more elements than can exist.
    """
    graph = model.graph
    declared = {v.name: v.type for v in (*graph.value_info, *graph.output) if v.HasField("type")}
    del graph.value_info[:]
    for output in graph.output:
        if output.type.tensor_type.HasField("shape"):
            output.type.tensor_type.ClearField("shape")
    told = ""
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception as error:  # the C++ side raises several kinds, some of them plain RuntimeError
        told = f"shape inference stopped: {first_line(error)}"
        inferred = graph
    shapes = Shapes(_types(graph, (*inferred.value_info, *inferred.output)))
    shapes.warnings.extend([told] if told else [])
    names = [o for n in graph.node for o in n.output if o]
    if any(shapes.shape(n) is None for n in names):
        _Walk(model, shapes, declared if declared_holds else {}).run()
    if declared_holds:
        _contradictions(graph, declared, shapes)
    for name in (*(i.name for i in graph.input), *(t.name for t in graph.initializer), *names):
        shape = shapes.shape(name)
        if shape is not None and math.prod(shape) >= TOO_MANY:
            raise ModelError(f"tensor {name!r} of shape {shape} has more elements than any memory can hold")
    return shapes


def first_line(error: Exception) -> str:
    """What an error of the C++ inference says, on one line."""
    text = " ".join(str(error).split())
    return text.replace("[ShapeInferenceError] ", "").replace("[TypeInferenceError] ", "")[:300]


def _types(graph: onnx.GraphProto, inferred: Iterable[onnx.ValueInfoProto]) -> dict[str, TypeProto]:
    types = {v.name: v.type for v in (*graph.input, *inferred)}
    for tensor in graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    return types


def _contradictions(graph: onnx.GraphProto, declared: dict[str, TypeProto], shapes: Shapes) -> None:
    """Warn where a shape in the file is not the one that its operator gives."""
    makers = {o: n for n in graph.node for o in n.output}
    found = []
    for name, type_ in declared.items():
        said, given = concrete(type_), shapes.shape(name)
        if said is not None and given is not None and said != given and name in makers:
            found.append(
                f"the file says that {name!r} has shape {said}, but {describe(makers[name])} gives {given}; "
                "the latter is used"
            )
    shapes.warnings.extend(found[:TOLD])
    if len(found) > TOLD:
        shapes.warnings.append(f"{len(found) - TOLD} more shapes in the file contradict their operators")


def describe(node: onnx.NodeProto) -> str:
    """A node as a message names it."""
    name = node.name or (node.output[0] if node.output else "")
    return f"{node.op_type} {name!r}"


class _Walk:
    """The second walk: values of small tensors, and shapes node by node."""

    def __init__(self, model: onnx.ModelProto, shapes: Shapes, declared: dict[str, TypeProto]) -> None:
        self.graph = model.graph
        self.shapes = shapes
        self.shape = shapes.shape
        self.declared = declared
        self.opsets = {o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import}
        self.imports = list(model.opset_import)
        self.ir_version = model.ir_version
        self.values: dict[str, Any] = {}
        self.failures: list[str] = []

    def run(self) -> None:
        for tensor in self.graph.initializer:
            if has_payload(tensor):
                self.values[tensor.name] = numpy_helper.to_array(tensor)
        for node in self.graph.node:
            self.visit(node)
        self.shapes.warnings.extend(self.failures[:TOLD])
        if len(self.failures) > TOLD:
            self.shapes.warnings.append(
                f"the shapes of {len(self.failures) - TOLD} more operators could not be inferred"
            )

    def visit(self, node: onnx.NodeProto) -> None:
        if any(self.shape(o) is None for o in node.output if o):
            self.infer(node)
        if self.knowable(node):
            self.evaluate(node)

    def infer(self, node: onnx.NodeProto) -> None:
        """Shapes of the node's outputs by onnx's own rule, else as the file declares them."""
        try:
            schema = defs.get_schema(node.op_type, self.opsets.get(node.domain, 1), node.domain)
        except Exception:  # onnx raises its own SchemaError: the operator is not a standard one
            schema = None
        inputs = [i for i in node.input if i]
        if schema is not None and all(i in self.shapes.types for i in inputs):
            data = {i: numpy_helper.from_array(self.values[i], i) for i in inputs if i in self.values}
            try:
                types = {i: self.shapes.types[i] for i in inputs}
                found = shape_inference.infer_node_outputs(
                    schema, node, types, data, opset_imports=self.imports, ir_version=self.ir_version
                )
                for output, type_ in found.items():
                    if output and type_.WhichOneof("value"):
                        self.shapes.set(output, type_)
            except Exception as error:  # see resolve()
                self.failures.append(f"no shape for {describe(node)}: {first_line(error)}")
        if node.op_type == "Dropout" and len(node.output) > 1 and self.shape(node.output[1]) is None:
            # onnx infers the mask only in some versions; it always has the shape of the data.
            self.shapes.set(node.output[1], self.shapes.types[node.input[0]])
        for output in node.output:
            if output in self.declared and self.shape(output) is None and concrete(self.declared[output]) is not None:
                self.shapes.set(output, self.declared[output])

    def knowable(self, node: onnx.NodeProto) -> bool:
        """Whether the node's results are small and depend on shapes and known values only."""
        if any(a.HasField("g") or a.graphs for a in node.attribute):
            return False
        if node.op_type in ("Shape", "Size") and node.domain in ("", "ai.onnx"):
            return self.shape(node.input[0]) is not None
        if node.op_type.startswith("Random") or node.op_type in ("Multinomial", "Bernoulli"):
            return False
        if not all(i in self.values for i in node.input if i) or node.domain not in ("", "ai.onnx"):
            return False
        shapes = [self.shape(o) for o in node.output if o]
        return all(s is not None and math.prod(s) <= EVALUATED for s in shapes)

    def evaluate(self, node: onnx.NodeProto) -> None:
        if node.op_type == "Constant" and not all(
            has_payload(a.t) for a in node.attribute if a.type == onnx.AttributeProto.TENSOR
        ):
            return
        if node.op_type in ("Shape", "Size"):
            # Only the shape is looked at: an array of that shape that takes no memory stands in for the tensor.
            feeds = {node.input[0]: stand_in(self.shape(node.input[0]) or ())}
        else:
            feeds = {i: self.values[i] for i in node.input if i}
        try:
            with python_warnings.catch_warnings():
                python_warnings.simplefilter("ignore")
                results = self.evaluator(node).run(None, feeds)
        except Exception:  # the value stays unknown, and with it perhaps a shape, which the report then says
            return
        for name, value in zip(node.output, results, strict=False):
            if name and hasattr(value, "shape") and value.dtype != object:
                self.values[name] = value
                if self.shape(name) is None:
                    code = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
                    self.shapes.set(name, onnx.helper.make_tensor_type_proto(code, value.shape))

    def evaluator(self, node: onnx.NodeProto) -> Any:
        """onnx's reference implementation of the node."""
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(node, opsets=self.opsets)


def stand_in(shape: Sequence[int]) -> Any:
    """An array of any shape that takes one element of memory."""
    import numpy

    return numpy.broadcast_to(numpy.zeros((), dtype=numpy.bool_), tuple(shape))


def has_payload(tensor: onnx.TensorProto) -> bool:
    """Whether the elements of a tensor are all there."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    if tensor.HasField("raw_data"):
        return True
    kept = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
    return any(len(f) for f in kept) or len(tensor.string_data) > 0 or 0 in tensor.dims
