"""The columns of every report: one list for all formats.

A column is a function from a row, or a sum of rows, to a value; how the value is written is the format's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from flopwise.errors import InputError, entry
from flopwise.graph import STORED, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.graph.names import layer_kind
from flopwise.operators.counts import CLASSES
from flopwise.profiles.precision import QDQ, TIMES, precisions
from flopwise.report.sheet import zeros
from flopwise.report.sheet.sheet import AtLeast, Head, Kind, Look, Shapes, Value, by_size
from flopwise.rows import Row, Sum

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
if TYPE_CHECKING:
    from flopwise.conventions import Convention
    from flopwise.profiles.profile import Profile

# Bit operations of products as a column: multiply-adds times the bits of both factors.


Item: TypeAlias = "Row | Sum"

#: Row, by its identity, -> the bits of one factor times those of the other; None where a type is unknown.
_BITS: WeakKeyDictionary[Profile, dict[int, int | None]] = WeakKeyDictionary()


def bops(item: Item, profile: Profile) -> int | None:
    """Bit operations of a row, or of those of several that have any; None where multiply-adds or types are unknown."""
    if isinstance(item, Sum):
        return sum(count for row in item.rows if (count := bops(row, profile)) is not None)
    if profile not in _BITS:
        types = precisions(profile.graph, profile.rows)
        _BITS[profile] = {id(row): _of_both(text) for row, text in zip(profile.rows, types, strict=True)}
    bits = _BITS[profile].get(id(item))
    return item.macs if not item.macs else None if bits is None else item.macs * bits


def _of_both(precision: str) -> int | None:
    """The bits of both factors multiplied; one type is that of both.

    >>> _of_both("int8 (QDQ)"), _of_both("float16×int4"), _of_both("unknown")
    (64, 64, None)
    """
    widths = [BITS.get(name) for name in precision.removesuffix(QDQ).split(TIMES)]
    if None in widths or len(widths) > 2:
        return None
    return math.prod(width or 0 for width in (widths if len(widths) == 2 else widths * 2))


#: Figure of a whole model -> what it is called; of the count the convention says it.
TITLES = {
    "macs": "MACs",
    "flops": "FLOPs",
    "params": "parameters",
    "buffers": "buffers",
    "weight_bytes": "weight bytes",
    "activations": "activation elements",
    "input_bytes": "input bytes",
    "output_bytes": "output bytes",
    "peak_activation_bytes": "peak activation bytes",
    "state_bytes": "state bytes",
}

#: Grouping -> what a line is, and what it is one of; a tree has modules and layers.
NAMED = {
    "layer": ("layer", "op"),
    "op": ("operator", "in PyTorch"),
    "module": ("module", "class"),
    "dtype": ("precision", "op"),
    "tree": ("layer", "type"),
}


def count_title(unit: str, convention: str) -> str:
    """The title of a convention's counts: its unit, and its name where that says more.

    >>> count_title("FLOP", "flops"), count_title("MAC", "fvcore")
    ('FLOPs', 'MACs (fvcore)')
    """
    return f"{unit}s" if convention == f"{unit}s".lower() else f"{unit}s ({convention})"


class Column(NamedTuple):
    """One column: its key for programs, its title for people, what it holds, and how to find a value."""

    key: str
    #: May hold {count}, what the counts of the convention are called; {one} is what a line is (a layer, a module),
    #: {kind} what it is one of.
    title: str
    kind: Kind
    value: Callable[[Item, Profile], Value]
    about: str
    #: Where a table is too wide, columns of a higher rank are left out first.
    rank: int = 9

    def head(self, convention: Convention, one: str = "", kind: str = "") -> Head:
        """The head of the column, its title filled in; without ``one`` and ``kind`` the lines are models."""
        title = self.title.format(count=count_title(convention.unit, convention.name), one=one, kind=kind)
        return Head(self.key, title, self.kind, self.rank, convention.display.human if self.key == "count" else None)


def head_of(column: Column, profile: Profile, by: str, look: Look) -> Head:
    """The head of a column of a profile, whose lines are grouped by a key of NAMED."""
    head = column.head(profile.convention, *NAMED[by])
    figure = COLUMNS.get(column.key.removesuffix("%"), column)
    part = " of known" if column.kind == "percent" and isinstance(cell(figure, profile.sum, profile), AtLeast) else ""
    return head._replace(title=look.text(head.title + part))


def cell(column: Column, item: Item, profile: Profile) -> Value:
    """The column's value: for a sum, AtLeast when some of its rows are unknown, and None when all are."""
    value = column.value(item, profile)
    if isinstance(item, Row) or column.kind not in ("number", "bytes") or value is None or value == "":
        return value
    present = [column.value(row, profile) is not None for row in item.rows]
    if all(present):
        return value
    if not any(present):
        return None
    return AtLeast(value) if isinstance(value, int) else f">= {value}"  # a figure in symbols


