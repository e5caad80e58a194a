"""How sparse stored weights are: zeros, blocks, N:M patterns, whole channels, and the work that they save.

The room is called ``sparse`` because a submodule ``flopwise.sparsity`` would replace the function of that name.
"""

from flopwise.sparse.asking import Asked, Block, Order, Pattern, asked, block, pattern
from flopwise.sparse.measuring import Groups, Measured, Stored, Weight, ZeroBlocks, measure
from flopwise.sparse.model import Effective, Layer, Sparsity, sparsity_of, sparsity_of_stored
from flopwise.sparse.search import Found
from flopwise.sparse.zeros import ZeroPoint

__all__ = [
    "Asked",
    "Block",
    "Effective",
    "Found",
    "Groups",
    "Layer",
    "Measured",
    "Order",
    "Pattern",
    "Sparsity",
    "Stored",
    "Weight",
    "ZeroBlocks",
    "ZeroPoint",
    "asked",
    "block",
    "measure",
    "pattern",
    "sparsity_of",
    "sparsity_of_stored",
]
