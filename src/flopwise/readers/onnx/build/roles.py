"""What each stored tensor of an ONNX model is: a trained weight, a buffer beside the weights, or a constant.

The file does not say, so the use decides: the operators that take the tensor and the place among their inputs. Where a
PyTorch exporter left a note, the note decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from flopwise.graph import Kind
from flopwise.graph.dtypes import is_float
from flopwise.readers.onnx.build.scales import BIASES, SCALES

#: Operators whose result is the same stored data in another form.
_SAME_DATA = frozenset(
    {"Identity", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Flatten", "Expand", "Cast", "CastLike"}
)

#: Inputs that hold statistics or quantisation parameters: not trained, but stored beside the weights.
_BUFFERS: dict[str, frozenset[int]] = {
    "BatchNormalization": frozenset({3, 4}),
    **SCALES,
}

#: Inputs that are settings of the operator, not data it works on.
_SETTINGS: dict[str, frozenset[int]] = {
    "Clip": frozenset({1, 2}),
    "Resize": frozenset({1, 2, 3}),
    "Upsample": frozenset({1}),
    "Pad": frozenset({1, 2, 3}),
    "Dropout": frozenset({1, 2}),
    "Pow": frozenset({1}),
    "OneHot": frozenset({1, 2}),
    "Range": frozenset({0, 1, 2}),
    "Where": frozenset({0}),
    "TopK": frozenset({1}),
}

#: Inputs where a recurrent layer starts; a constant there, written by an exporter, is nothing trained.
_START: dict[str, frozenset[int]] = {"LSTM": frozenset({5, 6}), "GRU": frozenset({5}), "RNN": frozenset({5})}

#: Inputs where a tensor made by ConstantOfShape is a weight whose values the file does not keep.
_WEIGHTS: dict[str, frozenset[int]] = {
    "Conv": frozenset({1, 2}),
    "ConvTranspose": frozenset({1, 2}),
    "Gemm": frozenset({1, 2}),
    "MatMul": frozenset({0, 1}),
    "BatchNormalization": frozenset({1, 2, 3, 4}),
    "InstanceNormalization": frozenset({1, 2}),
    "GroupNormalization": frozenset({1, 2}),
    "LayerNormalization": frozenset({1, 2}),
    "PRelu": frozenset({1}),
    "LSTM": frozenset({1, 2, 3}),
    "GRU": frozenset({1, 2, 3}),
    "RNN": frozenset({1, 2, 3}),
    "Mul": frozenset({0, 1}),
    "Add": frozenset({0, 1}),
    "Gather": frozenset({0}),
}

#: Integer types in which quantised weights are stored; wider integers count, index or steer shapes.
_QUANTISED = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2"})

#: One use of a tensor: operator and place among its inputs.
Use = tuple[str, int]


def uses(nodes: Iterable[onnx.NodeProto]) -> dict[str, list[Use]]:
    """Who takes each tensor; operators that only change its form are looked through.

    What multiplies a scale that is found anew in each inference is a scale as well: dynamic quantisation writes the
    requantisation of a MatMulInteger as Cast and Mul.
    """
    listed = list(nodes)
    found_anew = (node.output[1:2] for node in listed if node.op_type == "DynamicQuantizeLinear")
    scales = {name for names in found_anew for name in names if name}
    found: dict[str, list[Use]] = {}
    for node in reversed(listed):
        for place, name in enumerate(node.input):
            if not name:
                continue
            if scales and node.op_type == "Mul" and not scales.isdisjoint(node.input) and name not in scales:
                found.setdefault(name, []).append(("DequantizeLinear", 1))
            elif place == 0 and node.op_type in _SAME_DATA and node.output:
                found.setdefault(name, []).extend(found.get(node.output[0], ()))
            else:
                found.setdefault(name, []).append((node.op_type, place))
    return found


def _all_in(uses: Iterable[Use], places: Mapping[str, frozenset[int]]) -> bool:
    listed = list(uses)
    return bool(listed) and all(place in places.get(op, ()) for op, place in listed)


def kind_of(dtype: str | None, rank: int, taken: Iterable[Use], said: Kind | None = None) -> Kind:
    """What a stored tensor is.

    Args:
        dtype: element type.
        rank: number of dims.
        taken: its uses.
        said: what its exporter said that it is.
    """
    taken = list(taken)
    whole = dtype in _QUANTISED or (dtype == "int32" and _all_in(taken, BIASES))
    if not (is_float(dtype) or whole or (dtype or "").startswith("complex")):
        return "buffer" if dtype == "int32" and _all_in(taken, _BUFFERS) else "constant"
    if said is not None:
        return said
    if _all_in(taken, _BUFFERS):
        return "buffer"
    if rank == 0 or _all_in(taken, _SETTINGS):
        return "constant"
    return "weight"


def kind_of_filled(dtype: str | None, rank: int, taken: Iterable[Use]) -> Kind | None:
    """What the result of a ConstantOfShape is: a weight or buffer if it is used as one, else None."""
    taken = list(taken)
    if not is_float(dtype) or rank == 0 or not _all_in(taken, _WEIGHTS):
        return None
    return "buffer" if _all_in(taken, _BUFFERS) else "weight"


def kind_of_constant(dtype: str | None, rank: int, elements: int, taken: Iterable[Use]) -> Kind:
    """What the result of a Constant node is: exporters write settings and single numbers there, but weights as well."""
    taken = list(taken)
    if (elements <= 1 and not _all_in(taken, SCALES)) or _all_in(taken, _START):
        return "constant"
    return kind_of(dtype, rank, taken)
