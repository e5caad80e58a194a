"""A model as tools see it that hang hooks on modules or put themselves in the place of functions.

A file has no modules. Where its exporter wrote down the modules around each operator, the operators of one module in a
row are a call of it; else each operator stands for the module and the function that it would be in PyTorch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias, cast

from flopwise.conventions.convention import attempt
from flopwise.graph import STORED, Graph, Module, Node, Submodule, Tensor

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
    def x_shape(self) -> tuple[int, ...]:
        """The shape of X; extents may be expressions, which compute as integers do."""
        return cast("tuple[int, ...]", self.x.dims)

    @property
    def y_shape(self) -> tuple[int, ...]:
        """The shape of Y."""
        return cast("tuple[int, ...]", self.y.dims)

    def size(self, option: str) -> int:
        """An option that is a whole number."""
        return cast(int, self.options[option])

    @property
    def params(self) -> int:
        """Elements of its own parameters."""
        return sum([t.numel for t in self.tensors.values() if t.kind == "weight"])


def ranked(*kinds: str) -> list[str]:
    """The names of each kind in one, two and three dimensions.

    >>> ranked("Conv")
    ['Conv1d', 'Conv2d', 'Conv3d']
    """
    return [f"{kind}{rank}d" for kind in kinds for rank in (1, 2, 3)]


def bare(kind: str) -> str:
    """The bare name of a class of PyTorch's own; any other stays as it is.

    >>> bare("torch.nn.modules.conv.Conv2d"), bare("mine.Conv2d")
    ('Conv2d', 'mine.Conv2d')
    """
    return kind.rpartition(".")[2] if kind.startswith(_OWN) else kind


# Modules.


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


def places(graph: Graph, closed: Collection[str] = ()) -> dict[str, int]:
    """Visits of a tool to each module on its way down from the model: one for each path through other modules.

    Names of one module side by side in the same module are one way, because ``nn.Module.children`` leaves out doubles.

    Args:
        graph: the model.
        closed: classes of modules that the tool does not look into.
    """
    first = {path: module.path for module in graph.program.modules for path in (module.path, *module.also)}
    blind = {module.path for module in graph.program.modules if bare(module.kind) in closed}
    counts: dict[str, int] = {}
    for module in graph.program.modules:
        ways = set()
        for path in (module.path, *module.also):
            around = []
            while path:
                path = parent_of(path)
                around.append(first[path])
            ways.add(tuple(around))
        counts[module.path] = sum([blind.isdisjoint(way) for way in ways])
    return counts


def layers(graph: Graph) -> list[Layer]:
    """All calls of modules in the order in which they began.

    Of a file those that its exporter wrote down; without them each operator is the module that it would come from.
    """
    if not graph.program.modules:
        if has_classes(graph):
            return _exported(graph)
        return [layer for at, node in enumerate(graph.nodes) for layer in as_layer(node, at)]
    modules = {module.path: module for module in graph.program.modules}
    calls: list[Layer] = []
    for call in graph.program.calls:
        module = modules[call.path]
        # It stands at its last node with weights, else at its first node, else at the one before.
        with_weights = (
            at
            for at in range(call.last - 1, call.first - 1, -1)
            if any(t.kind == "weight" for t in graph.nodes[at].known_inputs)
        )
        calls.append(
            Layer(
                call.path,
                bare(module.kind),
                frozenset([bare(base) for base in module.bases]),
                module.options,
                module.tensors,
                call.inputs,
                call.outputs,
                call.positional,
                next(with_weights, min(call.first, len(graph.nodes) - 1)),
            )
        )
    return calls


def without_rule(graph: Graph, kinds: Collection[str], above: bool = False) -> Counter[str]:
    """Classes of called modules that hold no other and that a tool has no rule for -> how many calls.

    Args:
        graph: the model.
        kinds: the classes that the tool knows.
        above: whether a class above it does as well; else it has to be that very class.
    """
    held = children(graph)
    return Counter(
        layer.kind.rpartition(".")[2]
        for layer in layers(graph)
        if graph.program.modules and not held[layer.path]
        if layer.kind not in kinds and not (above and layer.bases & set(kinds))
    )


# Functions.

#: Functions as a program reaches them -> what the tools call them. Those of ``torch.nn.functional`` keep their name.
_FUNCTIONS: dict[str, str] = {
    **{f"torch.{name}": name for name in ranked("conv", "conv_transpose")},
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
        name = "" if inside else _function(node)
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


def of_program(node: Node) -> bool:
    """True for a call in a PyTorch program; the operators of a file may say that they come from one."""
    return node.invocation.arguments is not None


# Operators of files as the modules and functions of PyTorch that they would be.


def columns(node: Node) -> int:
    """Columns of the right operand of a matrix product."""
    right = node.input(1).dims
    return right[0] if node.attrs.get("transB", 0) else right[-1]


#: What a module has: its options and its own tensors. None where the operator is no module.
_Held: TypeAlias = "tuple[dict[str, Any], dict[str, Tensor]] | None"


def _weight_and_bias(node: Node) -> dict[str, Tensor]:
    names = zip(("weight", "bias"), node.inputs[1:3], strict=False)
    return {name: tensor for name, tensor in names if tensor is not None and tensor.kind in STORED}


def _with(**options: Any) -> Callable[[Node], _Held]:
    """A module with these options, a weight and a bias."""
    return lambda node: (options, _weight_and_bias(node))


def _conv(node: Node) -> _Held:
    weight, groups = node.input(1).dims, node.attrs.get("group", 1)
    across: Any = weight[1]
    ins, outs = (weight[0], across * groups) if node.op == "ConvTranspose" else (across * groups, weight[0])
    options = {"in_channels": ins, "out_channels": outs, "kernel_size": tuple(weight[2:]), "groups": groups}
    return options, {"weight": node.input(1), **({"bias": node.input(2)} if node.has_input(2) else {})}


def _is_linear(node: Node) -> bool:
    right = node.input(1)
    return right.kind in STORED and right.shape is not None and len(right.shape) == 2


def _linear(node: Node) -> _Held:
    if not _is_linear(node):
        return None
    options = {"in_features": node.input(0).dims[-1], "out_features": columns(node)}
    return options, {"weight": node.input(1)} if node.op == "MatMul" else _weight_and_bias(node)


def _recurrent(node: Node) -> _Held:
    inner, state = node.input(1), node.input(2)
    turns = inner.dims[0]
    tensors = {}
    for turn, suffix in zip(range(turns), ("_l0", "_l0_reverse"), strict=False):
        for name, tensor in (("weight_ih", inner), ("weight_hh", state)):
            tensors[name + suffix] = Tensor(f"{tensor.name}[{turn}]", tensor.dims[1:], tensor.dtype, "weight")
        for name in ("bias_ih", "bias_hh") if node.has_input(3) else ():
            place = f"{node.input(3).name}[{turn}].{name}"
            tensors[name + suffix] = Tensor(place, inner.dims[1:2], inner.dtype, "weight")
    options = {
        "input_size": inner.dims[-1],
        "hidden_size": state.dims[-1],
        "num_layers": 1,
        "bias": node.has_input(3),
        "bidirectional": turns == 2,
        "batch_first": bool(node.attrs.get("layout", 0)),
    }
    return options, tensors


def _pool(node: Node) -> _Held:
    return {"kernel_size": tuple(node.attrs.get("kernel_shape", ()))}, {}


def _embedding(node: Node) -> _Held:
    table = node.input(0)
    looked_up = table.kind == "weight" and len(table.dims) == 2 and node.attrs.get("axis", 0) == 0
    return ({}, {"weight": table}) if looked_up else None


def _upsample(node: Node) -> _Held:
    mode = node.attrs.get("mode", "nearest")
    names = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("bicubic",) * 3}
    return {"mode": names[mode][_rank(node) - 1] if mode in names else mode}, {}


class _Twin(NamedTuple):
    """PyTorch's counterpart of an operator of a file, named in two dimensions where there are several."""

    #: The class of a module, and a function; "" where there is none.
    kind: str
    function: str = ""
    held: Callable[[Node], _Held] = _with()


