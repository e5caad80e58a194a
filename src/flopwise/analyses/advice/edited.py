"""An ONNX model that takes changes: operators go, others come in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flopwise.analyses.advice.rule import Change
from flopwise.analyses.advice.subject import Subject
from flopwise.analyses.timing.engines import Options
from flopwise.analyses.timing.engines.onnxruntime import Runtime
from flopwise.errors import ModelError
from flopwise.graph import STORED, Node
from flopwise.graph.stored import Array

if TYPE_CHECKING:
    import onnx


def loaded(path: str) -> onnx.ModelProto:
    """The model of a file, with the weights that lie beside it.

    Raises:
        ModelError: these are missing, or cannot be read.
    """
    import onnx

    try:
        return onnx.load(path)
    except (onnx.checker.ValidationError, OSError) as error:
        raise ModelError(f"{path}: weights outside the file cannot be read: {str(error).splitlines()[0]}") from error


class Edited:
    """A model in ONNX that takes changes one after the other."""

    def __init__(self, model: onnx.ModelProto, subject: Subject) -> None:
        """
        Args:
            model: what is changed.
            subject: the same model.
        """
        self.model = model
        self.subject = subject
        self.runtime = Runtime(Options("off", 1))
        self._opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)

    def session(self, model: onnx.ModelProto) -> Any:
        """A session of onnxruntime without optimisation."""
        return self.runtime.session(model.SerializeToString())

    def refusal(self, change: Change) -> str:
        """Why a change cannot be carried out; "" where it can."""
        newer = [n for n in change.after if n.op.endswith("Normalization") and n.version > self._opset]
        if newer:
            return f"{newer[0].op} is of operator set {newer[0].version}, the file of {self._opset}: export it for that"
        made = {node.output[0] for node in self.model.graph.node if node.output}
        if any(self.subject.nodes[p].known_outputs[0].name not in made for p in change.positions):
            return "the file does not hold the operators one by one, or another change took them"
        if self._depends_on_open_sizes(change):
            return "it depends on the size of an input, which the file leaves open"
        return "it takes a tensor that nothing makes: change the model's program" if self._lacks(change) else ""

    def take(self, change: Change) -> bool:
        """Carry a change out; False where it is refused."""
        if self.refusal(change):
            return False
        graph = self.model.graph
        places = {node.output[0]: place for place, node in enumerate(graph.node) if node.output}
        firsts = [self.subject.nodes[p].known_outputs[0].name for p in change.positions]
        protos = [graph.node[places[first]] for first in firsts]
        stored = self._stored(protos, change) if change.stored else {}
        values = dict(stored) if change.values is None else dict(change.values(self.read))
        new = [self.proto(node, protos) for node in change.after]
        nodes = _exchanged(graph.node, [places[first] for first in firsts], new)
        _rename(nodes, change.same)
        self._set(nodes, values)
        return True

    def prune(self) -> None:
        """Leave out the operators that no output depends on, such as a question for a shape that is now stored."""
        graph = self.model.graph
        if not _have_bodies(graph.node):
            self._set(self._behind(output.name for output in graph.output)[0], {})

    def _set(self, nodes: Sequence[onnx.NodeProto], values: Mapping[str, Array]) -> None:
        """Give the model other operators, and more stored tensors."""
        graph = self.model.graph
        copies = [type(node)() for node in nodes]
        for copy, node in zip(copies, nodes, strict=True):
            copy.CopyFrom(node)
        del graph.node[:]
        graph.node.extend(copies)
        del graph.value_info[:]  # what lies between may have another shape or type now
        _store(graph, values)

    def _lacks(self, change: Change) -> bool:
        """True where what comes takes tensors that nothing makes, such as the last of all positions."""
        named = {name for node in self.model.graph.node for name in (*node.input, *node.output)}
        made = named.union(*((t.name for t in node.known_outputs) for node in change.after))
        taken = {t.name for node in change.after for t in node.known_inputs if t.kind not in STORED}
        return not taken <= made

    def proto(self, node: Node, protos: Iterable[onnx.NodeProto]) -> onnx.NodeProto:
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

    def read(self, name: str) -> Array:
        """The elements of a stored tensor."""
        from onnx import numpy_helper

        tensor = next((t for t in self.model.graph.initializer if t.name == name), None)
        if tensor is None:
            return self._run([n for n in self.model.graph.node if name in n.output], [name])[name]
        return numpy_helper.to_array(tensor)

    def _stored(self, protos: Sequence[onnx.NodeProto], change: Change) -> dict[str, Array]:
        """The results that others take of operators on stored tensors alone."""
        positions = set(change.positions)
        results = [t for p in change.positions for t in self.subject.nodes[p].known_outputs]
        taken = [
            t.name for t in results if t.name in self.subject.outputs or not set(self.subject.takers(t)) <= positions
        ]
        return self._run(protos, taken)

    def _run(self, protos: Sequence[onnx.NodeProto], names: Sequence[str]) -> dict[str, Array]:
        """The elements of tensors that depend on stored ones, and on sizes of inputs, alone."""
        import numpy as np
        import onnx

        graph = self.model.graph
        nodes, needed = self._behind([*names, *(n.output[0] for n in protos)])
        weights = [t for t in graph.initializer if t.name in needed]
        inputs = [
            value for value in graph.input if value.name in needed and value.name not in {t.name for t in weights}
        ]
        shapes = {t.name: t.dims for t in self.subject.graph.inputs}
        kinds = {v.name: onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in inputs}
        feeds = {name: np.zeros(shapes[name], kind) for name, kind in kinds.items()}
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in names]
        piece = onnx.helper.make_graph(nodes, "piece", inputs, outputs, weights)
        model = onnx.helper.make_model(piece, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        results = self.session(onnx.shape_inference.infer_shapes(model)).run(None, feeds)
        return dict(zip(names, results, strict=True))

    def _behind(self, names: Iterable[str]) -> tuple[list[onnx.NodeProto], set[str]]:
        """The operators that tensors depend on, and the names of all tensors on the way."""
        needed, nodes = set(names), []
        for node in reversed(self.model.graph.node):
            if needed.intersection(node.output):
                nodes.append(node)
                needed.update(node.input)
        return nodes[::-1], needed

    def _depends_on_open_sizes(self, change: Change) -> bool:
        """True where what would be stored follows from the size of an input that the file leaves open."""
        stored = [self.subject.nodes[p].known_outputs[0].name for p in change.positions] if change.stored else []
        _, needed = self._behind([*stored, *change.fixed])
        inputs = [value for value in self.model.graph.input if value.name in needed]
        return any(not dim.HasField("dim_value") for v in inputs for dim in v.type.tensor_type.shape.dim)


def _exchanged(
    nodes: Sequence[onnx.NodeProto], gone: Sequence[int], new: Sequence[onnx.NodeProto]
) -> list[onnx.NodeProto]:
    """The nodes with new ones in place of the last that goes."""
    last, leaving = max(gone), {*gone}
    before = [node for place, node in enumerate(nodes) if place < last and place not in leaving]
    return [*before, *new, *nodes[last + 1 :]]


def _have_bodies(nodes: Iterable[onnx.NodeProto]) -> bool:
    """True where an operator has a graph inside, which may take any tensor."""
    return any(a.HasField("g") or a.graphs for node in nodes for a in node.attribute)


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
    idle = [] if _have_bodies(graph.node) else [t for t in graph.initializer if t.name not in taken]
    inputs = {value.name for value in graph.input}
    for tensor in idle:
        if tensor.name not in inputs:
            graph.initializer.remove(tensor)
