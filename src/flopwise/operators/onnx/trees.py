"""Ensembles of decision trees (``ai.onnx.ml``): which path a sample takes is data, so the deepest path is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from flopwise.errors import ModelError
from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import required
from flopwise.operators.onnx.classical import labels, post_transform, samples
from flopwise.operators.operator import Operator, by


def tree_ensemble_classifier(node: Node) -> Counts:
    """at most N × (D cmp + V add + 2 E add + E cmp), D the tests on the deepest path of each tree, V the votes at the
    leaf of each tree that has most of them, E classes: base values, the second class of a binary model, and the best
    class. nodes_missing_value_tracks_true: 2 cmp for each test. Then post_transform on N × E scores as in
    LinearRegressor.

    https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html
    """
    rows, classes = samples(node), max(labels(node), 2)
    once = _path(node) + Counts(add=_votes(node, "class") + 2 * classes, cmp=classes)
    return once * rows + post_transform(node, rows, classes)


def tree_ensemble_regressor(node: Node) -> Counts:
    """at most N × (D cmp + V add + E add), D the tests on the deepest path of each tree, V the votes at the leaf of
    each tree that has most of them, E targets (base values); aggregate_function MIN, MAX: V cmp for V add, AVERAGE: N ×
    E div more. nodes_missing_value_tracks_true: 2 cmp for each test. Then post_transform on N × E scores as in
    LinearRegressor.

    https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleRegressor.html
    """
    rows, targets = samples(node), node.attrs.get("n_targets", 1)
    function = node.attrs.get("aggregate_function", "SUM")
    once = _path(node) + _aggregated(node, function, _votes(node, "target"), targets) + Counts(add=targets)
    return once * rows + post_transform(node, rows, targets)


def tree_ensemble(node: Node) -> Counts:
    """at most N × (D cmp + V add), D the tests on the deepest path of each tree, V = len(tree_roots) leaves;
    aggregate_function MIN, MAX: V cmp for V add, AVERAGE: N × E div more, E targets. nodes_missing_value_tracks_true: 2
    cmp for each test. Then post_transform on N × E scores as in LinearRegressor. A test of membership in a set is one
    look-up.

    https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
    """
    rows, targets, roots = samples(node), required(node, "n_targets"), required(node, "tree_roots")
    children = _columns(node, "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs")
    inner = [
        [child for child, leaf in ((yes, yes_leaf), (no, no_leaf)) if not leaf]
        for yes, no, yes_leaf, no_leaf in zip(*children, strict=True)
    ]
    depths = _depths(node, inner)
    if not all(0 <= root < len(depths) for root in roots):
        raise ModelError(f"{node.op} {node.name!r}: tree_roots names nodes that do not exist")
    function = _pick(node, "aggregate_function", ("AVERAGE", "SUM", "MIN", "MAX"), 1)
    transform = _pick(node, "post_transform", ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"), 0)
    once = _tests(node, sum(depths[root] for root in roots)) + _aggregated(node, function, len(roots), targets)
    return once * rows + post_transform(node, rows, targets, transform)


def _pick(node: Node, name: str, values: Sequence[str], default: int) -> str:
    """The value that an attribute names by its number."""
    number: int = node.attrs.get(name, default)
    if number not in range(len(values)):
        raise ModelError(f"{node.op} {node.name!r}: unknown {name} {number!r}")
    return values[number]


def _aggregated(node: Node, function: str, votes: int, targets: int) -> Counts:
    """Counts of joining the leaves of all trees into the scores of one sample."""
    if function not in ("SUM", "AVERAGE", "MIN", "MAX"):
        raise ModelError(f"{node.op} {node.name!r}: unknown aggregate_function {function!r}")
    if function in ("MIN", "MAX"):
        return Counts(cmp=votes)
    return Counts(add=votes, div=targets if function == "AVERAGE" else 0)


def _path(node: Node) -> Counts:
    """The tests that one sample passes at most, in all trees."""
    trees, ids, modes, yes, no = _columns(
        node, "nodes_treeids", "nodes_nodeids", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids"
    )
    place = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    inner: list[list[int]] = []
    tests: list[int] = []
    for tree, mode, *branches in zip(trees, modes, yes, no, strict=True):
        leaf = mode == "LEAF"
        if not leaf and not all((tree, branch) in place for branch in branches):
            raise ModelError(f"{node.op} {node.name!r}: a branch of tree {tree} leads to no node")
        inner.append([] if leaf else [place[tree, branch] for branch in branches])
        tests.append(0 if leaf else 1)
    deepest: dict[int, int] = {}
    for tree, depth in zip(trees, _depths(node, inner, tests), strict=True):
        deepest[tree] = max(depth, deepest.get(tree, 0))
    return _tests(node, sum(deepest.values()))


def _tests(node: Node, tests: int) -> Counts:
    """Counts of ``tests`` comparisons; where a missing value can take the true branch, each asks for that too."""
    return Counts(cmp=tests * (2 if any(node.attrs.get("nodes_missing_value_tracks_true", ())) else 1))


def _votes(node: Node, prefix: str) -> int:
    """The votes of one leaf of each tree, the one that has most."""
    most: dict[int, int] = {}
    keys = _columns(node, f"{prefix}_treeids", f"{prefix}_nodeids")
    for (tree, _), votes in Counter(zip(*keys, strict=True)).items():
        most[tree] = max(votes, most.get(tree, 0))
    return sum(most.values())


def _columns(node: Node, *names: str) -> list[Sequence[Any]]:
    """Attributes that describe the same things, one value for each.

    Raises:
        ModelError: they are not of one length.
    """
    columns = [required(node, name) for name in names]
    if len({len(column) for column in columns}) > 1:
        raise ModelError(f"{node.op} {node.name!r}: {', '.join(names)} are not of one length")
    return columns


def _depths(node: Node, inner: Sequence[Sequence[int]], tests: Sequence[int] | None = None) -> list[int]:
    """The tests on the deepest path from each tree node down; ``inner`` are its children, by position.

    Raises:
        ModelError: a child does not exist, or a path never ends.
    """
    depths: list[int | None] = [None] * len(inner)
    entered = [False] * len(inner)
    for start in reversed(range(len(inner))):  # children mostly come after their parents
        stack = [start]
        while stack:
            at = stack[-1]
            if depths[at] is not None:
                stack.pop()
                continue
            if not all(0 <= child < len(inner) for child in inner[at]):
                raise ModelError(f"{node.op} {node.name!r}: tree node {at} leads to one that does not exist")
            below = [depths[child] for child in inner[at]]
            if None in below:
                if entered[at]:
                    raise ModelError(f"{node.op} {node.name!r}: a path through tree node {at} never ends")
                entered[at] = True
                stack.extend(child for child in inner[at] if depths[child] is None)
                continue
            own = 1 if tests is None else tests[at]
            depths[at] = own + max((depth for depth in below if depth is not None), default=0)
            stack.pop()
    return [depth or 0 for depth in depths]


OPERATORS: dict[str, Operator] = {
    "ai.onnx.ml::TreeEnsemble": by(tree_ensemble, "bound", shape="standard:samples"),
    "ai.onnx.ml::TreeEnsembleClassifier": by(tree_ensemble_classifier, "bound", types="standard:tree_classes"),
    "ai.onnx.ml::TreeEnsembleRegressor": by(tree_ensemble_regressor, "bound", types="standard:trees"),
}