#: By operator.
_TWINS: dict[str, _Twin] = {
    "Conv": _Twin("Conv2d", "conv2d", _conv),
    "ConvTranspose": _Twin("ConvTranspose2d", "conv_transpose2d", _conv),
    "Gemm": _Twin("Linear", "linear", _linear),
    "MatMul": _Twin("Linear", "matmul", _linear),
    "Einsum": _Twin("", "einsum"),
    "Attention": _Twin("", "scaled_dot_product_attention"),
    "BatchNormalization": _Twin("BatchNorm2d", "batch_norm", _with(affine=True)),
    "InstanceNormalization": _Twin("InstanceNorm2d", "instance_norm", _with(affine=True)),
    "GroupNormalization": _Twin("GroupNorm", "group_norm", _with(affine=True)),
    "LayerNormalization": _Twin("LayerNorm", "layer_norm", _with(elementwise_affine=True)),
    "Relu": _Twin("ReLU", "relu"),
    "Clip": _Twin("ReLU6", "relu6", lambda node: ({}, {})),
    "LeakyRelu": _Twin("LeakyReLU", "leaky_relu"),
    "PRelu": _Twin("PReLU", "prelu"),
    "Elu": _Twin("ELU", "elu"),
    "Gelu": _Twin("GELU", "gelu"),
    "Softmax": _Twin("Softmax", "softmax", lambda node: ({"dim": node.attrs.get("axis", -1)}, {})),
    "MaxPool": _Twin("MaxPool2d", "max_pool2d", _pool),
    "AveragePool": _Twin("AvgPool2d", "avg_pool2d", _pool),
    "GlobalMaxPool": _Twin("AdaptiveMaxPool2d", "adaptive_max_pool2d", _pool),
    "GlobalAveragePool": _Twin("AdaptiveAvgPool2d", "adaptive_avg_pool2d", _pool),
    **dict.fromkeys(("Resize", "Upsample"), _Twin("Upsample", "interpolate", _upsample)),
    "Gather": _Twin("Embedding", "", _embedding),
    **{name: _Twin(name, "", _recurrent) for name in ("RNN", "GRU", "LSTM")},
}

