"""The names of torch.nn, torch and ATen, and the operators that they are counted as."""

from __future__ import annotations

import inspect
from functools import lru_cache

from flopwise.formats.torch.lower.node import Lowering, named
from flopwise.formats.torch.lower.operators import LOWERINGS
from flopwise.graph import Tensor
from flopwise.graph.names import LAYERS

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