def _name(item: Item, profile: Profile) -> str:
    return item.name or profile.graph.name or "model"


def _figure(key: str, title: str, kind: Kind, about: str, rank: int = 9) -> Column:
    """The column of a figure that rows and sums have under that name."""
    return Column(key, title, kind, lambda item, profile: getattr(item, key), about, rank)


def _training(key: str, title: str, kind: Kind, about: str, rank: int = 9) -> Column:
    """The same for a training step; empty where none was counted."""
    return Column(key, title, kind, _trained(lambda item, profile: getattr(item, key)), about, rank)


def _class(key: str) -> Callable[[Item, Profile], Value]:
    return lambda item, profile: None if item.counts is None else getattr(item.counts, key)


def _of_row(value: Callable[[Row], str]) -> Callable[[Item, Profile], Value]:
    return lambda item, profile: value(item) if isinstance(item, Row) else item.kind


def _kind(item: Item, profile: Profile) -> str:
    """A row's common name, a module's class, or, for rows of one operator, all their names."""
    graph = profile.graph
    if isinstance(item, Row):
        return layer_kind(item.node, graph)
    if item.kind or {row.type for row in item.rows} != {item.name}:
        return item.kind
    kinds = dict.fromkeys(layer_kind(row.node, graph) for row in item.rows)
    return "" if list(kinds) == [item.name] else ", ".join(kinds)


def _share(key: str) -> Callable[[Item, Profile], Value]:
    def value(item: Item, profile: Profile) -> float | None:
        part, whole = cell(COLUMNS[key], item, profile), COLUMNS[key].value(profile.sum, profile)
        if not isinstance(part, int) or not isinstance(whole, int):
            return None
        return 100 * part / whole if whole else 0.0

    return value


def _memory(item: Item, profile: Profile) -> int | None:
    return None if item.output_bytes is None else item.weight_bytes + item.output_bytes


def _masked(item: Item, profile: Profile) -> int | None:
    """Multiply-adds that are executed and not needed."""
    return None if item.macs is None or item.needed_macs is None else item.macs - item.needed_macs


def _bops(item: Item, profile: Profile) -> int | None:

    return bops(item, profile)


def _moved(item: Item, profile: Profile) -> int | None:
    if isinstance(item, Sum):
        return sum(moved for moved in (_moved(row, profile) for row in item.rows) if moved is not None)
    return None if item.read_bytes is None or item.written_bytes is None else item.read_bytes + item.written_bytes


def _intensity(item: Item, profile: Profile) -> float | str | None:
    flops, moved = cell(COLUMNS["flops"], item, profile), cell(COLUMNS["moved_bytes"], item, profile)
    if not isinstance(flops, int) or not isinstance(moved, int) or AtLeast in (type(flops), type(moved)):
        return None
    return flops / moved if moved else ""


def _trained(value: Callable[[Item, Profile], Value]) -> Callable[[Item, Profile], Value]:
    """A value of a training step, and an empty one where none was counted."""
    return lambda item, profile: "" if profile.training is None else value(item, profile)


