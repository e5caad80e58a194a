"""Classical machine learning (``ai.onnx.ml``): linear models, support vector machines, scalers and look-ups.

The models lie in attributes. A look-up in a table is addressing, not arithmetic.
"""

from __future__ import annotations

from flopwise.errors import ModelError
from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import SIGMOID, SOFTMAX, Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.operator import Operator, by, each, nothing

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
        linear_classifier, shape="standard:classes", dtype=shape.dtypes("standard:class_types")
    ),
    "ai.onnx.ml::LinearRegressor": by(linear_regressor, types="standard:linear"),
    "ai.onnx.ml::SVMClassifier": by(
        svm_classifier, "bound", shape="standard:classes", dtype=shape.dtypes("standard:class_types")
    ),
    "ai.onnx.ml::SVMRegressor": by(svm_regressor, types="standard:support_vectors"),
    "ai.onnx.ml::Normalizer": by(normalizer, types="standard:floats"),
    "ai.onnx.ml::Scaler": by(scaler, types="standard:floats"),
    "ai.onnx.ml::Binarizer": each("x > threshold", cmp=1, shape=shape.alike),
    "ai.onnx.ml::Imputer": each("x or another value, by x being the one to be replaced", cmp=1, shape=shape.alike),
    "ai.onnx.ml::CategoryMapper": nothing(_LOOK_UP, shape=shape.alike, dtype=shape.dtypes("standard:mapped_type")),
    "ai.onnx.ml::LabelEncoder": nothing(_LOOK_UP, shape=shape.alike, dtype=shape.dtypes("standard:label_type")),
    "ai.onnx.ml::OneHotEncoder": nothing(
        "writes a one at the place of each category and zeros elsewhere", shape="standard:encoded", dtype="float32"
    ),
    "ai.onnx.ml::DictVectorizer": nothing(
        "copies the values of a map to the places of their keys", shape="standard:vocabulary"
    ),
    "ai.onnx.ml::CastMap": nothing(
        "copies the values of a map in the order of their keys",
        shape="standard:map_values",
        dtype=shape.dtypes("standard:map_type"),
    ),
    "ai.onnx.ml::ZipMap": nothing("hands the same elements on as a map", shape="sequences:scores"),
    "ai.onnx.ml::ArrayFeatureExtractor": nothing("copies the elements that indices pick", shape="picking:features"),
    "ai.onnx.ml::FeatureVectorizer": nothing("copies elements to other places", types="standard:side_by_side"),
}
