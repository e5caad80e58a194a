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


def batch_norm_inference(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    *rest: Any,
    **more: Any,
) -> Lowered:
    return batch_norm(input, weight, bias, running_mean, running_var)


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


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = False,
) -> Lowered:
    return Lowered("GroupNormalization", (input, weight, bias), {"num_groups": num_groups})


def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    samples: int,
    channels: int,
    places: int,
    group: int,
    eps: float,
) -> Lowered:
    return group_norm(input, group, weight, bias)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Lowered:
    return Lowered("RMSNormalization", (input, weight), {"axis": -len(normalized_shape)})


def softmax(input: Tensor, dim: int | None = None, dtype: Any = None, *rest: Any, **more: Any) -> Lowered:
    return Lowered("Softmax", (input,), {"axis": -1 if dim is None else dim})


def log_softmax(input: Tensor, dim: int | None = None, dtype: Any = None, *rest: Any, **more: Any) -> Lowered:
    return Lowered("LogSoftmax", (input,), {"axis": -1 if dim is None else dim})


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Lowered:
    return Lowered("aten::_weight_norm", (v, g))


LOWERINGS: dict[str, Callable[..., Lowered]] = {
    "batch_norm": batch_norm,
    "native_batch_norm": batch_norm,
    "cudnn_batch_norm": batch_norm,
    "_native_batch_norm_legit": batch_norm,
    "_native_batch_norm_legit_no_training": batch_norm_inference,
    "_batch_norm_with_update": lambda input, weight, bias, running_mean, running_var, momentum, eps: batch_norm(
        input, weight, bias, running_mean, running_var, True
    ),
    "_batch_norm_no_update": batch_norm_inference,
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "native_layer_norm": layer_norm,
    "group_norm": group_norm,
    "native_group_norm": native_group_norm,
    "rms_norm": rms_norm,
    "_fused_rms_norm": rms_norm,
    "softmax": softmax,
    "_softmax": softmax,
    "special_softmax": softmax,
    "log_softmax": log_softmax,
    "_log_softmax": log_softmax,
    "special_log_softmax": log_softmax,
    "_safe_softmax": softmax,
    "_weight_norm": weight_norm,
    "_weight_norm_interface": weight_norm,
    "renorm": lambda input, p, dim, maxnorm: Lowered("aten::renorm", (input,), {"p": float(p), "dim": dim}),
}
