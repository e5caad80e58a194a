"""How sparse a model is, as a sheet: one line for each weight or each layer, in every format that writes sheets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from flopwise.analyses.sparsity.measuring import Measured
from flopwise.analyses.sparsity.result import Effective, Layer, Sparsity
from flopwise.errors import InputError, counted
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet import units
from flopwise.report.sheet.columns import Value, bounded, by_size
from flopwise.report.sheet.sheet import Field, Figure, Head, Line, Look, Sheet, figure, name_of, only, without_empty

#: The title of blocks: rows are outputs, columns are what an output sums over, as in --block.
BLOCK = "block (out x in)"

#: What a line is.
GROUPINGS = ("tensor", "layer")


_Total: TypeAlias = "dict[str, Value]"


def sparsity_report(sparsity: Sparsity, by: str = "", top: int | None = None) -> Report:
    """The sparsity of a model; its JSON always holds both its tensors and its layers.

    Args:
        sparsity: what to write.
        by: one line for each "tensor" or "layer"; "": tensor.
        top: how many lines to show, those with the most zeros.

    Raises:
        InputError: the grouping is unknown, or the file has no layers.
    """
    by = by or "tensor"
    if by not in GROUPINGS:
        raise InputError(f"cannot group by {by!r}; choose tensor or layer")

    def sheets(format: Format, look: Look) -> list[Sheet]:
        if by == "layer" and sparsity.effective is None and not sparsity.layers:
            raise InputError(f"{sparsity.source or sparsity.name}: holds tensors and no layers; ask for --by tensor")
        return [sheet(sparsity, by, top, look, format.data)]

    return Report(sheets, sparsity.to_dict)


def sheet(sparsity: Sparsity, by: str, top: int | None, look: Look, data: bool) -> Sheet:
    """The lines, their sum, and the figures of the whole model."""
    whole = _by_tensor(sparsity) if by == "tensor" else _by_layer(sparsity)
    totals = _total(sparsity, by_layer=by == "layer")
    zeros = [head.key for head in whole.heads].index("zeros")
    hidden, lines = max(len(whole.lines) - top, 0) if top is not None else 0, whole.lines
    if hidden:
        lines = tuple(sorted(lines, key=lambda line: by_size(line.values[zeros]))[:top])
    more = f"{counted(hidden, 'more weight')} {'is' if hidden == 1 else 'are'} not shown; the total is of all"
    whole = whole._replace(
        lines=lines,
        total=None if data else Line(tuple(totals.get(head.key, "") for head in whole.heads)),
        about=() if data else (look.text(name_of(sparsity.name, sparsity.source)), look.text(_searched(sparsity))),
        summary=() if data else figures(sparsity, look),
        notes=tuple(look.text(note) for note in (*([more] if hidden and not data else []), *sparsity.notes)),
        complete=True,
    )
    return whole if data else without_empty(_without_blocks(whole))


def _without_blocks(sheet: Sheet) -> Sheet:
    """The sheet without the share of zero blocks where no block was found."""
    keys = [head.key for head in sheet.heads]
    block = keys.index("zero_block")
    if any(line.values[block] for line in sheet.lines):
        return sheet
    return only(sheet, [i for i, key in enumerate(keys) if key not in ("zero_block", "zero_block%")])


def _searched(sparsity: Sparsity) -> str:
    query = sparsity.query
    ranks = "every rank" if query.ranks is None else "rank " + ", ".join(map(str, sorted(query.ranks)))
    return (
        f"searched: {ranks}, more than {query.min_size} elements, more than {100 * query.min_ratio:g} % zeros, "
        f"{100 * query.tolerance:g} points lost at most"
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _by_tensor(sparsity: Sparsity) -> Sheet:
    columns: list[Field[Measured]] = [
        Field(Head("name", "weight", "text", 0), lambda t: t.name),
        Field(Head("layer", "layer", "text", 7), lambda t: t.layer),
        Field(Head("op", "op", "text", 6), lambda t: t.op),
        Field(Head("shape", "shape", "shapes", 4), lambda t: (t.shape,)),
        Field(Head("dtype", "dtype", "text", 7), lambda t: t.dtype),
        Field(Head("elements", "elements", "number", 3), lambda t: t.elements),
        Field(Head("zero_point", "zero is", "text", 8), lambda t: t.zero_point),
        Field(Head("zeros", "zeros", "number", 2), lambda t: t.zeros),
        Field(Head("sparsity", "zeros %", "percent", 1), lambda t: _percent(t.ratio)),
        Field(Head("zero_block", BLOCK, "text", 2), lambda t: str(t.block or "")),
        Field(Head("zero_block%", "zero blocks %", "percent", 2), lambda t: _percent(t.found.ratio) if t.found else ""),
        *(_ratio(str(block), i, "blocks") for i, block in enumerate(sparsity.query.blocks)),
        *(_ratio(str(pattern), i, "patterns") for i, pattern in enumerate(sparsity.query.patterns)),
        Field(Head("zero_outputs", "zero rows", "number", 6), lambda t: t.zero_outputs if len(t.shape) > 1 else ""),
        Field(Head("zero_inputs", "zero columns", "number", 6), lambda t: t.zero_inputs if len(t.shape) > 1 else ""),
        Field(Head("note", "note", "text", 9), lambda t: t.note),
    ]
    return Sheet.of(columns, sparsity.tensors, lambda t: "unknown" if t.zeros is None else "")


def _ratio(key: str, index: int, of: str) -> Field[Measured]:
    """The share of the blocks or groups of a pattern that hold it, as asked for."""

    def value(tensor: Measured) -> Value:
        counts = getattr(tensor, of)
        return _percent(counts[index].ratio) if counts else None

    return Field(Head(key, f"{key} %", "percent", 2), value)


def _by_layer(sparsity: Sparsity) -> Sheet:
    def share(layer: Layer) -> float | None:
        return None if layer.zeros is None else 100 * layer.zeros / layer.elements if layer.elements else 0.0

    def without(key: str, index: int, of: str) -> Field[Layer]:
        head = Head(f"macs_{key}", f"without {key}", "number", 2)
        return Field(head, lambda r: cast(Value, getattr(r.effective, of)[index]))

    columns: list[Field[Layer]] = [
        Field(Head("name", "layer", "text", 0), lambda r: r.name),
        Field(Head("op", "op", "text", 6), lambda r: r.row.node.op),
        Field(Head("elements", "elements", "number", 4), lambda r: r.elements),
        Field(Head("zeros", "zeros", "number", 4), lambda r: r.zeros),
        Field(Head("sparsity", "zeros %", "percent", 1), share),
        Field(Head("zero_block", BLOCK, "text", 3), lambda r: str(r.block or "")),
        Field(Head("zero_block%", "zero blocks %", "percent", 3), lambda r: _percent(r.found.ratio) if r.found else ""),
        Field(Head("macs", "MACs", "number", 2), lambda r: r.effective.macs),
        Field(Head("effective_macs", "without zeros", "number", 1), lambda r: r.effective.zeros),
        Field(Head("block_macs", "without blocks found", "number", 5), lambda r: r.effective.found),
        *(without(str(block), i, "blocks") for i, block in enumerate(sparsity.query.blocks)),
        *(without(str(pattern), i, "patterns") for i, pattern in enumerate(sparsity.query.patterns)),
    ]
    return Sheet.of(columns, sparsity.layers, lambda r: "unknown" if r.effective.zeros is None else "")


def _total(sparsity: Sparsity, by_layer: bool) -> _Total:
    figures: _Total = {
        "name": "Total",
        "elements": sparsity.elements + sum(t.elements for t in sparsity.unknown),
        "zeros": bounded(sparsity.zeros, not sparsity.unknown),
        "sparsity": _percent(sparsity.ratio),
    }
    query, effective = sparsity.query, sparsity.effective
    matrices = [t for t in sparsity.tensors if len(t.shape) > 1]
    if not by_layer:
        for i, block in enumerate(query.blocks):
            counts = [t.blocks[i] for t in sparsity.tensors if t.blocks]
            figures[str(block)] = _of([c.zero for c in counts], [c.blocks for c in counts])
        for i, pattern in enumerate(query.patterns):
            groups = [t.patterns[i] for t in sparsity.tensors if t.patterns]
            figures[str(pattern)] = _of([g.holding for g in groups], [g.groups for g in groups])
        figures["zero_outputs"] = bounded(sum(t.zero_outputs or 0 for t in matrices), not sparsity.unknown)
        figures["zero_inputs"] = bounded(sum(t.zero_inputs or 0 for t in matrices), not sparsity.unknown)
    elif effective is not None:
        figures |= {key: value for key, _, value in _effective(sparsity, effective)}
    return figures


def _effective(sparsity: Sparsity, effective: Effective) -> list[tuple[str, str, Value]]:
    """Key, title and value of each kind of multiply-accumulates."""
    exact = all(layer.effective.macs is not None for layer in sparsity.layers)
    query = sparsity.query
    kinds: list[tuple[str, str, int | None]] = [
        ("macs", "MACs", effective.macs),
        ("effective_macs", "MACs without zeros", effective.zeros),
        ("block_macs", "MACs without the zero blocks found", effective.found),
    ]
    kinds += [
        (f"macs_{b}", f"MACs without zero blocks of {b}", n)
        for b, n in zip(query.blocks, effective.blocks, strict=True)
    ]
    kinds += [
        (f"macs_{p}", f"MACs with {p} where it holds", n)
        for p, n in zip(query.patterns, effective.patterns, strict=True)
    ]
    return [(key, title, bounded(value, exact)) for key, title, value in kinds]


def _of(parts: Sequence[int], wholes: Sequence[int]) -> float | None:
    return 100 * sum(parts) / sum(wholes) if sum(wholes) else None


def figures(sparsity: Sparsity, look: Look) -> tuple[Figure, ...]:
    """The zeros of all weights, and the multiply-accumulates that are left without them."""
    total = _total(sparsity, by_layer=False)
    share = sparsity.ratio
    rows: list[tuple[str, Value, str]] = [
        ("weight elements", total["elements"], ""),
        ("zeros", total["zeros"], ""),
        ("zeros %", None if share is None else units.percent(100 * share), ""),
    ]
    if sparsity.effective is not None:
        rows += [(title, value, "MAC") for _, title, value in _effective(sparsity, sparsity.effective)]
    return tuple(figure(title, value, unit, look) for title, value, unit in rows)