def _times(item: Item, profile: Profile) -> int | str | None:
    return item.times if isinstance(item, Row) else ""


def shapes_of(tensor: Tensor) -> Shapes:
    """The shape of a tensor, or the shapes of a list of tensors."""
    return (tensor.shape,) if tensor.items is None else _shapes(tensor.items)


def _shapes(tensors: Iterable[Tensor]) -> Shapes:
    return tuple(t.shape for t in tensors)


def _inputs(item: Item, profile: Profile) -> Shapes:
    """A row's inputs that are not stored; for a sum, what its rows take from outside."""
    if isinstance(item, Row):
        return _shapes(t for t in item.node.known_inputs if t.kind not in STORED)
    if len(item.rows) == len(profile.rows):
        return _shapes(profile.graph.inputs)
    results = {t.name for row in item.rows for t in row.node.known_outputs}
    operands = {t.name: t for row in item.rows for t in row.node.known_inputs if t.kind not in STORED}
    return _shapes(t for name, t in operands.items() if name not in results)


def _outputs(item: Item, profile: Profile) -> Shapes:
    """A row's outputs; for a sum, the results that none of its rows uses."""
    if isinstance(item, Row):
        return _shapes(item.node.known_outputs)
    if len(item.rows) == len(profile.rows):
        return _shapes(profile.graph.outputs)
    used = {t.name for row in item.rows for t in row.node.known_inputs}
    results = {t.name: t for row in item.rows for t in row.node.known_outputs}
    return _shapes(t for name, t in results.items() if name not in used)


def _weights(item: Item, profile: Profile) -> Shapes:
    if isinstance(item, Sum):
        return ()
    if item.node.op == _TENSOR and "shape" in item.node.attrs:  # what is stored are blocks
        return (item.node.attrs["shape"],)
    return _shapes(t for t in item.node.known_inputs if t.kind in ("weight", "buffer"))


#: The operator that stands for a tensor in a file without operators.
_TENSOR = "flopwise::Tensor"

