"""Graph + operator rules + convention -> Profile: one row for each operator, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, cast

from flopwise.conventions.convention import Convention, guarded
from flopwise.errors import RuleError
from flopwise.graph import STORED, Graph, Node, Shape, Tensor
from flopwise.graph.construction import no_search_for_garbage
from flopwise.graph.dtypes import is_float
from flopwise.graph.names import layer_names
from flopwise.operators.complex import takes_or_makes
from flopwise.operators.counts import Counts
from flopwise.operators.folding import Folding, constant, fold, occupies
from flopwise.operators.inputs import unpacked
from flopwise.operators.operator import Rule
from flopwise.operators.own import Rules, count_rules, own_rows, using
from flopwise.operators.size import identities
from flopwise.operators.tables import NOT_RULED, OPERATORS, count, needed, on_elements
from flopwise.operators.tables import row as row_of
from flopwise.profiles.control_flow import copied, settle_control_flow
from flopwise.profiles.notes import Masked, notes
from flopwise.profiles.profile import Profile
from flopwise.rows import Missing, Row
from flopwise.storage.experts import routing


def profile_graph(
    graph: Graph,
    convention: Convention,
    rules: Rules | None = None,
    folding: bool | None = None,
    training: bool = False,
    masked: Masked = "executed",
    shared: dict[int, Canonical] | None = None,
) -> Profile:
    """Count every operator of a graph in one convention.

    Args:
        graph: what a reader handed over.
        convention: how to add operations up.
        rules: the user's own rules and rows by operator name; they win over the tables and over the convention.
        folding: whether operators that depend on weights and constants only are left out, as if they ran once and not
            in every inference. None: as the convention's tool does; of a program, which runs them in each call, never.
        training: whether trained weights change from step to step, so that what depends on them is not left out.
        masked: of attention, "executed" counts every score, "needed" only those that the masks leave.
        shared: what is the same about the nodes in every convention, by their identity, for several profiles of one
            graph with the same rules; completed.
    """
    if rows_of_user := own_rows(rules):
        graph = replace(graph, operators={**graph.operators, **rows_of_user})
    own = count_rules(rules)
    with no_search_for_garbage(), using(graph.operators):
        if folding:
            graph = replace(graph, program=graph.program._replace(each_call=False))
        foldable = constant(graph)
        folds = convention.fold if folding is None else folding
        left_out = fold(graph) if folds else foldable.only(graph, lambda node: not convention.lists(node))
        if training:
            left_out = left_out.only(graph, lambda node: not any(map(trainable, foldable.stored(node))))
        if convention.whole and shared is None:
            shared = {}
        repeats = len(graph.nodes) > MANY and convention.plain and not own and not convention.whole
        routes = routing(graph)
        counting = _Counting(convention, own, left_out, masked, repeats, shared)
        rows = list(counting.rows(graph, routes))
        if convention.listing is not None:
            rows = _listed(convention, convention.listing(graph, rows, own))
        rows, branches = settle_control_flow(graph, rows)
        rows = [copied(row) if row.node.copies > 1 else row for row in rows]
        unknown = Counter(row.node.op for row in rows if row.missing == "rule")
        shapeless = (t for row in rows for t in row.node.outputs if t is not None and t.shape is None)
        unresolved = dict.fromkeys(t.name for t in shapeless if not t.resolved)
        folded = len(foldable.positions) if folds and not graph.program.each_call else 0
        return Profile(
            graph=graph,
            convention=convention,
            rows=tuple(rows),
            unknown=dict(unknown),
            unresolved=tuple(unresolved),
            notes=(*notes(graph, convention, rows, folded, len(unresolved), masked, routes), *branches),
            rules=own,
            folding=folding,
        )


def _listed(convention: Convention, listed: object) -> list[Row]:
    """The rows that a convention lists.

    Raises:
        RuleError: a convention of the user's own lists something else.
    """
    rows: list[Any] = list(listed) if isinstance(listed, Iterable) else [listed]
    if all(isinstance(row, Row) for row in rows):
        return rows
    raise RuleError(f"the convention {convention.name} does not list the layers as a sequence of Rows")


def trainable(tensor: Tensor) -> bool:
    """True where training changes a stored tensor: a weight in floating point."""
    return tensor.kind == "weight" and is_float(tensor.dtype)


_NONE = Counts()

#: For a convention that looks at one node at a time.
_SEEN_ALONE = Counts(mac=-1)


class Canonical(NamedTuple):
    """The figures of a node that are the same in every convention."""

    #: Its operations; None where they are unknown, with what is missing and why.
    counts: Counts | None
    #: Its operations on elements, as tools take them: those on complex numbers are one each.
    on_elements: Counts | None
    missing: Missing
    note: str
    #: Of attention, the operations that its masks leave.
    needed: Counts | None
    #: What it takes packed: names of tensors -> how many elements each holds.
    packed: dict[str, int]
    #: Elements and bytes of its outputs.
    activations: int | None
    output_bytes: int | None
    #: Whether the shape of an input, and of an output, is an upper bound.
    bound_inputs: bool
    bound_outputs: bool


def _canonical(node: Node, rules: Mapping[str, Rule], shared: dict[int, Canonical] | None) -> Canonical:
    """The figures of a node that are the same in every convention; looked up in ``shared``, and added to it."""
    if shared is not None and (same := shared.get(id(node))) is not None:
        return same
    entry, outputs = row_of(node.op), node.known_outputs
    counts, missing, note = guarded(lambda: count(node, rules), NOT_RULED.get(node.op, "no rule"))
    is_complex = takes_or_makes(node)
    elements = guarded(lambda: on_elements(node, rules), "")[0] if is_complex else counts
    left = None if counts is None or entry.needed is None else guarded(lambda: needed(node, rules), "")[0]
    same = Canonical(
        counts,
        elements,
        missing,
        note,
        left,
        unpacked(node, entry.inputs),
        *_size(() if node.op == "If" or node.fused else outputs),  # its branch, or the operator before, makes them
        any(t.bound for t in node.known_inputs),
        any(t.bound for t in outputs),
    )
    if shared is not None:
        shared[id(node)] = same
    return same


#: Elements of the weights and of the buffers that a node claims, the bytes of all that it claims, and those of its
#: inputs that change from one inference to the next.
_Sizes: TypeAlias = tuple[int, int, int, "int | None"]


class _Pattern(NamedTuple):
    """The fields of ``Row``, in their order, that the rows of all nodes of one kind have in common."""

    type: str
    #: From ``counts`` to ``count``.
    counted: Any
    #: From ``params`` to ``input_bytes``, for a node that claims all that it takes; None where it is unknown.
    sizes: _Sizes | None
    #: Whether the node takes no stored tensor.
    alone: bool
    #: From ``output_bytes`` to ``bound``.
    others: Any


@dataclass(slots=True)
class _Counting:
    """Rows of one graph, one after the other: each stored tensor counts where it is first used."""

    convention: Convention
    rules: Mapping[str, Rule]
    #: What is left out.
    folding: Folding
    masked: Masked
    #: Whether models repeat themselves, and the operations follow from the operator, its attributes and the types of
    #: its tensors alone.
    repeats: bool
    shared: dict[int, Canonical] | None
    #: The first row of each kind of node so far, where they repeat.
    like: dict[object, _Pattern] = field(default_factory=dict)
    #: Names of the stored tensors that a row has claimed.
    owned: set[str] = field(default_factory=set)
    #: What stands for a shape, by the identity of the shape, which many tensors share.
    shapes: dict[int, Any] = field(default_factory=dict)

    def rows(self, graph: Graph, routes: Collection[int]) -> Iterator[Row]:
        """The rows of the nodes that are listed; at the places ``routes``, bounds only where their inputs are."""
        views, left_out, lists = self._views(graph), self.folding.positions, self.convention.lists
        for place, (name, node) in enumerate(zip(layer_names(graph.nodes), graph.nodes, strict=True)):
            if place in left_out or node.op == "Constant" or not lists(node):
                continue
            key = _kind(node, self.shapes) if self.repeats else None
            if key is not None and (pattern := self.like.get(key)) is not None:
                row = self._row_like(name, node, pattern)
            else:
                row = self.row(name, node, key, views[place] if views else _SEEN_ALONE)
            yield replace(row, bound=any(t.bound for t in node.known_inputs)) if place in routes else row

    def _views(self, graph: Graph) -> Sequence[Counts | None]:
        """The counts at each node of a convention that looks at the whole graph; () for any other.

        What the tool would have made of an operator without a rule is unknown in a file.
        """
        if self.convention.whole is None:
            return ()
        elements = [_canonical(node, self.rules, self.shared).on_elements for node in graph.nodes]
        views = self.convention.whole.counts(graph.ordered, elements)
        if graph.program.modules:
            return views
        ruled = [n.op in OPERATORS or n.op in self.rules for n in graph.nodes]
        return [view if has_rule else None for view, has_rule in zip(views, ruled, strict=True)]

    def row(self, name: str, node: Node, key: object, graph_view: Counts | None) -> Row:
        """The figures of one node.

        Args:
            name: what the row is called.
            node: the operator.
            key: its kind; None where it is looked at by itself.
            graph_view: the counts that the convention gives here with the whole graph in view; _SEEN_ALONE where it
                looks at one node at a time.
        """
        convention = self.convention
        same = _canonical(node, self.rules, self.shared)
        counts, missing, note, left = same.counts, same.missing, same.note, same.needed
        if node.fault:
            counts, missing, note, left = None, "fact", node.fault, None
        if self.masked == "needed" and left is not None:
            counts = left
        view = counts
        if not node.fault and node.op not in self.rules and not (convention.plain and counts is not None):
            tool_counts = counts if same.on_elements is same.counts else same.on_elements
            look = (lambda: convention.view(node, tool_counts)) if graph_view is _SEEN_ALONE else (lambda: graph_view)
            view, refused, why = guarded(look, f"{convention.name} cannot count it")
            if view is not None or not missing:
                missing, note = refused, why
        alike = key is not None and self._claims_alike(node, look=True)
        params, buffers, weight_bytes, input_bytes = sizes = self._sizes(node, same.packed)
        row = Row(
            name=name,
            type=convention.layer_types.get(node.op, node.op),
            node=node,
            counts=counts,
            needed=left,
            view=view,
            count=None if view is None else view.dot(convention.weights),
            params=params,
            buffers=buffers,
            weight_bytes=weight_bytes,
            input_bytes=input_bytes,
            output_bytes=same.output_bytes,
            activations=same.activations,
            missing=missing,
            note=note,
            bound=self._is_bound(node, view, graph_view, same) or same.bound_outputs,
        )
        if key is not None and not same.packed:
            self._remember(key, row, sizes if alike else None)
        return row

    def _remember(self, key: object, row: Row, sizes: _Sizes | None) -> None:
        """Keep a row for the nodes of its kind, unless masks or what is missing are its own."""
        if row.counts is not None and row.needed is None:
            alone = not any(t.kind in STORED for t in row.node.known_inputs)
            others = (row.output_bytes, row.activations, 1, (), row.missing, row.note, row.bound)
            self.like[key] = _Pattern(row.type, (row.counts, row.view, row.count), sizes, alone, others)

    def _row_like(self, name: str, node: Node, pattern: _Pattern) -> Row:
        """The row of a node of a kind that had one before."""
        alike = pattern.sizes and ((pattern.alone and not self.folding.sources) or self._claims_alike(node))
        sizes = pattern.sizes if pattern.sizes and alike else self._sizes(node, {})
        common: Any = (*pattern.counted, *sizes, *pattern.others)
        return Row(name, pattern.type, node, *common)

    def _is_bound(self, node: Node, view: Counts | None, graph_view: Counts | None, same: Canonical) -> bool:
        """True where the operations that the convention sees are an upper bound."""
        own_view = node.op in self.rules or graph_view is not _SEEN_ALONE or node.op in self.convention.overrides
        upper = same.bound_inputs or (row_of(node.op).claim == "bound" and not own_view)
        return upper and view is not None and view != _NONE

    def _claims_alike(self, node: Node, look: bool = False) -> bool:
        """True where a node claims all stored tensors that it takes, each once, and takes no result of others.

        Then what it claims follows from the types of its inputs.

        Args:
            node: the operator.
            look: whether they are not claimed yet.
        """
        stored: list[str] = []
        sources = self.folding.sources
        for tensor in node.inputs:
            if tensor is not None:
                if sources and tensor.name in sources:
                    return False
                if tensor.kind in STORED:
                    stored.append(tensor.name)
        if stored:
            if not self.owned.isdisjoint(stored) or (len(stored) > 1 and len(set(stored)) < len(stored)):
                return False
            if not look:
                self.owned.update(stored)
        return True

    def _sizes(self, node: Node, packed: Mapping[str, int]) -> _Sizes:
        """The sizes of a node's inputs, and of the stored tensors that no row has claimed before it: see ``_Sizes``.

        Args:
            node: the operator.
            packed: names of packed tensors -> elements that they stand for.
        """
        claimed: list[Tensor] = []
        for tensor in self.folding.stored(node):
            if tensor.name not in self.owned and tensor.resolved:
                self.owned.add(tensor.name)
                claimed.append(tensor)
        return (
            sum([packed.get(t.name, t.numel) for t in claimed if t.kind == "weight"]),
            sum([packed.get(t.name, t.numel) for t in claimed if t.kind == "buffer"]),
            sum([t.nbytes for t in claimed if occupies(t)]),
            _size([t for t in node.known_inputs if self.folding.varies(t)])[1],
        )


#: Operators from which on it is worth while to look for those that repeat.
MANY = 500


def _kind(node: Node, shapes: dict[int, object]) -> Any:
    """All that the operations of a node follow from, but for the elements of its attributes, which readers share.

    None for a node that is looked at by itself.

    Args:
        node: the operator.
        shapes: what stands for a shape, by its identity; completed.
    """
    if node.fault:
        return None
    parts: list[Any] = [node.op, id(node.attrs), node.version]
    for tensors in (node.inputs, node.outputs):
        for tensor in tensors:
            if tensor is None:
                parts.append(None)
                continue
            shape = tensor.shape
            if shape is None or tensor.items is not None:
                return None
            key = shapes.get(id(shape), 0)
            if key == 0:
                key = shapes[id(shape)] = _shape_key(shape)
            if key is None:
                return None
            parts += key, tensor.dtype, tensor.kind, tensor.bound
        parts.append(...)
    return tuple(parts)


def _shape_key(shape: Shape) -> object:
    """A shape as a key: expressions are not compared as numbers, as that would be a condition on their symbols."""
    if all(isinstance(n, int) for n in shape):
        return identities(cast("tuple[int, ...]", shape))
    return None


def _size(tensors: Sequence[Tensor]) -> tuple[int | None, int | None]:
    """Elements and bytes of tensors; None when one of them has no shape, or no width."""
    if all(t.sized for t in tensors):
        return sum([t.numel for t in tensors]), sum([t.nbytes for t in tensors])
    return sum([t.numel for t in tensors]) if all(t.resolved for t in tensors) else None, None
