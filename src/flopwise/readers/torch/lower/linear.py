"""Convolutions, matrix products, attention, recurrent layers and cells, and the layers of quantized tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flopwise.graph import Shape, Tensor
from flopwise.operators.masks import KERNEL, PAIRS
from flopwise.readers.torch.lower.node import Lowered, repeated, tensors


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: object = 1,
    padding: object = 0,
    dilation: object = 1,
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
    stride: object = 1,
    padding: object = 0,
    output_padding: object = 0,
    groups: int = 1,
    dilation: object = 1,
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
    stride: object,
    padding: object,
    dilation: object,
    transposed: bool,
    output_padding: object,
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


def _added(op: str, left: Tensor, right: Tensor, addend: Tensor, beta: float, alpha: float, **attrs: int) -> Lowered:
    """A product that is added to a tensor, unless that is multiplied with 0."""
    factors = {"alpha": float(alpha), "beta": float(beta)}
    return Lowered(op, (left, right, addend if beta != 0 else None), {**factors, **attrs})


def inner(input: Tensor, other: Tensor) -> Lowered:
    if not input.dims or not other.dims:
        return Lowered("Mul", (input, other))
    return Lowered("Gemm", (input, other), {"transB": 1})


def einsum(equation: str, *operands: object, path: Sequence[int] | None = None) -> Lowered:
    attrs: dict[str, object] = {"equation": _spelled(equation)}
    return Lowered("Einsum", tensors(*operands), attrs | {"path": list(path)} if path else attrs)


def _spelled(equation: str) -> str:
    """The equation with an arrow, as ONNX and PyTorch both complete it: labels that appear once, in their order."""
    text = equation.replace(" ", "")
    if "->" in text:
        return text
    letters = text.replace(",", "").replace(".", "")
    once = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return f"{text}->{'...' if '...' in text else ''}{once}"


def scaled_mm(input: Tensor, mat2: Tensor, *settings: object, **options: object) -> Lowered:
    bias = options.get("bias")
    return Lowered("Gemm", (input, mat2, bias if isinstance(bias, Tensor) else None))


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
    ragged: Mapping[str, object] | None = None,
) -> Lowered:
    """``pairs``: what the mask leaves, where its elements are known; ``kernel``: what computes it, for training;
    ``ragged``: the lengths of sequences that lie in a row.
    """
    if ragged is not None:
        return Lowered(RAGGED, (query, key, value), ragged)
    shaped = [replace(t, shape=_heads(t.dims)) for t in (query, key, value)]
    attrs: dict[str, object] = {"is_causal": int(is_causal), **({} if pairs is None else {PAIRS: pairs})}
    if kernel is not None:
        attrs[KERNEL] = kernel
    return Lowered("Attention", (*shaped, attn_mask), attrs)


#: The operator of attention among sequences of many lengths.
RAGGED = "aten::ragged_attention"


def varlen(*args: object, ragged: Mapping[str, object], **options: object) -> Lowered:
    """Sequences in a row, with their borders among the arguments; a tensor for the result may stand before them."""
    given = [a for a in (*args, *(options.get(name) for name in ("query", "key", "value"))) if isinstance(a, Tensor)]
    return Lowered(RAGGED, tuple(given[:3]), ragged)


def _heads(dims: Shape) -> Shape:
    """(..., heads, length, width) with everything before the heads as one batch."""
    if len(dims) == 4:
        return dims
    if len(dims) < 4:
        return (*([1] * (4 - len(dims))), *dims)
    return (math.prod(dims[:-3]), *dims[-3:])


def flash(query: Tensor, key: Tensor, value: Tensor, *settings: object, **options: Any) -> Lowered:
    """One of the kernels behind attention."""
    mask = next((a for a in settings if isinstance(a, Tensor)), options.get("attn_mask"))
    causal = bool(options.get("is_causal", any(a is True for a in settings)))
    mask = mask if isinstance(mask, Tensor) else None
    return attention(
        query, key, value, mask, is_causal=causal, pairs=options.get("pairs"), kernel=options.get("kernel")
    )


def _flash_forward(
    query: Tensor, key: Tensor, value: Tensor, first_q: object, first_k: object, *settings: Any, **options: Any
) -> Lowered:
    """The kernel itself, of (batch, length, heads, width); with the borders of sequences its pairs are not known."""
    if first_q is not None or first_k is not None:
        return Lowered("aten::_flash_attention_forward", tensors(query, key, value))
    causal = settings[3] if len(settings) > 3 else options.get("is_causal", False)
    query, key, value = map(_heads_first, (query, key, value))
    return attention(query, key, value, is_causal=bool(causal), kernel="flash")


def _efficient_forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Any, first_q: object, first_k: object, *settings: Any, **more: Any
) -> Lowered:
    """As ``_flash_forward``, with what is added to the scores; a mask type of 1 or 2 is causal."""
    if first_q is not None or first_k is not None:
        return Lowered("aten::_efficient_attention_forward", tensors(query, key, value))
    causal = settings[3] if len(settings) > 3 else more.get("custom_mask_type", 0)
    query, key, value = map(_heads_first, (query, key, value))
    return attention(query, key, value, bias, is_causal=bool(causal), kernel="efficient")


def _heads_first(tensor: Tensor) -> Tensor:
    batch, length, heads, width = tensor.dims
    return replace(tensor, shape=(batch, heads, length, width))


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *sizes: object,
) -> Lowered:
    """Seven sizes (stride, padding and dilation of two axes, weight groups), then the groups of offsets, and a flag."""
    groups = sizes[7] if len(sizes) > 7 else 1
    modulated = bool(sizes[8]) if len(sizes) > 8 else mask is not None
    return Lowered("DeformConv", (input, weight, offset, bias, mask if modulated else None), {"offset_group": groups})


def _layer(op: str, dynamic: bool, relu: bool = False) -> Callable[..., Lowered]:
    """A quantized layer: its weight was packed, and is handed over by name.

    A ReLU on integers is one of the bounds of their range.
    """
    attrs = {"dynamic": int(dynamic), "relu": int(dynamic and relu)}

    def lowered(
        input: Tensor, *packed: object, weight: Tensor, bias: Tensor | None = None, **options: object
    ) -> Lowered:
        return Lowered(f"quantized::{op}", (input, weight, bias), dict(attrs))

    return lowered


def _cortex(op: str, depthwise: bool = False) -> Callable[..., Lowered]:
    """A layer of ExecuTorch's for Cortex-M; a depthwise kernel is 1 × height × width × channels."""

    def lowered(input: Tensor, weight: Tensor, bias: Tensor | None = None, *settings: object) -> Lowered:
        if depthwise and weight.shape is not None and len(weight.shape) == 4:
            one, height, width, channels = weight.shape
            weight = replace(weight, shape=(channels, one, height, width))
        return Lowered(f"cortex_m::{op}", (input, weight, bias))

    return lowered