_TABLE = (
    Column("name", "{one}", "text", _name, "name of the layer, operator, module or precision", 0),
    Column(
        "op", "{kind}", "text", _of_row(lambda r: r.node.op), "operator as ONNX calls it; of a module, its class", 4
    ),
    Column("type", "type", "text", _of_row(lambda r: r.type), "what the convention calls the operator"),
    Column("origin", "origin", "text", _of_row(lambda r: r.node.origin), "what the file called the operator"),
    Column("kind", "{kind}", "text", _kind, "the layer in PyTorch's words (Linear, SDPA, silu), else its operator", 4),
    Column("scope", "module", "text", _of_row(lambda r: r.node.module), "path of the module around the layer"),
    Column("times", "runs", "number", _times, "how often the layer runs in one inference, inside control flow", 3),
    Column("within", "within", "text", _of_row(lambda r: " ".join(r.within)), "the control flow around the layer"),
    Column("depth", "depth", "number", lambda i, p: 0 if isinstance(i, Row) else i.depth, "how deep the module lies"),
    Column("layers", "layers", "number", lambda i, p: 1 if isinstance(i, Row) else len(i.rows), "how many layers", 6),
    _figure("unknown", "unknown", "number", "how many layers have no count"),
    Column("inputs", "inputs", "shapes", _inputs, "shapes of the inputs, without weights", 7),
    Column("weights", "weights", "shapes", _weights, "shapes of the weights"),
    Column("outputs", "output", "shapes", _outputs, "shapes of the outputs", 5),
    _figure("params", "params", "number", "trained parameters, shared ones counted once", 3),
    Column("params%", "params %", "percent", _share("params"), "share of the model's parameters"),
    _figure("macs", "MACs", "number", "multiply-accumulates, canonical", 6),
    _figure("needed_macs", "needed MACs", "number", "multiply-accumulates, of attention those after masking"),
    Column("masked_macs", "masked MACs", "number", _masked, "multiply-accumulates of attention that masks leave out"),
    Column("bops", "BOPs", "number", _bops, "bit operations: MACs times the bits of both factors"),
    Column("macs%", "MACs %", "percent", _share("macs"), "share of the model's multiply-accumulates"),
    _figure("flops", "FLOPs", "number", "floating-point operations, canonical"),
    Column("flops%", "FLOPs %", "percent", _share("flops"), "share of the model's floating-point operations"),
    _figure("count", "{count}", "number", "operations in the chosen convention", 1),
    Column("count%", "%", "percent", _share("count"), "share of the model's operations", 2),
    *(Column(c, c, "number", _class(c), f"operations of the class {c}, canonical") for c in CLASSES),
    _figure("buffers", "buffers", "number", "elements of statistics kept beside the weights"),
    _figure("activations", "activations", "number", "elements of all outputs"),
    _figure("weight_bytes", "weight bytes", "bytes", "stored bytes, shared ones counted once"),
    Column("weight_bytes%", "weights %", "percent", _share("weight_bytes"), "share of the stored bytes"),
    _figure("input_bytes", "input bytes", "bytes", "bytes of the inputs, without weights"),
    _figure("output_bytes", "output bytes", "bytes", "bytes of all outputs"),
    Column("output_bytes%", "outputs %", "percent", _share("output_bytes"), "share of the bytes of all outputs"),
    _figure("read_bytes", "bytes read", "bytes", "bytes of the operands, stored ones included"),
    _figure("written_bytes", "bytes written", "bytes", "bytes of the results, without views"),
    Column("moved_bytes", "bytes moved", "bytes", _moved, "bytes read and written"),
    Column("intensity", "FLOP/byte", "ratio", _intensity, "arithmetic intensity: FLOPs for each byte moved, canonical"),
    Column("sparsity", "zeros %", "percent", zeros.share, "zeros in the weights (reads them)"),
    Column("zero_block", "zero block (out x in)", "text", zeros.block, "block of the zeros in the largest weight"),
    Column("zero_block%", "zero blocks %", "percent", zeros.block_share, "share of such blocks that are zero"),
    Column("effective_macs", "effective MACs", "number", zeros.effective_macs, "MACs without those of zero weights"),
    Column("memory", "memory bytes", "bytes", _memory, "stored bytes and bytes of all outputs", 8),
    Column("memory%", "memory %", "percent", _share("memory"), "share of the memory", 8),
    _training("backward", "backward", "number", "operations of the backward pass", 3),
    Column("backward%", "backward %", "percent", _trained(_share("backward")), "share of the model's backward pass", 4),
    _training("backward_macs", "backward MACs", "number", "MACs backward", 7),
    Column(
        "backward_macs%", "backward MACs %", "percent", _trained(_share("backward_macs")), "share of the MACs backward"
    ),
    _training("backward_flops", "backward FLOPs", "number", "FLOPs backward"),
    _training(
        "recomputed_macs",
        "recomputed MACs",
        "number",
        "MACs of the forward pass that fused attention executes once more",
    ),
    _training("saved_bytes", "saved bytes", "bytes", "activations saved for it", 5),
    Column("convention", "convention", "text", lambda i, p: p.convention.name, "name of the counting convention"),
    Column("unit", "unit", "text", lambda i, p: p.convention.unit, "unit of the count"),
    Column("note", "note", "text", _of_row(lambda r: r.note), "why a figure is missing"),
)

#: Every column by key.
COLUMNS: dict[str, Column] = {column.key: column for column in _TABLE}

#: Other names of a column.
ALIASES = {"layer": "name", "module": "scope", "operator": "op", "output": "outputs", "input": "inputs", "%": "count%"}
ALIASES["backward_%"] = "backward%"

