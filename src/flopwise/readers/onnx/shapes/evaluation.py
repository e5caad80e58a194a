"""Values of small tensors: the arithmetic that models do on shapes, evaluated with onnx's reference operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnx

from flopwise.readers.onnx.shapes.intervals import interval_results
from flopwise.readers.onnx.shapes.sequences import RULES
from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import QUERIES, TOO_MANY, Interval, array_of, elements

#: Tensors up to this many elements are evaluated when they depend on shapes and constants only.
EVALUATED = 8192

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

#: Those whose result is as long as the data says, or whose result is not a tensor: they are evaluated on small inputs,
#: and make no more than the inputs times their rank.
SELECTIONS: frozenset[str] = frozenset(
    {"Compress", "NonMaxSuppression", "NonZero", "StringNormalizer", "StringSplit", "TopK", "Unique"}
    | {op for domain, op in RULES if not domain and op != "Identity"}
)


#: All that are evaluated.
EVALUABLE: frozenset[str] = ARITHMETIC | SELECTIONS | QUERIES

#: Largest input of a suppression of boxes that is evaluated: its work grows with the square of the boxes.
BOXES = 1024


def evaluable(node: onnx.NodeProto, state: State) -> bool:
    """Whether the node's results are small and depend on shapes and certain values only."""
    if node.domain or state.room <= 0:
        return False
    if node.op_type in QUERIES:
        return bool(node.input) and state.shapes.shape(node.input[0]) is not None
    if not all(i in state.values or i in state.shapes.intervals for i in node.input if i):
        return False
    if node.op_type in SELECTIONS:
        return _has_small_inputs(node, state)
    if node.op_type not in ARITHMETIC:
        return False
    for output in node.output:
        shape = state.shapes.shape(output) if output else ()
        if shape is None or elements(shape) > EVALUATED or max(shape, default=0) > EVALUATED:
            return False
    return all(abs(a.i) <= EVALUATED for a in node.attribute) and (node.op_type != "Range" or _is_short(node, state))


def evaluate(node: onnx.NodeProto, state: State) -> None:
    """Write down the values of the node's outputs."""
    try:
        if node.op_type in QUERIES:
            for name, interval in zip(node.output, _queried(node, state), strict=False):
                state.remember_interval(name, interval)
        elif all(i in state.values for i in node.input if i):
            for name, value in zip(node.output, _results(node, state), strict=False):
                if name and isinstance(value, (numpy.ndarray, numpy.generic, list, bool, int)):
                    state.remember(name, value if isinstance(value, list) else numpy.asarray(value))
        else:
            for name, interval in zip(node.output, _intervals(node, state), strict=False):
                state.remember_interval(name, interval)
    except Exception:  # the value stays unknown, and with it perhaps a shape, which the report then says
        return


def _has_small_inputs(node: onnx.NodeProto, state: State) -> bool:
    """Whether the inputs of an operator are so small that its result is always small."""
    if not all(i in state.values for i in node.input if i):
        return False
    values = [state.values[i] for i in node.input if i]
    if not state.affords(sum(len(value) for value in values if isinstance(value, list))):
        return False
    parts = [v for value in values for v in (value if isinstance(value, list) else [value])]
    arrays = [p for p in parts if isinstance(p, numpy.ndarray)]
    if any(max(a.shape, default=0) > EVALUATED for a in arrays):  # no elements in a million columns
        return False
    size = sum(a.size for a in arrays)
    return size <= (BOXES if node.op_type == "NonMaxSuppression" else EVALUATED)


def _is_short(node: onnx.NodeProto, state: State) -> bool:
    """Whether a Range is short: onnx subtracts its ends in 64 bits, which may wrap around."""
    ends = [state.values[i].ravel().tolist()[:1] for i in node.input if i in state.values]
    if len(ends) != 3 or [] in ends:
        return False
    (start,), (limit,), (delta,) = ends
    return bool(abs(limit - start) <= EVALUATED * abs(delta))


def _queried(node: onnx.NodeProto, state: State) -> list[Interval]:
    """The shape or size of a tensor; along axes where the shape is a bound, from 0."""
    most = state.shapes.shape(node.input[0]) or ()
    bound = state.shapes.bounds.get(node.input[0], frozenset())
    least = [0 if axis in bound else dim for axis, dim in enumerate(most)]
    if node.op_type == "Size":
        if elements(most) >= TOO_MANY:
            return []
        return [Interval(numpy.array(elements(least), numpy.int64), numpy.array(elements(most), numpy.int64))]
    ends = {a.name: a.i for a in node.attribute}
    part = slice(ends.get("start", 0), ends.get("end"))
    return [Interval(numpy.array(least[part], numpy.int64), numpy.array(most[part], numpy.int64))]


def _intervals(node: onnx.NodeProto, state: State) -> list[Interval]:
    """The bounds of the node's results, of whose inputs some are no certain values."""

    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    alone.input[:] = [i and f"{place}" for place, i in enumerate(node.input)]  # one input twice is two ends

    def run(values: Sequence[Any]) -> list[Any]:
        return run_alone(alone, {i: v for i, v in zip(alone.input, values, strict=False) if i}, state.opsets)

    return interval_results(node, [state.interval(i) if i else None for i in node.input], run)


def _results(node: onnx.NodeProto, state: State) -> list[Any]:
    if node.op_type == "Constant" and node.attribute[0].type == onnx.AttributeProto.TENSOR:
        return [array_of(node.attribute[0].t)]
    inputs = [state.values[i] for i in node.input if i]
    key = _key(node, inputs)
    if key is None:
        return run_alone(node, {i: state.values[i] for i in node.input if i}, state.opsets)
    if key not in state.context.results:
        feeds = {i: state.values[i] for i in node.input if i}
        state.context.results[key] = run_alone(node, feeds, state.opsets)
    return state.context.results[key]


#: Bytes of inputs up to which the results of a node are kept for the next like it.
_KEPT = 256


def _key(node: onnx.NodeProto, inputs: Sequence[Any]) -> Any:
    """All that the results of a node follow from, as models repeat themselves; None for large inputs."""
    if not all(isinstance(i, numpy.ndarray) and i.nbytes <= _KEPT and i.dtype != object for i in inputs):
        return None
    content = tuple([(i.dtype.char, i.shape, i.tobytes()) for i in inputs])
    attributes = tuple([a.SerializeToString(deterministic=True) for a in node.attribute])
    return node.op_type, tuple(map(bool, node.input)), tuple(map(bool, node.output)), attributes, content


def run_alone(node: onnx.NodeProto, feeds: dict[str, Any], opsets: dict[str, int]) -> list[Any]:
    """The outputs of a node as onnx's reference operators compute them, None for one that is left out.

    Args:
        node: the node, without bodies.
        feeds: the elements of its inputs by name.
        opsets: version of the operator set by domain.
    """
    from onnx.reference import ReferenceEvaluator

    made = [o for o in node.output if o]
    graph = onnx.GraphProto(  # of a node by itself the evaluator takes the newest version
        name="alone",
        node=[node],
        input=[onnx.ValueInfoProto(name=i) for i in feeds],
        output=[onnx.ValueInfoProto(name=o) for o in made],
    )
    results = dict(zip(made, ReferenceEvaluator(graph, opsets=opsets).run(None, feeds), strict=True))
    return [results.get(o) for o in node.output]
