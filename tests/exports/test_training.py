"""The backward pass of an exported model is that of the module, as FlopCounterMode counts a real one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from tests.exports.cases import MODELS, Case

import flopwise
from flopwise.graph import Graph

if TYPE_CHECKING:
    from tests.exports.exporting import Exported

PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "Attention", "LSTM"}

CASES = (
    *(Case(model, exporter) for model in MODELS for exporter in ("dynamo", "torchscript")),
    Case("bert", "dynamo", 23, attention="sdpa"),
    Case("llama", "dynamo", 23, attention="sdpa"),
    Case("resnet", "dynamo", optimize=False),
)

#: (model, exporter) -> what the module computes more than the file, and why.
DIFFERENCES = {
    ("gpt2", "dynamo"): (32 * 64 * 100, "the output layer, tied to the embedding, is stored again as a constant"),
    ("t5", "dynamo"): (32 * 64 * 100, "the same"),
}

pytestmark = [pytest.mark.exports, pytest.mark.parametrize("exported", CASES, ids=str, indirect=True, scope="session")]


def _measured(exported: Exported) -> int:
    """Multiply-accumulates of the backward pass of the module."""
    import torch
    from tests.exports import exporting, models
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    module = exporting._module(exported.case)
    arguments = models.MODELS[exported.case.model].arguments().values()
    fused_lstm = any(isinstance(m, torch.nn.RNNBase) for m in module.modules())
    with (
        exporting._quiet(),
        torch.backends.mkldnn.flags(enabled=not fused_lstm),
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False) as counter,
    ):
        result = module(*arguments)
        forward = counter.get_total_flops()
        result.sum().backward()
        return (counter.get_total_flops() - forward) // 2


def _overcounted(graph: Graph) -> int:
    """FlopCounterMode lets all channels of a convolution with groups meet in the gradient of its weight."""
    convolutions = [(n, n.attrs.get("group", 1)) for n in graph.nodes if n.op == "Conv"]
    return sum((g - 1) * n.output().numel * math.prod(n.input(1).dims[1:]) for n, g in convolutions)  # type: ignore[arg-type, misc]


def test_backward_products_are_those_of_the_module(exported: Exported) -> None:
    profile = flopwise.profile(exported.profile.graph, train=True)
    assert profile.training is not None
    assert not profile.training.unknown
    ours = sum(row.backward_macs or 0 for row in profile.rows if row.node.op in PRODUCTS)
    more, why = DIFFERENCES.get((exported.case.model, exported.case.exporter), (0, ""))
    assert ours + _overcounted(profile.graph) + more == _measured(exported), why
