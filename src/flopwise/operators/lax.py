"""Primitives of JAX that neither ONNX nor PyTorch has an operator for.

https://docs.jax.dev/en/latest/jax.lax.html
"""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, integer, integers, product
from flopwise.operators.inputs import FACTOR, inputs
from flopwise.operators.onnx.movement import bits
from flopwise.operators.operator import PICKS, Effect, Operator, by, each, nothing, unknown


def convolution(node: Node) -> Counts:
    """B × I × O × P mac: B the batch of Y, I and O the input channels of a group and the output channels as W has them,
    P the product over the spatial axes of the kernel's extent times that of Y; where lhs_dilation spreads X, as in a
    transposed convolution, of X's extent times the smaller of both. Neither padding nor cropped places are subtracted.

    https://docs.jax.dev/en/latest/_autosummary/jax.lax.conv_general_dilated.html
    """
    x, weight, y = node.input(0), node.input(1), node.output()
    layouts = [integers(node, name) for name in ("lhs_spec", "rhs_spec", "out_spec")]
    for tensor, layout in zip((x, weight, y), layouts, strict=True):
        if sorted(layout) != list(range(len(tensor.dims))):
            raise ShapeError(f"{node.op} {node.name!r}: {layout} is no order of the axes of {tensor.name!r}")
    left, right, result = layouts
    macs = product((y.dims[result[0]], weight.dims[right[0]], weight.dims[right[1]]))
    for place, spread in enumerate(integers(node, "lhs_dilation")):
        kernel, positions = weight.dims[right[2 + place]], y.dims[result[2 + place]]
        macs *= product((x.dims[left[2 + place]], min(kernel, positions)) if spread > 1 else (kernel, positions))
    return Counts(mac=macs)


def ragged_dot(node: Node) -> Counts:
    """numel(A) × N mac, N the product of the extents of B alone: each row of A meets the matrix of its own group.

    https://docs.jax.dev/en/latest/_autosummary/jax.lax.ragged_dot_general.html
    """
    other = node.input(1)
    return Counts(mac=node.input(0).numel * product(extent(node, other, axis) for axis in integers(node, "free")))


def integer_power(node: Node) -> Counts:
    """numel(Y) × (bits(n) − 1 squares and one product for each further one bit of n) mul; n < 0: 1 div more; bits is
    the number of binary digits.

    https://docs.jax.dev/en/latest/_autosummary/jax.lax.integer_pow.html
    """
    exponent = abs(int(node.attrs.get("y", 1)))
    products = exponent.bit_length() + exponent.bit_count() - 2 if exponent else 0
    return Counts(mul=products, div=int(node.attrs.get("y", 1) < 0)) * node.output().numel


def window_sum(node: Node) -> Counts:
    """numel(Y) × prod(window) add; padding is not subtracted."""
    return Counts(add=_cells(node))


def window_extreme(node: Node) -> Counts:
    """numel(Y) × prod(window) cmp; padding is not subtracted."""
    return Counts(cmp=_cells(node))


def _cells(node: Node) -> int:
    return node.output().numel * product(integers(node, "window"))


def selected_sum(node: Node) -> Counts:
    """numel(G) × (prod(window) cmp + 1 add): the extreme of each window is found again, and its G added there."""
    gradients = node.input(0).numel
    return Counts(cmp=product(integers(node, "window")), add=1) * gradients


def sort(node: Node) -> Counts:
    """at most k × numel(X) × bits(n) cmp, n the extent that is sorted and k the keys: each element finds its place
    among those before it by binary search; bits is the number of binary digits.

    https://docs.jax.dev/en/latest/_autosummary/jax.lax.sort.html
    """
    x = node.input(0)
    length = extent(node, x, node.attrs.get("dimension", -1)) if x.dims else 1
    return Counts(cmp=x.numel * bits(length) * node.attrs.get("num_keys", 1))