_TEXT = {
    "layer": "name kind inputs outputs params macs count count% memory memory%",
    "op": "name kind layers params params% macs count count% memory memory%",
    "module": "name op layers outputs params params% macs count count% memory memory%",
    "dtype": "name layers params macs macs% count count% weight_bytes output_bytes",
}
_DOCUMENT = {
    "layer": "name kind outputs params macs count count%",
    "op": "name kind layers params macs count count%",
    "module": "name op params macs count count%",
    "dtype": "name layers params macs macs% count count%",
}
_FIGURES = "count macs flops params buffers weight_bytes input_bytes output_bytes activations convention unit"
_DATA = {
    "layer": f"name op origin scope inputs outputs {_FIGURES} times within",
    "op": f"name layers unknown {_FIGURES}",
    "module": f"name op depth layers unknown {_FIGURES}",
    "dtype": f"name layers unknown {_FIGURES}",
}
_DEFAULTS = {"terminal": _TEXT, "document": _DOCUMENT, "program": _DATA}
_DEFAULTS["tree"] = dict.fromkeys(_TEXT, "name kind outputs params params% macs count count%")

#: Of a file with tensors alone.
_TENSORS = {
    "layer": "name origin weights params params% weight_bytes weight_bytes%",
    "op": "name layers params weight_bytes",
    "module": "name layers params params% weight_bytes weight_bytes%",
    "dtype": "name layers params weight_bytes",
}

_TRAINED = {
    False: "backward backward% saved_bytes",
    True: "backward backward_macs backward_flops recomputed_macs saved_bytes",
}


def defaults(audience: str, by: str, profile: Profile) -> tuple[Column, ...]:
    """The columns that are shown by default, to the audience of a format or in a "tree".

    MACs only where the convention counts something else, how often layers run only where control flow is, and the MACs
    of the backward pass where the convention counts none.
    """
    data = audience == "program"
    if not data and profile.rows and all(row.node.op == _TENSOR for row in profile.rows):
        return tuple(COLUMNS[key] for key in _TENSORS[by].split())
    keys = _DEFAULTS[audience][by].split()
    if by == "layer" and not data and any(row.within for row in profile.rows):
        keys.insert(keys.index("outputs") + 1, "times")
    place = keys.index("count%" if "count%" in keys else "count") + 1
    keys[place:place] = _of_training(profile, data)
    for key in profile.convention.display.columns:
        if key not in keys:
            keys.insert(keys.index("count"), key)
    same = profile.convention.name == "macs" and not data
    return tuple(COLUMNS[key] for key in keys if not (same and key == "macs"))


def _of_training(profile: Profile, data: bool) -> list[str]:
    """The columns of a training step, where one was counted."""
    if profile.training is None:
        return []
    if data or profile.convention.counts_backward:
        return _TRAINED[data].split()
    return ["backward_macs", "backward_macs%", "saved_bytes"]


def select(keys: str | Sequence[str]) -> tuple[Column, ...]:
    """The columns of a list of keys, or of a text of keys with commas between them.

    Raises:
        InputError: there is no such column, or none is named.
    """
    names = keys.split(",") if isinstance(keys, str) else keys
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise InputError(f"no columns are named; known: {', '.join(COLUMNS)}")
    chosen = {ALIASES.get(name.lower(), name.lower()): name for name in names}
    return tuple(entry(COLUMNS, key, others=ALIASES, name=name) for key, name in chosen.items())


def order(column: Column, profile: Profile) -> Callable[[Item], str | tuple[int, float | str]]:
    """A sort key: text by the alphabet, else the largest first, the unknown before it, and empty values last."""

    def text(item: Item) -> str:
        return str(cell(column, item, profile)).casefold()

    def size(item: Item) -> tuple[int, float | str]:
        value = cell(column, item, profile)
        value = _elements(value) if column.kind == "shapes" else value
        return by_size(value if value == "" or isinstance(value, int | float) else None)

    return text if column.kind == "text" else size


def _elements(shapes: Value) -> Value:
    if not isinstance(shapes, tuple) or any(shape is None for shape in shapes):
        return None
    total = sum(math.prod(shape) for shape in shapes if shape is not None)
    return total if isinstance(total, int) else None
