"""fvcore 0.1.5 and mmengine 0.10: one "flop" for a multiply-add, by the operators of a traced PyTorch module.

Source: https://github.com/facebookresearch/fvcore, ``fvcore/nn/jit_handles.py`` and ``jit_analysis.py`` of the release
0.1.5.post20221221 on the Python package index; mmengine 0.10.7 has the same rules in ``mmengine/analysis``. What the
tools do by mistake is reproduced: a matrix product whose left operand is broadcast counts one batch, einsum goes
through a number printed with four digits, a convolution with ``padding="same"`` counts nothing. They trace with
gradients on; without, PyTorch fuses attention into operators that they do not know. Operators whose results do not
reach the model's result are not in their trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from flopwise.conventions.calls import of_program, parameters, ranked
from flopwise.conventions.convention import Convention, Display, Override, Whole, attempt, described, tally
from flopwise.conventions.emulation import printed_flops, renamed_equation
from flopwise.graph import Graph, Node, Tensor
from flopwise.operators import tables
from flopwise.operators.counts import Counts
from flopwise.operators.extents import product
from flopwise.rows import Row

#: What a rule gives; None where the tool fails.
Number: TypeAlias = "int | float | None"
Rule: TypeAlias = Callable[[Node], Number]

_IGNORED = """
    Int ScalarImplicit __and__ arange bitwise_not cat chunk clamp clamp_ constant_pad_nd contiguous copy_ detach dropout
    empty eq expand flatten floor floor_divide full full_like gather ge gt index index_put_ masked_fill max narrow
    new_empty new_full new_zeros nonzero ones permute relu relu_ remainder reshape roll select size slice split
    split_with_sizes squeeze stack t to transpose type_as unbind unsqueeze unsqueeze_ view zeros zeros_like
"""

#: Operators of a trace that cost nothing by declaration; every other one without a rule is reported as unsupported.
IGNORED: frozenset[str] = frozenset(f"aten::{name}" for name in _IGNORED.split())

#: What a trace calls an operator that programs know under another name.
_TRACED: dict[str, str] = {
    **dict.fromkeys((*ranked("conv", "conv_transpose"), "convolution"), "_convolution"),
    **dict.fromkeys(("linalg_matmul", "__rmatmul__"), "matmul"),
    "getitem": "select",
    **dict.fromkeys(("concat", "concatenate"), "cat"),
    "multiply": "mul",
    "subtract": "sub",
    **dict.fromkeys(("divide", "true_divide"), "div"),
    "clip": "clamp",
    "absolute": "abs",
    "negative": "neg",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    **dict.fromkeys(("swapaxes", "swapdims"), "transpose"),
}

#: What the operator of a file is in a trace of the module that it came from.
_OF_FILES: dict[str, str] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), "aten::_convolution"),
    "Gemm": "aten::linear",
    "MatMul": "aten::matmul",
    "Einsum": "aten::einsum",
    "BatchNormalization": "aten::batch_norm",
    "LayerNormalization": "aten::layer_norm",
    "GroupNormalization": "aten::group_norm",
    "InstanceNormalization": "aten::instance_norm",
    "GlobalAveragePool": "aten::adaptive_avg_pool2d",
    "GridSample": "aten::grid_sampler",
    "Relu": "aten::relu",
    "Clip": "aten::clamp",
    **dict.fromkeys(("Max", "ReduceMax"), "aten::max"),
    "Floor": "aten::floor",
    "Mod": "aten::remainder",
    "Equal": "aten::eq",
    "Greater": "aten::gt",
    "GreaterOrEqual": "aten::ge",
    **dict.fromkeys(("BitwiseAnd", "And"), "aten::__and__"),
}

#: The node of a reader that holds weights which nothing used; nothing ran there.
UNUSED = "torch::Unused"

#: Prefix of the entry in ``Node.via`` of what runs in the forward of an ``autograd.Function``.
_APPLIED = "torch.autograd.Function.apply:"


class Traced(NamedTuple):
    """One operator as the tool's trace has it."""

    #: Its name there ("aten::linear").
    kind: str
    #: How many of them.
    times: int = 1
    flops: Number = 0
    activations: int = 0

    @property
    def label(self) -> str:
        """The name under which the tool adds it up ("linear"; convolutions are "conv")."""
        return "conv" if self.kind == "aten::_convolution" else self.kind.rpartition("::")[2]