def householder(node: Node) -> Counts:
    """at most, for each m × n matrix, Σ (m − i + 1) × (2 (n − i) + 1) mac + (m − i + 1) div + 1 sqrt for i = 1 … min(m,
    n): a reflection for each column, applied to the columns after it.

    https://www.netlib.org/lapack/explore-html/d0/da1/group__geqrf.html
    """
    matrix = node.input(0)
    rows, columns = extent(node, matrix, -2), extent(node, matrix, -1)
    steps = range(1, min(rows, columns) + 1)
    macs = sum((rows - i + 1) * (2 * (columns - i) + 1) for i in steps)
    once = Counts(mac=macs, div=sum(rows - i + 1 for i in steps), sqrt=len(steps))
    return once * product(matrix.dims[:-2])


def householder_product(node: Node) -> Counts:
    """at most, for each m × n matrix, 2 (m − i + 1) × (n − i + 1) mac for each reflection i, from the last on."""
    matrix, reflections = node.input(0), extent(node, node.input(1), -1)
    rows, columns = extent(node, matrix, -2), extent(node, matrix, -1)
    macs = sum(2 * (rows - i + 1) * (columns - i + 1) for i in range(1, reflections + 1))
    return Counts(mac=macs) * product(matrix.dims[:-2])


def all_reduce_sum(node: Node) -> Counts:
    """at most numel × (n − 1) add on each of n devices: the parts of the others as they come; a ring adds 1/n of that.

    https://docs.jax.dev/en/latest/_autosummary/jax.lax.psum.html
    """
    return Counts(add=_arriving(node))


def all_reduce_extreme(node: Node) -> Counts:
    """at most numel × (n − 1) cmp on each of n devices: the parts of the others as they come; a ring compares 1/n of
    that.
    """
    return Counts(cmp=_arriving(node))


def reduce_scatter(node: Node) -> Counts:
    """numel(Y) × (n − 1) add on each of n devices: the parts of the others of what it keeps."""
    return Counts(add=node.output().numel * (node.attrs.get("devices", 1) - 1))


def _arriving(node: Node) -> int:
    return sum(t.numel for t in node.known_outputs) * (integer(node, "devices", 1) - 1)


def added(node: Node) -> Counts:
    """numel(X) add: X is added to what the reference holds."""
    return Counts(add=node.input(1).numel)


_MOVED = "copies elements to other places"
_SENT = "sends elements to other devices: no arithmetic"
_MARK = "a remark for the compiler: the elements stay as they are"
_REFERENCE = "makes, reads or overwrites a reference"
_TYPE = "reads the same elements under another type"
_LIBRARY = "a routine of LAPACK whose steps are the library's choice"
_ITERATES = "repeats until it converges, so the number of steps is data"
_SPECIAL = "a special function: how many operations it takes is the choice of the library that computes it"
_KERNEL = "a kernel of one's own: a rule can count it (--rules, rules=), by the attribute name"
_CUDNN = "a kernel of cuDNN: what is traced with implementation='xla' is counted"
_CALLBACK = "calls Python while it runs: nobody sees what that computes"
_INSIDE = "stands in the kernels of Pallas alone, which are not looked into"

#: Where a primitive stands for the work of a body, its operators count.
_BODY: frozenset[Effect] = frozenset({"bodies"})


def _each(names: str, row: Operator) -> Mapping[str, Operator]:
    return {f"lax::{name}": row for name in names.split()}


