"""The rules of PyTorch's operators. Parameters of rules are those of the function.

Tensors come as their shapes (``flopwise.operators.shapes.calls.of.Of``), sizes as integers that may
carry expressions.
"""

from __future__ import annotations

from collections.abc import Callable

from flopwise.operators.shapes.calls import computed, makers, views
from flopwise.operators.shapes.calls.of import Shapes

_NAMES: dict[Callable[..., Shapes], str] = {
    views.view: "view reshape _unsafe_view",
    views.view_as: "view_as reshape_as",
    views.unflatten: "unflatten",
    views.flatten: "flatten ravel",
    views.squeeze: "squeeze",
    views.unsqueeze: "unsqueeze",
    views.transpose: "transpose swapaxes swapdims",
    views.turned: "t mT numpy_T",
    views.permute: "permute",
    views.movedim: "movedim moveaxis",
    views.cat: "cat concat concatenate",
    views.stack: "stack",
    views.split: "split split_with_sizes",
    views.chunk: "chunk",
    views.unbind: "unbind",
    views.expand: "expand broadcast_to",
    views.expand_as: "expand_as",
    views.repeat: "repeat tile",
    views.repeat_interleave: "repeat_interleave",
    views.pad: "pad constant_pad_nd",
    computed.roll: "roll flip tril triu index_put masked_fill scatter scatter_add index_add index_copy index_fill"
    " cumsum cumprod"
    " softmax log_softmax layer_norm rms_norm group_norm batch_norm instance_norm dropout normalize clone contiguous to"
    " type float half double bfloat16 int long bool detach type_as gelu silu setitem_ zero_ fill_ copy_ glu_like"
    " unseen",
    views.narrow: "narrow",
    views.select: "select",
    views.getitem: "getitem",
    views.slice_: "slice",
    makers.filled: "zeros ones empty rand randn",
    makers.full: "full",
    makers.new_filled: "new_zeros new_ones new_empty",
    makers.new_full: "new_full",
    makers.arange: "arange",
    makers.linspace: "linspace",
    makers.eye: "eye",
    makers.alike: "zeros_like ones_like empty_like full_like rand_like randn_like",
    computed.reduced: "mean sum amax amin max min argmax argmin any all _is_all_true var std prod logsumexp",
    computed.vector_norm: "linalg_vector_norm norm",
    computed.top_k: "topk",
    computed.sort: "sort argsort msort",
    computed.histc: "histc",
    computed.search: "searchsorted bucketize",
    computed.grouped: "_grouped_mm grouped_mm",
    computed.embedding: "embedding",
    views.gathered: "gather take_along_dim",
    views.index_select: "index_select",
    computed.upsample: "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d"
    " upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa",
    computed.attention: "scaled_dot_product_attention",
    views.tensor_split: "tensor_split",
    views.pixel_shuffle: "pixel_shuffle",
    views.pixel_unshuffle: "pixel_unshuffle",
    views.unfold: "unfold",
    makers.meshgrid: "meshgrid",
    makers.one_hot: "one_hot",
    computed.outer: "outer ger",
    computed.matmul: "matmul bmm mm mv __matmul__",
    computed.addmm: "addmm baddbmm",
    computed.linear: "linear",
    computed.solved: "linalg_solve_triangular",
    views.as_complex: "view_as_complex",
    views.as_real: "view_as_real",
    makers.affine_grid: "affine_grid_generator affine_grid",
    computed.grid_sampled: "grid_sampler grid_sampler_2d grid_sampler_3d grid_sample",
    computed.moments: "var_mean std_mean",
    computed.columns: "im2col",
    computed.recurrent: "rnn_tanh rnn_relu lstm gru",
    computed.cell: "rnn_tanh_cell rnn_relu_cell lstm_cell gru_cell",
    computed.broadcasting: "ne not_equal eq lt le gt ge greater greater_equal less less_equal where maximum minimum"
    " floor_divide"
    " remainder fmod atan2 clamp clamp_min clamp_max clip neg abs sqrt rsqrt exp log sin cos sigmoid tanh"
    " relu erf square reciprocal sign isnan isinf logical_and logical_or logical_not logical_xor"
    " bitwise_and bitwise_or bitwise_not pow add sub mul div rsub lerp addcmul addcdiv floor ceil round"
    " polar complex real imag conj"
    " trunc __and__ __or__ __invert__ expm1 log1p log2 exp2 nan_to_num",
}

#: Name of an operator without its namespace -> its rule.
RULES: dict[str, Callable[..., Shapes]] = {name: rule for rule, names in _NAMES.items() for name in names.split()}
for _kind in ("avg", "max"):
    RULES.update({f"adaptive_{_kind}_pool{_rank}d": computed.adaptive_of(_rank) for _rank in (1, 2, 3)})
    RULES.update({f"{_kind}_pool{_rank}d": computed.pool_of(_rank, _kind) for _rank in (1, 2, 3)})
RULES.update({f"max_pool{_rank}d_with_indices": computed.pool_of(_rank, "max") for _rank in (1, 2, 3)})
