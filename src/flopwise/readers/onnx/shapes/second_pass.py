"""The second walk over an ONNX model, for the shapes that onnx's C++ inference leaves unresolved.

What it leaves is mostly shape arithmetic (Shape, Gather, Concat, Where, ... into Reshape). This walk evaluates that on
small tensors with onnx's reference operators and infers the rest node by node with onnx's own rules, so that no rule
for a standard operator is written here.
"""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy
import onnx
from onnx import TypeProto, defs, numpy_helper, shape_inference

from flopwise.readers.onnx.normalize.first_opset import modern
from flopwise.readers.onnx.normalize.order import needs
from flopwise.readers.onnx.normalize.spelling import first_line
from flopwise.readers.onnx.shapes import missing
from flopwise.readers.onnx.shapes.bodies import Context, enter
from flopwise.readers.onnx.shapes.bounds import BOUNDED, bounds
from flopwise.readers.onnx.shapes.onnxruntime import table
from flopwise.readers.onnx.shapes.sequences import RULES, members
from flopwise.readers.onnx.types import (
    CONTROL_FLOW,
    TOO_MANY,
    Known,
    Shapes,
    array_of,
    bodies,
    concrete,
    describe,
    elements,
    in_short,
)

#: Tensors up to this many elements are evaluated when they depend on shapes and constants only.
EVALUATED = 8192

#: Bytes that all values together may take.
ROOM = 64 << 20

#: What shapes are computed with. Only these are evaluated: each makes at most what it says that it makes, while others
#: (a pooling with huge padding and huge strides) take any amount of memory on the way to a small result.
_ARITHMETIC = """
Abs Add And ArgMax ArgMin Cast CastLike Ceil Clip Compress Concat Constant ConstantOfShape CumSum Div Equal
Expand Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual Identity IsInf IsNaN Less
LessOrEqual Max Mean Min Mod Mul Neg NonZero Not OneHot Or Pad Pow Range ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Sign Slice Split Sqrt Squeeze Sub Sum Tile
Transpose Trilu Unique Unsqueeze Where Xor
"""
ARITHMETIC: frozenset[str] = frozenset(_ARITHMETIC.split())

#: Those whose result is as long as the data says, or whose result is no tensor: they are evaluated on small inputs,
#: and make no more than the inputs times their rank.
SELECTIONS: frozenset[str] = frozenset(
    {"Compress", "NonMaxSuppression", "NonZero", "StringNormalizer", "StringSplit", "TopK", "Unique"}
    | {op for domain, op in RULES if not domain and op != "Identity"}
)

#: Those that ask for a shape.
QUERIES: frozenset[str] = frozenset({"Shape", "Size"})

#: Those on sequences and optionals of which onnx infers the type, but not what is asked of it.
ASKED: frozenset[str] = frozenset({"Optional", "OptionalHasElement", "SequenceLength"})

#: All that are evaluated.
EVALUABLE: frozenset[str] = ARITHMETIC | SELECTIONS | QUERIES

#: Largest input of a suppression of boxes that is evaluated: its work grows with the square of the boxes.
BOXES = 1024


