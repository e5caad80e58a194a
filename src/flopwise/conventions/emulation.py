"""One engine for the tools that hang hooks on modules and put themselves in the place of functions of PyTorch.

A tool is a table of facts: what it counts of a call of each class of modules and before each function, how often it
comes by a module, whether it divides by the batch. Some rules that several tools have stand below the engine.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

from flopwise.conventions.calls import (
    EXAMPLES,
    Layer,
    folded_norms,
    functions,
    has_classes,
    layers,
    trained,
    without_rule,
)
from flopwise.conventions.convention import Convention, Display, Override, Whole, attempt, described, tally
from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.operators.counts import MACS, Counts
from flopwise.operators.extents import product

#: Multiply-adds, or counts of several classes.
Number: TypeAlias = "int | Fraction"
Amount: TypeAlias = "Number | Counts"

#: The count of a call of a module, and of a node at which a function is called.
Hook: TypeAlias = Callable[[Layer], Amount]
Rule: TypeAlias = Callable[[Node], Amount]


class Tool(NamedTuple):
    """The facts by which a tool counts a PyTorch program."""

    #: Of the convention, and what the tool is called.
    name: str
    title: str
    summary: str
    #: Tool, version and file.
    source: str
    notes: tuple[str, ...]
    #: What it counts of a call, by class of the module.
    hooks: Mapping[str, Hook]
    #: What it counts before it calls a function, by its name as ``calls.functions`` has it.
    functions: Mapping[str, Rule] = {}
    #: The hook of every call, where the tool has not one for each class; ``hooks`` then says what it counts of some.
    every: Hook | None = None
    #: The calls that it looks at.
    calls: Callable[[Graph], Iterable[Layer]] = layers
    #: Path of a module -> how often the tool adds it up; once where the path is missing.
    visits: Callable[[Graph], Mapping[str, int]] = lambda graph: {}
    #: Whether a function counts once for each visit of its module, too.
    functions_again: bool = False
    #: Whether the counts of modules are divided by the batch.
    per_image: bool = False
    #: Whether remarks name the classes that it has no rule for: "exact" where a rule serves the very class alone.
    missing: Literal["", "exact", "above"] = ""
    #: What else it would warn about in one model.
    warnings: Callable[[Graph], Iterable[str]] = lambda graph: ()
    #: Other totals that it has.
    totals: Mapping[str, Callable[[Graph], int]] = {"params": trained}
    unit: str = "MAC"
    weights: Counts = MACS
    display: Display = Display()

    def of_call(self, layer: Layer) -> Counts | None:
        """The count of one call; 0 for a class without a rule, None where the tool fails."""
        rule = self.every or self.hooks.get(layer.kind)
        return Counts() if rule is None else _counts(attempt(rule, layer))

    def of_functions(self, node: Node) -> Counts | None:
        """The sum of what the functions count that lead to one node; None where the tool fails."""
        total = Counts()
        for name in functions(node) if self.functions else ():
            if name in self.functions:
                counted = _counts(attempt(self.functions[name], node))
                if counted is None:
                    return None
                total += counted
        return total

    def counts(self, graph: Graph, canonical: Sequence[Counts | None] = ()) -> list[Counts | None]:
        """The count at each node; None where the tool fails."""
        visits, images = self.visits(graph), batch(graph) if self.per_image else 1
        sums = [self.of_functions(node) for node in graph.nodes]
        if self.functions_again:
            sums = [_times(sum_, visits.get(node.module, 1)) for node, sum_ in zip(graph.nodes, sums, strict=True)]
        for layer in self.calls(graph):
            if 0 <= layer.at < len(sums):
                before, counted = sums[layer.at], _times(self.of_call(layer), visits.get(layer.path, 1))
                if self.per_image:
                    counted = _per_image(counted, images)
                sums[layer.at] = None if before is None or counted is None else before + counted
        return _in_whole_numbers(sums) if self.per_image else sums

    def remarks(self, graph: Graph) -> Iterator[str]:
        """The gaps of the tool's figure of one graph, in words."""
        missing = without_rule(graph, self.hooks, self.missing == "above") if self.missing else {}
        if missing:
            yield f"{self.title} has no rule for these modules and counts nothing for them: {tally(missing)}"
        if not graph.program.modules:
            yield from _of_file(self.title, graph)
        yield from self.warnings(graph)


