"""Operators of onnxruntime cost what their parts cost; that these are their parts, onnxruntime itself shows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tests.operators import (
    fusions_attention,
    fusions_experts,
    fusions_pointwise,
    fusions_products,
    fusions_quantized,
    fusions_state,
    fusions_uncommon,
)
from tests.operators.fusions import Fusion

from flopwise.api.profile import profile
from flopwise.operators.counts import Counts, total

FUSIONS = [
    *fusions_attention.FUSIONS,
    *fusions_experts.FUSIONS,
    *fusions_pointwise.FUSIONS,
    *fusions_products.FUSIONS,
    *fusions_quantized.FUSIONS,
    *fusions_state.FUSIONS,
    *fusions_uncommon.FUSIONS,
]


def cost(model: onnx.ModelProto) -> Counts:
    profiled = profile(model)
    assert not profiled.unknown, profiled.unknown
    counts = [row.counts for row in profiled.rows]
    assert None not in counts, profiled.notes
    return total(c for c in counts if c is not None)


@pytest.mark.parametrize("fusion", FUSIONS, ids=str)
def test_counts_are_those_of_the_parts(fusion: Fusion) -> None:
    fused, parts = fusion.models()
    assert cost(fused).to_dict() == cost(parts).to_dict()


@pytest.mark.parametrize("fusion", [f for f in FUSIONS if f.runs], ids=str)
def test_onnxruntime_gives_the_same_results(fusion: Fusion) -> None:
    runtime = pytest.importorskip("onnxruntime", minversion=fusion.since)  # older ones have fewer of the operators
    results = []
    for model in fusion.models():
        made = profile(model).graph.outputs[0]
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (result,) = session.run(["y"], fusion.feeds())
        assert (made.shape, made.dtype) == (result.shape, str(result.dtype))
        results.append(result.astype(np.float64))
    relative = 0.0 if fusion.tolerance >= 1 else fusion.tolerance
    np.testing.assert_allclose(*results, rtol=relative, atol=fusion.tolerance)
