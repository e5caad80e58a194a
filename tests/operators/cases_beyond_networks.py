"""Small applications of operators of classical machine learning, of optimizers, and of random numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
from onnx import numpy_helper
from tests.operators.arrays import Input, positive, real
from tests.operators.case import Case, case

_ML, _TRAINING = "ai.onnx.ml::", "ai.onnx.preview.training::"
_NUMBERS = np.random.default_rng(5)


def _floats(*shape: int) -> list[float]:
    """Attributes that single precision holds exactly."""
    return [float(v) / 64.0 for v in _NUMBERS.integers(-64, 64, math.prod(shape))]


def linear_model_cases() -> Iterator[Case]:
    x = real(5, 3)
    yield case(f"{_ML}LinearRegressor", x, coefficients=_floats(3), intercepts=[0.5], post_transform="NONE")
    two = {"coefficients": _floats(2, 3), "intercepts": [0.5, -1.0], "targets": 2}
    yield case(f"{_ML}LinearRegressor", x, post_transform="NONE", **two)

    def logistic(x: Any) -> list[Any]:
        scores = x @ np.array(two["coefficients"]).reshape(2, 3).T + np.array(two["intercepts"])
        return [1.0 / (1.0 + np.exp(-scores))]

    yield Case(f"{_ML}LinearRegressor", (x,), {**two, "post_transform": "LOGISTIC"}, expected=logistic)
    bare = _floats(3)
    yield Case(f"{_ML}LinearRegressor", (x,), {"coefficients": bare}, expected=lambda x: [(x @ bare)[:, np.newaxis]])
    three = {"coefficients": _floats(3, 3), "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [4, 5, 6]}
    for name in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        yield case(f"{_ML}LinearClassifier", x, post_transform=name, **three, outputs=2)
    small = {"coefficients": [0.125, -0.0625, 0.03125], "intercepts": [0.5], "classlabels_ints": [0, 1]}
    for name in ("NONE", "LOGISTIC"):
        yield case(f"{_ML}LinearClassifier", x, post_transform=name, **small, outputs=2)
    one = {"coefficients": [0.125, -0.0625, 0.03125], "intercepts": [0.5], "classlabels_ints": [1]}
    yield case(f"{_ML}LinearClassifier", x, post_transform="NONE", **one, outputs=2)

    def probit(x: Any) -> list[Any]:
        scores = (x @ np.array(one["coefficients"]) + 0.5)[:, np.newaxis]
        quantiles = np.vectorize(NormalDist().inv_cdf)(scores)
        return [(quantiles[:, 0] >= 0.5).astype(int), quantiles]

    near = Input(_NUMBERS.uniform(-1.0, 1.0, (4, 3)))
    yield Case(f"{_ML}LinearClassifier", (near,), {**one, "post_transform": "PROBIT"}, outputs=2, expected=probit)


def _machine(kernel: str, vectors: int) -> dict[str, Any]:
    params = [0.5, 0.25, 2.0]
    return {"kernel_type": kernel, "kernel_params": params, "support_vectors": _floats(vectors, 3)}


def support_vector_cases() -> Iterator[Case]:
    x = real(4, 3)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        attrs = {**_machine(kernel, 6), "n_supports": 6, "coefficients": _floats(6), "rho": [0.25]}
        yield case(f"{_ML}SVMRegressor", x, post_transform="NONE", **attrs)
    yield case(f"{_ML}SVMRegressor", x, coefficients=_floats(3), rho=[0.25], n_supports=0, kernel_type="LINEAR")
    outlier = {**_machine("RBF", 5), "n_supports": 5, "coefficients": _floats(5), "rho": [0.25], "one_class": 1}
    yield case(f"{_ML}SVMRegressor", x, **outlier)


def simple_cases() -> Iterator[Case]:
    for norm in ("MAX", "L1", "L2"):
        yield case(f"{_ML}Normalizer", positive(3, 4), norm=norm)
    yield case(f"{_ML}Scaler", real(3, 4), offset=_floats(4), scale=_floats(4))
    yield Case(f"{_ML}Scaler", (real(3, 4),), {"scale": [2.0]}, expected=lambda x: [2.0 * x])
    yield case(f"{_ML}Binarizer", real(3, 4), threshold=0.25)
    x = Input(np.array([[1.0, 7.0], [7.0, 2.0]]))
    yield case(f"{_ML}Imputer", x, imputed_value_floats=[0.5, 1.5], replaced_value_float=7.0)
    yield case(f"{_ML}Imputer", x, imputed_value_floats=[0.5], replaced_value_float=7.0)


def optimizer_cases() -> Iterator[Case]:
    rate, steps = Input(np.array(0.1)), Input(np.array(3))
    adagrad = {"norm_coefficient": 0.001, "epsilon": 1e-5, "decay_factor": 0.1}
    one = [real(3, 2), real(3, 2), positive(3, 2)]
    two = [real(2), real(3), real(2), real(3), positive(2), positive(3)]
    yield case(f"{_TRAINING}Adagrad", rate, steps, *one, outputs=2, **adagrad)
    yield case(f"{_TRAINING}Adagrad", rate, steps, *two, outputs=4, **adagrad)
    adam = {"norm_coefficient": 0.001, "norm_coefficient_post": 0.01, "alpha": 0.9, "beta": 0.99, "epsilon": 1e-5}
    yield case(f"{_TRAINING}Adam", rate, steps, real(4), real(4), real(4), positive(4), outputs=3, **adam)
    pair = [real(2), real(3), real(2), real(3), real(2), real(3), positive(2), positive(3)]
    yield case(f"{_TRAINING}Adam", rate, steps, *pair, outputs=6, **adam)
    for mode in ("standard", "nesterov"):
        momentum = {"norm_coefficient": 0.001, "alpha": 0.95, "beta": 0.5, "mode": mode}
        yield case(f"{_TRAINING}Momentum", rate, steps, *one, outputs=2, **momentum)
        yield case(f"{_TRAINING}Momentum", rate, steps, *two, outputs=4, **momentum)


def random_cases() -> Iterator[Case]:
    """onnx's reference implementation draws from numpy's generator, so its draws can be had as well."""
    seed = {"seed": 3.0}
    draws = {
        "Normal": Input(np.random.RandomState(3).randn(4, 5)),
        "Uniform": Input(np.random.RandomState(3).rand(4, 5)),
    }
    for kind, attrs in (
        ("Normal", {}),
        ("Normal", {"mean": 2.0}),
        ("Normal", {"scale": 0.5, "mean": 1.0}),
        ("Uniform", {}),
        ("Uniform", {"low": -1.0, "high": 1.0}),
        ("Uniform", {"low": 1.0, "high": 2.0}),
    ):
        told = {"draws": draws[kind]}
        shaped = {**seed, **attrs, "shape": [4, 5]}
        yield Case(f"Random{kind}", (), shaped, told=told)
        yield Case(f"Random{kind}Like", (real(4, 5),), {**seed, **attrs}, told=told)
    chances = Input(_NUMBERS.random((3, 4)))
    yield Case(
        "Bernoulli",
        (positive(3, 4),),
        told={"draws": chances},
        expected=lambda p: [(chances.array < p).astype(float)],
    )


FAMILIES = (
    linear_model_cases,
    support_vector_cases,
    simple_cases,
    optimizer_cases,
    random_cases,
)


def _classifier(kernel: str, sizes: list[int], **attrs: Any) -> Case:
    total, classes = sum(sizes), len(sizes)
    pairs = classes * (classes - 1) // 2
    return case(
        f"{_ML}SVMClassifier", real(4, 3), outputs=2, **_machine(kernel, total), vectors_per_class=sizes,
        coefficients=_floats(classes - 1, total), rho=_floats(pairs), classlabels_ints=list(range(classes)), **attrs,
    )  # fmt: skip


def support_vector_classifiers() -> Iterator[Case]:
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        yield _classifier(kernel, [2, 3, 2], post_transform="NONE")
    yield _classifier("RBF", [2, 1, 2, 3], post_transform="SOFTMAX")
    chances = {"prob_a": [-1.0, -0.5, -2.0], "prob_b": [0.125, 0.25, -0.5]}
    # onnx's reference implementation couples three classes with a matrix that is not the algorithm's.
    yield replace(_classifier("RBF", [2, 3, 2], post_transform="NONE", **chances), expected="onnxruntime")
    bare = {"coefficients": _floats(3, 3), "rho": _floats(3), "classlabels_ints": [0, 1, 2], "kernel_type": "LINEAR"}
    yield case(f"{_ML}SVMClassifier", real(4, 3), outputs=2, post_transform="NONE", **bare)


#: Two trees: one of three tests on its deepest path, one of a single test.
_NODES: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 5, 6, 0, 1, 2],
    "nodes_modes": [
        "BRANCH_LEQ",
        "BRANCH_GT",
        "LEAF",
        "LEAF",
        "BRANCH_LT",
        "LEAF",
        "LEAF",
        "BRANCH_GTE",
        "LEAF",
        "LEAF",
    ],
    "nodes_truenodeids": [1, 3, 0, 0, 5, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 4, 0, 0, 6, 0, 0, 2, 0, 0],
    "nodes_featureids": [0, 1, 0, 0, 2, 0, 0, 1, 0, 0],
    "nodes_values": [0.25, -0.5, 0.0, 0.0, 0.125, 0.0, 0.0, 0.0, 0.0, 0.0],
}
_LEAVES = [(0, 2), (0, 3), (0, 5), (0, 6), (0, 6), (1, 1), (1, 2)]


def _votes(prefix: str, ids: list[int]) -> dict[str, Any]:
    trees, nodes = zip(*_LEAVES, strict=True)
    return {
        f"{prefix}_treeids": list(trees),
        f"{prefix}_nodeids": list(nodes),
        f"{prefix}_ids": ids,
        f"{prefix}_weights": [0.5, -0.25, 1.0, 0.75, 0.125, -0.5, 0.25],
    }


def tree_cases() -> Iterator[Case]:
    x, names = real(6, 3), [0, 1, 2, 0, 1, 2, 0]
    for function in ("SUM", "AVERAGE", "MIN", "MAX"):
        votes = _votes("target", [0] * 7)
        yield case(
            f"{_ML}TreeEnsembleRegressor", x, **_NODES, **votes, n_targets=1, aggregate_function=function,
            base_values=[0.25], post_transform="NONE",
        )  # fmt: skip
    many = _votes("target", names)
    yield case(f"{_ML}TreeEnsembleRegressor", x, **_NODES, **many, n_targets=3, aggregate_function="SUM")
    missing = {"nodes_missing_value_tracks_true": [1] * 10}
    votes = _votes("class", names)
    for name in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        yield case(
            f"{_ML}TreeEnsembleClassifier", x, outputs=2, **_NODES, **votes, **missing, classlabels_int64s=[0, 1, 2],
            post_transform=name,
        )  # fmt: skip
    binary = _votes("class", [0] * 7)
    yield case(
        f"{_ML}TreeEnsembleClassifier", x, outputs=2, **_NODES, **binary, classlabels_int64s=[0, 1],
        post_transform="NONE", base_values=[0.25, 0.5],
    )  # fmt: skip


def newest_tree_cases() -> Iterator[Case]:
    """The same two trees, leaves apart from inner nodes."""
    x = real(6, 3)
    attrs = {
        "tree_roots": [0, 3],
        "nodes_modes": numpy_helper.from_array(np.array([0, 3, 1, 2], np.uint8)),
        "nodes_splits": numpy_helper.from_array(np.array([0.25, -0.5, 0.125, 0.0])),
        "nodes_featureids": [0, 1, 2, 1],
        "nodes_truenodeids": [1, 1, 2, 4],
        "nodes_falsenodeids": [0, 2, 3, 5],
        "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falseleafs": [1, 0, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0, 1],
        "leaf_weights": numpy_helper.from_array(np.array([0.5, -0.25, 1.0, 0.75, -0.5, 0.25])),
        "n_targets": 2,
    }
    for function in (0, 1):
        yield case(f"{_ML}TreeEnsemble", x, version=5, aggregate_function=function, **attrs)
    single = {**attrs, "leaf_targetids": [0] * 6, "n_targets": 1}
    for function in (2, 3):
        yield case(f"{_ML}TreeEnsemble", x, version=5, aggregate_function=function, **single)
    missing = {"nodes_missing_value_tracks_true": [1, 0, 1, 0]}
    yield case(f"{_ML}TreeEnsemble", x, version=5, **attrs, **missing)


def text_cases() -> Iterator[Case]:
    pool = {
        "ngram_counts": [0, 4],
        "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
        "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    }
    rows = Input(np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]]))
    for mode in ("TF", "IDF", "TFIDF"):
        for shortest, longest, skips in ((1, 1, 0), (2, 2, 5), (1, 2, 3)):
            lengths = {"min_gram_length": shortest, "max_gram_length": longest, "max_skip_count": skips}
            weights = {} if mode == "TF" else {"weights": [0.5, 1.0, 2.0, 3.0, 0.25, 4.0, 1.5]}
            yield case("TfIdfVectorizer", rows, mode=mode, **lengths, **pool, **weights)
    lengths = {"min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 0}
    yield case("TfIdfVectorizer", Input(rows.array[1]), mode="TF", **lengths, **pool)


def _drawn(x: Any, draws: Any) -> list[Any]:
    e = np.exp(x - x.max(1, keepdims=True))
    shares = np.cumsum(e, 1) / e.sum(1, keepdims=True)
    return [np.array([np.searchsorted(s, d, side="right") for s, d in zip(shares, draws, strict=True)])]


def _multinomial(rows: int, classes: int, size: int) -> Case:
    draws = Input(_NUMBERS.random((rows, size)))
    expected = lambda x: _drawn(x, draws.array)  # noqa: E731 - it belongs to these draws
    return Case("Multinomial", (real(rows, classes),), {"sample_size": size}, told={"draws": draws}, expected=expected)


def draw_cases() -> Iterator[Case]:
    yield _multinomial(3, 7, 5)
    yield _multinomial(2, 8, 1)


BOUNDED = (support_vector_classifiers, tree_cases, newest_tree_cases, text_cases, draw_cases)
