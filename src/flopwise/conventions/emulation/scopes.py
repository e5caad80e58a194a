"""Calls of PyTorch's modules in a file, from the module paths and classes that its exporter wrote down.

The exporter on torch.export writes the bare class of each module around an operator. The operators of one module in a
row are then one call of it, also where they are its parts (the products inside an attention are not linear layers).
Batch normalisation that was folded into the convolution before it is noted in the convolution's module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from flopwise.conventions.emulation import as_modules
from flopwise.conventions.emulation.layer import Layer
from flopwise.graph import STORED, Graph, Module, Node, Tensor

#: Classes of ``torch.nn`` that hold operators and no other modules that are called.
_OWN: frozenset[str] = frozenset(
    (
        *("Linear", "Bilinear", "Embedding", "EmbeddingBag", "MultiheadAttention", "Dropout", "Identity", "Flatten"),
        *("RNN", "GRU", "LSTM", "RNNCell", "GRUCell", "LSTMCell", "PixelShuffle", "PixelUnshuffle", "Upsample"),
        *("LayerNorm", "GroupNorm", "RMSNorm", "LocalResponseNorm", "UpsamplingNearest2d", "UpsamplingBilinear2d"),
        *("ReLU", "ReLU6", "LeakyReLU", "PReLU", "ELU", "CELU", "SELU", "GELU", "SiLU", "Mish", "Hardswish"),
        *("Hardsigmoid", "Hardtanh", "Sigmoid", "LogSigmoid", "Tanh", "Softplus", "Softsign", "Softmin", "Softmax"),
        *("Softmax2d", "LogSoftmax", "Threshold"),
        *(f"{kind}{rank}d" for kind in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm") for rank in (1, 2, 3)),
        *(f"{kind}Pool{rank}d" for kind in ("Max", "Avg", "LP", "AdaptiveAvg", "AdaptiveMax") for rank in (1, 2, 3)),
    )
)

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})


def has_classes(graph: Graph) -> bool:
    """True if the exporter wrote down the classes of modules."""
    return any(module.kind for node in graph.nodes for module in node.scope)


def calls(graph: Graph) -> list[Layer]:
    """The calls of PyTorch's own modules, in order; those of other classes are not known to hold an operator alone."""
    layers: list[Layer] = []
    at = [(position, node) for position, node in enumerate(graph.nodes) if node.op != "Constant" and node.scope]
    for module, group in groupby(at, key=lambda pair: pair[1].scope[-1]):
        if module.kind in _OWN or module.norm:
            layers += _calls(module, list(group))
    return layers


def folded_norms(graph: Graph) -> int:
    """Number of convolutions that stand where batch normalisation was."""
    return sum(_is_folded(node) for node in graph.nodes)


def _is_folded(node: Node) -> bool:
    return node.op in _CONVOLUTIONS and bool(node.scope) and _norm(node.scope[-1])[1].startswith("BatchNorm")


def _norm(module: Module) -> tuple[str, str]:
    """Path and class of the norm that the module notes; those of the module itself where the weight has another
    name."""
    return module.norm or module[:2]


def _calls(module: Module, group: Sequence[tuple[int, Node]]) -> Iterator[Layer]:
    """The call that operators in a row are, or the two of a convolution with a folded norm."""
    position, node = group[0]
    if _is_folded(node):
        yield from _unfolded(module, position, node)
        return
    kind, nodes = module.kind, [node for _, node in group]
    like = next((layer for at, one in group for layer in as_modules.as_layer(one, at) if layer.kind == kind), None)
    options: Mapping[str, Any] = like.options if like else {}
    tensors = {**(like.tensors if like else {}), **_parameters(module, nodes)}
    arguments = _arguments(nodes)
    if kind == "MultiheadAttention" and arguments and arguments[0].shape:
        arguments = (*arguments, *[arguments[-1]] * (3 - len(arguments)))  # of itself, or of another as key and value
        options, width = _attention(nodes, arguments[0]), arguments[0].dims[-1]
        inner = Tensor(f"{module.path}.in_proj_weight", (3 * width, width), arguments[0].dtype, "weight")
        tensors = {"in_proj_weight": inner, **tensors}
    at = next((at for at, node in reversed(group) if any(_is_weight(t) for t in node.known_inputs)), position)
    yield _layer(module.path, kind, arguments, nodes[-1].known_outputs, at, options, tensors)


def _is_weight(tensor: Tensor) -> bool:
    return tensor.kind == "weight"


def _parameters(module: Module, nodes: Sequence[Node]) -> dict[str, Tensor]:
    """The weights of operators that bear a module's own names."""
    weights = [t for node in nodes for t in node.known_inputs if _is_weight(t)]
    named = {t.name.removeprefix(f"{module.path}."): t for t in weights if t.name.startswith(f"{module.path}.")}
    return {name: tensor for name, tensor in named.items() if "." not in name}


def _arguments(nodes: Sequence[Node]) -> tuple[Tensor, ...]:
    """The tensors that operators take from elsewhere, each once."""
    results = {tensor.name for node in nodes for tensor in node.known_outputs}
    inputs = [t for node in nodes for t in node.known_inputs if t.kind not in STORED and t.name not in results]
    return tuple({t.name: t for t in inputs}.values())


def _attention(nodes: Sequence[Node], query: Tensor) -> dict[str, object]:
    """The options of an attention: heads are an axis of the scores, and a batch that comes first is turned around."""
    scores = next((one.input(0).dims for one in nodes if one.op == "Softmax"), ())
    return {
        "embed_dim": query.dims[-1],
        "num_heads": scores[1] if len(scores) == 4 else 1,
        "batch_first": nodes[0].op == "Transpose",
    }


def _unfolded(module: Module, position: int, node: Node) -> Iterator[Layer]:
    """The convolution, without the bias that folding gave it, and the batch normalisation behind it."""
    for layer in as_modules.as_layer(node, position):
        weight = node.input(1)
        yield layer._replace(path=weight.name.removesuffix(".weight"), tensors={"weight": weight})
    y = node.output()
    channels = y.dims[1]
    path, kind = _norm(module)
    tensors = {name: Tensor(f"{path}.{name}", (channels,), y.dtype, "weight") for name in ("weight", "bias")}
    yield _layer(path, kind, (y,), (y,), position, {"affine": True}, tensors)


def _layer(
    path: str,
    kind: str,
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    at: int,
    options: Mapping[str, object],
    tensors: dict[str, Tensor],
) -> Layer:
    return Layer(path, kind, frozenset({kind}), options, tensors, inputs, outputs, len(inputs), False, at)
