"""Shapes of the few standard operators for which onnx has no inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import TypeProto

from flopwise.readers.onnx.types import concrete

_FLOAT, _INT64, _STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING

#: What is known about the type of a value, None when nothing is.
TypeOf = Callable[[str], "TypeProto | None"]


def infer(node: onnx.NodeProto, type_of: TypeOf) -> dict[str, TypeProto]:
    """The types of a node's outputs; empty when nothing is known."""
    rule = _RULES.get((node.domain, node.op_type))
    if rule is None:
        return {}
    return {o: t for o, t in zip(node.output, rule(node, type_of), strict=False) if o and t is not None}


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def _shape(type_: TypeProto | None) -> tuple[int, ...] | None:
    return None if type_ is None else concrete(type_)


def _rows(node: onnx.NodeProto, type_of: TypeOf) -> int | None:
    """How many samples there are: a vector is one."""
    shape = _shape(type_of(node.input[0])) if node.input else None
    return None if shape is None else shape[0] if len(shape) > 1 else 1


def _same(node: onnx.NodeProto, type_of: TypeOf) -> list[TypeProto | None]:
    return [type_of(node.input[0])] if node.input else []


def _floats(node: onnx.NodeProto, type_of: TypeOf) -> list[TypeProto | None]:
    shape = _shape(type_of(node.input[0])) if node.input else None
    return [] if shape is None else [onnx.helper.make_tensor_type_proto(_FLOAT, shape)]


def _table(node: onnx.NodeProto, type_of: TypeOf, columns: int) -> list[TypeProto | None]:
    rows = _rows(node, type_of)
    return [] if rows is None else [onnx.helper.make_tensor_type_proto(_FLOAT, [rows, columns])]


def _linear(node: onnx.NodeProto, type_of: TypeOf) -> list[TypeProto | None]:
    return _table(node, type_of, _attribute(node, "targets", 1))


def _support_vectors(node: onnx.NodeProto, type_of: TypeOf) -> list[TypeProto | None]:
    return _table(node, type_of, 1)


def _trees(node: onnx.NodeProto, type_of: TypeOf) -> list[TypeProto | None]:
    return _table(node, type_of, _attribute(node, "n_targets", 1))


def _tree_classes(node: onnx.NodeProto, type_of: TypeOf) -> list[TypeProto | None]:
    words, numbers = (_attribute(node, f"classlabels_{kind}", []) for kind in ("strings", "int64s"))
    rows = _rows(node, type_of)
    if rows is None:
        return []
    label = onnx.helper.make_tensor_type_proto(_STRING if words else _INT64, [rows])
    return [label, onnx.helper.make_tensor_type_proto(_FLOAT, [rows, len(words or numbers)])]


def _side_by_side(node: onnx.NodeProto, type_of: TypeOf) -> list[TypeProto | None]:
    return _table(node, type_of, sum(_attribute(node, "inputdimensions", [])))


def _gradient(node: onnx.NodeProto, type_of: TypeOf) -> list[TypeProto | None]:
    return [type_of(name.decode()) for name in _attribute(node, "xs", [])]


_Rule = Callable[[onnx.NodeProto, TypeOf], "list[TypeProto | None]"]

_RULES: dict[tuple[str, str], _Rule] = {
    ("", "GroupNormalization"): _same,
    ("ai.onnx.ml", "FeatureVectorizer"): _side_by_side,
    ("ai.onnx.ml", "Imputer"): _same,
    ("ai.onnx.ml", "LinearRegressor"): _linear,
    ("ai.onnx.ml", "Normalizer"): _floats,
    ("ai.onnx.ml", "SVMRegressor"): _support_vectors,
    ("ai.onnx.ml", "Scaler"): _floats,
    ("ai.onnx.ml", "TreeEnsembleClassifier"): _tree_classes,
    ("ai.onnx.ml", "TreeEnsembleRegressor"): _trees,
    ("ai.onnx.preview.training", "Gradient"): _gradient,
}

#: Operators that this file knows.
KNOWN: frozenset[tuple[str, str]] = frozenset(_RULES)
