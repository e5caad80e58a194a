"""Unused work of products on NVIDIA GPUs: padding of tensor cores, and waves of tiles that are not full."""

from __future__ import annotations

import math
from typing import NamedTuple

from flopwise.analyses.timing.device import Device
from flopwise.graph import Node
from flopwise.graph.dtypes import BITS

#: Bytes that rows of a matrix are multiples of, so that tensor cores take them without padding, and rows and columns of
#: the result that a multiprocessor computes at once in the guide's examples: NVIDIA, Matrix Multiplication Background
#: User's Guide.
ALIGNED, TILE = 16, (256, 128)


class Product(NamedTuple):
    """A product of matrices, or a dense convolution as the product that it is."""

    batch: int
    rows: int
    columns: int
    #: What is summed over; of a convolution its channels.
    depth: int


def product_of(node: Node) -> Product | None:
    """The product that an operator is; None for others, and where sizes are unknown."""
    tensors = [node.input(place) for place in (0, 1) if node.has_input(place)]
    if len(tensors) < 2 or not all(tensor.resolved for tensor in (*tensors, *node.known_outputs)):
        return None
    if node.op in ("MatMul", "Gemm"):
        shape = [int(extent) for extent in node.output().dims]
        if len(shape) < 2:
            return None
        batch, rows = math.prod(shape[:-2]), shape[-2]
        if len(tensors[1].dims) == 2:
            batch, rows = 1, batch * rows
        depth = int(tensors[0].dims[0 if node.attrs.get("transA") else -1])
        return Product(batch, rows, shape[-1], depth)
    if node.op == "Conv" and node.attrs.get("group", 1) == 1:
        items, channels, *grid = (int(extent) for extent in node.output().dims)
        return Product(1, items * math.prod(grid), channels, int(tensors[1].dims[1]))
    return None


def padding_share(product: Product, dtype: str, device: Device) -> float | None:
    """The share of the multiply-adds that tensor cores do on padding; None beside GPUs of NVIDIA's."""
    if device.kind != "gpu" or device.vendor.lower() != "nvidia" or not product.columns * product.depth:
        return None
    unit = max(1, 8 * ALIGNED // BITS.get(dtype, 32))
    padded = math.prod(-(-extent // unit) * unit for extent in (product.columns, product.depth))
    return 1 - product.columns * product.depth / padded


def wave_share(product: Product, device: Device) -> float | None:
    """The share of the multiprocessors' time in which they have no tile; None where their number is unknown."""
    tiles = tiles_of(product)
    if device.multiprocessors is None or not tiles:
        return None
    waves = tiles / device.multiprocessors
    return 1 - waves / math.ceil(waves)


def tiles_of(product: Product) -> int:
    """The tiles of its result."""
    return product.batch * math.ceil(product.rows / TILE[0]) * math.ceil(product.columns / TILE[1])
