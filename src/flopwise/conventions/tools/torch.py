"""PyTorch's FlopCounterMode: two FLOP for each multiply-accumulate of matrix products, convolutions and attention.

Source: https://github.com/pytorch/pytorch, ``torch/utils/flop_counter.py`` of the release 2.13. It counts what reaches
PyTorch's dispatcher on meta tensors, where attention and recurrent layers are taken apart into matrix products; on a
CPU they are one kernel that it does not know, and its figure lacks them. What is not in its registry counts nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flopwise.conventions.convention import Convention, Whole, attempt, by_node, described
from flopwise.conventions.emulation.dispatcher import convolutions, is_product, kernels
from flopwise.graph import Graph, Node
from flopwise.operators import tables
from flopwise.operators.counts import Counts


def count(node: Node, counts: Counts | None) -> Counts | None:
    """The multiply-accumulates that reach the dispatcher."""
    every = kernels(node, counts, fused=False)
    return None if every is None else Counts(mac=sum([kernel.mac for kernel in every]))


def missed(graph: Graph, fused: bool) -> Iterator[str]:
    """The operators that multiply matrices and of which the tool sees nothing, in one line.

    Args:
        graph: the model.
        fused: see ``flopwise.conventions.emulation.dispatcher.kernels``.
    """
    tally: Counter[str] = Counter()
    for node in graph.nodes:
        counts = attempt(tables.on_elements, node)
        dispatched = attempt(kernels, node, counts, fused)
        if dispatched == () and is_product(node) and (counts is None or counts.mac):
            tally[node.origin or node.op] += 1
    if tally:
        listed = ", ".join(f"{name} {times}" for name, times in sorted(tally.items()))
        yield f"the tool sees nothing of these products: {listed}"


def backward(node: Node, wrt: frozenset[int], counts: Counts) -> Counts:
    """The multiply-accumulates of gradients that reach the dispatcher.

    Of a convolution with groups the tool takes the gradient of the weight as if all channels met
    (``conv_backward_flop``).
    """
    forward = count(node, tables.on_elements(node))
    if not is_product(node) or forward is None or not forward.mac:
        return Counts()
    more = node.attrs.get("group", 1) - 1 if node.op in ("Conv", "ConvTranspose") and 1 in wrt else 0
    return Counts(mac=counts.mac * convolutions(node) + more * forward.mac)


_WORDS = dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "Einsum", "Attention", "LSTM", "GRU", "RNN"), "mac")
_WORDS["MatMul"] = "mac; nothing for a vector on the right"

CONVENTION = Convention(
    name="torch",
    unit="FLOP",
    summary="PyTorch's FlopCounterMode on meta tensors: matrix products, convolutions and attention, and nothing else.",
    source="PyTorch 2.13, torch/utils/flop_counter.py",
    weights=Counts(mac=2),
    overrides={op: described(lambda node, counts: count(node, counts), words) for op, words in _WORDS.items()},
    others="zero",
    fold=False,
    whole=Whole(by_node(count), remarks=lambda graph: missed(graph, fused=False)),
    backward=backward,
)
