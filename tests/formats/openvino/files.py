"""OpenVINO models for tests: written by OpenVINO itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

openvino = pytest.importorskip("openvino")


def written(results: Sequence[Any], inputs: Sequence[Any], path: Path, sinks: Sequence[Any] = ()) -> Path:
    """The file of a model of these results and inputs."""
    model = openvino.Model(list(results), list(sinks), list(inputs)) if sinks else openvino.Model(results, inputs)
    openvino.save_model(model, path, compress_to_fp16=False)
    return path


def stated(path: Path) -> dict[str, tuple[int, ...]]:
    """Layer -> the shape of its first result, as OpenVINO reads the file; what is open there is left out."""
    model = openvino.Core().read_model(path)
    return {
        op.get_friendly_name(): tuple(op.output(0).get_shape())
        for op in model.get_ordered_ops()
        if op.get_output_size() and op.output(0).get_partial_shape().is_static
    }


def parameter(shape: Sequence[int], name: str, dtype: Any = np.float32) -> Any:
    """An input."""
    from openvino import opset13

    return opset13.parameter(list(shape), dtype, name=name)
