"""Convolutions, matrix products and attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flopwise.graph import Shape, Tensor
from flopwise.operators.masks import KERNEL, PAIRS
from flopwise.readers.torch.lower.node import Lowered, repeated, tensors


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Lowered:
    return Lowered("Gemm", (input, weight, bias), {"transB": 1})


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Lowered:
    rank = len(weight.dims) - 2
    pads = repeated(padding, rank) * 2 if not isinstance(padding, str) else []
    attrs = {
        "kernel_shape": list(weight.dims[2:]),
        "strides": repeated(stride, rank),
        "dilations": repeated(dilation, rank),
        "group": groups,
        **({"pads": pads} if pads else {"auto_pad": "SAME_UPPER" if padding == "same" else "VALID"}),
    }
    return Lowered("Conv", (_batched(input, rank), weight, bias), attrs)


def _transposed(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Lowered:
    rank = len(weight.dims) - 2
    attrs = {
        "kernel_shape": list(weight.dims[2:]),
        "strides": repeated(stride, rank),
        "pads": repeated(padding, rank) * 2,
        "output_padding": repeated(output_padding, rank),
        "dilations": repeated(dilation, rank),
        "group": groups,
    }
    return Lowered("ConvTranspose", (_batched(input, rank), weight, bias), attrs)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    benchmark: bool = False,
    deterministic: bool = False,
    cudnn_enabled: bool = False,
    allow_tf32: bool = False,
) -> Lowered:
    if transposed:
        return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _convolution(input, weight, bias, stride, padding, dilation, groups)


def _batched(input: Tensor, rank: int) -> Tensor:
    """The input with a batch of one where it has none."""
    return replace(input, shape=(1, *input.dims)) if len(input.dims) == rank + 1 else input


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Lowered:
    return Lowered("aten::conv_tbc", (input, weight, bias))


def matmul(input: Tensor, other: Tensor) -> Lowered:
    """Vectors on the left are rows; ONNX's MatMul has the same rule."""
    return Lowered("MatMul", (input, other))


def mm(input: Tensor, mat2: Tensor, out_dtype: Any = None) -> Lowered:
    return Lowered("MatMul", (input, mat2))


def mv(input: Tensor, vec: Tensor) -> Lowered:
    return Lowered("MatMul", (input, vec))


def dot(input: Tensor, tensor: Tensor) -> Lowered:
    return Lowered("MatMul", (input, tensor))


def vdot(input: Tensor, other: Tensor) -> Lowered:
    return Lowered("MatMul", (input, other))


def inner(input: Tensor, other: Tensor) -> Lowered:
    if not input.dims or not other.dims:
        return Lowered("Mul", (input, other))
    return Lowered("Gemm", (input, other), {"transB": 1})


def outer(input: Tensor, vec2: Tensor) -> Lowered:
    return Lowered("Mul", (input, vec2))


def chain(*matrices: Any) -> Lowered:
    return Lowered("aten::chain_matmul", tensors(*matrices))


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out_dtype: Any = None
) -> Lowered:
    addend = input if beta != 0 else None
    return Lowered("Gemm", (mat1, mat2, addend), {"alpha": float(alpha), "beta": float(beta)})


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Lowered:
    return addmm(input, mat, vec, beta=beta, alpha=alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Lowered:
    return Lowered(
        "aten::addr", (vec1, vec2, input if beta != 0 else None), {"alpha": float(alpha), "beta": float(beta)}
    )


def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Lowered:
    attrs = {"alpha": float(alpha), "beta": float(beta)}
    return Lowered("aten::addbmm", (batch1, batch2, input if beta != 0 else None), attrs)


def addmm_activation(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False
) -> Lowered:
    attrs = {"alpha": float(alpha), "beta": float(beta), "gelu": int(use_gelu)}
    return Lowered("aten::_addmm_activation", (mat1, mat2, input if beta != 0 else None), attrs)


def tensordot(input: Tensor, other: Tensor, dims_self: Any = 2, dims_other: Any = None) -> Lowered:
    return Lowered("aten::tensordot", (input, other), {"dims": list(dims_self)})


def einsum(equation: str, *operands: Any, path: Any = None) -> Lowered:
    return Lowered("Einsum", tensors(*operands), {"equation": _spelled(equation)})


def _spelled(equation: str) -> str:
    """The equation with an arrow, as ONNX and PyTorch both complete it: labels that appear once, in their order."""
    text = equation.replace(" ", "")
    if "->" in text:
        return text
    letters = text.replace(",", "").replace(".", "")
    once = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return f"{text}->{'...' if '...' in text else ''}{once}"


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Lowered:
    return Lowered("aten::bilinear", (input1, input2, weight, bias))


def grouped_mm(
    input: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Lowered:
    return Lowered("aten::_grouped_mm", (input, mat2, offs, bias))


def scaled_mm(input: Tensor, mat2: Tensor, *rest: Any, **more: Any) -> Lowered:
    bias = more.get("bias")
    return Lowered("Gemm", (input, mat2, bias if isinstance(bias, Tensor) else None))


def weight_only(input: Tensor, mat2: Tensor, *rest: Any, **more: Any) -> Lowered:
    return Lowered("aten::_weight_only_mm", (input, mat2, *tensors(*rest)))


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    pairs: int | None = None,
    kernel: str | None = None,
) -> Lowered:
    """``pairs``: what the mask leaves, where its elements are known; ``kernel``: what computes it, for training."""
    shaped = [replace(t, shape=_heads(t.dims)) for t in (query, key, value)]
    attrs: dict[str, Any] = {"is_causal": int(is_causal)} | ({} if pairs is None else {PAIRS: pairs})
    if kernel is not None:
        attrs[KERNEL] = kernel
    return Lowered("Attention", (*shaped, attn_mask), attrs)


def _heads(dims: Shape) -> Shape:
    """(..., heads, length, width) with everything before the heads as one batch."""
    if len(dims) == 4:
        return dims
    if len(dims) < 4:
        return (*([1] * (4 - len(dims))), *dims)
    return (math.prod(dims[:-3]), *dims[-3:])


def flash(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **more: Any) -> Lowered:
    """One of the kernels behind attention."""
    mask = next((a for a in rest if isinstance(a, Tensor)), more.get("attn_mask"))
    causal = bool(more.get("is_causal", any(a is True for a in rest)))
    mask = mask if isinstance(mask, Tensor) else None
    return attention(query, key, value, mask, is_causal=causal, pairs=more.get("pairs"), kernel=more.get("kernel"))


def flex_attention(query: Tensor, key: Tensor, value: Tensor, *, pairs: int | None = None) -> Lowered:
    return Lowered("aten::flex_attention", (query, key, value), {} if pairs is None else {PAIRS: pairs})


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor | None = None, bias: Tensor | None = None, *sizes: Any
) -> Lowered:
    """Seven sizes (stride, padding and dilation of two axes, weight groups), then the groups of offsets, and a flag."""
    groups = sizes[7] if len(sizes) > 7 else 1
    modulated = bool(sizes[8]) if len(sizes) > 8 else mask is not None
    return Lowered("DeformConv", (input, weight, offset, bias, mask if modulated else None), {"offset_group": groups})


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = None) -> Lowered:
    return Lowered("aten::cdist", (x1, x2), {"p": float(p)})