def _several(op: str) -> Callable[..., Lowered]:
    """An operator of one or more tensors; the scale and the zero point of the result follow."""

    def lowered(input: object, *others: object, **options: object) -> Lowered:
        return Lowered(f"quantized::{op}", tensors(input, *others))

    return lowered


def _layers(op: str) -> Callable[..., Lowered]:
    """A stack of recurrent layers, from a padded batch or a packed one (data, batch_sizes).

    It stays one operator, because that is what the program called.
    """

    def lowered(input: Tensor, second: object, third: Any, fourth: Any, *settings: object, **options: Any) -> Lowered:
        packed = not isinstance(third, (list, tuple)) or isinstance(fourth, (list, tuple))
        state, weights = (third, fourth) if packed else (second, third)
        has_biases, layers, dropout, train, both = settings[:5] if packed else (fourth, *settings[:4])
        attrs = {
            "layers": layers,
            "directions": 2 if both else 1,
            "biases": int(bool(has_biases)),
            "packed": int(packed),
            "dropout": int(bool(train and dropout)),
            "batch_first": int(not packed and len(settings) > 4 and bool(settings[4])),
        }
        return Lowered(op, (input, *tensors(*weights), *tensors(state)), attrs)

    return lowered


def _cell(op: str) -> Callable[..., Lowered]:
    def lowered(
        input: Tensor, hx: object, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
    ) -> Lowered:
        return Lowered(op, (input, w_ih, w_hh, b_ih, b_hh, *tensors(hx)))

    return lowered