#: Operator -> the class of a module and the function that do the same.
EXAMPLES: Mapping[str, tuple[str, str]] = {op: twin[:2] for op, twin in _TWINS.items()}


def _rank(node: Node) -> int:
    return max(len(node.input(0).dims) - 2, 1)


def _of_rank(name: str, node: Node) -> str:
    """The name for as many dimensions as an operator's input has."""
    return f"{name.removesuffix('2d')}{_rank(node)}d" if name.endswith("2d") else name


def as_layer(node: Node, at: int) -> list[Layer]:
    """The module that an operator of a file would be, alone in a list; nothing where there is none."""
    twin = _TWINS.get(node.op)
    held = attempt(twin.held, node) if twin is not None and twin.kind else None
    if twin is None or held is None:
        return []
    is_conv = twin.held is _conv  # whose weight tells the rank, if its input does not
    kind = f"{twin.kind[:-2]}{len(node.input(1).dims) - 2}d" if is_conv else attempt(_of_rank, twin.kind, node)
    if kind is None:
        return []
    inputs = tuple([t for t in node.known_inputs if t.kind not in STORED])
    return [Layer(str(at), kind, frozenset({kind}), *held, inputs, node.known_outputs, len(inputs), at)]


def _function(node: Node) -> str:
    """The function of PyTorch that an operator of a file would be; "" where there is none."""
    name = _TWINS[node.op].function if node.op in _TWINS else ""
    if name in ("linear", "matmul"):
        return "linear" if _is_linear(node) else "matmul"
    return _of_rank(name, node)


# Calls that the exporter on torch.export wrote into a file: the class of each module around an operator. What is inside
# a module is its part (the products in an attention are no linear layers); batch normalisation that was folded into the
# convolution before it is noted in the convolution's module.

#: Classes of ``torch.nn`` that hold operators and no other modules that are called.
_SINGLE: frozenset[str] = frozenset(
    (
        *("Linear", "Bilinear", "Embedding", "EmbeddingBag", "MultiheadAttention", "Dropout", "Identity", "Flatten"),
        *("RNN", "GRU", "LSTM", "RNNCell", "GRUCell", "LSTMCell", "PixelShuffle", "PixelUnshuffle", "Upsample"),
        *("LayerNorm", "GroupNorm", "RMSNorm", "LocalResponseNorm", "UpsamplingNearest2d", "UpsamplingBilinear2d"),
        *("ReLU", "ReLU6", "LeakyReLU", "PReLU", "ELU", "CELU", "SELU", "GELU", "SiLU", "Mish", "Hardswish"),
        *("Hardsigmoid", "Hardtanh", "Sigmoid", "LogSigmoid", "Tanh", "Softplus", "Softsign", "Softmin", "Softmax"),
        *("Softmax2d", "LogSoftmax", "Threshold"),
        *ranked("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm"),
        *ranked("MaxPool", "AvgPool", "LPPool", "AdaptiveAvgPool", "AdaptiveMaxPool"),
    )
)


