"""An ONNX model that takes changes: operators go, others come in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flopwise.analyses.advice.advice import Suggestion
from flopwise.analyses.advice.rule import Change
from flopwise.analyses.advice.subject import Subject
from flopwise.analyses.timing.engines import Options, UnsupportedError
from flopwise.analyses.timing.engines.onnxruntime import Runtime, random_inputs
from flopwise.errors import ModelError, counted
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


# An ONNX model with advice carried out, kept only where its outputs are those of the model before.


#: The difference that rounding may make, over the largest element of an output.
ROUNDING, HALF_ROUNDING = 1e-4, 4e-3


class Rewriter:
    """A model in ONNX that takes advice, and the outputs that it had before."""

    def __init__(self, model: onnx.ModelProto, subject: Subject, rows: int | None = None) -> None:
        """
        Args:
            model: what is rewritten.
            subject: the same model.
            rows: integers of inputs are less than this, because they pick rows; None where nothing is known.
        """
        self.edited = Edited(model, subject)
        session = self.edited.session(model)
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
            before = type(self.edited.model)()
            before.CopyFrom(self.edited.model)
            mine: list[Suggestion] = []
            free = [each for each in found if each.rule.name == name and each.change and not each.change.stays]
            for each in free:
                assert each.change is not None
                if not used.intersection(each.change.positions) and self.edited.take(each.change):
                    mine.append(each)
            fault = self._fault(half=name == "cast-pairs") if mine else ""
            if fault:
                self.edited.model, mine = before, []
            notes += self._left(name, [each for each in free if each not in mine], fault)
            used.update(p for each in mine if each.change for p in each.change.positions)
            done += mine
        if done:
            self.edited.prune()
        return done, notes

    def _left(self, rule: str, places: Sequence[Suggestion], fault: str) -> list[str]:
        """A note on the places of a rule that stay as they are; [] where none does."""
        if not places:
            return []
        refusals = (self.edited.refusal(each.change) for each in places if each.change)
        why = fault or next(filter(None, refusals), "overlapping with another change")
        return [f"{rule}: {counted(len(places), 'place')} left as they are: {why}"]

    def _fault(self, half: bool) -> str:
        """Difference of the outputs from those of the model before; "" where there is none."""
        import numpy as np

        try:
            results = self.edited.session(self.edited.model).run(None, self._feeds)
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


def rewritten(path: str, subject: Subject, found: Sequence[Suggestion]) -> tuple[bytes, list[Suggestion], list[str]]:
    """The bytes of the model with the same results, what was carried out, and notes on what was not.

    Args:
        path: of the ONNX file.
        subject: the file.
        found: what rules found in it.

    Raises:
        ModelError: onnxruntime does not run the model, its weights are missing, or it is larger than a message may be.
    """
    new = [node for each in found if each.change for node in each.change.after if node.op == "Gather"]
    rows = min((int(node.input(0).dims[0]) for node in new), default=None)
    model = loaded(path)
    try:
        rewriter = Rewriter(model, subject, rows)
        done, notes = rewriter.apply(found)
        return rewriter.edited.model.SerializeToString(), done, notes
    except UnsupportedError as error:
        raise ModelError(f"{path}: onnxruntime fails to run it: {error}") from error
    except ModelError as error:
        raise ModelError(f"{path}: onnxruntime refuses it: {error}") from error
    except ValueError as error:  # protobuf's, of 2 GB and more
        raise ModelError(f"{path}: too large to be written as one file: {error}") from error
