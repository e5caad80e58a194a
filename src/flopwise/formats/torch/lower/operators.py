"""The name of each ATen operator in the vocabulary of ONNX, and its arguments as inputs and attributes.

A lowering is a function with the operator's own parameters, so that calling it with the arguments of a call binds them.
Tensors among the arguments are ours; an operator that has no name in ONNX keeps its own ("aten::addcmul").
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from flopwise.formats.torch.lower import elements, layers
from flopwise.formats.torch.lower.node import Lowered, Lowering, named, tensors
from flopwise.graph import Tensor
from flopwise.graph.names import LAYERS

#: The operator of what no operation of PyTorch's was seen to make.
UNSEEN_OPERATOR = "torch::Unseen"

#: Operator without its namespace and without the underscore of its in-place form -> how it is lowered.
LOWERINGS: dict[str, Lowering] = {
    **elements.MOVEMENT,
    **elements.POINTWISE,
    **elements.REDUCTION,
    **layers.LOSSES,
    **layers.NORMALIZATION,
    **layers.LINEAR,
    **elements.SIGNALS,
}


class Call(NamedTuple):
    """A call of an operator: its arguments by the operator's own names, with defaults filled in."""

    lowering: Lowering | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def named(self) -> dict[str, object]:
        """Every argument by name; those beyond the known ones as ``arg3``."""
        if self.lowering is None:
            return {**{f"arg{i}": a for i, a in enumerate(self.args)}, **self.kwargs}
        names, defaults = _signature(self.lowering)
        values = dict(defaults)
        for position, value in enumerate(self.args):
            values[names[position] if position < len(names) else f"arg{position}"] = value
        values.update(self.kwargs)
        return values


@lru_cache(maxsize=4096)
def _signature(lowering: Lowering) -> tuple[tuple[str, ...], Mapping[str, object]]:
    parameters = inspect.signature(lowering).parameters.values()
    names = tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    return names, {p.name: p.default for p in parameters if p.default is not p.empty}


def lower(
    name: str, args: tuple[object, ...], kwargs: Mapping[str, object], outputs: Sequence[Tensor]
) -> tuple[Lowered, Call]:
    """The operator in ONNX's vocabulary, and the call by the names of its arguments.

    Args:
        name: with its namespace ("aten.add_").
        args: as they were given.
        kwargs: likewise.
        outputs: what came out.
    """
    space, _, bare = name.partition(".")
    if name == "torch.unseen":
        return Lowered(UNSEEN_OPERATOR, ()), Call(None, args, kwargs)
    if space == "autograd":
        return Lowered("torch::Function", tensors(*args)), Call(None, args, kwargs)
    base = bare[:-1] if bare.endswith("_") and not bare.endswith("__") else bare
    primitive = space == "prims" and base in elements.POINTWISE  # what PyTorch's own rules are written in
    key = base if space == "aten" or primitive else f"{space}.{base}"
    lowering = LOWERINGS.get(key) or LOWERINGS.get(key.removesuffix("_copy"))
    if "self" in kwargs:
        kwargs = {("input" if k == "self" else k): v for k, v in kwargs.items()}
    if kwargs and "out" in kwargs:
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    if lowering is not None:
        try:
            return lowering(*args, **kwargs), Call(lowering, args, kwargs)
        except (TypeError, AttributeError, IndexError, ValueError):
            pass  # a form of the call that the lowering does not know
    plain = f"{space}::{base}"
    return Lowered(plain, tensors(*args, *kwargs.values()), {}), Call(None, args, kwargs)


# The names of torch.nn, torch and ATen, and the operators that they are counted as.