def convention(tool: Tool) -> Convention:
    """The tool as a convention, with a rule for each operator of a file that says in words what the tool counts."""
    overrides: dict[str, Override] = {}
    for op, (kind, function) in EXAMPLES.items():
        rules = (f"nn.{kind}", tool.hooks.get(kind)), (f"the function {function}", tool.functions.get(function))
        words = [f"as {place}: {_first_paragraph(rule.__doc__)}" for place, rule in rules if rule and rule.__doc__]
        if words:
            overrides[op] = described(lambda node, counts: tool.counts(_alone(node))[0], "; ".join(words))
    return Convention(
        name=tool.name,
        unit=tool.unit,
        summary=tool.summary,
        source=tool.source,
        weights=tool.weights,
        others="zero",
        fold=False,
        overrides=overrides,
        whole=Whole(tool.counts, totals=tool.totals, remarks=tool.remarks),
        display=tool.display,
        notes=tool.notes,
    )


def _first_paragraph(text: str) -> str:
    """The first paragraph of a docstring in one line, without its full stop."""
    return " ".join(text.partition("\n\n")[0].split()).rstrip(".")


def _alone(node: Node) -> Graph:
    """A graph of one operator."""
    inputs = tuple([t for t in node.known_inputs if t.kind not in STORED])
    return Graph(node.name, "", "", inputs, node.known_outputs, (node,))


def _counts(amount: Amount | None) -> Counts | None:
    if amount is None or isinstance(amount, Counts):
        return amount
    return Counts(mac=amount)  # type: ignore[arg-type] # fractions are shared out in the end


def _times(counts: Counts | None, number: int) -> Counts | None:
    return counts if counts is None or number == 1 else counts * number


def batch(graph: Graph) -> int:
    """By what some tools divide: the length of the model's first positional argument, else 1."""
    if graph.program.modules:
        first = graph.program.calls[0].inputs[:1] if graph.program.calls and graph.program.calls[0].positional else ()
    else:
        first = graph.inputs[:1]
    shape = first and first[0].shape
    return shape[0] if shape else 1  # type: ignore[return-value]


def _per_image(counts: Counts | None, images: int) -> Counts | None:
    """The cost of one image of a batch; None where the batch is an expression that does not divide the cost."""
    if counts is None or (type(images) is int and images in (0, 1)):
        return counts
    if type(images) is int and type(counts.mac) is int:
        return _counts(Fraction(counts.mac, images))
    share = counts.mac // images
    remainder = counts.mac - share * images
    return Counts(mac=share) if type(remainder) is int and remainder == 0 else None


def _in_whole_numbers(amounts: Sequence[Counts | None]) -> list[Counts | None]:
    """Whole multiply-adds whose sum is the sum of the amounts, rounded down."""
    if all(amount is None or isinstance(amount.mac, int) for amount in amounts):
        return list(amounts)
    exact: Any = 0
    rounded = 0
    shares: list[Counts | None] = []
    for amount in amounts:
        if amount is None:
            shares.append(None)
            continue
        exact = amount.mac + exact  # in this order: amounts may carry expressions, which fractions do not know
        whole = math.trunc(exact)
        shares.append(Counts(mac=whole - rounded))
        rounded = whole
    return shares


