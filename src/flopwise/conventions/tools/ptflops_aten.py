"""ptflops with its ATen backend: multiply-adds of matrix products and convolutions, and one for each added bias.

Source: https://github.com/sovrasov/flops-counter.pytorch, ``ptflops/aten_ops.py`` and ``aten_engine.py`` of the release
0.7.5 on the Python package index. It counts mm, addmm, bmm and convolution as they reach PyTorch's dispatcher on a CPU;
attention and LSTM are one kernel each there, of which it sees nothing, and a linear layer on elements that are not in
row-major order is mm without a bias.
"""

from __future__ import annotations

from flopwise.conventions.convention import Convention, Whole, by_node, described
from flopwise.conventions.emulation import modules
from flopwise.conventions.emulation.dispatcher import kernels
from flopwise.conventions.tools.torch import missed
from flopwise.graph import Node
from flopwise.operators.counts import Counts

#: What the tool has a rule for.
_COUNTED = frozenset({"mm", "addmm", "bmm", "convolution"})


def count(node: Node, counts: Counts | None) -> Counts | None:
    """The multiply-accumulates at the dispatcher, and one add for each element that a bias is added to."""
    every = kernels(node, counts, fused=True)
    if every is None:
        return None
    counted = [kernel for kernel in every if kernel.name in _COUNTED]
    return Counts(mac=sum([k.mac for k in counted]), add=sum([k.results for k in counted if k.biased]))


_WORDS = {
    **dict.fromkeys(("Conv", "ConvTranspose"), "mac, and numel(Y) for a bias"),
    "Gemm": "mac, and numel(Y) for a bias where PyTorch calls addmm",
    "MatMul": "mac; nothing for a vector on the right",
    "Einsum": "mac of products that sum over something",
    **dict.fromkeys(("Attention", "LSTM"), "nothing: one kernel on a CPU"),
    **dict.fromkeys(("GRU", "RNN"), "mac, and the biases"),
}

CONVENTION = Convention(
    name="ptflops-aten",
    unit="MAC",
    summary="ptflops with its ATen backend: multiply-adds of matrix products and convolutions, and their biases.",
    source="ptflops 0.7.5, ptflops/aten_ops.py",
    weights=Counts(mac=1, add=1),
    overrides={op: described(lambda node, counts: count(node, counts), words) for op, words in _WORDS.items()},
    others="zero",
    fold=False,
    whole=Whole(by_node(count), totals={"params": modules.trained}, remarks=lambda graph: missed(graph, fused=True)),
)