class Walk:
    """Values of small tensors, and shapes node by node, in execution order."""

    def __init__(
        self, model: onnx.ModelProto, shapes: Shapes, declared: Mapping[str, TypeProto], context: Context
    ) -> None:
        """
        Args:
            model: a model without weights whose inputs have concrete shapes.
            shapes: what is known; completed by :meth:`run`.
            declared: types that the file states, for what nothing can infer.
            context: what is known from outside the graph.
        """
        self.graph = model.graph
        self.shapes = shapes
        self.shape = shapes.shape
        self.declared = declared
        self.opsets = {o.domain: o.version for o in model.opset_import}
        self.imports = list(model.opset_import)
        self.ir_version = model.ir_version
        self.context = context
        self.values: dict[str, Any] = shapes.values
        self.room = ROOM
        #: What onnx inferred for nodes like one that comes again.
        self.inferred: dict[Any, list[TypeProto]] = {}
        self.failures: list[str] = []
        for tensor in self.graph.initializer:
            value = array_of(tensor)
            if value is not None:
                self.values.setdefault(tensor.name, value)

    def foresee(self) -> list[onnx.TensorProto]:
        """Values that follow from stored tensors and the shapes of inputs alone: shape arithmetic, mostly.

        With them onnx infers at once what would otherwise be left for :meth:`run`.
        """
        made: list[str] = []
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")
            for node in self.graph.node:
                op = node.op_type
                if op not in EVALUABLE:
                    continue
                inputs = [i for i in node.input if i]
                if op not in QUERIES:
                    if node.domain or not inputs or not all(i in self.values for i in inputs):
                        continue
                    if not all(self.shapes.sized(o) for o in node.output if o):
                        self.infer(node)
                if self.knowable(node):
                    self.evaluate(node)
                    made.extend(o for o in node.output if o in self.values)
        self.failures.clear()  # they are met again
        arrays = ((name, self.values[name]) for name in made)
        return [numpy_helper.from_array(v, name) for name, v in arrays if isinstance(v, numpy.ndarray)]

    def run(self) -> None:
        """Resolve what can be resolved."""
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")  # numpy's, about what a model computes
            for node in self.graph.node:
                op, outputs = node.op_type, list(node.output)
                if (op in CONTROL_FLOW or node.domain) and bodies(node):
                    self.attempt(node, enter)
                if not all(map(self.shapes.sized, filter(None, outputs))):
                    self.infer(node)
                elif op in ASKED:
                    self.attempt(node, Walk.work_out)
                if op in EVALUABLE and self.knowable(node):
                    self.evaluate(node)
        self.shapes.warnings.extend(in_short(self.failures, "more operators have no shape"))

    def known(self, name: str) -> Known:
        """All that is known about a value; nothing about an input that is left out."""
        return self.shapes.known(name) if name else Known()

    def learn(self, name: str, known: Known) -> None:
        """Write down what follows for a value, where nothing better is known."""
        if known.items is not None:
            self.shapes.items[name] = known.items
        if known.type is not None and (concrete(known.type) is not None or self.shape(name) is None):
            self.shapes.set(name, known.type)
            if known.bound:
                self.shapes.bounds.add(name)
        if known.value is not None:
            self.remember(name, known.value)

    def infer(self, node: onnx.NodeProto) -> None:
        """Shapes of the node's outputs by onnx's own rule, else as the file declares them, else as upper bounds."""
        try:
            found = self.by_rule(node)
        except Exception as error:  # the C++ side raises several kinds, some of them plain RuntimeError
            self.failures.append(f"no shape for {describe(node)}: {first_line(error)}")
            found = {}
        for output, type_ in found.items():
            if output and type_.WhichOneof("value") and not self.shapes.sized(output):
                self.shapes.set(output, type_)
        if node.op_type == "Dropout" and len(node.output) > 1 and self.shape(node.output[1]) is None and node.input:
            # onnx infers the mask only in some versions; it always has the shape of the data.
            data = self.shapes.type(node.input[0])
            if data is not None:
                self.shapes.set(node.output[1], data)
        for output in node.output:
            if output in self.declared and self.shape(output) is None and concrete(self.declared[output]) is not None:
                self.shapes.set(output, self.declared[output])
        self.attempt(node, Walk.work_out)
        if not self.shapes.bounds.isdisjoint(node.input):
            self.shapes.bounds.update(o for o in node.output if o)

    def attempt(self, node: onnx.NodeProto, step: Callable[[Walk, onnx.NodeProto], None]) -> None:
        """Do something about a node, whose inputs and attributes may be anything."""
        try:
            step(self, node)
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
            why = f"its inputs or attributes make no sense: {type(error).__name__}: {first_line(error)}"
            self.failures.append(f"no shape for {describe(node)}: {why}")

    def work_out(self, node: onnx.NodeProto) -> None:
        """Members of sequences, and upper bounds of what the data decide."""
        if (node.domain, node.op_type) not in RULES and node.op_type not in BOUNDED:
            return
        inputs = [self.known(name) for name in node.input]
        for rule in (members, bounds):
            for output, known in zip(node.output, rule(node, inputs), strict=False):
                if output and (known.items is not None or known.value is not None or not self.shapes.sized(output)):
                    self.learn(output, known)

    def by_rule(self, node: onnx.NodeProto) -> Mapping[str, TypeProto]:
        """The types of a node's outputs as far as onnx knows them."""
        try:
            schema = defs.get_schema(node.op_type, self.opsets.get(node.domain, 1), node.domain)
        except Exception:  # onnx raises its own SchemaError: the operator is not a standard one
            return table.infer(node, self.shapes.type, self.values.get, self.graph)
        if bodies(node):
            return self.alone(node)
        if (node.domain, node.op_type) in missing.KNOWN:
            return missing.infer(node, self.shapes.type)
        data: dict[str, onnx.TensorProto] = {}
        if not schema.has_type_and_shape_inference_function:
            if schema.has_function or schema.has_context_dependent_function:  # type: ignore[attr-defined] # onnx's stubs
                return self.alone(node)
            schema, node, data = modern(schema, node)
        inputs = [i for i in node.input if i and i not in data]
        key = self.key(node, inputs) if not data else None
        if key in self.inferred:
            return dict(zip(node.output, self.inferred[key], strict=True))
        types = {i: known for i in inputs if (known := self.shapes.type(i)) is not None}
        if len(types) < len(set(inputs)):
            return {}
        types.update((k, onnx.helper.make_tensor_type_proto(t.data_type, t.dims)) for k, t in data.items())
        data.update((i, numpy_helper.from_array(self.values[i], i)) for i in inputs if i in self.values)
        found: Mapping[str, TypeProto] = shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=self.imports, ir_version=self.ir_version
        )
        if key is not None:
            self.inferred[key] = [found.get(o, TypeProto()) for o in node.output]
        return found

    def key(self, node: onnx.NodeProto, inputs: list[str]) -> Any:
        """All that the types of a node's outputs follow from, as models repeat themselves; None if it is not known."""
        given: list[Any] = []
        for name in inputs:
            shape, value = self.shape(name), self.values.get(name)
            if shape is None or (value is not None and not isinstance(value, numpy.ndarray)):
                return None
            given.append((shape, self.shapes.dtype(name)))
            if value is not None:
                given.append((value.dtype.str, value.shape, value.tobytes()))
        places = tuple(map(bool, (*node.input, "", *node.output)))
        attributes = tuple(a.SerializeToString(deterministic=True) for a in node.attribute)
        return (node.op_type, node.domain, places, attributes, tuple(given))

    def alone(self, node: onnx.NodeProto) -> Mapping[str, TypeProto]:
        """The types of a node's outputs from a model of this node alone: onnx looks into bodies only there."""
        names = sorted(needs(node))
        graph = onnx.GraphProto(name="alone", node=[node])
        for name in names:
            known = self.shapes.type(name)
            if known is not None:
                graph.input.add(name=name, type=known)
            if name in self.values:
                graph.initializer.append(numpy_helper.from_array(self.values[name], name))
        graph.output.extend(onnx.ValueInfoProto(name=o) for o in node.output if o)
        model = onnx.ModelProto(graph=graph, opset_import=self.imports, ir_version=self.ir_version)
        inferred = shape_inference.infer_shapes(model).graph
        return {v.name: v.type for v in (*inferred.value_info, *inferred.output)}

    def knowable(self, node: onnx.NodeProto) -> bool:
        """Whether the node's results are small and depend on shapes and known values only."""
        if node.domain or self.room <= 0:
            return False
        if node.op_type in QUERIES:
            return bool(node.input) and self.shape(node.input[0]) is not None
        if node.op_type in SELECTIONS:
            return all(i in self.values for i in node.input if i) and self.few(node)
        if node.op_type not in ARITHMETIC or not all(i in self.values for i in node.input if i):
            return False
        for output in node.output:
            shape = self.shape(output) if output else ()
            if shape is None or elements(shape) > EVALUATED or max(shape, default=0) > EVALUATED:
                return False
        return all(abs(a.i) <= EVALUATED for a in node.attribute) and (node.op_type != "Range" or self.short(node))

    def few(self, node: onnx.NodeProto) -> bool:
        """Whether the inputs of an operator are so small that its result is small whatever they hold."""
        values = [self.values[i] for i in node.input if i]
        parts = [v for value in values for v in (value if isinstance(value, list) else [value])]
        size = sum(p.size for p in parts if isinstance(p, numpy.ndarray))
        return size <= (BOXES if node.op_type == "NonMaxSuppression" else EVALUATED)

    def short(self, node: onnx.NodeProto) -> bool:
        """Whether a Range is short: onnx subtracts its ends in 64 bits, which may wrap around."""
        start, limit, delta = (self.values[i].ravel().tolist()[0] for i in node.input)
        return bool(abs(limit - start) <= EVALUATED * abs(delta))

    def evaluate(self, node: onnx.NodeProto) -> None:
        """Write down the values of the node's outputs."""
        try:
            for name, value in zip(node.output, self.results(node), strict=False):
                if name and isinstance(value, (numpy.ndarray, numpy.generic, list, bool, int)):
                    self.remember(name, value if isinstance(value, list) else numpy.asarray(value))
        except Exception:  # the value stays unknown, and with it perhaps a shape, which the report then says
            return

    def results(self, node: onnx.NodeProto) -> list[Any]:
        if node.op_type in QUERIES:
            shape = self.shape(node.input[0]) or ()
            if node.op_type == "Size":
                return [numpy.array(elements(shape), numpy.int64)] if elements(shape) < TOO_MANY else []
            ends = {a.name: a.i for a in node.attribute}
            return [numpy.array(shape[ends.get("start", 0) : ends.get("end")], numpy.int64)]
        if node.op_type == "Constant" and node.attribute[0].type == onnx.AttributeProto.TENSOR:
            return [array_of(node.attribute[0].t)]
        from onnx.reference import ReferenceEvaluator

        feeds = {i: self.values[i] for i in node.input if i}
        made = [o for o in node.output if o]
        graph = onnx.GraphProto(  # of a node by itself the evaluator takes the newest version
            name="alone",
            node=[node],
            input=[onnx.ValueInfoProto(name=i) for i in feeds],
            output=[onnx.ValueInfoProto(name=o) for o in made],
        )
        found = dict(zip(made, ReferenceEvaluator(graph, opsets=self.opsets).run(None, feeds), strict=True))
        return [found.get(o) for o in node.output]

    def remember(self, name: str, value: Any) -> None:
        """Write down a value, and its shape or those of its members."""
        if isinstance(value, list):
            if all(isinstance(v, numpy.ndarray) for v in value):
                self.values[name] = value
                self.shapes.items[name] = [_type_of(v) for v in value]
            return
        self.room -= value.nbytes
        if value.dtype != object:
            self.values[name] = value
        if self.shape(name) is None or name in self.shapes.bounds:
            self.shapes.bounds.discard(name)
            self.shapes.set(name, _type_of(value))


def _type_of(value: Any) -> TypeProto:
    """The type of an array."""
    strings = value.dtype == object or value.dtype.kind in "US"
    code = onnx.TensorProto.STRING if strings else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_type_proto(code, value.shape)
