"""PyTorch's functions by what an interception does with them; a function in no table is recorded as an operator."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    """The names in a text."""
    return frozenset(text.split())


#: Special methods of Python's operators -> the ATen name.
SIGNS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_", "__mul__": "mul",
    "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_", "__div__": "div",
    "__idiv__": "div_", "__matmul__": "matmul", "__imatmul__": "matmul_", "__mod__": "remainder",
    "__imod__": "remainder_", "__ifloordiv__": "floor_divide_", "__ipow__": "pow_", "__and__": "bitwise_and",
    "__rand__": "bitwise_and", "__iand__": "bitwise_and_", "__or__": "bitwise_or", "__ror__": "bitwise_or",
    "__ior__": "bitwise_or_", "__xor__": "bitwise_xor", "__rxor__": "bitwise_xor", "__ixor__": "bitwise_xor_",
    "__lshift__": "bitwise_left_shift", "__ilshift__": "bitwise_left_shift_", "__rshift__": "bitwise_right_shift",
    "__irshift__": "bitwise_right_shift_", "__invert__": "bitwise_not", "__neg__": "neg", "__pos__": "positive",
    "__abs__": "abs", "__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
    "__getitem__": "getitem", "__setitem__": "setitem_",
}  # fmt: skip

#: Attributes whose reading makes a view.
VIEWS = {"T": "numpy_T", "mT": "mT", "H": "matrix_H", "mH": "mH", "data": "detach", "real": "real", "imag": "imag"}

#: Functions whose result depends on the elements and is not a tensor.
VALUES = _names(
    """
    item tolist __bool__ __int__ __float__ __index__ __complex__ __nonzero__ __long__ is_nonzero equal allclose
    numpy __array__ __format__ __repr__ __str__ _local_scalar_dense __dlpack__
    """
)

#: Functions that say or set something about a tensor and compute nothing, besides those named ``is_...``.
QUESTIONS = _names(
    """
    size dim stride numel nelement element_size storage_offset data_ptr get_device requires_grad_ register_hook
    register_post_accumulate_grad_hook retain_grad __hash__ __len__ __dir__ __reduce_ex__ ndimension untyped_storage
    storage storage_type _is_view _version names rename rename_ has_names sym_size sym_numel result_type can_cast
    promote_types get_default_dtype _is_zerotensor dense_dim sparse_dim q_scale q_zero_point qscheme __get__
    broadcast_shapes _has_compatible_shallow_copy_type __delete__ _typed_storage _use_cudnn_ctc_loss dim_order
    type_as_ _make_subclass cudnn_is_acceptable __cuda_array_interface__ __torch_dispatch__ sym_stride
    sym_storage_offset sym_is_contiguous output_nr retains_grad _nnz _dimI _dimV _nested_get_ragged_idx
    _debug_has_internal_overlap _has_same_storage_numel _fused_sdp_choice _use_miopen_ctc_loss _assert_async
    _assert_scalar _assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size _linalg_check_errors
    _validate_sparse_coo_tensor_args _validate_sparse_csr_tensor_args _validate_sparse_csc_tensor_args
    _validate_sparse_bsr_tensor_args _validate_sparse_bsc_tensor_args _validate_sparse_compressed_tensor_args
    _validate_compressed_sparse_indices record_stream
    """
)


#: Functions that make a tensor of a given size from nothing but numbers.
FACTORIES = _names(
    """
    zeros ones full empty arange range linspace logspace eye rand randn randint randperm tensor as_tensor
    scalar_tensor empty_strided tril_indices triu_indices normal from_file complex polar asarray vander
    sparse_coo_tensor sparse_csr_tensor empty_permuted cartesian_prod bartlett_window blackman_window hamming_window
    hann_window kaiser_window
    """
)


def is_like(name: str) -> bool:
    """True if a function makes a tensor of the size or type of another, independent of its elements."""
    return name == "new" or name.startswith("new_") or name.endswith("_like")


#: Functions that move a tensor to another device or type.
MOVES = frozenset(["to", "cpu", "cuda", "xpu", "mps", "ipu", "hpu", "mtia", "pin_memory", "type"])

#: Python functions that are recorded whole: looked into, they would call themselves without end.
OPAQUE = frozenset(["multi_margin_loss"])
