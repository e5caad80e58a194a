"""What an operator executes, found by executing it: plain definitions on numbers that count.

Nothing here knows a formula. A definition is the operator's textbook loop, written with :class:`Number`, which notes
each operation it takes part in; padding is made of ordinary zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tests.operators.oracle import (
    attention,
    caffe,
    classical,
    detection,
    domains,
    early,
    generation,
    linear,
    losses,
    normalization,
    optimizers,
    pointwise,
    pooling,
    quantized,
    recurrent,
    reduction,
    resize,
    selection,
    spectral,
    text,
    trees,
)
from tests.operators.oracle.number import Number, numbers, values

__all__ = ["ALGORITHMS", "DEFINITIONS", "Definition", "Number", "numbers", "values"]

#: Arrays of numbers (or plain arrays, for what is not arithmetic) and attributes -> an array, or a tuple of arrays.
Definition: TypeAlias = Callable[..., Any]

DEFINITIONS: Mapping[str, Definition] = {
    **linear.DEFINITIONS,
    **quantized.DEFINITIONS,
    **attention.DEFINITIONS,
    **recurrent.DEFINITIONS,
    **pooling.DEFINITIONS,
    **normalization.DEFINITIONS,
    **reduction.DEFINITIONS,
    **pointwise.DEFINITIONS,
    **resize.DEFINITIONS,
    **selection.DEFINITIONS,
    **losses.DEFINITIONS,
    **spectral.DEFINITIONS,
    **generation.DEFINITIONS,
    **optimizers.DEFINITIONS,
    **classical.DEFINITIONS,
    **early.DEFINITIONS,
    **domains.DEFINITIONS,
    **caffe.DEFINITIONS,
}

#: Operators whose work depends on the data: the rule must bound what these execute.
ALGORITHMS: Mapping[str, Definition] = {
    **linear.ALGORITHMS,
    **selection.ALGORITHMS,
    **detection.ALGORITHMS,
    **spectral.ALGORITHMS,
    **generation.ALGORITHMS,
    **classical.ALGORITHMS,
    **text.ALGORITHMS,
    **trees.ALGORITHMS,
    **caffe.ALGORITHMS,
}
