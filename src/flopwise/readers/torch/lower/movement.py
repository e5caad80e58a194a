"""Operators that move, select, convert or make data, and those that add while they move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered, all_tensors, tensors


def _first(op: str) -> Callable[..., Lowered]:
    """Only the first tensor flows through, which a program may name as it likes; the others say where."""

    def lowered(input: object = None, *args: object, **kwargs: object) -> Lowered:
        return Lowered(op, tensors(input, *args, *kwargs.values()))

    return lowered


def index_put(input: Tensor, indices: object, values: object, accumulate: bool = False, **options: object) -> Lowered:
    places = next(iter(tensors(indices)), None)
    moved = next(iter(tensors(values)), None)
    return Lowered("ScatterND", (input, places, moved), {"reduction": "add"} if accumulate else {})


#: How ``reduce`` of a scatter is called in PyTorch -> in ONNX.
_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter(reduction: str, mean: str = "") -> Callable[..., Lowered]:
    """The lowering of a scatter with a reduction; a mean, which ONNX does not have, keeps its own name."""

    def lowered(
        input: Tensor, dim: int, index: Tensor, source: object = None, *settings: object, **options: Any
    ) -> Lowered:
        source = options.get("src", options.get("value", source))
        named = options.get("reduce", next((r for r in settings if isinstance(r, str)), reduction))
        moved = next(iter(tensors(source)), None)
        if mean and named == "mean":
            return Lowered(mean, (input, index, moved), {"include_self": int(options.get("include_self", True))})
        # A plain number is as many updates as there are places.
        return Lowered("ScatterElements", (input, index, moved or index), {"reduction": _REDUCTIONS.get(named, "none")})

    return lowered


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: object = 1) -> Lowered:
    if alpha != 1:
        return Lowered("aten::index_add", (input, index, source))
    return Lowered("ScatterElements", (input, index, source), {"reduction": "add"})


#: ATen -> ONNX; neither computes anything.
_NAMES = {
    "view": "Reshape", "reshape": "Reshape", "_unsafe_view": "Reshape", "view_as": "Reshape", "reshape_as": "Reshape",
    "unflatten": "Reshape", "flatten": "Flatten", "ravel": "Flatten", "squeeze": "Squeeze", "unsqueeze": "Unsqueeze",
    "transpose": "Transpose", "permute": "Transpose", "t": "Transpose", "numpy_T": "Transpose", "mT": "Transpose",
    "mH": "Transpose", "matrix_H": "Transpose", "adjoint": "Transpose", "swapaxes": "Transpose",
    "swapdims": "Transpose", "movedim": "Transpose", "moveaxis": "Transpose", "cat": "Concat", "concat": "Concat",
    "concatenate": "Concat", "stack": "Concat", "hstack": "Concat", "vstack": "Concat", "dstack": "Concat",
    "column_stack": "Concat", "row_stack": "Concat", "block_diag": "Concat", "split": "Split", "chunk": "Split",
    "unbind": "Split", "tensor_split": "Split", "split_with_sizes": "Split", "hsplit": "Split", "vsplit": "Split",
    "dsplit": "Split", "unsafe_chunk": "Split", "unsafe_split": "Split", "unsafe_split_with_sizes": "Split",
    "expand": "Expand", "expand_as": "Expand", "broadcast_to": "Expand", "repeat": "Tile", "tile": "Tile",
    "repeat_interleave": "Tile", "meshgrid": "Expand", "broadcast_tensors": "Expand", "pad": "Pad",
    "constant_pad_nd": "Pad", "reflection_pad1d": "Pad", "reflection_pad2d": "Pad", "reflection_pad3d": "Pad",
    "replication_pad1d": "Pad", "replication_pad2d": "Pad", "replication_pad3d": "Pad", "_pad_circular": "Pad",
    "_pad_enum": "Pad", "slice": "Slice", "select": "Slice", "narrow": "Slice", "getitem": "Slice",
    "diagonal": "Slice", "diag": "Slice", "unfold": "Slice", "as_strided": "Slice",
    "take_along_dim": "GatherElements", "gather": "GatherElements", "index": "GatherND", "take": "GatherND",
    "index_select": "Gather", "embedding": "Gather", "masked_select": "Compress", "_unsafe_index": "GatherND",
    "tril": "Trilu", "triu": "Trilu", "pixel_shuffle": "DepthToSpace", "pixel_unshuffle": "SpaceToDepth",
    "channel_shuffle": "Transpose", "native_channel_shuffle": "Transpose", "flip": "ReverseSequence",
    "fliplr": "ReverseSequence", "flipud": "ReverseSequence", "roll": "Concat", "rot90": "Transpose",
    "im2col": "aten::im2col", "max_unpool2d": "MaxUnpool", "max_unpool3d": "MaxUnpool", "one_hot": "OneHot",
    "combinations": "Gather", "cartesian_prod": "Expand", "diag_embed": "Concat", "to": "Cast", "type": "Cast",
    "type_as": "Cast", "float": "Cast", "half": "Cast", "double": "Cast", "bfloat16": "Cast", "int": "Cast",
    "long": "Cast", "short": "Cast", "char": "Cast", "byte": "Cast", "bool": "Cast", "_to_copy": "Cast",
    "cfloat": "Cast", "cdouble": "Cast", "chalf": "Cast", "_autocast_to_reduced_precision": "Cast",
    "_autocast_to_full_precision": "Cast", "view_as_real": "Identity", "view_as_complex": "Identity",
    "real": "Identity", "imag": "Identity", "conj": "Identity", "resolve_neg": "Identity", "positive": "Identity",
    "alias": "Identity", "detach": "Identity", "clone": "Identity", "contiguous": "Identity",
    "lift_fresh": "Identity", "lift": "Identity", "_shape_as_tensor": "Shape", "as_tensor": "Identity",
    "asarray": "Identity", "from_numpy": "Identity", "copy": "Identity", "fill": "ConstantOfShape",
    "zero": "ConstantOfShape", "setitem": "Identity", "set": "Identity", "data": "Identity", "unsafe_chunk_": "Split",
    "narrow_copy": "Slice", "view_copy": "Reshape", "slice_scatter": "Identity", "select_scatter": "Identity",
    "diagonal_scatter": "Identity", "as_strided_scatter": "Identity", "masked_scatter": "Where",
    "index_copy": "ScatterND", "index_fill": "ScatterND", "fill_diagonal": "ConstantOfShape", "put": "ScatterND",
    "to_sparse": "NonZero", "to_dense": "Identity", "to_mkldnn": "Identity", "coalesce": "Identity",
    "values": "Identity", "indices": "Identity", "_values": "Identity", "_indices": "Identity",
    "crow_indices": "Identity", "col_indices": "Identity", "to_padded_tensor": "Identity", "resize": "Reshape",
    "resize_as": "Reshape", "_pack_padded_sequence": "Gather", "_pad_packed_sequence": "Gather",
    "pad_sequence": "Concat",
    "atleast_1d": "Reshape", "atleast_2d": "Reshape", "atleast_3d": "Reshape", "squeeze_copy": "Squeeze",
    "int_repr": "Identity", "empty_like": "ConstantOfShape", "zeros_like": "ConstantOfShape",
    "ones_like": "ConstantOfShape", "full_like": "ConstantOfShape", "new_zeros": "ConstantOfShape",
    "new_ones": "ConstantOfShape", "new_full": "ConstantOfShape", "new_empty": "ConstantOfShape",
    "new_empty_strided": "ConstantOfShape", "new_tensor": "ConstantOfShape", "new": "ConstantOfShape",
    "zeros": "ConstantOfShape", "ones": "ConstantOfShape", "full": "ConstantOfShape", "empty": "ConstantOfShape",
    "empty_strided": "ConstantOfShape", "empty_permuted": "ConstantOfShape", "eye": "EyeLike", "tensor": "Identity",
    "scalar_tensor": "Identity", "tril_indices": "ConstantOfShape", "triu_indices": "ConstantOfShape",
    "arange": "Range", "range": "Range", "linspace": "aten::linspace",
    "rand": "aten::random", "randn": "aten::random", "randint": "aten::random", "randperm": "aten::random",
    "rand_like": "aten::random", "randn_like": "aten::random", "randint_like": "aten::random",
    "normal": "aten::random", "uniform": "aten::random", "random": "aten::random", "exponential": "aten::random",
    "geometric": "aten::random", "cauchy": "aten::random", "log_normal": "aten::random", "poisson": "aten::random",
    "binomial": "aten::random", "complex": "Concat", "sparse_coo_tensor": "Identity", "sparse_csr_tensor": "Identity",
    "sparse_compressed_tensor": "Identity",
    "nested_tensor": "Concat", "_nested_tensor_from_mask": "Gather", "_nested_view_from_buffer": "Reshape",
    "_nested_view_from_jagged": "Reshape", "_nested_get_values": "Reshape", "_nested_get_offsets": "Identity",
    "_nested_get_lengths": "Identity", "_nested_get_min_seqlen": "Identity", "_nested_get_max_seqlen": "Identity",
    "_efficientzerotensor": "ConstantOfShape",
    "diagflat": "Concat", "fft_fftshift": "Concat", "fft_ifftshift": "Concat", "linalg_diagonal": "Slice",
    "slice_inverse": "Slice", "row_indices": "Identity", "ccol_indices": "Identity", "_to_dense": "Identity",
    "_coalesced": "Identity", "sparse_mask": "Where", "_sparse_mask_projection": "Where",
    "higher.cond": "If",
}  # fmt: skip

LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **{name: _first(op) for name, op in _NAMES.items()},
    **{name: all_tensors("Expand") for name in ("meshgrid", "broadcast_tensors")},
    **dict.fromkeys(("index_put", "_index_put_impl", "_unsafe_index_put"), index_put),
    "scatter": _scatter("none"),
    "scatter_add": _scatter("add"),
    "scatter_reduce": _scatter("add", "aten::scatter_reduce"),
    "index_add": index_add,
    "index_reduce": _scatter("add", "aten::index_reduce"),
    "col2im": lambda input, *settings, **options: Lowered("Col2Im", (input,)),
}
