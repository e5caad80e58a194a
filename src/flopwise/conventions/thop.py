"""thop 0.1.1 (pytorch-OpCounter): multiply-adds, by hooks on modules of known classes.

Source: https://github.com/Lyken17/pytorch-OpCounter, ``profile.py``, ``rnn_hooks.py``, ``vision/basic_hooks.py`` of
the release 0.1.1.post2209072238 on the Python package index. Functions and operators cost nothing there. What the tool
does by mistake is reproduced: a transposed convolution counts each position of its result, bilinear upsampling eleven
per element, and a class without a rule has no parameters either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from flopwise.conventions.calls import Layer, bare, children, parameters, places, ranked
from flopwise.conventions.emulation import RECURRENT, Hook, Tool, convention, elements, nothing, results
from flopwise.graph import Graph, Submodule
from flopwise.operators.extents import product


def convolution(layer: Layer) -> int:
    """numel(Y) × (channels of X // groups) × elements of the kernel."""
    kernel = product(layer.tensors["weight"].dims[2:])
    return layer.y.numel * (layer.x_shape[1] // layer.size("groups")) * kernel


def _linear(layer: Layer) -> int:
    """numel(Y) × input features."""
    return layer.y.numel * layer.size("in_features")


def normalization(layer: Layer) -> int:
    """2 numel(X), with scale 4 numel(X)."""
    scaled = layer.options.get("affine", False) or layer.options.get("elementwise_affine", False)
    return layer.x.numel * (4 if scaled else 2)


def _softmax(layer: Layer) -> int:
    """3n - 1 for each row of n."""
    length = layer.x_shape[layer.size("dim")]
    return (layer.x.numel // length) * (3 * length - 1)


def _adaptive_average(layer: Layer) -> int:
    """(cells of X for one of Y, + 1) × numel(Y).

    Raises:
        ValueError: an extent carries an expression, and the tool's quotient is no exact floating-point number.
    """
    pairs = list(zip(layer.x_shape[2:], layer.y_shape[2:], strict=True))
    plain = all(type(n) is int for pair in pairs for n in pair) and type(layer.y.numel) is int
    exact = all(
        type(outs) is int and (outs & (outs - 1) == 0 or (type(i) is int and i % outs == 0)) for i, outs in pairs
    )
    if not plain and not exact:
        raise ValueError("the tool rounds as floating-point numbers are rounded")
    return math.trunc((math.prod([ins / outs for ins, outs in pairs]) + 1) * layer.y.numel)


#: Mode of an upsampling -> operations per element.
_UPSAMPLED: dict[str, int] = {"nearest": 1, "linear": 5, "bilinear": 11, "bicubic": 259}


def _upsample(layer: Layer) -> int:
    """numel(Y) × 1, 5, 11 or 259 by mode; other modes 0."""
    return layer.y.numel * _UPSAMPLED.get(layer.options["mode"], 0)


#: What one gate of a recurrent layer has besides its products and biases, and the layer besides its gates, in widths.
_GATES: dict[str, tuple[int, int]] = {"RNN": (1, 0), "GRU": (3, 4), "LSTM": (4, 4)}


def _step(kind: str, inner: int, width: int, bias: bool) -> int:
    gates, besides = _GATES[kind]
    return gates * (width * (inner + width) + width + (2 * width if bias else 0)) + besides * width


def _recurrent(layer: Layer) -> int:
    """(products + biases + a width for each gate, + 4 widths for GRU and LSTM) of all layers, directions and steps."""
    kind, width, bias = layer.kind.removesuffix("Cell"), layer.size("hidden_size"), bool(layer.options["bias"])
    step = _step(kind, layer.size("input_size"), width, bias)
    if kind != layer.kind:
        return step * layer.x_shape[0]
    turns = 2 if layer.options["bidirectional"] else 1
    step += (layer.size("num_layers") - 1) * _step(kind, width * turns, width, bias)
    return step * turns * product(layer.x_shape[:2])


#: Class of a module -> what the tool's hook counts.
HOOKS: dict[str, Hook] = {
    "ZeroPad2d": nothing,
    **dict.fromkeys(ranked("Conv", "ConvTranspose"), convolution),
    **dict.fromkeys(ranked("BatchNorm", "InstanceNorm"), normalization),
    **dict.fromkeys(["LayerNorm", "SyncBatchNorm"], normalization),
    "PReLU": elements,
    "Softmax": _softmax,
    **dict.fromkeys(["ReLU", "ReLU6", "LeakyReLU", "Dropout", "Sequential", "PixelShuffle"], nothing),
    **dict.fromkeys(ranked("MaxPool", "AdaptiveMaxPool"), nothing),
    **dict.fromkeys(ranked("AvgPool"), results),
    **dict.fromkeys(ranked("AdaptiveAvgPool"), _adaptive_average),
    "Linear": _linear,
    **dict.fromkeys(["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"], _upsample),
    **dict.fromkeys(RECURRENT, _recurrent),
}

#: Classes whose sums are made of what they hold, though there is a rule for them.
CONTAINERS: frozenset[str] = frozenset({"Sequential", "ModuleList"})


#: Classes that the tool does not look into.
_CLOSED = HOOKS.keys() - CONTAINERS


def _visits(graph: Graph) -> dict[str, int]:
    """Path of a module -> how often it counts: it is added up at some places, and has a hook for each of them."""
    added, hooks = places(graph, _CLOSED), places(graph)
    return {path: added[path] * hooks[path] for path in hooks}


def _params(graph: Graph) -> int:
    """Elements of the parameters of modules that the tool knows and that were called, module by module.

    A model that is one such module by itself has none: the tool looks at what a model holds.
    """
    if not graph.program.modules:
        return parameters(graph)
    called, added, held = {call.path for call in graph.program.calls}, places(graph, _CLOSED), children(graph)
    return sum(
        [
            sum(_module_params(held, module).values()) * added[module.path]
            for module in graph.program.modules
            if module.path and module.path in called and bare(module.kind) in _CLOSED
        ]
    )


def _module_params(held: Mapping[str, Sequence[Submodule]], module: Submodule) -> dict[str, int]:
    """Elements of the parameters of a module and of those in it, by name."""
    own = {t.name: t.numel for t in module.tensors.values() if t.kind == "weight"}
    for child in held[module.path]:
        own |= _module_params(held, child)
    return own


TOOL = Tool(
    name="thop",
    title="thop",
    summary="thop (pytorch-OpCounter): multiply-adds of modules it knows, without bias, and some work of norms.",
    source="thop 0.1.1.post2209072238, thop/profile.py and vision/basic_hooks.py",
    notes=("thop counts nothing for functions, operators and classes that it has no rule for",),
    hooks=HOOKS,
    visits=_visits,
    missing="exact",
    totals={"params": _params},
)

CONVENTION = convention(TOOL)
