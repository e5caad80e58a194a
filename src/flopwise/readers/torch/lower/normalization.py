"""Normalisations and softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered


def batch_norm(
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = False,
) -> Lowered:
    attrs = {"training_mode": int(training)}
    return Lowered("BatchNormalization", (input, weight, bias, running_mean, running_var), attrs)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Lowered:
    if not use_input_stats:
        return batch_norm(input, weight, bias, running_mean, running_var)
    return Lowered("InstanceNormalization", (input, weight, bias))


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = False,
) -> Lowered:
    return Lowered("LayerNormalization", (input, weight, bias), {"axis": -len(normalized_shape)})


def _softmax(op: str) -> Callable[..., Lowered]:
    def lowered(input: Tensor, dim: int | None = None, dtype: Any = None, *rest: Any, **more: Any) -> Lowered:
        return Lowered(op, (input,), {"axis": -1 if dim is None else dim})

    return lowered


LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **dict.fromkeys(("batch_norm", "native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"), batch_norm),
    **{
        name: lambda input, weight, bias, running_mean, running_var, *rest, **more: batch_norm(
            input, weight, bias, running_mean, running_var
        )
        for name in ("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
    },
    "_batch_norm_with_update": lambda input, weight, bias, running_mean, running_var, momentum, eps: batch_norm(
        input, weight, bias, running_mean, running_var, True
    ),
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "native_layer_norm": layer_norm,
    "group_norm": lambda input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=False: Lowered(
        "GroupNormalization", (input, weight, bias), {"num_groups": num_groups}
    ),
    "native_group_norm": lambda input, weight, bias, samples, channels, places, group, eps: Lowered(
        "GroupNormalization", (input, weight, bias), {"num_groups": group}
    ),
    **{
        name: lambda input, normalized_shape, weight=None, eps=None: Lowered(
            "RMSNormalization", (input, weight), {"axis": -len(normalized_shape)}
        )
        for name in ("rms_norm", "_fused_rms_norm")
    },
    **{name: _softmax("Softmax") for name in ("softmax", "_softmax", "special_softmax", "_safe_softmax")},
    **{name: _softmax("LogSoftmax") for name in ("log_softmax", "_log_softmax", "special_log_softmax")},
    **{
        name: lambda v, g, dim=0: Lowered("aten::_weight_norm", (v, g))
        for name in ("_weight_norm", "_weight_norm_interface")
    },
    "renorm": lambda input, p, dim, maxnorm: Lowered("aten::renorm", (input,), {"p": float(p), "dim": dim}),
}
