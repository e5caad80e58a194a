"""How sparse a model is, as a sheet: one line for each weight or each layer, in every format that writes sheets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from flopwise.analyses.sparsity.measuring import Measured
from flopwise.analyses.sparsity.result import Effective, Layer, Sparsity
from flopwise.errors import InputError, counted
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet import units
from flopwise.report.sheet.columns import AtLeast, Value
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Sheet, figure, only, without_empty

#: The title of blocks: rows are outputs, columns are what an output sums over, as in --block.
BLOCK = "block (out x in)"

#: What a line is.
GROUPINGS = ("tensor", "layer")


class _Column(NamedTuple):
    head: Head
    tensor: Callable[[Measured], Value]


class _OfLayer(NamedTuple):
    head: Head
    layer: Callable[[Layer], Value]


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
    heads, lines, total = (_by_tensor if by == "tensor" else _by_layer)(sparsity)
    zeros = [head.key for head in heads].index("zeros")
    hidden = 0
    if top is not None and top < len(lines):
        hidden = len(lines) - top
        lines = sorted(lines, key=lambda line: _most(line.values[zeros]))[:top]
    more = (
        (f"{counted(hidden, 'more weight')} {'is' if hidden == 1 else 'are'} not shown; the total is of all",)
        if hidden and not data
        else ()
    )
    whole = Sheet(
        heads=tuple(heads),
        lines=tuple(lines),
        total=None if data else total,
        about=() if data else (_about(sparsity, look), look.text(_searched(sparsity))),
        summary=() if data else figures(sparsity, look),
        notes=tuple(look.text(note) for note in (*more, *sparsity.notes)),
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


def _most(zeros: Value) -> int:
    """A sort key: the unknown first, then the most zeros."""
    return -zeros if isinstance(zeros, int) else -(1 << 100)


def _about(sparsity: Sparsity, look: Look) -> str:
    name, source = sparsity.name, sparsity.source
    if not source or source.startswith("<"):
        return look.text(name or "model")
    return look.text(source if not name or name in source else f"{name} ({source})")


def _searched(sparsity: Sparsity) -> str:
    query = sparsity.asked
    ranks = "every rank" if query.ranks is None else "rank " + ", ".join(map(str, sorted(query.ranks)))
    return (
        f"searched: {ranks}, more than {query.min_size} elements, more than {100 * query.min_ratio:g} % zeros, "
        f"{100 * query.tolerance:g} points lost at most"
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _by_tensor(sparsity: Sparsity) -> tuple[list[Head], list[Line], Line]:
    columns = [
        _Column(Head("name", "weight", "text", 0), lambda t: t.name),
        _Column(Head("layer", "layer", "text", 7), lambda t: t.layer),
        _Column(Head("op", "op", "text", 6), lambda t: t.op),
        _Column(Head("shape", "shape", "shapes", 4), lambda t: (t.shape,)),
        _Column(Head("dtype", "dtype", "text", 7), lambda t: t.dtype),
        _Column(Head("elements", "elements", "number", 3), lambda t: t.elements),
        _Column(Head("zero_point", "zero is", "text", 8), lambda t: t.zero_point),
        _Column(Head("zeros", "zeros", "number", 2), lambda t: t.zeros),
        _Column(Head("sparsity", "zeros %", "percent", 1), lambda t: _percent(t.ratio)),
        _Column(Head("zero_block", BLOCK, "text", 2), lambda t: str(t.block or "")),
        _Column(
            Head("zero_block%", "zero blocks %", "percent", 2), lambda t: _percent(t.found.ratio) if t.found else ""
        ),
    ]
    for i, block in enumerate(sparsity.asked.blocks):
        columns.append(_Column(_share(str(block)), _block_ratio(i)))
    for i, pattern in enumerate(sparsity.asked.patterns):
        columns.append(_Column(_share(str(pattern)), _pattern_ratio(i)))
    columns += [
        _Column(Head("zero_outputs", "zero rows", "number", 6), lambda t: t.zero_outputs if len(t.shape) > 1 else ""),
        _Column(Head("zero_inputs", "zero columns", "number", 6), lambda t: t.zero_inputs if len(t.shape) > 1 else ""),
        _Column(Head("note", "note", "text", 9), lambda t: t.note),
    ]
    heads = [column.head for column in columns]
    lines = [
        Line(tuple(column.tensor(t) for column in columns), "unknown" if t.zeros is None else "")
        for t in sparsity.tensors
    ]
    return heads, lines, _sum(heads, _total(sparsity, by_layer=False))


def _share(key: str) -> Head:
    return Head(key, f"{key} %", "percent", 2)


def _block_ratio(index: int) -> Callable[[Measured], Value]:
    return lambda t: _percent(t.blocks[index].ratio) if t.blocks else None


def _pattern_ratio(index: int) -> Callable[[Measured], Value]:
    return lambda t: _percent(t.patterns[index].ratio) if t.patterns else None


def _by_layer(sparsity: Sparsity) -> tuple[list[Head], list[Line], Line]:
    def share(layer: Layer) -> float | None:
        return None if layer.zeros is None else 100 * layer.zeros / layer.elements if layer.elements else 0.0

    columns = [
        _OfLayer(Head("name", "layer", "text", 0), lambda r: r.name),
        _OfLayer(Head("op", "op", "text", 6), lambda r: r.row.node.op),
        _OfLayer(Head("elements", "elements", "number", 4), lambda r: r.elements),
        _OfLayer(Head("zeros", "zeros", "number", 4), lambda r: r.zeros),
        _OfLayer(Head("sparsity", "zeros %", "percent", 1), share),
        _OfLayer(Head("zero_block", BLOCK, "text", 3), lambda r: str(r.block or "")),
        _OfLayer(
            Head("zero_block%", "zero blocks %", "percent", 3), lambda r: _percent(r.found.ratio) if r.found else ""
        ),
        _OfLayer(Head("macs", "MACs", "number", 2), lambda r: r.effective.macs),
        _OfLayer(Head("effective_macs", "without zeros", "number", 1), lambda r: r.effective.zeros),
        _OfLayer(Head("block_macs", "without blocks found", "number", 5), lambda r: r.effective.found),
    ]
    for i, block in enumerate(sparsity.asked.blocks):
        columns.append(_OfLayer(_macs(str(block)), lambda r, i=i: r.effective.blocks[i]))  # type: ignore[misc]
    for i, pattern in enumerate(sparsity.asked.patterns):
        columns.append(_OfLayer(_macs(str(pattern)), lambda r, i=i: r.effective.patterns[i]))  # type: ignore[misc]
    heads = [column.head for column in columns]
    lines = [
        Line(tuple(column.layer(r) for column in columns), "unknown" if r.effective.zeros is None else "")
        for r in sparsity.layers
    ]
    return heads, lines, _sum(heads, _total(sparsity, by_layer=True))


def _macs(key: str) -> Head:
    return Head(f"macs_{key}", f"without {key}", "number", 2)


def _sum(heads: Sequence[Head], total: _Total) -> Line:
    return Line(tuple(total.get(head.key, "") for head in heads))


def _total(sparsity: Sparsity, by_layer: bool) -> _Total:
    figures: _Total = {
        "name": "Total",
        "elements": sparsity.elements + sum(t.elements for t in sparsity.unknown),
        "zeros": _bounded(sparsity.zeros, bool(sparsity.unknown)),
        "sparsity": _percent(sparsity.ratio),
    }
    query, effective = sparsity.asked, sparsity.effective
    matrices = [t for t in sparsity.tensors if len(t.shape) > 1]
    if not by_layer:
        for i, block in enumerate(query.blocks):
            counts = [t.blocks[i] for t in sparsity.tensors if t.blocks]
            figures[str(block)] = _of([c.zero for c in counts], [c.blocks for c in counts])
        for i, pattern in enumerate(query.patterns):
            groups = [t.patterns[i] for t in sparsity.tensors if t.patterns]
            figures[str(pattern)] = _of([g.holding for g in groups], [g.groups for g in groups])
        figures["zero_outputs"] = _bounded(sum(t.zero_outputs or 0 for t in matrices), bool(sparsity.unknown))
        figures["zero_inputs"] = _bounded(sum(t.zero_inputs or 0 for t in matrices), bool(sparsity.unknown))
    elif effective is not None:
        figures |= {key: value for key, _, value in _effective(sparsity, effective)}
    return figures


def _effective(sparsity: Sparsity, effective: Effective) -> list[tuple[str, str, Value]]:
    """Key, title and value of each kind of multiply-accumulates."""
    partial = any(layer.effective.macs is None for layer in sparsity.layers)
    query = sparsity.asked
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
    return [(key, title, _bounded(value, partial)) for key, title, value in kinds]


def _bounded(value: int | None, partial: bool) -> Value:
    return AtLeast(value) if partial and value is not None else value


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
