"""A model as tools see it that hang hooks on modules or put themselves in the place of functions.

A file has no modules; each of its operators then stands for the module and the function that it would be in PyTorch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from flopwise.conventions.attempt import attempt
from flopwise.conventions.convention import Override, described
from flopwise.counts import Counts
from flopwise.graph import STORED, Call, Graph, Node, Submodule, Tensor
from flopwise.ops.extents import product

#: What one unit of a tool's work is worth where, by position in ``Graph.nodes``; None where the tool fails.
Amounts: TypeAlias = "Iterable[tuple[int, Counts | None]]"

_OWN = "torch.nn.modules."


class Layer(NamedTuple):
    """One call of a module, as a hook on it sees the call."""

    path: str
    #: Its class: the bare name of one of PyTorch's own ("Conv2d"), the whole name of any other.
    kind: str
    #: The same of the class and its classes above.
    bases: frozenset[str]
    options: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    #: How many of ``inputs`` are positional, which is all that a hook is given.
    positional: int
    training: bool
    #: Position of the node at which its count stands; -1 when the graph has no nodes.
    at: int

    @property
    def x(self) -> Tensor:
        """The first positional argument.

        Raises:
            IndexError: there is none; the tools fail as well.
        """
        return self.inputs[: self.positional][0]

    @property
    def y(self) -> Tensor:
        """The first tensor of the result.

        Raises:
            IndexError: there is none.
        """
        return self.outputs[0]

    @property
    def params(self) -> int:
        """Elements of its own parameters."""
        return sum([t.numel for t in self.tensors.values() if t.kind == "weight"])


def bare(kind: str) -> str:
    """The bare name of a class of PyTorch's own; any other stays as it is.

    >>> bare("torch.nn.modules.conv.Conv2d"), bare("mine.Conv2d")
    ('Conv2d', 'mine.Conv2d')
    """
    return kind.rpartition(".")[2] if kind.startswith(_OWN) else kind


def parent_of(path: str) -> str:
    """Path of the module that holds the one of this path.

    >>> parent_of("layer1.0.conv1"), parent_of("fc")
    ('layer1.0', '')
    """
    return path.rpartition(".")[0]


def children(graph: Graph) -> dict[str, list[Submodule]]:
    """The modules that each module holds, by path and in order."""
    held: dict[str, list[Submodule]] = {module.path: [] for module in graph.modules}
    for module in graph.modules:
        if module.path:
            held[parent_of(module.path)].append(module)
    return held


def trained(graph: Graph) -> int:
    """Elements of the parameters that ask for a gradient, a shared one once; of a file those of all weights."""
    return sum({t.name: t.numel for t in _parameters(graph) if t.grad or not graph.modules}.values())


def parameters(graph: Graph) -> int:
    """Elements of all parameters, a shared one once."""
    return sum({t.name: t.numel for t in _parameters(graph)}.values())


def _parameters(graph: Graph) -> Iterator[Tensor]:
    if graph.modules:
        stored = (t for module in graph.modules for t in module.tensors.values())
    else:
        stored = (t for node in graph.nodes for t in node.known_inputs)
    return (t for t in stored if t.kind == "weight" and t.resolved)


def layers(graph: Graph) -> list[Layer]:
    """All calls of modules in the order in which they began; of a file its operators as modules."""
    if not graph.modules:
        return [layer for at, node in enumerate(graph.nodes) for layer in as_layer(node, at)]
    modules = {module.path: module for module in graph.modules}
    return [_layer(graph, call, modules[call.path]) for call in graph.calls]


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
        found = _AS_FUNCTION.get(node.op)
        return [] if node.origin.startswith("aten.") or found is None else [found(node)]
    names: list[str] = []
    for step in node.via:
        name = _FUNCTIONS.get(step)
        if name is None and step.startswith(_FUNCTIONAL):
            name = step.removeprefix(_FUNCTIONAL).removesuffix("_with_indices")
        if name is not None and name not in names:
            names.append(name)
    if node.scope and node.scope[-1].kind in _KEEPERS:
        return [name for name in names if name not in _KEPT]
    return names


def columns(node: Node) -> int:
    """Columns of the right operand of a matrix product."""
    right = node.input(1).dims
    return right[0] if node.attrs.get("transB", 0) else right[-1]


def from_the_left(node: Node) -> int:
    """Elements of a result of two operands, were their axes paired from the left, as some tools do by mistake."""
    shapes = [list(t.dims) for t in node.known_inputs[:2]]
    longest: list[Any] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        longest[: len(shape)] = [max(a, b) for a, b in zip(longest, shape, strict=False)]
    return product(longest)


def scales(node: Node) -> tuple[float, ...] | list[float] | None:
    """By how much an upsampling was asked to grow each axis; a list where it was one number; None where by size."""
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
    known = list(amounts)
    if all(amount is None or not isinstance(amount, Fraction) for amount in known):
        return known  # type: ignore[return-value]
    exact, given = Fraction(0), 0
    found: list[int | None] = []
    for amount in known:
        if amount is None:
            found.append(None)
            continue
        exact += amount
        found.append(int(exact) - given)
        given = int(exact)
    return found


def places(graph: Graph, kinds: Collection[str] = ()) -> dict[str, int]:
    """How often a tool comes by each module when it goes down from the model: once for each way through other modules.

    Names of one module side by side in the same module are one way, because ``nn.Module.children`` leaves out doubles.

    Args:
        graph: the model.
        kinds: classes of modules that the tool does not look into.
    """
    first = {path: module.path for module in graph.modules for path in (module.path, *module.also)}
    closed = {module.path for module in graph.modules if bare(module.kind) in kinds}
    found: dict[str, int] = {}
    for module in graph.modules:
        ways = {tuple([first[path] for path in _above(place)]) for place in (module.path, *module.also)}
        found[module.path] = sum([closed.isdisjoint(way) for way in ways])
    return found


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
        if graph.modules and not held[layer.path]
        if layer.kind not in kinds and (exact or not layer.bases & set(kinds))
    )


def remarks(tool: str, graph: Graph, missing: Counter[str] | None = None) -> Iterator[str]:
    """What a tool's figure of one graph leaves out, in words.

    Args:
        tool: its name.
        graph: the model.
        missing: what ``without_rule`` found.
    """
    if missing:
        listed = ", ".join(f"{kind} {times}" for kind, times in sorted(missing.items()))
        yield f"{tool} has no rule for these modules and counts nothing for them: {listed}"
    if not graph.modules:
        yield "a file has no modules: each operator counts as the PyTorch module that it would come from"


# --- operators of files ---


def _rank(node: Node) -> int:
    return max(len(node.input(0).dims) - 2, 1)


def _weight_and_bias(node: Node) -> dict[str, Tensor]:
    names = zip(("weight", "bias"), node.inputs[1:3], strict=False)
    return {name: tensor for name, tensor in names if tensor is not None and tensor.kind in STORED}


_Made: TypeAlias = "tuple[str, dict[str, Any], dict[str, Tensor]]"


def _conv(node: Node, transposed: bool = False) -> _Made:
    weight, groups = node.input(1).dims, node.attrs.get("group", 1)
    across: Any = weight[1]
    channels = (weight[0], across * groups) if transposed else (across * groups, weight[0])
    options = {
        "in_channels": channels[0],
        "out_channels": channels[1],
        "kernel_size": tuple(weight[2:]),
        "groups": groups,
    }
    tensors = {"weight": node.input(1), **({"bias": node.input(2)} if node.has_input(2) else {})}
    return f"Conv{'Transpose' if transposed else ''}{len(weight) - 2}d", options, tensors


def _linear(node: Node) -> _Made | None:
    right = node.input(1)
    if right.kind not in STORED or len(right.dims) != 2:
        return None
    options = {"in_features": node.input(0).dims[-1], "out_features": columns(node)}
    return "Linear", options, {"weight": right} if node.op == "MatMul" else _weight_and_bias(node)


def _recurrent(node: Node) -> _Made:
    inner, state = node.input(1), node.input(2)
    turns = inner.dims[0]
    tensors = {}
    for turn, suffix in zip(range(turns), ("_l0", "_l0_reverse"), strict=False):
        tensors[f"weight_ih{suffix}"] = Tensor(f"{inner.name}[{turn}]", inner.dims[1:], inner.dtype, "weight")
        tensors[f"weight_hh{suffix}"] = Tensor(f"{state.name}[{turn}]", state.dims[1:], state.dtype, "weight")
        if node.has_input(3):
            for name in ("bias_ih", "bias_hh"):
                shape = (inner.dims[1],)
                tensors[f"{name}{suffix}"] = Tensor(
                    f"{node.input(3).name}[{turn}].{name}", shape, inner.dtype, "weight"
                )
    options = {
        "input_size": inner.dims[-1],
        "hidden_size": state.dims[-1],
        "num_layers": 1,
        "bias": node.has_input(3),
        "bidirectional": turns == 2,
        "batch_first": bool(node.attrs.get("layout", 0)),
    }
    return node.op, options, tensors


def _plain(kind: str, ranked: bool = False, **options: Any) -> Callable[[Node], _Made]:
    def made(node: Node) -> _Made:
        return (f"{kind}{_rank(node)}d" if ranked else kind), options, _weight_and_bias(node)

    return made


def _pool(kind: str) -> Callable[[Node], _Made]:
    def made(node: Node) -> _Made:
        return f"{kind}{_rank(node)}d", {"kernel_size": tuple(node.attrs.get("kernel_shape", ()))}, {}

    return made


def _embedding(node: Node) -> _Made | None:
    table = node.input(0)
    if table.kind != "weight" or len(table.dims) != 2 or node.attrs.get("axis", 0) != 0:
        return None
    return "Embedding", {}, {"weight": table}


def _upsample(node: Node) -> _Made:
    mode, rank = node.attrs.get("mode", "nearest"), _rank(node)
    names = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("bicubic",) * 3}
    return "Upsample", {"mode": names[mode][rank - 1] if mode in names else mode}, {}


_MODULES: dict[str, Callable[[Node], _Made | None]] = {
    "Conv": _conv,
    "ConvTranspose": lambda node: _conv(node, transposed=True),
    "Gemm": _linear,
    "MatMul": _linear,
    "BatchNormalization": _plain("BatchNorm", ranked=True, affine=True),
    "InstanceNormalization": _plain("InstanceNorm", ranked=True, affine=True),
    "GroupNormalization": _plain("GroupNorm", affine=True),
    "LayerNormalization": _plain("LayerNorm", elementwise_affine=True),
    "Relu": _plain("ReLU"),
    "Clip": lambda node: ("ReLU6", {}, {}),
    "LeakyRelu": _plain("LeakyReLU"),
    "PRelu": _plain("PReLU"),
    "Elu": _plain("ELU"),
    "Gelu": _plain("GELU"),
    "Softmax": lambda node: ("Softmax", {"dim": node.attrs.get("axis", -1)}, {}),
    "MaxPool": _pool("MaxPool"),
    "AveragePool": _pool("AvgPool"),
    "GlobalMaxPool": _pool("AdaptiveMaxPool"),
    "GlobalAveragePool": _pool("AdaptiveAvgPool"),
    "Resize": _upsample,
    "Upsample": _upsample,
    "Gather": _embedding,
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
}


def as_layer(node: Node, at: int) -> list[Layer]:
    """The module that an operator of a file would be, alone in a list; nothing where there is none."""
    rule = _MODULES.get(node.op)
    made = None if rule is None else attempt(lambda: rule(node))
    if made is None:
        return []
    kind, options, tensors = made
    inputs = tuple([t for t in node.known_inputs if t.kind not in STORED])
    return [
        Layer(str(at), kind, frozenset({kind}), options, tensors, inputs, node.known_outputs, len(inputs), False, at)
    ]


def _named(name: str, ranked: bool = False) -> Callable[[Node], str]:
    return lambda node: f"{name}{_rank(node)}d" if ranked else name


def _product(node: Node) -> str:
    right = node.input(1)
    return "linear" if right.kind in STORED and right.shape is not None and len(right.shape) == 2 else "matmul"


_AS_FUNCTION: dict[str, Callable[[Node], str]] = {
    "Conv": _named("conv", ranked=True),
    "ConvTranspose": _named("conv_transpose", ranked=True),
    "Gemm": _product,
    "MatMul": _product,
    "Einsum": _named("einsum"),
    "Attention": _named("scaled_dot_product_attention"),
    "BatchNormalization": _named("batch_norm"),
    "InstanceNormalization": _named("instance_norm"),
    "GroupNormalization": _named("group_norm"),
    "LayerNormalization": _named("layer_norm"),
    "Relu": _named("relu"),
    "Clip": _named("relu6"),
    "LeakyRelu": _named("leaky_relu"),
    "PRelu": _named("prelu"),
    "Elu": _named("elu"),
    "Gelu": _named("gelu"),
    "Softmax": _named("softmax"),
    "MaxPool": _named("max_pool", ranked=True),
    "AveragePool": _named("avg_pool", ranked=True),
    "GlobalMaxPool": _named("adaptive_max_pool", ranked=True),
    "GlobalAveragePool": _named("adaptive_avg_pool", ranked=True),
    "Resize": _named("interpolate"),
    "Upsample": _named("interpolate"),
}

#: Operator of a file -> a module and a function of PyTorch that do the same, in two dimensions where there are several.
_EXAMPLES: dict[str, tuple[str, str]] = {
    "Conv": ("Conv2d", "conv2d"),
    "ConvTranspose": ("ConvTranspose2d", "conv_transpose2d"),
    "Gemm": ("Linear", "linear"),
    "MatMul": ("Linear", "matmul"),
    "Einsum": ("", "einsum"),
    "Attention": ("", "scaled_dot_product_attention"),
    "BatchNormalization": ("BatchNorm2d", "batch_norm"),
    "InstanceNormalization": ("InstanceNorm2d", "instance_norm"),
    "GroupNormalization": ("GroupNorm", "group_norm"),
    "LayerNormalization": ("LayerNorm", "layer_norm"),
    "Relu": ("ReLU", "relu"),
    "Clip": ("ReLU6", "relu6"),
    "LeakyRelu": ("LeakyReLU", "leaky_relu"),
    "PRelu": ("PReLU", "prelu"),
    "Elu": ("ELU", "elu"),
    "Gelu": ("GELU", "gelu"),
    "Softmax": ("Softmax", "softmax"),
    "MaxPool": ("MaxPool2d", "max_pool2d"),
    "AveragePool": ("AvgPool2d", "avg_pool2d"),
    "GlobalMaxPool": ("AdaptiveMaxPool2d", "adaptive_max_pool2d"),
    "GlobalAveragePool": ("AdaptiveAvgPool2d", "adaptive_avg_pool2d"),
    "Resize": ("Upsample", "interpolate"),
    "Upsample": ("Upsample", "interpolate"),
    "Gather": ("Embedding", ""),
    "RNN": ("RNN", ""),
    "GRU": ("GRU", ""),
    "LSTM": ("LSTM", ""),
}


def in_words(
    whole: Callable[[Graph, Sequence[Counts | None]], Sequence[Counts | None]],
    hooks: Mapping[str, Any],
    rules: Mapping[str, Any],
) -> dict[str, Override]:
    """What a tool counts for each operator of a file, and in words.

    Args:
        whole: what it counts in a graph.
        hooks: its rule for each class of modules.
        rules: its rule for each function.
    """
    found: dict[str, Override] = {}
    for op, (kind, name) in _EXAMPLES.items():
        words = [
            f"as {place}: {_first_sentence(rule.__doc__)}"
            for place, rule in ((f"nn.{kind}", hooks.get(kind)), (f"the function {name}", rules.get(name)))
            if rule is not None and rule.__doc__
        ]
        if words:
            found[op] = described(lambda node, counts: whole(_alone(node), [counts])[0], "; ".join(words))
    return found


def _first_sentence(text: str) -> str:
    """The first paragraph of a docstring in one line, without its full stop."""
    return " ".join(text.partition("\n\n")[0].split()).rstrip(".")


def _alone(node: Node) -> Graph:
    """A graph of one operator."""
    inputs = tuple([t for t in node.known_inputs if t.kind not in STORED])
    return Graph(node.name, "", "", inputs, node.known_outputs, (node,))
