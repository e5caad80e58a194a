"""Ensembles of decision trees: each sample down each tree, test by test."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import numpy_helper
from tests.operators.oracle.classical import best, transformed
from tests.operators.oracle.number import Number, larger, smaller

_TESTS: dict[str, Callable[[Any, float], Any]] = {
    "BRANCH_LEQ": lambda x, limit: x <= limit,
    "BRANCH_LT": lambda x, limit: x < limit,
    "BRANCH_GTE": lambda x, limit: x >= limit,
    "BRANCH_GT": lambda x, limit: x > limit,
    "BRANCH_EQ": lambda x, limit: x.equals(limit),
}
_MODES = list(_TESTS)


def passes(x: Any, mode: str, limit: float, missing: int) -> bool:
    """One test; where a missing value can take the true branch, it asks for that too."""
    passed = bool(_TESTS[mode](x, limit).value)
    return bool(x.does("cmp", math.isnan(x.value)).value) or passed if missing else passed


def leaves(row: Any, nodes: dict[str, Any]) -> list[tuple[int, int]]:
    """The leaf of each tree that a sample comes to: tree and node."""
    place = {key: i for i, key in enumerate(zip(nodes["treeids"], nodes["nodeids"], strict=True))}
    missing = nodes.get("missing_value_tracks_true") or [0] * len(place)
    found = []
    for tree in sorted(set(nodes["treeids"])):
        at = nodes["treeids"].index(tree)
        while nodes["modes"][at] != "LEAF":
            test = nodes["modes"][at], nodes["values"][at], missing[at]
            side = "truenodeids" if passes(row[nodes["featureids"][at]], *test) else "falsenodeids"
            at = place[tree, nodes[side][at]]
        found.append((tree, nodes["nodeids"][at]))
    return found


def aggregated(function: str, votes: list[tuple[int, float]], targets: int, tally: Any, trees: int) -> list[Any]:
    """One score for each target."""
    start = {"MIN": math.inf, "MAX": -math.inf}.get(function, 0.0)
    join = {"MIN": smaller, "MAX": larger}.get(function, lambda weight, total: total + weight)
    scores = [Number(start, tally) for _ in range(targets)]
    for target, weight in votes:
        scores[target] = join(weight, scores[target])
    return [score / float(trees) for score in scores] if function == "AVERAGE" else scores


def _nodes(attrs: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("nodes_"): value for name, value in attrs.items() if name.startswith("nodes_")}


def _votes(attrs: dict[str, Any], prefix: str, found: list[tuple[int, int]]) -> list[tuple[int, float]]:
    keys = zip(attrs[f"{prefix}_treeids"], attrs[f"{prefix}_nodeids"], strict=True)
    votes = zip(keys, attrs[f"{prefix}_ids"], attrs[f"{prefix}_weights"], strict=True)
    return [(target, weight) for key, target, weight in votes if key in found]


def regressor(x: Any, *, n_targets: int, aggregate_function: str = "SUM", base_values: Any = (), **attrs: Any) -> Any:
    y = []
    for row in x:
        found = leaves(row, _nodes(attrs))
        votes = _votes(attrs, "target", found)
        scores = aggregated(aggregate_function, votes, n_targets, row[0].tally, len(found))
        y.append([s + b for s, b in zip(scores, base_values, strict=True)] if base_values else scores)
    return transformed(np.array(y, object), attrs.get("post_transform", "NONE"))


def classifier(x: Any, *, classlabels_int64s: Any, base_values: Any = (), **attrs: Any) -> Any:
    y = []
    binary = len(set(attrs["class_ids"])) == 1
    for row in x:
        votes = _votes(attrs, "class", leaves(row, _nodes(attrs)))
        scores = aggregated("SUM", votes, len(classlabels_int64s), row[0].tally, 0)
        scores = [s + b for s, b in zip(scores, base_values, strict=True)] if base_values else scores
        y.append([1.0 - scores[0], scores[0]] if binary else scores)
    scores = transformed(np.array(y, object), attrs.get("post_transform", "NONE"))
    return np.array([classlabels_int64s[best(row)] for row in scores]), scores


def ensemble(x: Any, *, n_targets: int, tree_roots: Any, aggregate_function: int = 1, **attrs: Any) -> Any:
    tensors = {name: numpy_helper.to_array(attrs[name]) for name in ("nodes_splits", "nodes_modes", "leaf_weights")}
    missing = attrs.get("nodes_missing_value_tracks_true") or [0] * len(tensors["nodes_modes"])
    function = ["AVERAGE", "SUM", "MIN", "MAX"][aggregate_function]
    y = []
    for row in x:
        votes = []
        for root in tree_roots:
            at, leaf = root, 0
            while not leaf:
                test = _MODES[tensors["nodes_modes"][at]], float(tensors["nodes_splits"][at]), missing[at]
                side = "true" if passes(row[attrs["nodes_featureids"][at]], *test) else "false"
                at, leaf = attrs[f"nodes_{side}nodeids"][at], attrs[f"nodes_{side}leafs"][at]
            votes.append((attrs["leaf_targetids"][at], float(tensors["leaf_weights"][at])))
        y.append(aggregated(function, votes, n_targets, row[0].tally, len(tree_roots)))
    kind = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"][attrs.get("post_transform", 0)]
    return transformed(np.array(y, object), kind)


_DOMAIN = "ai.onnx.ml::"

ALGORITHMS: dict[str, Callable[..., Any]] = {
    f"{_DOMAIN}TreeEnsemble": ensemble,
    f"{_DOMAIN}TreeEnsembleClassifier": classifier,
    f"{_DOMAIN}TreeEnsembleRegressor": regressor,
}
