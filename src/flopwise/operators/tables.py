"""Facts about each operator: one table per family, merged here.

A rule reads the node's shapes and attributes and returns ``flopwise.operators.counts.Counts``. The canonical
count is what a plain, unfused kernel executes in the operator's own definition;
``docs/guides/counting.md`` states the principles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TypeVar

from flopwise.graph import Node
from flopwise.operators.complex import in_real_operations, takes_or_makes
from flopwise.operators.counts import Counts
from flopwise.operators.gradient import Wrt
from flopwise.operators.operator import Effect, Operator, Rule, unknown
from flopwise.operators.own import OWN, own_count

#: Family name -> the file with its table, and the table's name where that is not OPERATORS, in the order the
#: documentation shows them. The file of a family is loaded when an operator of its domain is looked up, so that an ONNX
#: model costs no more than the families of ONNX.
HOMES: Mapping[str, str] = {
    "linear": "onnx.linear",
    "attention": "onnx.attention",
    "quantized": "onnx.quantized",
    "recurrent": "onnx.linear:RECURRENT",
    "pooling": "onnx.spatial:POOLING",
    "normalization": "onnx.reduction:NORMALIZATION",
    "reduction": "onnx.reduction",
    "pointwise": "onnx.pointwise",
    "resize": "onnx.spatial:RESIZE",
    "detection": "onnx.spatial:DETECTION",
    "spectral": "onnx.linear:SPECTRAL",
    "losses": "onnx.training:LOSSES",
    "optimizers": "onnx.training:OPTIMIZERS",
    "classical": "onnx.classical",
    "trees": "onnx.classical:TREES",
    "generation": "onnx.movement:GENERATION",
    "movement": "onnx.movement",
    "sequence": "onnx.movement:SEQUENCE",
    "text": "onnx.classical:TEXT",
    "control": "onnx.movement:CONTROL",
    "early": "onnx.training:EARLY",
    "other domains": "onnx.training:DOMAINS",
    "com.microsoft, products": "onnxruntime.linear",
    "com.microsoft, mixtures of experts": "onnxruntime.experts",
    "com.microsoft, attention": "onnxruntime.attention",
    "com.microsoft, attention over a cache": "onnxruntime.attention:CACHE",
    "com.microsoft, positions": "onnxruntime.attention:POSITIONS",
    "com.microsoft, recurrent state": "onnxruntime.signals:RECURRENT_STATE",
    "com.microsoft, residual streams": "onnxruntime.experts:STREAMS",
    "com.microsoft, quantized": "onnxruntime.quantized",
    "com.microsoft, tokens": "onnxruntime.signals:TOKENS",
    "com.microsoft, layouts": "onnxruntime.layouts",
    "com.microsoft, pointwise": "onnxruntime.pointwise",
    "com.microsoft, normalization": "onnxruntime.pointwise:NORMALIZATION",
    "com.microsoft, sampling, signals and linear algebra": "onnxruntime.signals",
    "com.microsoft, movement": "onnxruntime.pointwise:MOVEMENT",
    "caffe": "caffe",
    "aten, products": "aten.linear",
    "aten, quantized": "aten.pointwise:QUANTIZED",
    "aten, recurrent": "aten.linear:RECURRENT",
    "aten, pointwise": "aten.pointwise",
    "aten, reductions, losses and pooling": "aten.reduction",
    "aten, signals and linear algebra": "aten.signals",
    "aten, gradients": "aten.gradients",
    "tflite": "tflite.operators",
    "tflite, recurrent": "tflite.recurrent",
    "tflite, of other libraries": "tflite.custom",
    "openvino": "openvino.operators",
    "openvino, detection": "openvino.detection",
    "coreml": "coreml",
    "lax": "lax",
    "programs": "program",
}

#: Families that hold the operators of ONNX's own domains, which have no domain in their name.
_FIRST = ("linear", "pointwise", "normalization", "movement", "pooling", "reduction", "attention")

Value = TypeVar("Value")


class _Tables(Mapping[str, Mapping[str, Operator]]):
    """Family name -> its table, perhaps with only the operators that have a count."""

    def __init__(self, counted: bool = False) -> None:
        self._counted = counted

    def __getitem__(self, family: str) -> Mapping[str, Operator]:
        home, _, name = HOMES[family].partition(":")
        table: Mapping[str, Operator] = getattr(import_module(f"flopwise.operators.{home}"), name or "OPERATORS")
        return {op: row for op, row in table.items() if row.counted} if self._counted else table

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


#: Family name -> its table, in the order the documentation shows them.
TABLES: Mapping[str, Mapping[str, Operator]] = _Tables()


class _Rows(dict[str, Operator]):
    """Rows by name: those of the families that were needed so far; ``all`` loads the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting = dict.fromkeys((*_FIRST, *HOMES))

    def row(self, op: str) -> Operator | None:
        """The row of an operator; None where there is none."""
        row = dict.get(self, op)
        while row is None and self._waiting:
            self._load(next(iter(self._likely(op))))
            row = dict.get(self, op)
        return row

    def all(self) -> dict[str, Operator]:
        """All rows, in the order of the families."""
        if self._waiting:
            while self._waiting:
                self._load(next(iter(self._waiting)))
            ordered = {op: row for family in HOMES for op, row in TABLES[family].items()}
            self.clear()
            self.update(ordered)
        return self

    def _likely(self, op: str) -> list[str]:
        """The families that wait, those first that hold the domain of an operator."""
        domain = op.partition("::")[0] if "::" in op else ""
        room = next((room for prefix, room in _ROOMS if domain.startswith(prefix)), "onnx")
        return sorted(self._waiting, key=lambda family: not HOMES[family].startswith(room))

    def _load(self, family: str) -> None:
        """Add the table of a family; a name in two of them is an error, because one row would silently win."""
        del self._waiting[family]
        table = TABLES[family]
        twice = self.keys() & table.keys()
        if twice:
            raise ImportError(f"operators in two families: {', '.join(sorted(twice))} (again in {family})")
        self.update(table)