def _of_file(tool: str, graph: Graph) -> Iterator[str]:
    """Why a tool's figure for a file is an estimate, judged by the file's operators."""
    if has_classes(graph):
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
    ops = {node.op for node in graph.nodes}
    if folded := folded_norms(graph):
        yield f"{folded} batch normalisations are folded into convolutions; they are counted where they were"
    elif "Conv" in ops and "BatchNormalization" not in ops:
        yield "there is no batch normalisation in the file; what an exporter folded into convolutions is not counted"


# Rules that several tools have.


def nothing(layer: Layer) -> int:
    """0."""
    return 0


def elements(layer: Layer) -> int:
    """numel(X)."""
    return layer.x.numel


def results(layer: Layer) -> int:
    """numel(Y)."""
    return layer.y.numel


#: Operations of a step of a recurrent layer besides its products and biases, in widths of the state.
_BESIDES: dict[str, int] = {"RNN": 1, "GRU": 7, "LSTM": 10}

#: Classes of recurrent modules.
RECURRENT: tuple[str, ...] = tuple(f"{kind}{cell}" for kind in _BESIDES for cell in ("", "Cell"))


def recurrent(layer: Layer, of_product: Callable[[Tensor], int]) -> int:
    """(products + biases + 1, 7 or 10 widths) of each layer × directions × steps; a cell takes one step.

    Args:
        layer: the call.
        of_product: a matrix of weights -> what its product with a vector costs.
    """
    kind, steps = layer.kind.removesuffix("Cell"), layer.x_shape[:2]
    suffixes = [f"_l{number}" for number in range(layer.size("num_layers"))] if kind == layer.kind else [""]
    cost = len(suffixes) * _BESIDES[kind] * layer.size("hidden_size")
    for name in (f"{which}{suffix}" for suffix in suffixes for which in ("ih", "hh")):
        cost += of_product(layer.tensors[f"weight_{name}"])
        cost += layer.tensors[f"bias_{name}"].numel if layer.options["bias"] else 0
    if kind != layer.kind:
        return cost * steps[0]
    return cost * product(steps) * (2 if layer.options["bidirectional"] else 1)


def from_the_left(node: Node) -> int:
    """Elements of a result of two operands, were their axes paired from the left, as some tools do by mistake."""
    shapes = [list(t.dims) for t in node.known_inputs[:2]]
    longest: list[Any] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        longest[: len(shape)] = [max(a, b) for a, b in zip(longest, shape, strict=False)]
    return product(longest)


def scales(node: Node) -> tuple[float, ...] | list[float] | None:
    """The scale of each axis of an upsampling; a list where one number was given; None where a size was."""
    args = node.arguments
    if args.get("output_size") is not None:
        return None
    return next(
        (v for v in args.values() if isinstance(v, (list, tuple)) and v and isinstance(v[0], (int, float))), None
    )


#: With more operands, looking for the best order of an einsum takes too long.
_MOST = 6


def renamed_equation(equation: str) -> str | None:
    """The equation without spaces, its letters renamed to a, b, c ... in the order in which they appear.

    None where there are more than 26.

    >>> renamed_equation("bhid, bhjd -> bhij")
    'abcd,abed->abce'
    """
    letters = dict.fromkeys(c for c in equation if c.isalpha())
    if len(letters) > len(string.ascii_lowercase):
        return None
    table = {ord(letter): string.ascii_lowercase[place] for place, letter in enumerate(letters)}
    return equation.replace(" ", "").translate(table)


def printed_flops(node: Node) -> float:
    """The "optimized FLOP count" of an einsum that numpy prints, with four digits.

    Raises:
        ValueError: the equation has too many letters or operands.
    """
    import numpy

    equation = renamed_equation(node.attrs["equation"])
    if equation is None or len(node.known_inputs) > _MOST:
        raise ValueError("the equation is too long")
    hollow = [numpy.broadcast_to(numpy.float32(0), t.dims) for t in node.known_inputs]  # takes no memory
    text = str(numpy.einsum_path(equation, *hollow, optimize="optimal")[1])
    return next(float(line.split(":")[-1]) for line in text.splitlines() if "optimized flop" in line.lower())
