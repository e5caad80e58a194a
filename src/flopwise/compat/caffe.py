"""``get_flops`` of the pycaffe script: a line for each convolution and inner product of a net, without Caffe.

It takes a ``.prototxt`` and prints the same text, where the script needs Caffe built to load the net. What the script
miscounts is in ``flopwise.conventions.tools.caffe``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import flopwise
from flopwise.conventions.tools.caffe import CONVENTION, caffe_type, layers_with_blobs, lists, params, percent
from flopwise.errors import InputError

__all__ = ["get_flops"]

#: The types of layers that the script counts.
LAYERS = ("Convolution", "DepthwiseConvolution", "InnerProduct")

_TITLES = ("layer name", "Filter Shape", "Output Size", "Params", "Flops", "Ratio")

#: Cells of the columns but the first, which is one wider than the longest name, and the last, which ends the line.
_WIDTHS = (16, 16, 8, 12)


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
    if graph.format != "caffe":
        raise InputError(f"{deploy_file}: is not a Caffe net")
    profile = flopwise.profile(graph, convention=CONVENTION)
    rows = [row for row in profile.rows if lists(row) and caffe_type(row, graph) in flop_layers]
    figures = []
    for row in rows:
        weights = params(row, graph)
        if row.count is None or not isinstance(weights, int):
            raise InputError(f"{deploy_file}: {row.name} cannot be counted ({row.note or 'its shape is unknown'})")
        figures.append((weights, row.count))
    total = sum(count for _, count in figures)
    print(deploy_file)
    if show_detail:
        lines = [_TITLES]
        for row, (weights, count) in zip(rows, figures, strict=True):
            shapes = (_shape(row.node.input(1).dims), _shape(row.node.output().dims))
            share = percent(100 * count / total if total else 0.0)
            lines.append((row.name, *shapes, str(weights), str(count), share))
        width = max([8, *(len(row.name) for row in rows)]) + 1
        for cells in lines:
            print(*(cell.ljust(room) for cell, room in zip(cells, (width, *_WIDTHS, 0), strict=True)))
    print(f"Layers num: {layers_with_blobs(profile.rows)}")
    print(f"Total number of parameters:  {sum(weights for weights, _ in figures)}")
    print(f"Total number of FLOPs:  {total}")
    return sum(weights for weights, _ in figures), total


def _shape(dims: Sequence[object]) -> str:
    return str(tuple(dims))
