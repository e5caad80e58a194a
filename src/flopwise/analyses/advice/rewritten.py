"""An ONNX model with advice carried out, kept only where its outputs are those of the model before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from flopwise.analyses.advice.advice import Suggestion
from flopwise.analyses.advice.rule import Change
from flopwise.analyses.advice.subject import Subject
from flopwise.analyses.timing.engines import Options, UnsupportedError
from flopwise.analyses.timing.engines.onnxruntime import Runtime, random_inputs
from flopwise.errors import ModelError, counted
from flopwise.graph import Node

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

#: The difference that rounding may make, over the largest element of an output.
ROUNDING, HALF_ROUNDING = 1e-4, 4e-3


class Rewriter:
    """A model in ONNX that takes changes one after the other."""

    def __init__(self, model: onnx.ModelProto, subject: Subject, rows: int | None = None) -> None:
        """
        Args:
            model: what is rewritten.
            subject: the same model.
            rows: integers of inputs are less than this, because they pick rows; None where nothing is known.
        """
        self.model = model
        self._subject = subject
        self._runtime = Runtime(Options("off", 1))
        self._opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
        session = self._session(model)
        shapes = {t.name: t.shape for t in subject.graph.inputs if t.shape is not None}
        feeds = random_inputs(session.get_inputs(), shapes)
        self._feeds = {
            name: feed % rows if rows is not None and feed.dtype.kind in "iu" else feed for name, feed in feeds.items()
        }
        self._expected = session.run(None, self._feeds)

    def apply(self, found: Sequence[Suggestion]) -> tuple[list[Suggestion], list[str]]:
        """The suggestions that were carried out, and a note for each rule that could not be."""
        done: list[Suggestion] = []
        notes = []
        used: set[int] = set()
        for name in dict.fromkeys(each.rule.name for each in found):
            before = type(self.model)()
            before.CopyFrom(self.model)
            mine: list[Suggestion] = []
            free = [each for each in found if each.rule.name == name and each.change is not None]
            for each in free:
                if each.change is not None and not used.intersection(each.change.positions) and self._take(each.change):
                    mine.append(each)
            fault = self._fault(half=name == "cast-pairs") if mine else ""
            if fault:
                self.model, mine = before, []
            if len(mine) < len(free):
                why = fault or "not written as advised, or overlapping with another change"
                notes.append(f"{name}: {counted(len(free) - len(mine), 'place')} left as they are: {why}")
            used.update(p for each in mine if each.change for p in each.change.positions)
            done += mine
        return done, notes

    def _session(self, model: onnx.ModelProto) -> Any:
        return self._runtime.session(model.SerializeToString())

    def _fault(self, half: bool) -> str:
        """How the outputs differ from those of the model before; "" where they do not."""
        import numpy as np

        try:
            results = self._session(self.model).run(None, self._feeds)
        except Exception as error:  # onnxruntime's exceptions have no common class
            return f"onnxruntime refuses it: {str(error).splitlines()[0]}"
        for one, other in zip(self._expected, results, strict=True):
            if np.shape(one) != np.shape(other):
                return "an output has another shape"
            if not np.size(one):
                continue
            before, after = np.asarray(one, np.float64), np.asarray(other, np.float64)
            rounding = HALF_ROUNDING if half or np.asarray(one).dtype == np.float16 else ROUNDING
            largest = float(np.max(np.abs(before), initial=1e-3, where=np.isfinite(before)))
            if not np.allclose(before, after, rtol=0, atol=rounding * largest, equal_nan=True):
                return "an output differs by more than rounding"
        return ""

    def _take(self, change: Change) -> bool:
        """Carry a change out; False where the model does not have the operators as the change has them."""
        graph = self.model.graph
        places = {node.output[0]: place for place, node in enumerate(graph.node) if node.output}
        firsts = [self._subject.nodes[p].known_outputs[0].name for p in change.positions]
        if any(first not in places for first in firsts):
            return False
        if any(node.version > self._opset for node in change.after if node.op.endswith("Normalization")):
            return False
        protos = [graph.node[places[first]] for first in firsts]
        stored = self._stored(protos, change) if change.stored else {}
        values = dict(stored) if change.values is None else dict(change.values(self._read))
        new = [self._proto(node, protos) for node in change.after]
        at = max(places[first] for first in firsts)
        gone = {places[first] for first in firsts}
        kept = [(place, node) for place, node in enumerate(graph.node) if place not in gone]
        nodes = [node for place, node in kept if place < at] + new + [node for place, node in kept if place > at]
        _rename(nodes, change.same)
        copies = [type(node)() for node in nodes]
        for copy, node in zip(copies, nodes, strict=True):
            copy.CopyFrom(node)
        del graph.node[:]
        graph.node.extend(copies)
        del graph.value_info[:]  # what lies between may have another shape or type now
        _store(graph, values)
        return True

    def _proto(self, node: Node, protos: Iterable[onnx.NodeProto]) -> onnx.NodeProto:
        from onnx import helper

        domain, _, op = node.op.rpartition("::")
        inputs = ["" if t is None else t.name for t in node.inputs]
        outputs = ["" if t is None else t.name for t in node.outputs]
        same = next((p for p in protos if p.op_type == op and p.name == node.name), None)
        if same is None:
            return helper.make_node(op, inputs, outputs, name=node.name, domain=domain, **node.attrs)
        proto = helper.make_node(op, inputs, outputs, name=node.name, domain=domain)
        proto.attribute.extend(same.attribute)
        return proto

    def _read(self, name: str) -> Array:
        """The elements of a stored tensor."""
        from onnx import numpy_helper

        tensor = next((t for t in self.model.graph.initializer if t.name == name), None)
        if tensor is None:
            return self._run([n for n in self.model.graph.node if name in n.output], [name])[name]
        return numpy_helper.to_array(tensor)

    def _stored(self, protos: Sequence[onnx.NodeProto], change: Change) -> dict[str, Array]:
        """The results that others take of operators on stored tensors alone."""
        positions = set(change.positions)
        results = [t for p in change.positions for t in self._subject.nodes[p].known_outputs]
        taken = [
            t.name for t in results if t.name in self._subject.outputs or not set(self._subject.takers(t)) <= positions
        ]
        return self._run(protos, taken)

    def _run(self, protos: Sequence[onnx.NodeProto], names: Sequence[str]) -> dict[str, Array]:
        import onnx

        graph, needed = self.model.graph, set(names)
        nodes: list[onnx.NodeProto] = []
        wanted = {n.output[0] for n in protos}
        for node in reversed(graph.node):
            if needed.intersection(node.output) or (node.output and node.output[0] in wanted):
                nodes.insert(0, node)
                needed.update(node.input)
        weights = [t for t in graph.initializer if t.name in needed]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in names]
        piece = onnx.helper.make_graph(nodes, "piece", [], outputs, weights)
        model = onnx.helper.make_model(piece, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        return dict(zip(names, self._session(onnx.shape_inference.infer_shapes(model)).run(None, {}), strict=True))


def _rename(nodes: Iterable[onnx.NodeProto], same: Mapping[str, str]) -> None:
    for node in nodes:
        for place, name in enumerate(node.input):
            if name in same:
                node.input[place] = same[name]


def _store(graph: onnx.GraphProto, values: Mapping[str, Array]) -> None:
    """Add stored tensors, and leave out those that nobody takes any more."""
    from onnx import numpy_helper

    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in values.items())
    taken = {name for node in graph.node for name in node.input} | {o.name for o in graph.output}
    bodies = any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute)
    idle = [] if bodies else [t for t in graph.initializer if t.name not in taken]
    inputs = {value.name for value in graph.input}
    for tensor in idle:
        if tensor.name not in inputs:
            graph.initializer.remove(tensor)


def rewritten(path: str, subject: Subject, found: Sequence[Suggestion]) -> tuple[bytes, list[Suggestion], list[str]]:
    """The bytes of the model with the same results, what was carried out, and notes on what was not.

    Args:
        path: of the ONNX file.
        subject: the file.
        found: what rules found in it.

    Raises:
        ModelError: onnxruntime does not run the model, or it is larger than a message may be.
    """
    import onnx

    try:
        new = [node for each in found if each.change for node in each.change.after if node.op == "Gather"]
        rows = min((int(node.input(0).dims[0]) for node in new), default=None)
        rewriter = Rewriter(onnx.load(path), subject, rows)
        done, notes = rewriter.apply(found)
        return rewriter.model.SerializeToString(), done, notes
    except UnsupportedError as error:
        raise ModelError(f"{path}: onnxruntime fails to run it: {error}") from error
    except ValueError as error:  # protobuf's, of 2 GB and more
        raise ModelError(f"{path}: too large to be written as one file: {error}") from error