def has_classes(graph: Graph) -> bool:
    """True if the exporter wrote down the classes of modules."""
    return any(module.kind for node in graph.nodes for module in node.scope)


def folded_norms(graph: Graph) -> int:
    """Number of convolutions that stand where batch normalisation was."""
    return sum(_is_folded(node) for node in graph.nodes)


def _is_folded(node: Node) -> bool:
    of_norm = bool(node.scope) and _norm(node.scope[-1])[1].startswith("BatchNorm")
    return node.op in ("Conv", "ConvTranspose") and of_norm


def _norm(module: Module) -> tuple[str, str]:
    """Path and class of the norm that the module notes; those of the module itself where the weight has another
    name."""
    return module.norm or module[:2]


def _exported(graph: Graph) -> list[Layer]:
    """The calls of PyTorch's own modules, in order; those of other classes are not known to hold an operator alone."""
    calls: list[Layer] = []
    at = [(position, node) for position, node in enumerate(graph.nodes) if node.op != "Constant" and node.scope]
    for module, group in groupby(at, key=lambda pair: pair[1].scope[-1]):
        if module.kind in _SINGLE or module.norm:
            pairs = list(group)
            calls += _unfolded(module, *pairs[0]) if _is_folded(pairs[0][1]) else [_exported_call(module, pairs)]
    return calls


def _unfolded(module: Module, position: int, node: Node) -> Iterator[Layer]:
    """The convolution, without the bias that folding gave it, and the batch normalisation behind it."""
    for layer in as_layer(node, position):
        weight = node.input(1)
        yield layer._replace(path=weight.name.removesuffix(".weight"), tensors={"weight": weight})
    y = node.output()
    path, kind = _norm(module)
    tensors = {name: Tensor(f"{path}.{name}", y.dims[1:2], y.dtype, "weight") for name in ("weight", "bias")}
    yield Layer(path, kind, frozenset({kind}), {"affine": True}, tensors, (y,), (y,), 1, position)


def _exported_call(module: Module, group: Sequence[tuple[int, Node]]) -> Layer:
    """The call of a module that operators in a row are."""
    path, kind, nodes = module.path, module.kind, [node for _, node in group]
    like = next((layer for at, node in group for layer in as_layer(node, at) if layer.kind == kind), None)
    options: Mapping[str, Any] = like.options if like else {}
    tensors = dict(like.tensors) if like else {}
    weights = [t for node in nodes for t in node.known_inputs if t.kind == "weight"]
    own = {t.name.removeprefix(f"{path}."): t for t in weights if t.name.startswith(f"{path}.")}
    tensors |= {name: tensor for name, tensor in own.items() if "." not in name}
    results = {tensor.name for node in nodes for tensor in node.known_outputs}
    taken = [t for node in nodes for t in node.known_inputs if t.kind not in STORED and t.name not in results]
    inputs = tuple({t.name: t for t in taken}.values())
    if kind == "MultiheadAttention" and inputs and inputs[0].shape:
        inputs = (*inputs, *[inputs[-1]] * (3 - len(inputs)))  # of itself, or of another as key and value
        width = inputs[0].dims[-1]
        scores = next((node.input(0).dims for node in nodes if node.op == "Softmax"), ())
        options = {
            "embed_dim": width,
            "num_heads": scores[1] if len(scores) == 4 else 1,
            "batch_first": nodes[0].op == "Transpose",  # a batch that comes first is turned around
        }
        inner = Tensor(f"{path}.in_proj_weight", (3 * width, width), inputs[0].dtype, "weight")
        tensors = {"in_proj_weight": inner, **tensors}
    at = next((at for at, node in reversed(group) if any(t.kind == "weight" for t in node.known_inputs)), group[0][0])
    return Layer(path, kind, frozenset({kind}), options, tensors, inputs, nodes[-1].known_outputs, len(inputs), at)
