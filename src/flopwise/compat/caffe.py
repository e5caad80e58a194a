"""``get_flops`` of the pycaffe script: a line for each convolution and inner product of a net, without Caffe.

It takes a ``.prototxt`` and prints the same text, where the script needs Caffe built to load the net. What the script
miscounts is in ``flopwise.conventions.caffe``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import flopwise
from flopwise._arguments import checked
from flopwise.conventions.caffe import CAFFE, caffe_type, layers_with_blobs, lists, params, percent
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.rows import Row

__all__ = ["get_flops"]

#: The types of layers that the script counts.
LAYERS = ("Convolution", "DepthwiseConvolution", "InnerProduct")

#: Cells of the columns but the first, which is one wider than the longest name, and the last, which ends the line.
_WIDTHS = (16, 16, 8, 12)


@checked
def get_flops(
    deploy_file: str | os.PathLike[str], show_detail: bool = True, flop_layers: Sequence[str] = LAYERS
) -> tuple[int, int]:
    """Prints the layers of a Caffe net with their filters, outputs, parameters and FLOPs, and the sums.

    What is called FLOPs are multiply-accumulates of one image; biases do not count.

    Args:
        deploy_file: a ``.prototxt``.
        show_detail: whether there is a line for each layer, and not the sums alone.
        flop_layers: the types of layers that count, among those that the script can count.

    Returns:
        The parameters and the FLOPs.

    Raises:
        ModelError: the net cannot be read.
        InputError: it is not a Caffe net, a layer cannot be counted, or a type is none that the script can count.
    """
    unknown = [name for name in flop_layers if name not in LAYERS]
    if unknown:
        raise InputError(f"get_flops counts no layers of type {unknown[0]!r}, but {', '.join(LAYERS)}")
    graph = flopwise.read(deploy_file)
    if not graph.caffe:
        raise InputError(f"{deploy_file}: is not a Caffe net")
    profile = flopwise.profile(graph, convention=CAFFE)
    rows = [row for row in profile.rows if lists(row) and caffe_type(row, graph) in flop_layers]
    weights = total = 0
    for row in rows:
        stored = params(row, graph)
        if row.count is None or not isinstance(stored, int):
            why = row.note or "its shape is unknown"
            raise InputError(f"{deploy_file}: {row.name} cannot be counted ({why})")
        weights, total = weights + stored, total + row.count
    print(deploy_file)
    if show_detail:
        print("\n".join(_lines(rows, graph, total)))
    print(f"Layers num: {layers_with_blobs(profile.rows)}")
    print(f"Total number of parameters:  {weights}")
    print(f"Total number of FLOPs:  {total}")
    return weights, total


def _lines(rows: Sequence[Row], graph: Graph, total: int) -> Iterator[str]:
    """The titles and a line for each layer."""
    table = CAFFE.display.table
    assert table is not None
    widths = (max([8, *(len(row.name) for row in rows)]) + 1, *_WIDTHS, 0)
    lines = [[table.name, *(column.title for column in table.columns)]]
    for row in rows:
        cells = [(column.show or str)(column.value(row, graph)) for column in table.columns[:-1]]
        lines.append([row.name, *cells, percent(100 * (row.count or 0) / total if total else 0.0)])
    return (" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
