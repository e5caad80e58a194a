"""Classical machine learning (ai.onnx.ml), trees, and texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from flopwise.errors import ModelError
from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import SIGMOID, SOFTMAX, Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.operator import Operator, by, each, nothing

# Classical machine learning (``ai.onnx.ml``): linear models, support vector machines, scalers and look-ups.
#
# The models lie in attributes. A look-up in a table is addressing, not arithmetic.

#: What post_transform does to each score.
_PER_SCORE: dict[str, Counts] = {
    "NONE": Counts(),
    "LOGISTIC": SIGMOID,
    "SOFTMAX": SOFTMAX,
    "SOFTMAX_ZERO": Counts(cmp=3, add=2, exp=1, mul=1, div=1),
    "PROBIT": Counts(mul=2, add=1, erf=1),
}

#: What it does besides to the scores of each sample.
_PER_ROW: dict[str, Counts] = {"SOFTMAX_ZERO": Counts(bit=1, exp=1, cmp=1)}

#: What a kernel does to a dot product of two vectors, besides its terms.
_KERNELS: dict[str, Counts] = {
    "LINEAR": Counts(),
    "POLY": Counts(mul=1, add=1, pow=1),
    "SIGMOID": Counts(mul=1, add=1, tanh=1),
    "RBF": Counts(mul=1, exp=1),
}


def post_transform(node: Node, rows: int, scores: int, name: str | None = None) -> Counts:
    """Counts of turning the scores of each sample into probabilities; the attribute names the transform by default.

    PROBIT is √2 × erf⁻¹(2p − 1). SOFTMAX_ZERO leaves scores of zero out of the softmax: both cases are computed.

    Raises:
        ModelError: there is no such transform.
    """
    if name is None:
        name = str(node.attrs.get("post_transform", "NONE"))
    if name not in _PER_SCORE:
        raise ModelError(f"{node.op} {node.name!r}: unknown post_transform {name!r}")
    return (_PER_SCORE[name] * scores + _PER_ROW.get(name, Counts())) * rows


def labels(node: Node) -> int:
    """The number of class labels in the attributes."""
    names = ("classlabels_ints", "classlabels_int64s", "classlabels_strings")
    return max(len(node.attrs.get(name, ())) for name in names)


def samples(node: Node) -> int:
    """The number of samples in X: (N, F), or (F,) for one."""
    return product(node.input(0).dims[:-1])


def linear_regressor(node: Node) -> Counts:
    """N × len(coefficients) mac + N × len(intercepts) add; then post_transform on N × targets scores: LOGISTIC 1 bit +
    1 exp + 1 add + 1 div each, SOFTMAX 1 cmp + 2 add + 1 exp + 1 div each, SOFTMAX_ZERO 2 cmp + 1 mul each and 1 bit +
    1 exp + 1 cmp per sample more, PROBIT 2 mul + 1 add + 1 erf each.

    https://onnx.ai/onnx/operators/onnx_aionnxml_LinearRegressor.html
    """
    return _linear(node) + post_transform(node, samples(node), node.attrs.get("targets", 1))


def linear_classifier(node: Node) -> Counts:
    """N × len(coefficients) mac + N × len(intercepts) add; post_transform on N × E scores as in LinearRegressor; N × E
    cmp, the best of E classes. One score for two classes: N bit, the other has the opposite sign.

    https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html
    """
    rows, classes = samples(node), labels(node)
    scores = len(required(node, "coefficients")) // extent(node, node.input(0), -1)
    counts = _linear(node) + Counts(bit=rows if classes == 2 and scores == 1 else 0)
    classes = max(classes if scores == 1 else scores, 1)
    return counts + post_transform(node, rows, classes) + Counts(cmp=rows * classes)


def _linear(node: Node) -> Counts:
    """The scores of a linear model."""
    rows = samples(node)
    return Counts(mac=rows * len(required(node, "coefficients")), add=rows * len(node.attrs.get("intercepts", ())))


def svm_regressor(node: Node) -> Counts:
    """N × (V kernels + V mac + 1 add), V = n_supports; without support vectors N × (F mac + 1 add); one_class: N cmp;
    then post_transform on N scores as in LinearRegressor. A kernel of F features is F mac, POLY 1 mul + 1 add + 1 pow
    more, SIGMOID 1 mul + 1 add + 1 tanh more; RBF is F × (1 add + 1 mac) + 1 mul + 1 exp.

    https://onnx.ai/onnx/operators/onnx_aionnxml_SVMRegressor.html
    """
    rows = samples(node)
    vectors: int = node.attrs.get("n_supports", 0)
    if vectors > 0:
        once = _kernel(node) * vectors + Counts(mac=vectors, add=1)
    else:
        once = Counts(mac=extent(node, node.input(0), -1), add=1)
    once += Counts(cmp=int(bool(node.attrs.get("one_class", 0))))
    return once * rows + post_transform(node, rows, 1)


def svm_classifier(node: Node) -> Counts:
    """at most N × (V kernels + (k − 1) V mac + pairs × (3 add + 1 cmp) + k cmp), k classes, V support vectors, pairs =
    k (k − 1) / 2 (one machine and one vote for each two classes); without support vectors N × (k F mac + k add + k
    cmp). prob_a: N × pairs × (2 mac + 2 mul + 3 add + 1 exp + 1 div + 2 cmp + 1 bit), and N × max(100, k) rounds of k²
    × (2 mac + 2 div) + k × (3 mac + 1 mul + 4 add + 3 div + 1 bit + 2 cmp). Then 1 add + 1 bit (a second class)
    and post_transform as in LinearRegressor for each of max(k, pairs) scores.

    Kernels as in SVMRegressor. The rounds couple the probabilities of all pairs and end when the data say so.

    https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html
    """
    rows, classes = samples(node), max(labels(node), 1)
    vectors: int = sum(node.attrs.get("vectors_per_class", ()))
    pairs = classes * (classes - 1) // 2
    if vectors:
        once = _kernel(node) * vectors + Counts(mac=(classes - 1) * vectors, cmp=pairs + classes, add=3 * pairs)
    else:
        once = Counts(mac=classes * extent(node, node.input(0), -1), add=classes, cmp=classes)
    if vectors and node.attrs.get("prob_a"):
        once += _coupling(classes, pairs)
    scores = max(classes, pairs)
    once += Counts(add=scores, bit=scores)
    return once * rows + post_transform(node, rows, scores)


def _coupling(classes: int, pairs: int) -> Counts:
    """Probabilities of classes from those of pairs, by algorithm 2 of Wu, Lin and Weng (JMLR 5, 2004)."""
    start = Counts(mac=2, mul=2, add=3, exp=1, div=1, cmp=2, bit=1) * pairs
    rounds = Counts(mac=2, div=2) * classes**2 + Counts(mac=3, mul=1, add=4, div=3, bit=1, cmp=2) * classes
    return start + rounds * max(100, classes)


def _kernel(node: Node) -> Counts:
    """The kernel of X with one support vector."""
    features = extent(node, node.input(0), -1)
    kernel = node.attrs.get("kernel_type", "LINEAR")
    if kernel not in _KERNELS:
        raise ModelError(f"{node.op} {node.name!r}: unknown kernel_type {kernel!r}")
    return _KERNELS[kernel] + Counts(mac=features, add=features if kernel == "RBF" else 0)


def normalizer(node: Node) -> Counts:
    """numel(X) × (1 cmp + 1 div) for MAX, × (1 bit + 1 add + 1 div) for L1, × (1 mul + 1 add + 1 div) + N sqrt for L2;
    and N cmp, because a norm of zero changes nothing.

    https://onnx.ai/onnx/operators/onnx_aionnxml_Normalizer.html
    """
    norm, rows = node.attrs.get("norm", "MAX"), samples(node)
    if norm not in _NORMS:
        raise ModelError(f"{node.op} {node.name!r}: unknown norm {norm!r}")
    return _NORMS[norm] * node.input(0).numel + Counts(cmp=rows, sqrt=rows if norm == "L2" else 0)


_NORMS: dict[str, Counts] = {
    "MAX": Counts(cmp=1, div=1),
    "L1": Counts(bit=1, add=1, div=1),
    "L2": Counts(mul=1, add=1, div=1),
}


def scaler(node: Node) -> Counts:
    """numel(Y) × (1 add when offset is given, 1 mul when scale is given): (x − offset) × scale.

    https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html
    """
    return Counts(add=int("offset" in node.attrs), mul=int("scale" in node.attrs)) * node.output().numel


_LOOK_UP = "looks each element up in a table"

OPERATORS: dict[str, Operator] = {
    "ai.onnx.ml::LinearClassifier": by(
        linear_classifier, shape="products:classes", dtype=shape.dtypes("products:class_types")
    ),
    "ai.onnx.ml::LinearRegressor": by(linear_regressor, types="products:linear"),
    "ai.onnx.ml::SVMClassifier": by(
        svm_classifier, "bound", shape="products:classes", dtype=shape.dtypes("products:class_types")
    ),
    "ai.onnx.ml::SVMRegressor": by(svm_regressor, types="products:support_vectors"),
    "ai.onnx.ml::Normalizer": by(normalizer, types="products:floats"),
    "ai.onnx.ml::Scaler": by(scaler, types="products:floats"),
    "ai.onnx.ml::Binarizer": each("x > threshold", cmp=1, shape=shape.alike),
    "ai.onnx.ml::Imputer": each("x or another value, by x being the one to be replaced", cmp=1, shape=shape.alike),
    "ai.onnx.ml::CategoryMapper": nothing(_LOOK_UP, shape=shape.alike, dtype=shape.dtypes("products:mapped_type")),
    "ai.onnx.ml::LabelEncoder": nothing(_LOOK_UP, shape=shape.alike, dtype=shape.dtypes("products:label_type")),
    "ai.onnx.ml::OneHotEncoder": nothing(
        "writes a one at the place of each category and zeros elsewhere", shape="products:encoded", dtype="float32"
    ),
    "ai.onnx.ml::DictVectorizer": nothing(
        "copies the values of a map to the places of their keys", shape="products:vocabulary"
    ),
    "ai.onnx.ml::CastMap": nothing(
        "copies the values of a map in the order of their keys",
        shape="products:map_values",
        dtype=shape.dtypes("products:map_type"),
    ),
    "ai.onnx.ml::ZipMap": nothing("hands the same elements on as a map", shape="sequences:scores"),
    "ai.onnx.ml::ArrayFeatureExtractor": nothing("copies the elements that indices pick", shape="picking:features"),
    "ai.onnx.ml::FeatureVectorizer": nothing("copies elements to other places", types="products:side_by_side"),
}


# Ensembles of decision trees (``ai.onnx.ml``): which path a sample takes is data, so the deepest path is counted.


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


TREES: dict[str, Operator] = {
    "ai.onnx.ml::TreeEnsemble": by(tree_ensemble, "bound", shape="products:samples"),
    "ai.onnx.ml::TreeEnsembleClassifier": by(tree_ensemble_classifier, "bound", types="products:tree_classes"),
    "ai.onnx.ml::TreeEnsembleRegressor": by(tree_ensemble_regressor, "bound", types="products:trees"),
}


# Text: strings are not numbers, so what is done to them is not counted; counting n-grams is.


def tf_idf_vectorizer(node: Node) -> Counts:
    """at most numel(X) × (max_skip_count + 1) × (max_gram_length cmp + (max_gram_length − min_gram_length + 1) add),
    an n-gram of each length looked up from each element and counted; mode IDF: numel(Y) × (1 cmp + 1 mul); TFIDF:
    numel(Y) × 1 mul.

    A look-up of one more element is one comparison. How many n-grams are in the pool depends on the data.

    https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html
    """
    longest: int = required(node, "max_gram_length")
    shortest: int = required(node, "min_gram_length")
    skips: int = required(node, "max_skip_count")
    lookup = Counts(cmp=longest, add=max(0, longest - shortest + 1))
    weigh = {"IDF": Counts(cmp=1, mul=1), "TFIDF": Counts(mul=1)}.get(required(node, "mode"), Counts())
    return lookup * (node.input(0).numel * (skips + 1)) + weigh * node.output().numel


TEXT: dict[str, Operator] = {
    "StringConcat": nothing("works on the characters of strings, not on numbers", shape=shape.common),
    "StringNormalizer": nothing(
        "works on the characters of strings, not on numbers", shape="making:normalized_strings"
    ),
    "StringSplit": nothing(
        "works on the characters of strings, not on numbers", shape="making:split_strings", dtype=("string", "int64")
    ),
    "RegexFullMatch": nothing("works on the characters of strings, not on numbers", shape=shape.alike, dtype="bool"),
    "TfIdfVectorizer": by(tf_idf_vectorizer, "bound", shape="making:occurrences", dtype="float32"),
}