def sparse_mm(input: Tensor, mat2: Tensor, *rest: Any, nnz: int | None = None) -> Lowered:
    return Lowered("aten::_sparse_mm", (input, mat2), {} if nnz is None else {"nnz": nnz})


LOWERINGS: dict[str, Callable[..., Lowered]] = {
    "linear": linear,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "conv_transpose1d": _transposed,
    "conv_transpose2d": _transposed,
    "conv_transpose3d": _transposed,
    "convolution": convolution,
    "_convolution": convolution,
    "conv_tbc": conv_tbc,
    "matmul": matmul,
    "__rmatmul__": lambda input, other: matmul(other, input),
    "linalg_matmul": matmul,
    "mm": mm,
    "bmm": mm,
    "_int_mm": mm,
    "mv": mv,
    "dot": dot,
    "vdot": vdot,
    "linalg_vecdot": lambda x, y, *, dim=-1: Lowered("aten::linalg_vecdot", (x, y)),
    "inner": inner,
    "outer": outer,
    "ger": outer,
    "chain_matmul": chain,
    "linalg_multi_dot": chain,
    "addmm": addmm,
    "sspaddmm": addmm,
    "baddbmm": lambda input, batch1, batch2, *, beta=1, alpha=1, out_dtype=None: addmm(
        input, batch1, batch2, beta=beta, alpha=alpha
    ),
    "_addmm_activation": addmm_activation,
    "addmv": addmv,
    "addr": addr,
    "addbmm": addbmm,
    "tensordot": tensordot,
    "einsum": einsum,
    "bilinear": bilinear,
    "_grouped_mm": grouped_mm,
    "grouped_mm": grouped_mm,
    "_scaled_mm": scaled_mm,
    "_scaled_mm_v2": scaled_mm,
    "_weight_int8pack_mm": weight_only,
    "_weight_int4pack_mm": weight_only,
    "_weight_int4pack_mm_for_cpu": weight_only,
    "scaled_dot_product_attention": attention,
    "_scaled_dot_product_flash_attention": flash,
    "_scaled_dot_product_flash_attention_for_cpu": flash,
    "_scaled_dot_product_efficient_attention": flash,
    "_scaled_dot_product_cudnn_attention": flash,
    "_scaled_dot_product_fused_attention_overrideable": flash,
    "_scaled_dot_product_attention_math": flash,
    "flex_attention": flex_attention,
    "torchvision.deform_conv2d": deform_conv2d,
    "_sparse_mm": sparse_mm,
    "smm": sparse_mm,
    "cdist": cdist,
    "_cdist_forward": cdist,
    "pdist": lambda input, p=2.0: Lowered("aten::pdist", (input,), {"p": float(p)}),
    "_pdist_forward": lambda input, p=2.0: Lowered("aten::pdist", (input,), {"p": float(p)}),
    "kron": lambda input, other: Lowered("Mul", (input, other)),
}
