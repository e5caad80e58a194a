"""Operators of files as the modules and functions of PyTorch that they would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from flopwise.conventions.convention import Override, attempt, described
from flopwise.conventions.emulation.layer import Layer
from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.operators.counts import Counts


def columns(node: Node) -> int:
    """Columns of the right operand of a matrix product."""
    right = node.input(1).dims
    return right[0] if node.attrs.get("transB", 0) else right[-1]


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


def _kind(node: Node) -> str:
    """The class of the module, which has a rank of its own where there are several."""
    kind, _ = _EXAMPLES[node.op]
    return f"{kind.removesuffix('2d')}{_rank(node)}d" if kind.endswith("2d") else kind


def _plain(node: Node) -> _Made:
    return _kind(node), _OPTIONS.get(node.op, {}), _weight_and_bias(node)


def _pool(node: Node) -> _Made:
    return _kind(node), {"kernel_size": tuple(node.attrs.get("kernel_shape", ()))}, {}


def _embedding(node: Node) -> _Made | None:
    table = node.input(0)
    if table.kind != "weight" or len(table.dims) != 2 or node.attrs.get("axis", 0) != 0:
        return None
    return "Embedding", {}, {"weight": table}


def _upsample(node: Node) -> _Made:
    mode, rank = node.attrs.get("mode", "nearest"), _rank(node)
    names = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("bicubic",) * 3}
    return "Upsample", {"mode": names[mode][rank - 1] if mode in names else mode}, {}


#: Options of modules that have a scale, which their operators do not say.
_OPTIONS: dict[str, dict[str, Any]] = {
    **{f"{kind}Normalization": {"affine": True} for kind in ("Batch", "Instance", "Group")},
    "LayerNormalization": {"elementwise_affine": True},
}

#: Operators that are more than their class, its weight and its bias.
_MODULES: dict[str, Callable[[Node], _Made | None]] = {
    "Conv": _conv,
    "ConvTranspose": lambda node: _conv(node, transposed=True),
    **dict.fromkeys(("Gemm", "MatMul"), _linear),
    "Clip": lambda node: ("ReLU6", {}, {}),
    "Softmax": lambda node: ("Softmax", {"dim": node.attrs.get("axis", -1)}, {}),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pool),
    **dict.fromkeys(("Resize", "Upsample"), _upsample),
    "Gather": _embedding,
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _recurrent),
}


def as_layer(node: Node, at: int) -> list[Layer]:
    """The module that an operator of a file would be, alone in a list; nothing where there is none."""
    rule = _MODULES.get(node.op, _plain if _EXAMPLES.get(node.op, ("", ""))[0] else None)
    module = None if rule is None else attempt(rule, node)
    if module is None:
        return []
    kind, options, tensors = module
    inputs = tuple([t for t in node.known_inputs if t.kind not in STORED])
    return [
        Layer(str(at), kind, frozenset({kind}), options, tensors, inputs, node.known_outputs, len(inputs), False, at)
    ]


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
    **dict.fromkeys(("Resize", "Upsample"), ("Upsample", "interpolate")),
    "Gather": ("Embedding", ""),
    **{name: (name, "") for name in ("RNN", "GRU", "LSTM")},
}


def function(node: Node) -> str:
    """The function of PyTorch that an operator of a file would be; "" where there is none."""
    _, name = _EXAMPLES.get(node.op, ("", ""))
    if name in ("linear", "matmul"):
        right = node.input(1)
        return "linear" if right.kind in STORED and right.shape is not None and len(right.shape) == 2 else "matmul"
    return f"{name.removesuffix('2d')}{_rank(node)}d" if name.endswith("2d") else name


def in_words(
    whole: Callable[[Graph, Sequence[Counts | None]], Sequence[Counts | None]],
    hooks: Mapping[str, object],
    rules: Mapping[str, object],
) -> dict[str, Override]:
    """The rules of a tool for each operator of a file, which say in words what they count.

    Args:
        whole: what it counts in a graph.
        hooks: its rule for each class of modules.
        rules: its rule for each function.
    """
    overrides: dict[str, Override] = {}
    for op, (kind, name) in _EXAMPLES.items():
        words = [
            f"as {place}: {_first_sentence(rule.__doc__)}"
            for place, rule in ((f"nn.{kind}", hooks.get(kind)), (f"the function {name}", rules.get(name)))
            if rule is not None and rule.__doc__
        ]
        if words:
            overrides[op] = described(lambda node, counts: whole(_alone(node), [counts])[0], "; ".join(words))
    return overrides


def _first_sentence(text: str) -> str:
    """The first paragraph of a docstring in one line, without its full stop."""
    return " ".join(text.partition("\n\n")[0].split()).rstrip(".")


def _alone(node: Node) -> Graph:
    """A graph of one operator."""
    inputs = tuple([t for t in node.known_inputs if t.kind not in STORED])
    return Graph(node.name, "", "", inputs, node.known_outputs, (node,))
