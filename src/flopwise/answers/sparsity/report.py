"""The sparsity of a model as a sheet: one line for each weight or each layer, in every format that writes sheets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from flopwise.answers.sparsity.measuring import Measured
from flopwise.answers.sparsity.model import Effective, Layer, Sparsity
from flopwise.errors import InputError, counted
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.listing import name_of
from flopwise.report.sheet.sheet import Field, Figure, Head, Look, Sheet, bounded, by_size, figure, percent

#: The title of blocks: rows are outputs, columns are what an output sums over, as in --block.
BLOCK = "block (out x in)"

T = TypeVar("T", Measured, Layer)

#: What a line is.
GROUPINGS = ("tensor", "layer")


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
        return [_sheet(sparsity, by, top, look, format.data)]

    return Report(sheets, sparsity.to_dict)


def _sheet(sparsity: Sparsity, by: str, top: int | None, look: Look, data: bool) -> Sheet:
    """The lines, their sum, and the figures of the whole model."""
    if by == "tensor":
        tensors = _most_zeros(sparsity.tensors, top)
        sheet = Sheet.of(_of_tensors(sparsity), tensors, lambda t: "unknown" if t.zeros is None else "")
        hidden, block = len(sparsity.tensors) - len(tensors), any(t.block for t in tensors)
    else:
        layers = _most_zeros(sparsity.layers, top)
        sheet = Sheet.of(_of_layers(sparsity), layers, lambda r: "unknown" if r.effective.zeros is None else "")
        hidden, block = len(sparsity.layers) - len(layers), any(r.block for r in layers)
    more = f"{counted(hidden, 'more weight')} {'is' if hidden == 1 else 'are'} not shown; the total is of all"
    return sheet.only(lambda _, head: data or block or head.key != "zero_block%")._replace(
        about=look.texts([name_of(sparsity.name, sparsity.source), _searched(sparsity)]),
        summary=tuple(_figures(sparsity, look)),
        notes=look.texts([*([more] if hidden else []), *sparsity.notes]),
        skip_empty=True,
    )


def _most_zeros(items: Sequence[T], top: int | None) -> Sequence[T]:
    """The tensors or layers with the most zeros; all in their order where they are no more than ``top``."""
    return items if top is None or top >= len(items) else sorted(items, key=lambda item: by_size(item.zeros))[:top]


def _searched(sparsity: Sparsity) -> str:
    query = sparsity.query
    ranks = "every rank" if query.ranks is None else "rank " + ", ".join(map(str, sorted(query.ranks)))
    return (
        f"searched: {ranks}, more than {query.min_size} elements, more than {100 * query.min_ratio:g} % zeros, "
        f"{100 * query.tolerance:g} points lost at most"
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _of_tensors(sparsity: Sparsity) -> list[Field[Measured]]:
    matrices, exact = [t for t in sparsity.tensors if len(t.shape) > 1], not sparsity.unknown
    rows = bounded(sum(t.zero_outputs or 0 for t in matrices), exact)
    columns = bounded(sum(t.zero_inputs or 0 for t in matrices), exact)
    return [
        Field(Head("name", "weight", "text", 0), lambda t: t.name, total="Total"),
        Field(Head("layer", "layer", "text", 7), lambda t: t.layer),
        Field(Head("op", "op", "text", 6), lambda t: t.op),
        Field(Head("shape", "shape", "shapes", 4), lambda t: (t.shape,)),
        Field(Head("dtype", "dtype", "text", 7), lambda t: t.dtype),
        Field(Head("elements", "elements", "number", 3), lambda t: t.elements, total=_elements(sparsity)),
        Field(Head("zero_point", "zero value", "text", 8), lambda t: t.zero_point),
        Field(Head("zeros", "zeros", "number", 2), lambda t: t.zeros, total=bounded(sparsity.zeros, exact)),
        Field(Head("sparsity", "zeros %", "percent", 1), lambda t: _percent(t.ratio), total=_percent(sparsity.ratio)),
        Field(Head("zero_block", BLOCK, "text", 2), lambda t: str(t.block or "")),
        Field(Head("zero_block%", "zero blocks %", "percent", 2), lambda t: _percent(t.found.ratio) if t.found else ""),
        *(_zero_blocks(sparsity, i) for i in range(len(sparsity.query.blocks))),
        *(_holding(sparsity, i) for i in range(len(sparsity.query.patterns))),
        Field(
            Head("zero_outputs", "zero rows", "number", 6),
            lambda t: t.zero_outputs if len(t.shape) > 1 else "",
            total=rows,
        ),
        Field(
            Head("zero_inputs", "zero columns", "number", 6),
            lambda t: t.zero_inputs if len(t.shape) > 1 else "",
            total=columns,
        ),
        Field(Head("note", "note", "text", 9), lambda t: t.note),
    ]


def _elements(sparsity: Sparsity) -> int:
    return sparsity.elements + sum(t.elements for t in sparsity.unknown)


def _zero_blocks(sparsity: Sparsity, index: int) -> Field[Measured]:
    """The share of zero blocks of a shape that was asked for."""
    key, every = str(sparsity.query.blocks[index]), [t.blocks[index] for t in sparsity.tensors if t.blocks]
    return Field(
        Head(key, f"{key} %", "percent", 2),
        lambda t: _percent(t.blocks[index].ratio) if t.blocks else None,
        total=_share(sum(blocks.zero for blocks in every), sum(blocks.blocks for blocks in every)),
    )


def _holding(sparsity: Sparsity, index: int) -> Field[Measured]:
    """The share of groups that hold a pattern that was asked for."""
    key, every = str(sparsity.query.patterns[index]), [t.patterns[index] for t in sparsity.tensors if t.patterns]
    return Field(
        Head(key, f"{key} %", "percent", 2),
        lambda t: _percent(t.patterns[index].ratio) if t.patterns else None,
        total=_share(sum(groups.holding for groups in every), sum(groups.groups for groups in every)),
    )


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _of_layers(sparsity: Sparsity) -> list[Field[Layer]]:
    def zeros(layer: Layer) -> float | None:
        return None if layer.zeros is None else 100 * layer.zeros / layer.elements if layer.elements else 0.0

    total = bounded(sparsity.zeros, not sparsity.unknown)
    return [
        Field(Head("name", "layer", "text", 0), lambda r: r.name, total="Total"),
        Field(Head("op", "op", "text", 6), lambda r: r.row.node.op),
        Field(Head("elements", "elements", "number", 4), lambda r: r.elements, total=_elements(sparsity)),
        Field(Head("zeros", "zeros", "number", 4), lambda r: r.zeros, total=total),
        Field(Head("sparsity", "zeros %", "percent", 1), zeros, total=_percent(sparsity.ratio)),
        Field(Head("zero_block", BLOCK, "text", 3), lambda r: str(r.block or "")),
        Field(Head("zero_block%", "zero blocks %", "percent", 3), lambda r: _percent(r.found.ratio) if r.found else ""),
        *(column for _, column in _macs(sparsity)),
    ]


def _macs(sparsity: Sparsity) -> list[tuple[str, Field[Layer]]]:
    """Multiply-accumulates that are left without zeros of each kind: what a model's are called, and their column."""
    exact, effective = all(layer.effective.macs is not None for layer in sparsity.layers), sparsity.effective
    query = sparsity.query

    def kind(
        key: str, heading: str, rank: int, title: str, macs: Callable[[Effective], int | None]
    ) -> tuple[str, Field[Layer]]:
        total = "" if effective is None else bounded(macs(effective), exact)
        return title, Field(Head(key, heading, "number", rank), lambda layer: macs(layer.effective), total=total)

    def asked(name: str, title: str, macs: Callable[[Effective], int | None]) -> tuple[str, Field[Layer]]:
        return kind(f"macs_{name}", f"without {name}", 2, title.format(name), macs)

    return [
        kind("macs", "MACs", 2, "MACs", lambda e: e.macs),
        kind("effective_macs", "without zeros", 1, "MACs without zeros", lambda e: e.zeros),
        kind("block_macs", "without blocks found", 5, "MACs without the zero blocks found", lambda e: e.found),
        *(asked(str(each), "MACs without zero blocks of {}", _block(i)) for i, each in enumerate(query.blocks)),
        *(asked(str(each), "MACs with {} where it holds", _pattern(i)) for i, each in enumerate(query.patterns)),
    ]


def _block(index: int) -> Callable[[Effective], int | None]:
    return lambda effective: effective.blocks[index]


def _pattern(index: int) -> Callable[[Effective], int | None]:
    return lambda effective: effective.patterns[index]


def _figures(sparsity: Sparsity, look: Look) -> Iterator[Figure]:
    """The zeros of all weights, and the multiply-accumulates that are left without them."""
    zeros = None if sparsity.ratio is None else percent(100 * sparsity.ratio)
    yield figure("weight elements", _elements(sparsity), "", look)
    yield figure("zeros", bounded(sparsity.zeros, not sparsity.unknown), "", look)
    yield figure("zeros %", zeros, "", look)
    for title, column in _macs(sparsity) if sparsity.effective is not None else ():
        yield figure(title, column.total, "MAC", look)