OPERATORS: dict[str, Operator] = {
    "lax::conv_general_dilated": by(convolution, inputs=inputs(FACTOR, FACTOR)),
    "lax::ragged_dot_general": by(ragged_dot, inputs=inputs(FACTOR, FACTOR)),
    "lax::integer_pow": by(integer_power, in_place=True),
    "lax::cbrt": each("a root of any order is a power", pow=1, in_place=True),
    **_each("population_count clz", each("one operation on the bits of an element", bit=1, in_place=True)),
    "lax::mulhi": each("the upper half of a product", mul=1, in_place=True),
    **_each("reduce_window_sum", by(window_sum)),
    **_each("reduce_window_max reduce_window_min", by(window_extreme)),
    **_each("select_and_scatter_add select_and_gather_add", by(selected_sum)),
    "lax::sort": by(sort, "bound"),
    **_each("geqrf qr geqp3", by(householder, "bound")),
    **_each("householder_product ormqr", by(householder_product, "bound")),
    # What runs graphs of its own.
    "lax::shard_map": nothing("runs its body on each device; the body's operators count once for each", effects=_BODY),
    "lax::reduce": nothing("runs its body for each element; the body's operators count so often", effects=_BODY),
    "lax::reduce_window": nothing(
        "runs its body for each place of each window; the body's operators count so often", effects=_BODY
    ),
    # Among devices.
    **_each(
        "psum psum_start psum_invariant psum_invariant_start unreduced_psum unreduced_psum_start",
        by(all_reduce_sum, "bound"),
    ),
    **_each("pmax pmin", by(all_reduce_extreme, "bound")),
    **_each(
        "reduce_scatter reduce_scatter_start unreduced_reduce_scatter unreduced_reduce_scatter_start",
        by(reduce_scatter),
    ),
    **_each(
        "all_gather all_gather_start all_gather_done all_gather_invariant all_gather_reduced all_gather_reduced_start "
        "all_to_all all_to_all_start all_to_all_done ragged_all_to_all ppermute ppermute_start ppermute_done "
        "pbroadcast pbroadcast_start pbroadcast_done psend precv psum_done reduce_scatter_done",
        nothing(_SENT),
    ),
    **_each(
        "axis_index inspect_sharding platform_index iota_2x32_shape dimension_size dim_as_value",
        nothing("says where it runs, or how large something is"),
    ),
    # What moves, converts or marks.
    **_each("rev", nothing(_MOVED)),
    **_each("complex real imag", nothing("joins or picks the parts of complex numbers", effects=PICKS)),
    "lax::dynamic_update_slice": nothing("overwrites the elements that bounds pick", effects=frozenset({"updates"})),
    "lax::reduce_precision": nothing("rounds to fewer bits, as a conversion does", in_place=True),
    **_each("to_edtype from_edtype random_wrap random_unwrap random_clone", nothing(_TYPE)),
    **_each(
        "random_seed random_split random_fold_in",
        nothing("makes keys of random numbers", effects=frozenset({"random"})),
    ),
    **_each("empty empty2 create_token after_all zeros_like", nothing("writes values that are known beforehand")),
    "lax::lu_pivots_to_permutation": nothing(_MOVED),
    **_each(
        "debug_callback debug_print check shape_assertion dce_sink delay semaphore_read semaphore_signal "
        "semaphore_wait unreachable create_linear",
        nothing("computes nothing that the program uses"),
    ),
    **_each(
        "new_ref empty_ref free_ref freeze get swap new_box box_get box_set get_global new_log log_read log_extend pin "
        "unpin masked_load masked_swap stage",
        nothing(_REFERENCE),
    ),
    **_each("addupdate accum_grad_in_ref", by(added)),
    # What nobody can count.
    **_each("pallas_call core_map run_scoped run_state mpmd_map", unknown(_KERNEL)),
    **_each("ffi_call call_exported call_hi_primitive call_hi_primitive_linearized cudnn_fusion", unknown(_KERNEL)),
    **_each("pure_callback io_callback", unknown(_CALLBACK)),
    **_each("num_programs program_id multiple_of broadcast_to", nothing(_INSIDE)),
    **_each(
        "dot_product_attention_fwd dot_product_attention_bwd dot_product_attention_fwd_wrapper "
        "dot_product_attention_bwd_wrapper dot_product_attention_fp8_fwd dot_product_attention_fp8_bwd "
        "dot_product_attention_fp8_fwd_wrapper dot_product_attention_fp8_bwd_wrapper scaled_matmul "
        "scaled_matmul_wrapper scaled_dot",
        unknown(_CUDNN),
    ),
    **_each("hessenberg tridiagonal tridiagonal_solve cholesky_update symmetric_product", unknown(_LIBRARY)),
    **_each("eig eigh svd schur", unknown(_ITERATES)),
    **_each("regularized_incomplete_beta igamma_grad_a random_gamma", unknown(_SPECIAL)),
    **_each("select_and_scatter", unknown("selects and adds by functions of the program's own")),
}
