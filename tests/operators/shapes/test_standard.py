"""Shapes of the standard operators for which onnx has no inference; the reference operators run as a check."""

from __future__ import annotations

from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator

from flopwise.api.read import read
from flopwise.operators.tables import FAMILIES, ROWS

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


def test_the_list_is_whole() -> None:
    """Every operator without inference in any version of which a later version has none either."""
    lacking = {
        (s.domain, s.name)
        for s in defs.get_all_schemas_with_history()
        if not s.has_type_and_shape_inference_function and not s.has_function
    }
    newer = {(d, n) for d, n in lacking if defs.get_schema(n, domain=d).has_type_and_shape_inference_function}
    elsewhere = {*FAMILIES["early"], *FAMILIES["other domains"], "MeanVarianceNormalization"}
    with_a_rule = {op for op, row in ROWS.items() if row.shape and not op.startswith("com.")} - elsewhere
    assert {f"{d}::{n}" if d else n for d, n in lacking - newer} == with_a_rule - {"SimplifiedLayerNormalization"}