def _convolution(node: Node) -> int:
    """MAC, without bias: numel(Y) × prod(W.shape[1:]); of a transposed convolution numel(X) × prod(W.shape[1:])."""
    grown = node.input(0) if node.op == "ConvTranspose" else node.output()
    return grown.numel * product(node.input(1).dims[1:])


def _linear(node: Node) -> int:
    """numel(X) × output features."""
    weight = node.input(1).dims
    transposed = bool(node.attrs.get("transB", 0))
    return node.input(0).numel * (weight[0] if transposed else weight[-1])


def _matmul(node: Node) -> int | None:
    """numel(A) × B.shape[-1], the batch of B ignored; the tool fails when B is a vector."""
    left, right = node.input(0), node.input(1).dims
    return None if len(right) < 2 else left.numel * right[-1]


def einsum(node: Node) -> Number:
    """⌊F / 2⌋, F the "optimized FLOP count" that numpy prints with four digits; exact for two batched products.

    The two are abc,abd->acd and abc,adc->adb, whatever the letters.
    """
    equation = renamed_equation(node.attrs["equation"])
    shapes = [tensor.dims for tensor in node.known_inputs]
    if equation == "abc,abd->acd":
        return node.input(0).numel * shapes[-1][-1]
    if equation == "abc,adc->adb":
        return node.input(0).numel * shapes[-1][1]
    try:
        return printed_flops(node) // 2
    except ValueError:
        return None


def _normalization(node: Node) -> int | None:
    """5 numel(X), without scale 4; the tool takes 2 to 5 dimensions."""
    x = node.input(0)
    return x.numel * (5 if node.has_input(1) else 4) if 2 <= len(x.dims) <= 5 else None


def _batch_norm(node: Node) -> int | None:
    """2 numel(X), without scale numel(X); in training 5 and 4."""
    if node.attrs.get("training_mode", 0):
        return _normalization(node)
    return node.input(0).numel * (2 if node.has_input(1) else 1)


def _outputs(factor: int) -> Rule:
    def rule(node: Node) -> int:
        return node.output().numel * factor

    rule.__doc__ = f"{factor} numel(Y)." if factor > 1 else "numel(Y)."
    return rule


def _inputs(node: Node) -> int:
    """numel(X)."""
    return node.input(0).numel


#: Operator of a trace -> multiply-adds and what else the tool counts as a flop.
RULES: dict[str, Rule] = {
    "aten::_convolution": _convolution,
    **dict.fromkeys(("aten::linear", "aten::addmm"), _linear),
    **dict.fromkeys(("aten::mm", "aten::matmul", "aten::bmm"), _matmul),
    "aten::einsum": einsum,
    "aten::batch_norm": _batch_norm,
    **dict.fromkeys(("aten::layer_norm", "aten::group_norm", "aten::instance_norm"), _normalization),
    "aten::upsample_nearest2d": _outputs(1),
    **dict.fromkeys(("aten::upsample_bilinear2d", "aten::grid_sampler"), _outputs(4)),
    "aten::adaptive_avg_pool2d": _inputs,
}

#: Operators whose results are activations; ``mm`` is not among them.
ACTIVATIONS: frozenset[str] = frozenset(
    f"aten::{name}" for name in ("_convolution", "addmm", "bmm", "einsum", "matmul", "linear")
)