#: Names of torch.nn that are not those of a function of ATen, and functions whose plainest call is not their usual one.
_OPERATORS = named(
    """
    aten::adaptive_avg_pool: AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d
    aten::adaptive_max_pool: AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
    AveragePool: AvgPool   MaxPool: MaxPool max_pool2d_with_indices   Conv: Convolution   ConvTranspose: ConvTranspose
    LayerNormalization: LayerNorm native_layer_norm   RMSNormalization: RMSNorm fused_rms_norm
    BatchNormalization: SyncBatchNorm   LSTM: LSTM   GRU: GRU   RNN: RNN rnn_tanh rnn_relu
    aten::rnn_tanh_cell: RNNCell   Dropout: Dropout   Einsum: einsum   Where: where   Gemm: tensordot
    SoftmaxCrossEntropyLoss: cross_entropy CrossEntropyLoss   aten::binary_cross_entropy: BCELoss
    aten::binary_cross_entropy_with_logits: BCEWithLogitsLoss   aten::kl_div: KLDivLoss
    Resize: Upsample UpsamplingNearest2d UpsamplingBilinear2d interpolate   GridSample: grid_sample
    AffineGrid: affine_grid   Col2Im: Fold   Pad: ZeroPad ConstantPad ReflectionPad ReplicationPad CircularPad
    """,
    str,
)

#: Modules that are several operators -> these.
SEVERAL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("multiheadattention", "multiheadattentionforward"), ("Gemm", "Attention")),
    **dict.fromkeys(
        ("transformerencoderlayer", "transformerdecoderlayer"), ("Gemm", "Attention", "LayerNormalization", "Relu")
    ),
}

_PREFIXES = ("torch.nn.functional.", "torch.nn.", "nn.functional.", "torch.", "nn.", "f.", "aten::", "aten.", "ops.")


def counted_as(name: str) -> str | None:
    """The operator that counts what PyTorch calls by a name; None for a name that is not PyTorch's.

    Args:
        name: a class or function of torch.nn, a function of torch or ATen, or what a row is called; case, underscores,
            the library in front and the overload behind make no difference.

    >>> counted_as("Linear"), counted_as("torch.nn.functional.silu"), counted_as("BatchNorm2d"), counted_as("SDPA")
    ('Gemm', 'aten::silu', 'BatchNormalization', 'Attention')
    """
    lowered = name.lower()
    names, key = _names(), _plain(name)
    for each in (lowered, key, key[:-2] if key[-2:] in ("1d", "2d", "3d") else key):
        if each in names:
            return names[each]
    return None


def several(name: str) -> tuple[str, ...]:
    """The operators that a module of PyTorch consists of; () where it is not a module of several."""
    return SEVERAL.get(_plain(name), ())


def all_names() -> tuple[str, ...]:
    """The names of PyTorch that have an operator, as people write them."""
    return tuple(dict.fromkeys((*LAYERS.values(), *_OPERATORS, *(n for n in LOWERINGS if not n.startswith("_")))))


def _plain(name: str) -> str:
    """A name in lower case, without its library, its overload, underscores, and Lazy in front."""
    text = name.lower()
    text = next((text.removeprefix(p) for p in _PREFIXES if text.startswith(p)), text)
    return text.partition(".")[0].replace("_", "").removeprefix("lazy")


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    names = {"nn.unfold": "aten::im2col", "torch.nn.unfold": "aten::im2col"}
    for name, op in _OPERATORS.items():
        names.setdefault(_plain(name), op)
    for name in sorted(LOWERINGS, key=lambda name: name.startswith("_")):
        if "." not in name and (op := _operator(LOWERINGS[name])):
            names.setdefault(_plain(name), op)
    for function, layer in LAYERS.items():
        if _plain(function) in names:
            names.setdefault(_plain(layer), names[_plain(function)])
    return names


def _operator(lowering: Lowering) -> str:
    """The operator that a lowering makes of its plainest call: tensors, and nothing else said."""
    tensor = Tensor("x", (2, 2, 2, 2), "float32")
    required = [
        p
        for p in inspect.signature(lowering).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    for count in range(max(1, len(required)), len(required) + 3):
        for filler in (tensor, [2, 2], 1):
            try:
                return lowering(*[tensor, *[filler] * (count - 1)]).op
            except (TypeError, AttributeError, IndexError, ValueError):
                continue
    return ""
