"""Arrays that are hard on statistics, and what numpy says of them in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def arrays() -> dict[str, Array]:
    """Name -> elements; long enough to be split into blocks, and short ones."""
    rng = np.random.default_rng(7)
    normal = rng.standard_normal(150_001)
    return {
        "normal_f32": (normal * 0.02).astype(np.float32),
        "normal_f64": normal,
        "normal_f16": normal.astype(np.float16),
        "far_from_zero": (normal + 1000).astype(np.float32),
        "far_from_zero_f64": normal * 1e-3 + 1e6,
        "all_equal": np.full(70_000, 3.3, np.float32),
        "zeros": np.zeros(70_000, np.float32),
        "minus_zeros": np.full(10, -0.0, np.float32),
        "one": np.float32([7]),
        "one_f16": np.float16([-7]),
        "empty": np.zeros(0, np.float32),
        "empty_f16": np.zeros(0, np.float16),
        "huge_and_tiny": np.concatenate([normal * 1e-20, [1e30, -1e25]]).astype(np.float32),
        "huge_first": np.concatenate([[1e30], normal * 1e-3]).astype(np.float32),
        "huge_f64": normal * 1e300,
        "tiny_f64": normal * 1e-300,
        "denormal_f32": (normal * 1e-42).astype(np.float32),
        "denormal_f64": normal * 1e-312,
        "denormal_f16": (normal * 1e-6).astype(np.float16),
        "near_one": (1 + rng.integers(0, 4, 100_000) * 2.0**-23).astype(np.float32),
        "on_the_edges": (rng.integers(-50, 51, 100_000) / 50).astype(np.float32),
        "steps": (rng.integers(-8, 9, 100_000) / 8).astype(np.float32),
        "widest_f32": rng.uniform(-3.4e38, 3.4e38, 100_000).astype(np.float32),
        "nan_and_infinite": np.float32([1, np.nan, 2, np.inf, -np.inf, 0, -3] * 20_000),
        "nan_and_infinite_f64": np.float64([1, np.nan, 2, np.inf, -np.inf, 0, -3] * 20_000),
        "nan_and_infinite_f16": np.float16([1, np.nan, 2, np.inf, -np.inf, 0, -3] * 20_000),
        "one_nan": np.concatenate([normal[:5000], [np.nan], normal[:90_000]]).astype(np.float32),
        "only_nan": np.full(9, np.nan, np.float32),
        "only_infinite": np.full(9, -np.inf, np.float32),
        "every_f16": np.arange(65536, dtype=np.uint16).view(np.float16),
        "int8": rng.integers(-128, 128, 100_000).astype(np.int8),
        "uint8": rng.integers(0, 256, 100_000).astype(np.uint8),
        "int16": rng.integers(-(2**15), 2**15, 100_000).astype(np.int16),
        "uint16": rng.integers(0, 2**16, 100_000).astype(np.uint16),
        "int32": rng.integers(-(2**31), 2**31, 100_000).astype(np.int32),
        "uint32": rng.integers(0, 2**32, 100_000).astype(np.uint32),
        "int64": rng.integers(-(2**60), 2**60, 100_000),
        "uint64": rng.integers(0, 2**63, 100_000).astype(np.uint64),
        "bool": rng.integers(0, 2, 1000) > 0,
    }


def expected(array: Array) -> dict[str, float]:
    """Figures of the finite elements by numpy in float64; scaled where their squares would not fit."""
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if not finite.size:
        return {}
    largest = float(np.abs(finite).max())
    unit = 2.0 ** np.floor(np.log2(largest)) if largest > 1e140 or 0 < largest < 1e-140 else 1.0
    scaled = finite / unit if unit > 1e-300 else finite * 2.0**1000 / (unit * 2.0**1000)
    shift = scaled[0]  # sums about a value of their own lose fewer digits
    return {
        "min": float(finite.min()),
        "max": float(finite.max()),
        "mean": float(shift + (scaled - shift).mean()) * unit,
        "deviation": float((scaled - shift).std()) * unit,
        "absmax": largest,
        "l1": float(np.abs(scaled).sum()) * unit,
        "l2": float(np.sqrt((scaled * scaled).sum())) * unit,
    }
