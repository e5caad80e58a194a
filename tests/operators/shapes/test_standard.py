"""Shapes of the standard operators for which onnx has no inference; the reference operators run as a check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator
from tests.onnx_suite import cases

from flopwise.api.read import read
from flopwise.operators.tables import row
from flopwise.sizes.control import FLOWS

ML = "ai.onnx.ml"

_TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}
_TARGETS: dict[str, Any] = {
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 2],
    "target_weights": [1.0, 2.0],
}
_CLASSES: dict[str, Any] = {
    "class_treeids": [0, 0],
    "class_nodeids": [1, 2],
    "class_ids": [0, 2],
    "class_weights": [1.0, 2.0],
}

#: Operator, domain, version, shapes of its inputs, attributes, number of outputs.
CASES: list[tuple[str, str, int, list[tuple[int, ...]], dict[str, Any], int]] = [
    ("Imputer", ML, 1, [(3, 2)], {"imputed_value_floats": [0.0], "replaced_value_float": 1.0}, 1),
    ("LinearRegressor", ML, 1, [(3, 2)], {"coefficients": [1.0] * 8, "targets": 4}, 1),
    ("Normalizer", ML, 1, [(3, 2)], {"norm": "L2"}, 1),
    ("Scaler", ML, 1, [(3, 2)], {"offset": [0.5, 1.0], "scale": [2.0, 2.0]}, 1),
    (
        "SVMRegressor",
        ML,
        1,
        [(3, 2)],
        {
            "coefficients": [1.0, 2.0],
            "kernel_type": "LINEAR",
            "kernel_params": [0.0, 0.0, 0.0],
            "n_supports": 2,
            "rho": [0.0],
            "support_vectors": [1.0, 2.0, 3.0, 4.0],
        },
        1,
    ),
    ("TreeEnsembleRegressor", ML, 1, [(3, 2)], {**_TREE, **_TARGETS, "n_targets": 3}, 1),
    ("TreeEnsembleRegressor", ML, 3, [(3, 2)], {**_TREE, **_TARGETS, "n_targets": 3}, 1),
    ("FeatureVectorizer", ML, 1, [(3, 2), (3, 4)], {"inputdimensions": [2, 4]}, 1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[2]}")
def test_as_the_reference_operators(case: Any) -> None:
    op, domain, version, shapes, attrs, outputs = case
    names, made = [f"x{i}" for i in range(len(shapes))], [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, made, domain=domain, **attrs)],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)],
        [onnx.ValueInfoProto(name=o) for o in made],
    )
    imports = [helper.make_opsetid(domain, version)] + ([helper.make_opsetid("", 17)] if domain else [])
    found = [t.shape for t in read(helper.make_model(graph, opset_imports=imports)).outputs]
    feeds = {n: numpy.ones(s, numpy.float32) for n, s in zip(names, shapes, strict=True)}
    node = graph.node[0]
    results = ReferenceEvaluator(node, opsets={domain: version, "": 17}).run(None, feeds)
    assert found == [numpy.shape(r) for r in results]


@pytest.mark.parametrize(("version", "parameters"), [(18, 2), (21, 4)])
def test_group_normalization(version: int, parameters: int) -> None:
    """The reference operators need the shapes that are asked for here."""
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    shapes = {"x": (2, 4, 5, 5), "s": (parameters,), "b": (parameters,)}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    (y,) = read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])).outputs
    assert y.shape == (2, 4, 5, 5)


def test_classes_of_the_newest_tree_ensemble() -> None:
    """The reference operators have no version 5."""
    labels = {"post_transform": "NONE", "classlabels_strings": ["a", "b", "c"]}
    nodes = [helper.make_node("TreeEnsembleClassifier", ["x"], ["l", "p"], domain=ML, **_TREE, **_CLASSES, **labels)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 2))
    made = [onnx.ValueInfoProto(name=o) for o in ("l", "p")]
    imports = [helper.make_opsetid(ML, 5), helper.make_opsetid("", 17)]
    graph = read(helper.make_model(helper.make_graph(nodes, "g", [x], made), opset_imports=imports))
    assert [(t.shape, t.dtype) for t in graph.outputs] == [((3,), "string"), ((3, 3), "float32")]


_SVM: dict[str, Any] = {
    "classlabels_ints": [0, 1],
    "coefficients": [1.0, -1.0],
    "kernel_type": "LINEAR",
    "kernel_params": [0.0, 0.0, 0.0],
    "prob_a": [0.5],
    "prob_b": [0.1],
    "rho": [0.0],
    "support_vectors": [1.0, 2.0, 3.0, 4.0],
    "vectors_per_class": [1, 1],
}
_WORDS: dict[str, Any] = {"cats_int64s": [1, 2], "cats_strings": ["a", "b"]}
_NUMBERS, _MAP = numpy.array([[1, 2], [2, 1]]), {1: 0.5, 3: 2.0}

#: Operator, domain, version, its inputs, attributes and number of outputs; a map is an input, too.
RUN: list[tuple[str, str, int, list[Any], dict[str, Any], int]] = [
    ("GlobalLpPool", "", 2, [numpy.ones((2, 3, 4, 5), "f")], {"p": 2}, 1),
    ("MaxRoiPool", "", 1, [numpy.ones((1, 3, 8, 8), "f"), numpy.zeros((2, 5), "f")], {"pooled_shape": [2, 3]}, 1),
    ("Multinomial", "", 7, [numpy.ones((2, 4), "f")], {"sample_size": 5}, 1),
    ("RandomNormal", "", 1, [], {"shape": [2, 3], "dtype": 11}, 1),
    ("RandomUniform", "", 1, [], {"shape": [4]}, 1),
    ("RandomNormalLike", "", 1, [numpy.ones((2, 3), "f")], {}, 1),
    ("CastMap", ML, 1, [_MAP], {"cast_to": "TO_FLOAT", "map_form": "SPARSE", "max_map": 7}, 1),
    ("CategoryMapper", ML, 1, [_NUMBERS], _WORDS, 1),
    ("CategoryMapper", ML, 1, [numpy.array([["a"], ["b"]])], _WORDS, 1),
    ("DictVectorizer", ML, 1, [_MAP], {"int64_vocabulary": [1, 2, 3]}, 1),
    (
        *("LinearClassifier", ML, 1, [numpy.ones((4, 2), "f")]),
        *({"classlabels_ints": [3, 5, 7], "coefficients": [1.0] * 6, "intercepts": [0.0] * 3}, 2),
    ),
    (
        *("LinearClassifier", ML, 1, [numpy.ones((4, 2), "f")]),
        *({"classlabels_strings": ["a", "b", "c"], "coefficients": [1.0] * 6, "intercepts": [0.0] * 3}, 2),
    ),
    ("OneHotEncoder", ML, 1, [_NUMBERS], {"cats_int64s": [1, 2, 3]}, 1),
    ("SVMClassifier", ML, 1, [numpy.ones((4, 2), "f")], _SVM, 2),
    (
        *("TreeEnsembleClassifier", ML, 3, [numpy.ones((3, 2), "f")]),
        *({**_TREE, **_CLASSES, "post_transform": "NONE", "classlabels_int64s": [4, 5, 6]}, 2),
    ),
    ("ZipMap", ML, 1, [numpy.ones((3, 2), "f")], {"classlabels_int64s": [4, 5]}, 1),
]


def _typed(name: str, value: Any) -> onnx.ValueInfoProto:
    """An input of the type of a value; of a map from integers to numbers."""
    if not isinstance(value, dict):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    return helper.make_value_info(name, helper.make_map_type_proto(TensorProto.INT64, number))


def run_model(case: Any) -> onnx.ModelProto:
    op, domain, version, inputs, attrs, outputs = case
    names, made = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
    nodes = [helper.make_node(op, names, made, domain=domain, **attrs)]
    values = [onnx.ValueInfoProto(name=o) for o in made]
    graph = helper.make_graph(nodes, "g", list(map(_typed, names, inputs)), values)
    imports = [helper.make_opsetid(domain, version)] + ([helper.make_opsetid("", 17)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("case", RUN, ids=lambda c: f"{c[0]}-{c[2]}")
def test_as_onnxruntime(case: Any) -> None:
    """Those of which onnx has no recorded outputs."""
    runtime = pytest.importorskip("onnxruntime")
    model = run_model(case)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, {f"x{i}": x for i, x in enumerate(case[3])})
    for tensor, result in zip(read(model).outputs, results, strict=True):
        if isinstance(result, list):  # of maps
            assert tensor.items is not None
            assert [one.shape for one in tensor.items] == [(len(one),) for one in result]
        else:
            assert (tensor.shape, tensor.dtype) == (result.shape, str(result.dtype).replace("object", "string"))


def _operators(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        for attribute in node.attribute:
            yield from _operators(attribute.g)


#: Operators of onnxruntime's that nobody's rule gives a shape for: what they make is in a file of their own, or theirs.
OPAQUE = {f"com.microsoft::{op}" for op in ("EPContext", "Snpe")}


def test_every_rule_is_checked_against_an_oracle() -> None:
    """Recorded outputs, reference operators, onnxruntime, its inference, or a row written from the specification."""
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    from tests.operators.shapes import test_early, test_onnxruntime, test_onnxruntime_inference, test_rules
    from tests.operators.test_fusions import FUSIONS

    recorded = [*cases.made(), *(case for kind in cases.STORED for case in cases.stored(kind))]
    checked = {op for case in recorded for op in _operators(case.model.graph)}
    listed = [*CASES, *RUN, *test_early.ROWS]
    checked |= {f"{case[1]}::{case[0]}" if case[1] else case[0] for case in listed}
    checked |= {case[0] for case in test_rules.ROWS_OF_SHAPES}
    inferred = (*test_onnxruntime_inference.CASES, *test_onnxruntime_inference.CASES_OF_1_32)
    ran = [case.op for case in (*test_onnxruntime.CASES, *(case for case, _ in test_onnxruntime.BOUNDS))]
    checked |= {f"com.microsoft::{op}" for op in (*ran, *(case[0] for case in inferred))}
    checked |= {op for fusion in FUSIONS if fusion.runs for op in _operators(fusion.models()[0].graph)}
    names = {f"{s.domain}::{s.name}" if s.domain else s.name for s in defs.get_all_schemas()}
    names |= {f"{s.domain}::{s.name}" for s in state.get_all_operator_schema() if s.domain == "com.microsoft"}
    assert names - checked == OPAQUE
    assert all(row(name).shape is None for name in OPAQUE)


def test_every_operator_has_a_rule() -> None:
    """Of the newest onnx, and of each version that it knows."""
    names = {f"{s.domain}::{s.name}" if s.domain else s.name for s in defs.get_all_schemas_with_history()}
    assert not {name for name in names if row(name).shape is None and name not in FLOWS}
