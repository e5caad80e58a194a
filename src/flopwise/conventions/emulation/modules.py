"""A model as tools see it that hang hooks on modules or put themselves in the place of functions.

A file has no modules; each of its operators then stands for the module and the function that it would be in PyTorch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from flopwise.conventions.emulation import as_modules, scopes
from flopwise.conventions.emulation.layer import Layer, bare
from flopwise.graph import Call, Graph, Node, Submodule, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.extents import product

#: What one unit of a tool's work is worth where, by position in ``Graph.nodes``; None where the tool fails.
Amounts: TypeAlias = "Iterable[tuple[int, Counts | None]]"


def parent_of(path: str) -> str:
    """Path of the module that holds the one of this path.

    >>> parent_of("layer1.0.conv1"), parent_of("fc")
    ('layer1.0', '')
    """
    return path.rpartition(".")[0]


def children(graph: Graph) -> dict[str, list[Submodule]]:
    """The modules that each module holds, by path and in order."""
    held: dict[str, list[Submodule]] = {module.path: [] for module in graph.program.modules}
    for module in graph.program.modules:
        if module.path:
            held[parent_of(module.path)].append(module)
    return held


def trained(graph: Graph) -> int:
    """Elements of the parameters that require a gradient, a shared one once; for a file, those of all weights."""
    return sum({t.name: t.numel for t in _parameters(graph) if t.grad or not graph.program.modules}.values())


def parameters(graph: Graph) -> int:
    """Elements of all parameters, a shared one once."""
    return sum({t.name: t.numel for t in _parameters(graph)}.values())


def _parameters(graph: Graph) -> Iterator[Tensor]:
    if graph.program.modules:
        stored = (t for module in graph.program.modules for t in module.tensors.values())
    else:
        stored = (t for node in graph.nodes for t in node.known_inputs)
    return (t for t in stored if t.kind == "weight" and t.resolved)


def layers(graph: Graph) -> list[Layer]:
    """All calls of modules in the order in which they began.

    Of a file those that its exporter wrote down; without them each operator is the module that it would come from.
    """
    if not graph.program.modules:
        if scopes.has_classes(graph):
            return scopes.calls(graph)
        return [layer for at, node in enumerate(graph.nodes) for layer in as_modules.as_layer(node, at)]
    modules = {module.path: module for module in graph.program.modules}
    return [_layer(graph, call, modules[call.path]) for call in graph.program.calls]


def _layer(graph: Graph, call: Call, module: Submodule) -> Layer:
    return Layer(
        call.path,
        bare(module.kind),
        frozenset([bare(base) for base in module.bases]),
        module.options,
        module.tensors,
        call.inputs,
        call.outputs,
        call.positional,
        module.training,
        _main(graph.nodes, call),
    )


def _main(nodes: Sequence[Node], call: Call) -> int:
    """Where the count of a call stands: its last node with weights, else its first node, else the one before."""
    for position in range(call.last - 1, call.first - 1, -1):
        if any(t.kind == "weight" for t in nodes[position].known_inputs):
            return position
    return min(call.first, len(nodes) - 1)


#: Functions as a program reaches them -> what the tools call them. Those of ``torch.nn.functional`` keep their name.
_FUNCTIONS: dict[str, str] = {
    **{f"torch.{kind}{rank}d": f"{kind}{rank}d" for kind in ("conv", "conv_transpose") for rank in (1, 2, 3)},
    **{f"torch.{kind}1d": f"{kind}1d" for kind in ("avg_pool", "adaptive_avg_pool")},
    "torch.prelu": "prelu",
    **{
        f"{home}.{name}": name
        for home in ("torch", "torch.Tensor")
        for name in ("mm", "bmm", "addmm", "matmul", "add", "mul")
    },
    **{f"torch.{name}": name for name in ("baddbmm", "einsum")},
    "torch.Tensor.__matmul__": "@",
}

_FUNCTIONAL = "torch.nn.functional."

#: Modules that keep the function that they call: a tool that replaces functions later does not see the call.
_KEEPERS: frozenset[str] = frozenset({"TransformerEncoderLayer", "TransformerDecoderLayer", "GELUActivation"})
_KEPT: frozenset[str] = frozenset({"relu", "gelu"})


def functions(node: Node) -> list[str]:
    """The functions that a program went through to a node, outermost first, by the names that the tools use.

    Functions of ``torch.nn.functional``, and products and sums of ``torch`` and of tensors, have their bare name; the
    operator ``@`` is "@". ``+`` and ``*`` are none. Of a file, the function that does what the operator does.
    """
    if not node.via:
        inside = node.origin.startswith("aten.") and not node.version  # of a program, a part of what it called
        name = "" if inside else as_modules.function(node)
        fused = bool(node.scope) and node.scope[-1].kind == "MultiheadAttention"  # calls one function for all of it
        return [name] if name and (name == "linear" or not fused) else []
    names: list[str] = []
    for step in node.via:
        called = _FUNCTIONS.get(step)
        if called is None and step.startswith(_FUNCTIONAL):
            called = step.removeprefix(_FUNCTIONAL).removesuffix("_with_indices")
        if called is not None and called not in names:
            names.append(called)
    if node.scope and node.scope[-1].kind in _KEEPERS:
        return [name for name in names if name not in _KEPT]
    return names


def from_the_left(node: Node) -> int:
    """Elements of a result of two operands, were their axes paired from the left, as some tools do by mistake."""
    shapes = [list(t.dims) for t in node.known_inputs[:2]]
    longest: list[Any] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        longest[: len(shape)] = [max(a, b) for a, b in zip(longest, shape, strict=False)]
    return product(longest)


def scales(node: Node) -> tuple[float, ...] | list[float] | None:
    """The scale of each axis of an upsampling; a list where one number was given; None where a size was."""
    args = node.attrs.get("args") or {}
    if args.get("output_size") is not None:
        return None
    return next(
        (v for v in args.values() if isinstance(v, (list, tuple)) and v and isinstance(v[0], (int, float))), None
    )


def placed(graph: Graph, amounts: Amounts) -> list[Counts | None]:
    """The sum of amounts at each node; None where one of them is."""
    sums: list[Counts | None] = [Counts()] * len(graph.nodes)
    for at, amount in amounts:
        if 0 <= at < len(sums):
            held = sums[at]
            sums[at] = None if held is None or amount is None else held + amount
    return sums


def shared_out(amounts: Iterable[Fraction | int | None]) -> list[int | None]:
    """Whole numbers whose sum is the sum of the amounts, rounded down.

    >>> shared_out([Fraction(3, 2), Fraction(3, 2), None])
    [1, 2, None]
    """
    numbers = list(amounts)
    if all(amount is None or isinstance(amount, int) for amount in numbers):
        return numbers  # type: ignore[return-value]
    exact: Fraction | int = 0
    rounded = 0
    shares: list[int | None] = []
    for amount in numbers:
        if amount is None:
            shares.append(None)
            continue
        exact = amount + exact  # in this order: amounts may carry expressions, which fractions do not know
        whole = math.trunc(exact)
        shares.append(whole - rounded)
        rounded = whole
    return shares


def places(graph: Graph, kinds: Collection[str] = ()) -> dict[str, int]:
    """Visits of a tool to each module on its way down from the model: one for each path through other modules.

    Names of one module side by side in the same module are one way, because ``nn.Module.children`` leaves out doubles.

    Args:
        graph: the model.
        kinds: classes of modules that the tool does not look into.
    """
    first = {path: module.path for module in graph.program.modules for path in (module.path, *module.also)}
    closed = {module.path for module in graph.program.modules if bare(module.kind) in kinds}
    counts: dict[str, int] = {}
    for module in graph.program.modules:
        ways = {tuple([first[path] for path in _above(place)]) for place in (module.path, *module.also)}
        counts[module.path] = sum([closed.isdisjoint(way) for way in ways])
    return counts


def _above(path: str) -> list[str]:
    """Paths of the modules around one, the nearest first."""
    around = []
    while path:
        path = parent_of(path)
        around.append(path)
    return around


def without_rule(graph: Graph, kinds: Collection[str], exact: bool = True) -> Counter[str]:
    """Classes of called modules that hold no other and that a tool has no rule for -> how many calls.

    Args:
        graph: the model.
        kinds: the classes that the tool knows.
        exact: whether it has to be that very class; else a class above it does as well.
    """
    held = children(graph)
    return Counter(
        layer.kind.rpartition(".")[2]
        for layer in layers(graph)
        if graph.program.modules and not held[layer.path]
        if layer.kind not in kinds and (exact or not layer.bases & set(kinds))
    )


def remarks(tool: str, graph: Graph, missing: Counter[str] | None = None) -> Iterator[str]:
    """The gaps of a tool's figure of one graph, in words.

    Args:
        tool: its name.
        graph: the model.
        missing: what ``without_rule`` found.
    """
    if missing:
        listed = ", ".join(f"{kind} {times}" for kind, times in sorted(missing.items()))
        yield f"{tool} has no rule for these modules and counts nothing for them: {listed}"
    if not graph.program.modules:
        yield from _of_file(tool, graph)


def _of_file(tool: str, graph: Graph) -> Iterator[str]:
    """Why a tool's figure for a file is an estimate, judged by the file's operators."""
    if scopes.has_classes(graph):
        yield f"{tool} counts modules: the calls of PyTorch's own are those that the exporter wrote into the file"
    else:
        yield "a file has no modules: each operator counts as the PyTorch module that it would come from"
    makers = {t.name: node for node in graph.nodes for t in node.known_outputs}
    taken_apart = sum(
        node.op == "MatMul" and any(t.name in makers and makers[t.name].op == "Softmax" for t in node.known_inputs)
        for node in graph.nodes
    )
    if taken_apart:
        yield f"{tool} sees attention as one call; in the file {taken_apart} of them are taken apart into products"
    if folded := scopes.folded_norms(graph):
        yield f"{folded} batch normalisations are folded into convolutions; they are counted where they were"
    elif any(node.op == "Conv" for node in graph.nodes) and all(
        node.op != "BatchNormalization" for node in graph.nodes
    ):
        yield "there is no batch normalisation in the file; what an exporter folded into convolutions is not counted"