#: Cells that a trace takes apart: what is beside their two linear layers.
_CELLS: dict[str, dict[str, int]] = {
    "aten::lstm_cell": {"add_": 2, "unsafe_chunk": 1, "sigmoid_": 3, "tanh_": 1, "mul": 3, "tanh": 1},
    "aten::gru_cell": {"unsafe_chunk": 2, "add_": 3, "sigmoid_": 2, "mul_": 2, "add": 1, "tanh_": 1, "sub": 1},
    "aten::rnn_tanh_cell": {"add_": 1, "tanh": 1},
    "aten::rnn_relu_cell": {"add_": 1, "relu": 1},
}


def applied(node: Node) -> str:
    """The application of an ``autograd.Function`` in which a node ran ("Product#1"); "" when in none."""
    return next((name.removeprefix(_APPLIED) for name in node.via if name.startswith(_APPLIED)), "")


def kind(node: Node) -> str:
    """The kind of a node in a trace, such as "aten::conv2d"."""
    if applied(node):
        return f"prim::PythonOp.{applied(node).partition('#')[0]}"
    space, _, name = node.origin.partition(".")
    if of_program(node) and space != "aten":
        return f"{space}::{name}"
    if of_program(node) and name == "setitem_":
        return _assignment(*list(node.arguments.values())[1:])
    if of_program(node):
        traced = f"aten::{_TRACED.get(name, name)}"
        named = traced == "aten::_convolution" and isinstance(node.arguments.get("padding"), str)
        return "aten::_convolution_mode" if named else traced
    if node.op in ("Resize", "Upsample") and len(node.output().dims) == 4:
        modes = {"nearest": "aten::upsample_nearest2d", "linear": "aten::upsample_bilinear2d"}
        return modes.get(str(node.attrs.get("mode", "nearest")), node.op)
    if node.op in ("GlobalAveragePool", "GridSample") and len(node.input(0).dims) != 4:
        return node.op
    return _OF_FILES.get(node.op, node.op)


def _assignment(index: object, value: object) -> str:
    """The kind in a trace of an assignment to some elements."""
    if any(isinstance(one, Tensor) for one in (index if isinstance(index, tuple) else (index,))):
        return "aten::index_put_"
    return "aten::copy_" if isinstance(value, Tensor) and value.dims else "aten::fill_"


def trace_operators(node: Node) -> tuple[Traced, ...]:
    """The operators that a trace has for one node.

    Raises:
        ShapeError: a shape that the tool needs is unresolved.
    """
    if node.op == UNUSED:
        return ()
    name = kind(node)
    if name in _CELLS:
        batch = product(node.input(0).dims[:-1])
        weights = (node.input(1), node.input(2))  # of the input and of the state: gates by features
        layers = [Traced("aten::linear", 1, batch * w.numel, batch * product(w.dims[:1])) for w in weights]
        return (*layers, *[Traced(f"aten::{other}", times) for other, times in _CELLS[name].items()])
    rule = RULES.get(name)
    activations = node.output().numel if name in ACTIVATIONS else 0
    return (Traced(name, 1, 0 if rule is None else rule(node), activations),)


def traced(graph: Graph) -> list[bool]:
    """For each node, True where it is left in the tool's trace: its results reach the program's result.

    An ``autograd.Function`` stays whatever becomes of its result, and so does a write into what the module keeps.
    """
    if not graph.outputs or not any(map(of_program, graph.nodes)):
        return [True] * len(graph.nodes)
    needed = {tensor.name for tensor in graph.outputs}
    flags = [False] * len(graph.nodes)
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        writes = node.origin.endswith("_") and node.has_input(0) and node.input(0).kind != "activation"
        if applied(node) or writes or any(tensor.name in needed for tensor in node.known_outputs):
            flags[position] = True
            needed.update(tensor.name for tensor in node.known_inputs)
            needed.update(_members(node))
    return flags


