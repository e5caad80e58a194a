"""The rules that calflops and DeepSpeed share: both replace functions by their own, and hook recurrent modules.

Each rule gives multiply-adds and, besides them, other operations; a tool's FLOPs are twice the first and the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from flopwise.conventions.convention import Convention, Display, Whole, attempt
from flopwise.conventions.emulation import as_modules, modules
from flopwise.conventions.emulation.einsum_paths import printed_flops
from flopwise.conventions.emulation.layer import Layer, ranked, recurrent
from flopwise.graph import Graph, Node
from flopwise.operators.counts import CLASSES, Counts
from flopwise.operators.extents import product

#: A function of ``torch`` at a node -> what a tool counts before it calls it.
Rule: TypeAlias = Callable[[Node], Counts]

#: FLOPs: two for a multiply-add, one for anything else that a tool counts.
FLOPS = Counts(mac=2, add=1)

#: Columns of a table of classes.
COLUMNS: dict[str, Counts] = {
    "MACs": Counts(mac=1),
    "other FLOPs": Counts(**{name: 1 for name in CLASSES if name != "mac"}),
}


def elements(node: Node) -> Counts:
    """numel(X) FLOPs."""
    return Counts(add=node.input(0).numel)


def linear(node: Node) -> Counts:
    """numel(X) × output features MACs; the bias is left out."""
    return Counts(mac=node.input(0).numel * as_modules.columns(node))


#: numel(A) × columns of B, whatever is broadcast.
matmul = linear


def sum_of_product(node: Node) -> Counts:
    """numel(A) × columns of B MACs, and one FLOP for each element of what is added."""
    return linear(node) + Counts(add=node.input(2).numel if node.has_input(2) else _added(node))


def _added(node: Node) -> int:
    args = node.attrs.get("args") or {}
    return args["input"].numel if args.get("input") is not None else 0


def convolution(node: Node) -> Counts:
    """MACs, and numel(Y) FLOPs with bias.

    Padding "same" with an even kernel is taken as padding half of it on either side: Y is then one smaller.
    """
    x, weight, y = node.input(0).dims, node.input(1).dims, node.output().dims
    spread = list(y[2:])
    args: Mapping[str, Any] = node.attrs.get("args") or {}
    if args.get("padding") == "same":
        dilations: Any = node.attrs.get("dilations") or [1] * len(spread)
        spread = [n - d * (k - 1) % 2 for n, d, k in zip(spread, dilations, weight[2:], strict=True)]
    positions = product((x[0], *spread))
    return Counts(mac=product(weight) * positions, add=weight[0] * positions if node.has_input(2) else 0)


def batch_norm(node: Node) -> Counts:
    """numel(X) FLOPs, with scale 2 numel(X); in training 4 and 5."""
    scaled, training = node.has_input(1), bool(node.attrs.get("training_mode", 0))
    return Counts(add=node.input(0).numel * ((5 if scaled else 4) if training else (2 if scaled else 1)))


def normalization(node: Node) -> Counts:
    """5 numel(X) FLOPs, without scale 4."""
    return Counts(add=node.input(0).numel * (5 if node.has_input(1) else 4))


def einsum(node: Node) -> Counts:
    """As FLOPs, what numpy prints as its optimised count, with four digits; no MACs."""
    return Counts(add=int(printed_flops(node)))


#: Functions that both tools count alike.
FUNCTIONS: dict[str, Rule] = {
    "linear": linear,
    **dict.fromkeys(ranked("conv"), convolution),
    **dict.fromkeys(["relu", "prelu", "elu", "leaky_relu", "relu6", "silu", "gelu", "softmax"], elements),
    "batch_norm": batch_norm,
    **dict.fromkeys(["layer_norm", "group_norm", "instance_norm"], normalization),
    **dict.fromkeys(ranked("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool"), elements),
    "matmul": matmul,
    **dict.fromkeys(["addmm", "baddbmm"], sum_of_product),
    "einsum": einsum,
}


def _recurrent(layer: Layer) -> Counts:
    """FLOPs: (2n - 1 per product of n, biases, 1, 7 or 10 widths) × the first two dimensions of X × directions."""
    return Counts(add=recurrent(layer, lambda weight: 2 * weight.numel - product(weight.dims[:1])))


#: Class of a module -> what the hook of both tools counts.
HOOKS: dict[str, Callable[[Layer], Counts]] = {
    **{f"{kind}{cell}": _recurrent for kind in ("RNN", "GRU", "LSTM") for cell in ("", "Cell")},
}


def amounts(graph: Graph, rules: Mapping[str, Rule], again: bool) -> list[Counts | None]:
    """The count of a tool at each node.

    Args:
        graph: the model.
        rules: what the tool counts for each function.
        again: whether it adds up a module once for each of its places in the model.
    """
    places = modules.places(graph) if again else {}
    pairs: list[tuple[int, Counts | None]] = []
    for layer in modules.layers(graph):
        if layer.kind in HOOKS:
            counted = attempt(HOOKS[layer.kind], layer)
            pairs.append((layer.at, _times(counted, places.get(layer.path, 1))))
    for at, node in enumerate(graph.nodes):
        for name in modules.functions(node):
            if name in rules:
                counted = attempt(rules[name], node)
                pairs.append((at, _times(counted, places.get(node.module, 1))))
    return modules.placed(graph, pairs)


def _times(counts: Counts | None, number: int) -> Counts | None:
    return counts if counts is None or number == 1 else counts * number


def convention(
    name: str,
    title: str,
    rules: Mapping[str, Rule],
    *,
    again: bool,
    params: Callable[[Graph], int],
    summary: str,
    source: str,
    note: str,
) -> Convention:
    """The convention of such a tool.

    Args:
        name: of the convention.
        title: what the tool is called.
        rules: what it counts for each function.
        again: whether it adds up a module once for each of its places in the model.
        params: its number of parameters.
        summary: of the convention.
        source: where the rules stand.
        note: what it leaves out.
    """

    def counts(graph: Graph, canonical: Sequence[Counts | None]) -> list[Counts | None]:
        return amounts(graph, rules, again)

    def macs(graph: Graph) -> int:
        """A lower bound where the tool fails somewhere."""
        return sum([count.mac for count in amounts(graph, rules, again) if count is not None])

    return Convention(
        name=name,
        unit="FLOP",
        summary=summary,
        source=source,
        weights=FLOPS,
        others="zero",
        fold=False,
        display=Display(classes=COLUMNS),
        overrides=as_modules.in_words(counts, HOOKS, rules),
        whole=Whole(
            counts, totals={"params": params, "macs": macs}, remarks=lambda graph: modules.remarks(title, graph)
        ),
        notes=(note,),
    )
