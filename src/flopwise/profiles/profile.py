"""Graph + operator rules + convention -> Profile: one row per layer, totals, and groupings of the rows."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from flopwise.conventions.convention import Convention
from flopwise.errors import FlopwiseError, InputError
from flopwise.graph import Graph, Node, Tensor
from flopwise.graph.dtypes import is_float
from flopwise.graph.garbage import no_search_for_garbage
from flopwise.graph.names import layer_names
from flopwise.memory import peak_activation_bytes
from flopwise.operators.counts import Counts
from flopwise.operators.elements import unpacked
from flopwise.operators.folding import Folding, fold
from flopwise.operators.own import Rules, count_rules, own_rows, with_rows_of_graph
from flopwise.operators.tables import NOT_RULED, OPERATORS, Rule, count, needed
from flopwise.operators.tables import row as row_of
from flopwise.profiles.control_flow import settle_control_flow
from flopwise.profiles.grouping import by_dtype, by_module, by_op
from flopwise.profiles.training import Training
from flopwise.rows import FIGURES, TRAINED, Row, Sum, add_up, text_of

if TYPE_CHECKING:
    import pandas
    import pyarrow


@dataclass(frozen=True, eq=False)
class Profile:
    """What a model costs in one convention, for the input shapes in ``graph.inputs``."""

    graph: Graph
    convention: Convention
    rows: tuple[Row, ...]
    #: Operators without a rule in this convention -> how many rows.
    unknown: Mapping[str, int]
    #: Names of tensors whose shape could not be resolved.
    unresolved: tuple[str, ...]
    notes: tuple[str, ...]
    #: What one training step takes; None without training.
    training: Training | None = None
    #: The user's own rules, and whether operators on constants were left out (None: as the convention does).
    rules: Mapping[str, Rule] = field(default_factory=dict, repr=False, compare=False)
    folding: bool | None = field(default=None, repr=False, compare=False)
    #: How ``print(profile)`` looks; provided by the floor that knows the reports.
    renderer: Callable[[Profile], str] | None = field(default=None, repr=False, compare=False)
    #: The same for a notebook, as HTML.
    html_renderer: Callable[[Profile], str] | None = field(default=None, repr=False, compare=False)

    @functools.cached_property
    def sum(self) -> Sum:
        """All rows added up."""
        return add_up("Total", self.rows)

    @functools.cached_property
    def peak_activation_bytes(self) -> int | None:
        """Largest sum of bytes of activations alive at once, in execution order; None when a shape is missing."""
        return peak_activation_bytes(self.graph)

    @property
    def state_bytes(self) -> int:
        """Bytes of the state that the model is handed, such as a cache of keys and values; 0 without one."""
        return sum(t.nbytes for t in self.graph.inputs if t.kind == "state" and t.sized)

    @functools.cached_property
    def own(self) -> dict[str, int]:
        """Totals that the convention's tool defines in its own way, by name ("params")."""
        whole = self.convention.whole
        return {} if whole is None else {name: of(self.graph) for name, of in whole.totals.items()}

    @property
    def estimated(self) -> bool:
        """Whether the convention's tool counts PyTorch programs, and this is a file: its own count may differ."""
        return self.convention.sees == "programs" and not self.graph.modules

    @functools.cached_property
    def bounded(self) -> tuple[str, ...]:
        """Names of the layers whose figures are upper bounds, because they depend on the data."""
        return tuple(dict.fromkeys(row.name for row in self.rows if row.bound and row.times != 0))

    @property
    def exact(self) -> bool:
        """Whether the totals are neither lower nor upper bounds, nor one of several possible answers.

        Every row has a count and every tensor a shape; no count or shape is an upper bound, no branch or loop is left
        to the data, and no elements were made up that may have decided what ran.
        """
        gaps = any(row.unknown for row in self.rows) or self.unresolved
        return not (gaps or self.bounded or self.graph.guessed)

    def total(self, figure: str) -> int:
        """The model's sum of one figure; a lower bound unless ``exact``.

        Raises:
            InputError: there is no figure of that name.
        """
        figures = FIGURES if self.training is None else (*FIGURES, *TRAINED)
        if figure not in figures:
            raise InputError(f"unknown figure {figure!r}; known: {', '.join(figures)}")
        value: int = getattr(self.sum, figure)
        return value

    def by(self, key: str, depth: int | None = None) -> list[Sum]:
        """Rows grouped and summed.

        Args:
            key: "layer" (each row by itself), "op" (by operator, the most expensive first), "dtype" (by the element
                types that are computed with, the most expensive first), or "module" (by module path, in execution
                order; the whole model first, and a module's sum includes what lies below it).
            depth: with "module", how many levels of the path to show; None for all.

        Raises:
            InputError: the key is none of these.
        """
        if key == "layer":
            return [add_up(row.name, (row,)) for row in self.rows]
        if key == "op":
            return by_op(self.rows)
        if key == "dtype":
            return by_dtype(self.rows, self.graph)
        if key == "module":
            return by_module(self.rows, depth, self.graph.modules)
        raise InputError(f"cannot group by {key!r}; choose layer, op, dtype or module")

    def seen(self, figure: str) -> bool:
        """Whether any row has a figure of :class:`Row`, so that its sum says something."""
        return not self.rows or any(getattr(row, figure) is not None for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The profile in the stable JSON schema ``flopwise.profile/1``: every number an integer or None.

        A total is None when no row has the figure, and a lower bound when "coverage" names what is missing.
        """
        model, sums = self.graph, self.sum
        counted = not self.rows or sums.unknown < len(self.rows)
        has_counts = self.seen("counts")
        return {
            "schema": "flopwise.profile/1",
            "model": {"name": model.name, "source": model.source, "format": model.format},
            "inputs": [_input(t) for t in model.inputs],
            "convention": {"name": self.convention.name, "unit": self.convention.unit},
            "totals": {
                "count": sums.count if counted else None,
                "macs": sums.macs if has_counts else None,
                "needed_macs": sums.needed_macs if has_counts else None,
                "flops": sums.flops if has_counts else None,
                "ops": sums.counts.to_dict() if has_counts else None,
                "params": sums.params,
                "buffers": sums.buffers,
                "weight_bytes": sums.weight_bytes,
                "activations": sums.activations if self.seen("activations") else None,
                "output_bytes": sums.output_bytes if self.seen("output_bytes") else None,
                "peak_activation_bytes": self.peak_activation_bytes,
                **({"state_bytes": self.state_bytes} if self.state_bytes else {}),
                **({"own": self.own} if self.own else {}),
            },
            **({} if self.training is None else {"training": self.training.to_dict(self.rows, self.sum)}),
            "layers": [_layer(row, self.training is not None) for row in self.rows],
            "coverage": {
                "nodes": len(self.rows),
                "exact": self.exact,
                "unknown": dict(self.unknown),
                "unresolved": list(self.unresolved),
                "bounded": list(self.bounded),
            },
            "notes": list(self.notes),
        }

    def to_pandas(self) -> pandas.DataFrame:
        """One line per layer, in the columns of the JSON schema (needs the ``pandas`` extra)."""
        import pandas

        return pandas.DataFrame([_layer(row, self.training is not None) for row in self.rows])

    def to_arrow(self) -> pyarrow.Table:
        """One line per layer, in the columns of the JSON schema (needs the ``arrow`` extra).

        The model, the inputs, the convention and the totals are JSON in the metadata of the table's schema, under the
        key "flopwise".

        Raises:
            InputError: a figure is too large for 64 bits, or a formula, not a number.
        """
        from flopwise.profiles.arrow import arrow_table

        return arrow_table(self.to_dict())

    def __repr__(self) -> str:
        """One line: the model, its convention and its main figures."""
        least, convention = "" if self.exact else ">= ", self.convention
        count = f"{least}{text_of(self.sum.count)} {convention.unit} ({convention.name})"
        figures = f"{count}, {text_of(self.sum.params)} parameters, {len(self.rows):,} layers"
        return f"<Profile {self.graph.name or 'model'!r}: {figures}>"

    def __str__(self) -> str:
        return self.renderer(self) if self.renderer else repr(self)

    def _repr_html_(self) -> str | None:
        """How a notebook shows the profile; None leaves it to ``repr``."""
        return self.html_renderer(self) if self.html_renderer else None


def _shape(tensor: Tensor | None) -> list[Any] | None:
    if tensor is None or tensor.shape is None:
        return None
    return [d if isinstance(d, int) else str(d) for d in tensor.shape]


def _input(tensor: Tensor) -> dict[str, Any]:
    entry = {"name": tensor.name, "dtype": tensor.dtype, "shape": _shape(tensor)}
    return {**entry, "kind": "state"} if tensor.kind == "state" else entry


def _layer(row: Row, trained: bool) -> dict[str, Any]:
    return {
        "name": row.name,
        "op": row.node.op,
        "origin": row.node.origin,
        "scope": row.node.module,
        "inputs": [_shape(t) for t in row.node.inputs],
        "outputs": [_shape(t) for t in row.node.outputs],
        "count": row.count,
        "macs": row.macs,
        **({} if row.needed is None else {"needed_macs": row.needed_macs}),
        "flops": row.flops,
        "ops": None if row.counts is None else row.counts.to_dict(),
        "params": row.params,
        "buffers": row.buffers,
        "weight_bytes": row.weight_bytes,
        "activations": row.activations,
        "output_bytes": row.output_bytes,
        **({"times": row.times, "within": list(row.within)} if row.within else {}),
        **({key: getattr(row, key) for key in TRAINED} if trained else {}),
    }


def profile_graph(
    graph: Graph,
    convention: Convention,
    rules: Rules | None = None,
    folding: bool | None = None,
    training: bool = False,
    masked: Masked = "executed",
) -> Profile:
    """Count every operator of a graph in one convention.

    Args:
        graph: what a reader handed over.
        convention: how to add operations up.
        rules: the user's own rules and rows by operator name; they win over the tables and over the convention.
        folding: whether operators that depend on weights and constants only are left out, as they run once and not in
            every inference. None: as the convention's tool does.
        training: whether trained weights change from step to step, so that what depends on them is not left out.
        masked: of attention, "executed" counts every score, "needed" only those that the masks leave.
    """
    own = own_rows(rules)
    if own:
        graph = replace(graph, operators={**graph.operators, **own})
    with no_search_for_garbage():
        return _profiled(graph, convention, count_rules(rules), folding, training, masked)


@with_rows_of_graph
def _profiled(
    graph: Graph,
    convention: Convention,
    rules: Mapping[str, Rule],
    folding: bool | None,
    training: bool,
    masked: Masked,
) -> Profile:
    foldable = fold(graph)
    folds = convention.fold if folding is None else folding
    left_out = foldable if folds else foldable.only(graph, lambda node: not convention.lists(node))
    if training:
        left_out = left_out.only(graph, lambda node: not any(map(_changes, foldable.stored(node))))
    names = layer_names(graph.nodes)
    rows: list[Row] = []
    owned: set[str] = set()
    views = _views(graph, convention, rules) if convention.whole else None
    repeats = len(graph.nodes) > MANY and convention.plain and not rules and views is None
    like: dict[Any, Row] | None = {} if repeats else None
    for position, (name, node) in enumerate(zip(names, graph.nodes, strict=True)):
        if position in left_out.positions or node.op == "Constant" or not convention.lists(node):
            continue
        seen = views[position] if views else _SEEN_ALONE
        rows.append(_row(name, node, convention, rules, left_out, owned, seen, masked, like))
    if convention.listing is not None:
        rows = list(convention.listing(graph, rows, rules))
    rows, branches = settle_control_flow(graph, rows)
    unknown = Counter(row.node.op for row in rows if row.missing == "rule")
    unresolved = dict.fromkeys(t.name for r in rows for t in r.node.known_outputs if not t.resolved)
    return Profile(
        graph=graph,
        convention=convention,
        rows=tuple(rows),
        unknown=dict(unknown),
        unresolved=tuple(unresolved),
        notes=(
            *_notes(graph, convention, rows, len(foldable.positions) if folds else 0, len(unresolved), masked),
            *branches,
        ),
        rules=rules,
        folding=folding,
    )


def _changes(tensor: Tensor) -> bool:
    """Whether training changes a stored tensor."""
    return tensor.kind == "weight" and is_float(tensor.dtype)


#: Which scores of an attention count: all that a kernel computes, or those that its masks leave.
Masked: TypeAlias = Literal["executed", "needed"]

_NONE = Counts()

#: For a convention that looks at one node at a time.
_SEEN_ALONE = Counts(mac=-1)


def _views(graph: Graph, convention: Convention, rules: Mapping[str, Rule]) -> Sequence[Counts | None]:
    """What a convention that looks at the whole graph sees at each node.

    What the tool would have made of an operator without a rule is unknown in a file.
    """
    assert convention.whole is not None
    canonical = [_tried(lambda n=n: count(n, rules), "")[0] for n in graph.nodes]  # type: ignore[misc]
    seen = convention.whole.counts(graph, canonical)
    if graph.modules:
        return seen
    ruled = [n.op in OPERATORS or n.op in rules for n in graph.nodes]
    return [view if has_rule else None for view, has_rule in zip(seen, ruled, strict=True)]


def _row(
    name: str,
    node: Node,
    convention: Convention,
    rules: Mapping[str, Rule],
    folding: Folding,
    owned: set[str],
    seen: Counts | None,
    masked: Masked,
    like: dict[Any, Row] | None,
) -> Row:
    """The figures of one node.

    Args:
        name: what the row is called.
        node: the operator.
        convention: how to add operations up.
        rules: the user's own rules.
        folding: what is left out.
        owned: collects the stored tensors that a row has claimed: each counts once.
        seen: what the convention sees here with the whole graph in view; _SEEN_ALONE when it goes node by node.
        masked: which scores of an attention count.
        like: the first row of each kind of node so far, as models repeat themselves: the operations follow from the
            operator, its attributes and the types of its tensors. None where they follow from more.
    """
    key = None if like is None else _kind(node)
    if like is not None and key in like:
        return _repeated(name, node, like[key], folding, owned)
    counts, missing, note = _tried(lambda: count(node, rules), NOT_RULED.get(node.op, "no rule"))
    if node.fault:
        counts, missing, note = None, "fact", node.fault
    left = None if counts is None else _tried(lambda: needed(node, rules), "")[0]
    if masked == "needed" and left is not None:
        counts = left
    view = counts
    if not node.fault and node.op not in rules and not (convention.plain and counts is not None):
        look = (lambda: convention.view(node, counts)) if seen is _SEEN_ALONE else (lambda: seen)
        view, refused, why = _tried(look, f"{convention.name} cannot count it")
        if view is not None or not missing:
            missing, note = refused, why
    own_view = node.op in rules or seen is not _SEEN_ALONE or node.op in convention.overrides
    upper = (row_of(node.op).claim == "bound" and not own_view) or any(t.bound for t in node.known_inputs)
    bound = upper and view is not None and view != _NONE
    first_used = _first_used(node, folding, owned)
    packed = unpacked(node, row_of(node.op).inputs)
    inputs = _size([t for t in node.known_inputs if folding.varies(t)])
    outputs = _size(() if node.op == "If" else node.known_outputs)  # an If hands on what its branch makes
    row = Row(
        name=name,
        type=convention.layer_types.get(node.op, node.op),
        node=node,
        counts=counts,
        needed=left,
        view=view,
        count=None if view is None else view.dot(convention.weights),
        params=sum([packed.get(t.name, t.numel) for t in first_used if t.kind == "weight"]),
        buffers=sum([packed.get(t.name, t.numel) for t in first_used if t.kind == "buffer"]),
        weight_bytes=sum([t.nbytes for t in first_used if _occupies(t)]),
        input_bytes=inputs[1],
        output_bytes=outputs[1],
        activations=outputs[0],
        missing=missing,
        note=note,
        bound=bound or any(t.bound for t in node.known_outputs),
    )
    if like is not None and key is not None and counts is not None and not packed and left is None:
        like[key] = row
    return row


#: Operators from which on it is worth while to look for those that repeat.
MANY = 500

#: The type of extents that are no expressions.
_INTEGERS = frozenset({int})


def _kind(node: Node) -> Any:
    """All that the operations of a node follow from, but for the elements of its attributes, which readers share.

    None for a node that is looked at by itself.
    """
    types: list[Any] = []
    for tensor in (*node.inputs, None, *node.outputs):
        if tensor is None:
            types.append(None)
        elif tensor.shape is None or tensor.items is not None or not _INTEGERS.issuperset(map(type, tensor.shape)):
            return None  # expressions are not compared, as that would be a condition on their symbols
        else:
            types.append((tensor.shape, tensor.dtype, tensor.kind, tensor.bound))
    return None if node.fault else (node.op, id(node.attrs), node.version, tuple(types))


def _repeated(name: str, node: Node, like: Row, folding: Folding, owned: set[str]) -> Row:
    """The figures of a node like an earlier one."""
    first_used = _first_used(node, folding, owned)
    inputs = _size([t for t in node.known_inputs if folding.varies(t)])
    return Row(
        name=name,
        type=like.type,
        node=node,
        counts=like.counts,
        needed=like.needed,
        view=like.view,
        count=like.count,
        params=sum([t.numel for t in first_used if t.kind == "weight"]),
        buffers=sum([t.numel for t in first_used if t.kind == "buffer"]),
        weight_bytes=sum([t.nbytes for t in first_used if _occupies(t)]),
        input_bytes=inputs[1],
        output_bytes=like.output_bytes,
        activations=like.activations,
        missing=like.missing,
        note=like.note,
        bound=like.bound,
    )


def _first_used(node: Node, folding: Folding, owned: set[str]) -> list[Tensor]:
    """The stored tensors that no row has claimed before."""
    first_used: list[Tensor] = []
    for tensor in folding.stored(node):
        if tensor.name not in owned and tensor.resolved:
            owned.add(tensor.name)
            first_used.append(tensor)
    return first_used


def _size(tensors: Sequence[Tensor]) -> tuple[int | None, int | None]:
    """Elements and bytes of tensors; None when one of them has no shape, or no width."""
    if all(t.sized for t in tensors):
        return sum([t.numel for t in tensors]), sum([t.nbytes for t in tensors])
    return sum([t.numel for t in tensors]) if all(t.resolved for t in tensors) else None, None


def _tried(rule: Callable[[], Counts | None], unknown: str) -> tuple[Counts | None, Literal["", "rule", "fact"], str]:
    """What a rule gives, or None, what is missing, and in words: ``unknown``, or what is wrong with the node."""
    try:
        counts = rule()
        total = 0 if counts is None else sum(counts)  # attributes of a wrong type multiply as well
        if isinstance(total, float) or (type(total) is int and counts is not None and min(counts) < 0):
            raise ValueError("a count is not a whole number")
    except FlopwiseError as error:
        return None, "fact", str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # attributes without sense
        return None, "fact", f"its attributes or shapes make no sense: {type(error).__name__}: {error}"
    return (None, "rule", unknown) if counts is None else (counts, "", "")


def _occupies(tensor: Tensor) -> bool:
    """Whether a stored tensor counts as weight memory: all but scalars and the integers that only steer shapes."""
    return tensor.kind != "constant" or (is_float(tensor.dtype) and bool(tensor.shape))


def _notes(
    graph: Graph, convention: Convention, rows: Sequence[Row], folded: int, unresolved: int, masked: Masked
) -> Iterator[str]:
    """What a reader of the report should know, one line each."""
    yield from graph.warnings
    yield from convention.notes
    yield from convention.whole.remarks(graph) if convention.whole else ()
    groups: dict[tuple[str, str], list[Row]] = {}
    endless = [row for row in rows if row.times is None]
    if endless:
        those = f"{len(endless)} operators run" if len(endless) > 1 else f"{endless[0].node.op} runs"
        yield f"uncounted: {those} an unknown number of times, first {endless[0].name!r}; totals are lower bounds"
    for row in rows:
        if row.missing and row.times is not None:
            groups.setdefault((row.missing, row.node.op), []).append(row)
    for (missing, op), alike in groups.items():
        first, word = alike[0], "unknown" if missing == "rule" else "uncounted"
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        yield f"{word}: {op} at {first.name!r}{more} ({first.note}); totals are lower bounds"
    if unresolved:
        those_have = "tensors have" if unresolved > 1 else "tensor has"
        yield f"unresolved: {unresolved} {those_have} no shape; totals are lower bounds"
    used = (*graph.inputs, *(t for r in rows for t in r.node.known_outputs))
    texts = [t.name for t in used if not t.sized and t.resolved]
    if texts:
        hold = f"{len(texts)} tensors hold strings" if len(texts) > 1 else "1 tensor holds strings"
        yield f"unknown bytes: {hold}, the first is {texts[0]!r}; bytes are lower bounds"
    bounded = [t.name for r in rows for t in r.node.known_outputs if t.bound]
    if bounded:
        many = f"{len(bounded)} tensors are" if len(bounded) > 1 else "1 tensor is"
        yield f"upper bounds: {many} as large as the data say, at most; the first is {bounded[0]!r}"
    yield from _masks(rows, convention, masked)
    if folded:
        yield f"{folded} operators on weights, constants and shapes alone run once and are not counted (--no-fold)"
    ops = {row.node.op for row in rows}
    bounds = sorted(op for op in ops if row_of(op).claim == "bound")
    if bounds:
        yield f"upper bounds, because the work depends on the data: {', '.join(bounds)}"


def _masks(rows: Sequence[Row], convention: Convention, masked: Masked) -> Iterator[str]:
    """What the masks of attention leave of its multiply-adds, in one line."""
    those = [row for row in rows if row.needed is not None and row.times != 0]
    all_scores = [_tried(lambda row=row: count(row.node), "")[0] for row in those]  # type: ignore[misc]
    executed = sum(c.mac * (row.times or 0) for c, row in zip(all_scores, those, strict=True) if c is not None)
    left = sum(row.needed_macs or 0 for row in those)
    if int(left) < int(executed):  # a note is no reason for a condition
        rows_execute = f"{len(those)} attention rows execute" if len(those) > 1 else "1 attention row executes"
        share = f"{rows_execute} {executed:,} MACs, of which masks leave {left:,}"
        if masked == "executed":
            yield f"masks: {share} (--masked needed counts those)"
        elif convention.plain:
            yield f"masks: {share}; those are counted (--masked needed)"
        else:
            yield f"masks: {share}; {convention.name} counts as its tool does, whatever --masked says"