def _members(node: Node) -> Iterator[str]:
    """Names of the tensors among the arguments of a call, which may be more than the operator's inputs."""
    waiting = list(node.arguments.values()) if of_program(node) else []
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, Tensor):
            yield thing.name
        elif isinstance(thing, (list, tuple)):
            waiting.extend(thing)


def unsupported(graph: Graph) -> Counter[str]:
    """Operators that the tool neither counts nor ignores -> how many; they count nothing.

    An ``autograd.Function`` is one operator, whatever runs in it.
    """
    times: Counter[str] = Counter()
    functions: set[str] = set()
    for node, in_trace in zip(graph.nodes, traced(graph), strict=True):
        counts = None if of_program(node) else attempt(tables.on_elements, node)
        if not in_trace or (counts is not None and not any(counts)):
            continue  # of a file what moves data alone
        function = applied(node)
        if function and function in functions:
            continue
        functions.add(function)
        for one in attempt(trace_operators, node) or ():
            if one.kind not in RULES and one.kind not in IGNORED:
                times[one.kind] += one.times
    return times


def count(node: Node) -> Counts | None:
    """The tool's count at one node, as multiply-adds; None where the tool fails."""
    total = 0
    for one in trace_operators(node):
        if one.flops is None:
            return None
        total += one.flops if isinstance(one.flops, int) else int(one.flops)
    return Counts(mac=total)


def _activations(node: Node) -> int:
    """Elements of the results of convolutions, linear layers and matrix products; 0 for everything else."""
    return sum([one.activations for one in trace_operators(node)])


def listing(graph: Graph, rows: Sequence[Row], own: Collection[str]) -> list[Row]:
    """The rows with the tool's own count of activations."""
    in_trace = {id(node) for node, listed in zip(graph.nodes, traced(graph), strict=True) if listed}
    return [
        replace(row, activations=attempt(_activations, row.node) if id(row.node) in in_trace else 0) for row in rows
    ]


def size(number: int | float, digits: int = 3) -> str:
    """A number as the tools print it: K above 1e2, M above 1e5, G above 1e8, T above 1e11, P above 1e14.

    >>> size(4111512576), size(361, 2), size(100)
    ('4.112G', '0.36K', '100')
    """
    for power, letter in ((15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "K")):
        if abs(number) > 10 ** (power - 1):
            return f"{number / 10**power:.{digits}f}".rstrip("0").rstrip(".") + letter
    return str(number)


def _graph_counts(graph: Graph, canonical: Sequence[Counts | None]) -> list[Counts | None]:
    """The count of each node; None for an operator of a file whose PyTorch original is unknown, too."""
    views: list[Counts | None] = []
    for node, in_trace in zip(graph.nodes, traced(graph), strict=True):
        counts = attempt(count, node) if in_trace else Counts()
        sure = not in_trace or of_program(node) or any(counts or ()) or node.op in tables.OPERATORS
        views.append(counts if sure else None)
    return views


def _remarks(graph: Graph) -> Iterator[str]:
    if operators := unsupported(graph):
        yield f"fvcore has no rule for these operators and counts nothing for them: {tally(operators)}"


def _described(words: str) -> Override:
    return described(lambda node, counts: count(node), " ".join(words.split()))


CONVENTION = Convention(
    name="fvcore",
    unit="MAC",
    summary="fvcore and mmengine: multiply-adds of matrix products, and the work of normalisations and some others.",
    source="fvcore 0.1.5.post20221221, fvcore/nn/jit_handles.py; mmengine 0.10.7, mmengine/analysis",
    weights=Counts(mac=1),
    overrides={
        **{op: _described(RULES[name].__doc__ or "") for op, name in _OF_FILES.items() if name in RULES},
        "Resize": _described("numel(Y) for the nearest element, 4 numel(Y) for two linear axes"),
    },
    others="zero",
    fold=False,
    whole=Whole(_graph_counts, totals={"params": parameters}, remarks=_remarks),
    listing=listing,
    display=Display(human=size, columns=("activations",)),
)