LOWERINGS: dict[str, Callable[..., Lowered]] = {
    "linear": lambda input, weight, bias=None: Lowered("Gemm", (input, weight, bias), {"transB": 1}),
    **{f"conv{rank}d": _convolution for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": _transposed for rank in (1, 2, 3)},
    "convolution": convolution,
    "_convolution": convolution,
    "conv_tbc": lambda input, weight, bias, pad=0: Lowered("aten::conv_tbc", (input, weight, bias)),
    "_flash_attention_forward": _flash_forward,
    "_efficient_attention_forward": _efficient_forward,
    # Vectors on the left are rows; ONNX's MatMul has the same rule.
    "matmul": lambda input, other: Lowered("MatMul", (input, other)),
    "__rmatmul__": lambda input, other: Lowered("MatMul", (other, input)),
    "linalg_matmul": lambda input, other: Lowered("MatMul", (input, other)),
    **{name: lambda input, mat2, out_dtype=None: Lowered("MatMul", (input, mat2)) for name in ("mm", "bmm", "_int_mm")},
    "mv": lambda input, vec: Lowered("MatMul", (input, vec)),
    "dot": lambda input, tensor: Lowered("MatMul", (input, tensor)),
    "vdot": lambda input, other: Lowered("MatMul", (input, other)),
    "linalg_vecdot": lambda x, y, *, dim=-1: Lowered("aten::linalg_vecdot", (x, y)),
    "inner": inner,
    "outer": lambda input, vec2: Lowered("Mul", (input, vec2)),
    "ger": lambda input, vec2: Lowered("Mul", (input, vec2)),
    "chain_matmul": lambda *matrices: Lowered("aten::chain_matmul", tensors(*matrices)),
    "linalg_multi_dot": lambda *matrices: Lowered("aten::chain_matmul", tensors(*matrices)),
    **{
        name: lambda input, mat1, mat2, *, beta=1, alpha=1, out_dtype=None: _added(
            "Gemm", mat1, mat2, input, beta, alpha
        )
        for name in ("addmm", "sspaddmm")
    },
    "baddbmm": lambda input, batch1, batch2, *, beta=1, alpha=1, out_dtype=None: _added(
        "Gemm", batch1, batch2, input, beta, alpha
    ),
    "_addmm_activation": lambda input, mat1, mat2, *, beta=1, alpha=1, use_gelu=False: _added(
        "aten::_addmm_activation", mat1, mat2, input, beta, alpha, gelu=int(use_gelu)
    ),
    "addmv": lambda input, mat, vec, *, beta=1, alpha=1: _added("Gemm", mat, vec, input, beta, alpha),
    "addr": lambda input, vec1, vec2, *, beta=1, alpha=1: _added("aten::addr", vec1, vec2, input, beta, alpha),
    "addbmm": lambda input, batch1, batch2, *, beta=1, alpha=1: _added(
        "aten::addbmm", batch1, batch2, input, beta, alpha
    ),
    "tensordot": lambda input, other, dims_self=2, dims_other=None: Lowered(
        "aten::tensordot", (input, other), {"dims": list(dims_self)}
    ),
    "einsum": einsum,
    "bilinear": lambda input1, input2, weight, bias=None: Lowered("aten::bilinear", (input1, input2, weight, bias)),
    **{
        name: lambda input, mat2, offs=None, bias=None, out_dtype=None: Lowered(
            "aten::_grouped_mm", (input, mat2, offs, bias)
        )
        for name in ("_grouped_mm", "grouped_mm")
    },
    "_scaled_mm": scaled_mm,
    "_scaled_mm_v2": scaled_mm,
    **{
        name: lambda input, mat2, *scales, **options: Lowered("aten::_weight_only_mm", (input, mat2, *tensors(*scales)))
        for name in ("_weight_int8pack_mm", "_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu")
    },
    "scaled_dot_product_attention": attention,
    **{
        f"_scaled_dot_product_{kernel}": flash
        for kernel in (
            "flash_attention",
            "flash_attention_for_cpu",
            "efficient_attention",
            "cudnn_attention",
            "fused_attention_overrideable",
            "attention_math",
        )
    },
    "torch_attn._varlen_attn": varlen,
    "torch_attn._varlen_attn_out": lambda out, *args, **options: varlen(*args, **options),
    "flex_attention": lambda query, key, value, *, pairs=None: Lowered(
        "aten::flex_attention", (query, key, value), {} if pairs is None else {PAIRS: pairs}
    ),
    "torchvision.deform_conv2d": deform_conv2d,
    **{
        name: lambda input, mat2, *settings, nnz=None: Lowered(
            "aten::_sparse_mm", (input, mat2), {} if nnz is None else {"nnz": nnz}
        )
        for name in ("_sparse_mm", "smm")
    },
    **{
        name: lambda x1, x2, p=2.0, compute_mode=None: Lowered("aten::cdist", (x1, x2), {"p": float(p)})
        for name in ("cdist", "_cdist_forward")
    },
    **{
        name: lambda input, p=2.0: Lowered("aten::pdist", (input,), {"p": float(p)})
        for name in ("pdist", "_pdist_forward")
    },
    "kron": lambda input, other: Lowered("Mul", (input, other)),
    **{f"quantized.linear{relu}": _layer("linear", False) for relu in ("", "_relu")},
    **{f"quantized.linear{relu}_dynamic": _layer("linear", True, bool(relu)) for relu in ("", "_relu")},
    **{f"quantized.linear{relu}_dynamic_fp16": _layer("linear_fp16", True, bool(relu)) for relu in ("", "_relu")},
    **{
        f"quantized.conv{rank}d{relu}{dynamic}": _layer("conv", bool(dynamic), bool(relu))
        for rank in (1, 2, 3)
        for relu in ("", "_relu")
        for dynamic in ("", "_dynamic")
    },
    "cortex_m.quantized_linear": _cortex("linear"),
    "cortex_m.quantized_conv2d": _cortex("conv"),
    "cortex_m.quantized_depthwise_conv2d": _cortex("conv", depthwise=True),
    "cortex_m.quantized_avg_pool2d": lambda input, kernel, *settings: Lowered(
        "cortex_m::avg_pool", (input,), {"kernel_shape": [*kernel]}
    ),
    **{
        f"cortex_m.{name}": lambda *args, op=op: Lowered(op, tensors(*args))
        for name, op in {
            "quantize_per_tensor": "aten::quantize",
            "dequantize_per_tensor": "aten::dequantize",
            "pad": "Pad",
            "transpose": "Transpose",
            "minimum": "Min",
            "maximum": "Max",
        }.items()
    },
    **{f"quantized.{op}{relu}": _several(op) for op in ("add", "mul", "cat") for relu in ("", "_relu")},
    **{f"quantized.{op}": _several(op) for op in ("hardswish", "leaky_relu")},
    **{name: _layers(f"aten::{name}") for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{name: _cell(f"aten::{name}") for name in ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")},
}