#: Domain -> where its families lie.
_ROOMS = (
    ("com.microsoft", "onnxruntime"),
    ("caffe", "caffe"),
    ("aten", "aten"),
    ("quantized", "aten"),
    ("cortex_m", "aten"),
    ("tflite", "tflite"),
    ("tensorflow", "tflite"),
    ("openvino", "openvino"),
    ("coreml", "coreml"),
    ("lax", "lax"),
)

_ROWS = _Rows()


class _Lazy(Mapping[str, Value]):
    """A view of all rows that loads only those that are looked up."""

    def __init__(self, pick: Callable[[Operator], Value | None]) -> None:
        self._pick = pick

    def __getitem__(self, op: str) -> Value:
        row = _ROWS.row(op)
        value = None if row is None else self._pick(row)
        if value is None:
            raise KeyError(op)
        return value

    def __iter__(self) -> Iterator[str]:
        return (op for op, row in _ROWS.all().items() if self._pick(row) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


#: Every operator that flopwise knows something about, by name.
ROWS: Mapping[str, Operator] = _Lazy(lambda row: row)

#: Every operator that has a count.
OPERATORS: Mapping[str, Operator] = _Lazy(lambda row: row if row.counted else None)

#: Operator that stays without a count on purpose -> why.
NOT_RULED: Mapping[str, str] = _Lazy(lambda row: None if row.counted else row.formula)


#: Family name -> those of its operators that have a count.
FAMILIES: Mapping[str, Mapping[str, Operator]] = _Tables(counted=True)

#: The row of an operator that is unknown.
NOBODY_KNOWS = unknown("no rule")


def find(op: str) -> Operator | None:
    """The row of an operator: the user's own, else that of the tables; None where there is none."""
    return OWN.get().get(op) or _ROWS.row(op)


def row(op: str) -> Operator:
    """The row of an operator; an empty one for an operator without a row."""
    return find(op) or NOBODY_KNOWS


def with_effect(effect: Effect, family: str = "") -> frozenset[str]:
    """The operators of the tables that have an effect.

    Args:
        effect: what they do.
        family: a key of ``HOMES``, others are not loaded; "" for all.
    """
    tables = [TABLES[family]] if family else [TABLES[name] for name in HOMES]
    return frozenset(op for table in tables for op, operator in table.items() if effect in operator.effects)


def needed(node: Node, rules: Mapping[str, Rule] | None = None) -> Counts | None:
    """Canonical operations of an attention on the pairs of queries and keys that its masks leave.

    None for every other operator, and where the user's rules count it.

    Raises:
        ShapeError: a shape that the rule needs is unresolved.
    """
    entry = None if rules and node.op in rules else _ROWS.row(node.op)
    return None if entry is None or entry.needed is None or not entry.counted else entry.needed(node.ordered)


def count(node: Node, rules: Mapping[str, Rule] | None = None) -> Counts | None:
    """Canonical operations of one node; None when neither the user's rules nor the tables know the operator.

    Raises:
        ShapeError: a shape that the rule needs is unresolved.
        RuleError: a rule of the user's is wrong.
    """
    if not takes_or_makes(node) or (rules and node.op in rules):
        return on_elements(node, rules)
    entry = _ROWS.row(node.op)
    if entry is None or not entry.counted:
        return None
    node = node.ordered
    return entry.complex.rule(node) if entry.complex else in_real_operations(node, entry.rule(node))


def on_elements(node: Node, rules: Mapping[str, Rule] | None = None) -> Counts | None:
    """Operations of one node on elements, as tools count them: one on complex numbers is one; else as ``count``.

    Raises:
        ShapeError: a shape that the rule needs is unresolved.
        RuleError: a rule of the user's is wrong.
    """
    if rules and node.op in rules:
        return own_count(rules[node.op], node)
    entry = _ROWS.row(node.op)
    return entry.rule(node.ordered) if entry and entry.counted else None


def backward_on_elements(node: Node, wrt: Wrt) -> Counts | None:
    """Operations of the gradients of one node on elements, as tools count them; else as ``backward``.

    Raises:
        ShapeError: a shape that the rule needs is unresolved.
    """
    gradient = row(node.op).gradient
    return gradient.rule(node.ordered, wrt) if gradient else None


def backward(node: Node, wrt: Wrt) -> Counts | None:
    """Canonical operations of the gradients of one node; None when there is no rule for them.

    Args:
        node: the operator.
        wrt: places of the inputs with respect to which gradients are taken.

    Raises:
        ShapeError: a shape that the rule needs is unresolved.
    """
    if not takes_or_makes(node):
        return backward_on_elements(node, wrt)
    entry, node = row(node.op), node.ordered
    if entry.complex is not None:
        return entry.complex.gradient(node, wrt) if entry.complex.gradient else None
    counts = backward_on_elements(node, wrt)
    return None if counts is None else in_real_operations(node, counts)
