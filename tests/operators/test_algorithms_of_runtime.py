"""Operators of onnxruntime that no others make up: a plain algorithm counts its steps, beside the real result."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tests.operators.nodes import cost

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import CLASSES, Counts
from flopwise.operators.tables import count


def real_result(op: str, inputs: list[Any], outputs: int = 1, **attrs: Any) -> list[Any]:
    """What onnxruntime makes of the operator."""
    runtime = pytest.importorskip("onnxruntime")
    names, made = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs, strict=True)
    ]
    node = helper.make_node(op, names, made, domain="com.microsoft", **attrs)
    graph = helper.make_graph([node], "one", given, [helper.make_empty_tensor_value_info(n) for n in made])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip(names, inputs, strict=True))))


class Steps(Counter[str]):
    """A tally of operations on whole numbers of 32 bits."""

    def mul(self, a: int, b: int) -> int:
        self["mul"] += 1
        return a * b & 0xFFFFFFFF

    def add(self, a: int, b: int) -> int:
        self["add"] += 1
        return a + b & 0xFFFFFFFF

    def rotate(self, a: int, bits: int) -> int:
        self["bit"] += 1
        return (a << bits | a >> 32 - bits) & 0xFFFFFFFF

    def xor(self, a: int, b: int) -> int:
        self["bit"] += 1
        return a ^ b

    def shift(self, a: int, bits: int) -> int:
        self["bit"] += 1
        return a >> bits

    def hash(self, words: list[int], seed: int) -> int:
        """MurmurHash3_x86_32 (Appleby, 2011)."""
        state = seed
        for word in words:
            mixed = self.mul(self.rotate(self.mul(word, 0xCC9E2D51), 15), 0x1B873593)
            state = self.add(self.mul(self.rotate(self.xor(state, mixed), 13), 5), 0xE6546B64)
        state = self.xor(state, 4 * len(words))
        state = self.mul(self.xor(state, self.shift(state, 16)), 0x85EBCA6B)
        state = self.mul(self.xor(state, self.shift(state, 13)), 0xC2B2AE35)
        return self.xor(state, self.shift(state, 16))


@pytest.mark.parametrize(("dtype", "words"), [(np.int32, 1), (np.int64, 2)])
def test_hash(dtype: Any, words: int) -> None:
    values = np.array([3, 70_000, 2**30], dtype)
    steps = Steps()
    parts = values.view(np.uint32).reshape(3, words).tolist()
    hashes = [steps.hash(part, 42) for part in parts]
    assert real_result("MurmurHash3", [values], seed=42)[0].tolist() == hashes
    node = Node("com.microsoft::MurmurHash3", "n", (Tensor("x", (3,), np.dtype(dtype).name),), ())
    assert count(node) == Counts(**steps)


def test_hash_of_strings_is_not_free() -> None:
    node = Node("com.microsoft::MurmurHash3", "n", (Tensor("x", (3,), "string"),), ())
    with pytest.raises(ShapeError, match="lengths of the strings in 'x' depend on the data"):
        count(node)


def covers(bound: Counts, tally: Counter[str]) -> bool:
    return set(tally) <= set(CLASSES) and all(tally[name] <= getattr(bound, name) for name in tally)


def test_inverse() -> None:
    matrix = np.random.default_rng(0).normal(size=(5, 5))
    wide, tally = np.hstack([matrix, np.eye(5)]), Counter[str]()
    for column in range(5):
        tally["bit"] += 5 - column
        tally["cmp"] += 5 - column
        row = column + int(np.argmax(np.abs(wide[column:, column])))
        wide[[column, row]] = wide[[row, column]]
        # what is left of the column is known, and so is what the identity has not been mixed with
        moved = [c for c in range(10) if c != column and wide[column, c] != 0]
        tally["div"] += len(moved)
        wide[column] /= wide[column, column]
        for other in set(range(5)) - {column}:
            tally["mac"] += len(moved)
            wide[other] -= wide[other, column] * wide[column]
    np.testing.assert_allclose(wide[:, 5:], real_result("Inverse", [matrix])[0], rtol=1e-8)
    assert covers(cost("com.microsoft::Inverse", [(5, 5)], [(5, 5)]), tally)


def test_time_warping() -> None:
    costs = np.random.default_rng(1).uniform(size=(4, 6)).astype(np.float32)
    tally, best = Counter[str](), np.full((5, 7), np.inf)
    best[0, 0] = 0
    for i in range(4):
        for j in range(6):
            tally["cmp"] += 3
            tally["add"] += 1
            best[i + 1, j + 1] = min(best[i, j + 1], best[i, j], best[i + 1, j]) + costs[i, j]
    path = real_result("DynamicTimeWarping", [costs])[0]
    np.testing.assert_allclose(costs[tuple(path)].sum(), best[-1, -1], rtol=1e-6)
    assert cost("com.microsoft::DynamicTimeWarping", [(4, 6)], [(2, 9)]) == Counts(**tally)


def test_words() -> None:
    random = np.random.default_rng(2)
    words = np.array([[1, 2, 3, 4, 5], [2, 3, 1, 0, 0]], np.int32)
    kernel, bias, table = (random.normal(size=s).astype(np.float32) for s in ((6, 1, 3, 4), (6,), (9, 4)))
    tally, results = Counter[str](), []
    for word in words:
        length = max(int(np.count_nonzero(word)), 3)
        places = [np.einsum("kc,fkc->f", table[word[i : i + 3]], kernel[:, 0]) + bias for i in range(length - 2)]
        results.append(np.max(np.tanh(places), axis=0))
        tally.update(mac=len(places) * 6 * 12, add=len(places) * 6, tanh=len(places) * 6, cmp=len(places) * 6)
    np.testing.assert_allclose(
        np.array(results), real_result("WordConvEmbedding", [words, kernel, bias, table])[0], rtol=1e-5
    )
    assert covers(cost("com.microsoft::WordConvEmbedding", [(2, 5), (6, 1, 3, 4), (6,), (9, 4)], [(2, 6)]), tally)


def test_repeated_ngrams() -> None:
    tokens, scores = np.array([[1, 2, 3, 1, 2, 4, 1, 2]]), np.zeros((1, 6), np.float32)
    tally, blocked = Counter[str](), set()
    for start in range(len(tokens[0]) - 2):
        tally["cmp"] += 2
        if tokens[0, start] == tokens[0, -2] and tokens[0, start + 1] == tokens[0, -1]:
            blocked.add(int(tokens[0, start + 2]))
    (made,) = real_result("NGramRepeatBlock", [tokens, scores], ngram_size=3)
    assert set(np.flatnonzero(np.isneginf(made[0])).tolist()) == blocked == {3, 4}
    assert covers(cost("com.microsoft::NGramRepeatBlock", [(1, 8), (1, 6)], [(1, 6)], ngram_size=3), tally)


def test_merged_selections() -> None:
    """Each entry is looked for among those that were kept so far; a range that does not fit at all is not walked."""
    rng, tally = np.random.default_rng(3), Counter[str]()
    most, base = 6, rng.integers(0, 9, (5, 4))
    starts = rng.integers(0, 9, 5)
    lengths = rng.integers(0, most + 3, 5)
    for row, start, length in zip(base, starts, lengths, strict=True):
        kept: list[int] = []
        for entry in (*row, *(range(start, start + length) if length <= most else ())):
            for other in kept:
                tally["cmp"] += 1
                if other == entry:
                    break
            else:
                kept.append(entry)
    shapes = [(5, 4), (5,), (5,), (5,), (5,)]
    bound = cost(
        "com.microsoft::PackedSparseAttentionIndexerMerge", shapes, [(5, most), (5,), (5,)], max_output_entries=most
    )
    assert covers(bound, tally)
