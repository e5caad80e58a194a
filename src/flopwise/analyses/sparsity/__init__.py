"""How sparse stored weights are: zeros, blocks, N:M patterns, whole channels, and the work that they save."""

from flopwise.analyses.sparsity.asking import Asked, Block, Order, Pattern, asked, block, pattern
from flopwise.analyses.sparsity.measuring import Groups, Measured, Weight, ZeroBlocks, measure
from flopwise.analyses.sparsity.model import sparsity_of, sparsity_of_stored
from flopwise.analyses.sparsity.result import Effective, Layer, Sparsity
from flopwise.analyses.sparsity.search import Found
from flopwise.analyses.sparsity.zeros import ZeroPoint
from flopwise.graph.stored import Stored

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
