"""Counting n-grams: each is looked up token by token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import Number


def tf_idf(
    x: Any, *, mode: str, min_gram_length: int, max_gram_length: int, max_skip_count: int, ngram_counts: Any,
    ngram_indexes: Any, pool_int64s: Any, weights: Any = None,
) -> Any:  # fmt: skip
    pool: list[tuple[int, ...]] = []
    ends = [*ngram_counts[1:], len(pool_int64s)]
    for n, (first, last) in enumerate(zip(ngram_counts, ends, strict=True), start=1):
        pool.extend(tuple(pool_int64s[i : i + n]) for i in range(first, last, n))
    place = {gram: i for i, gram in enumerate(pool)}
    prefixes = {gram[:n] for gram in pool for n in range(1, len(gram) + 1)}
    rows = x[np.newaxis] if x.ndim == 1 else x
    tally = x.flat[0].tally
    y = np.empty((len(rows), max(ngram_indexes) + 1), object)
    for r, row in enumerate(rows):
        counts = [Number(0.0, tally) for _ in range(y.shape[1])]
        for stride in range(1, max_skip_count + 2):
            for start in range(len(row)):
                gram: tuple[int, ...] = ()
                for token in row[start::stride][:max_gram_length]:
                    gram = (*gram, token.value)
                    if not token.does("cmp", gram in prefixes).value:
                        break
                    if gram in place and len(gram) >= min_gram_length and (len(gram) > 1 or stride == 1):
                        at = ngram_indexes[place[gram]]
                        counts[at] = counts[at] + 1.0
        for i, count in enumerate(counts):
            weight = 1.0 if weights is None else weights[i]
            if mode == "IDF":
                count = Number(float((count > 0.0).value), tally)
            y[r, i] = count if mode == "TF" else count * weight
    return y[0] if x.ndim == 1 else y


ALGORITHMS: dict[str, Callable[..., Any]] = {"TfIdfVectorizer": tf_idf}
