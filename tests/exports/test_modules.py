"""A module and its export cost the same: each product of the one has its like in the other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.exports.cases import MODELS, Case

import flopwise

if TYPE_CHECKING:
    from tests.exports.exporting import Exported

CASES = (
    *(Case(model, exporter) for model in MODELS for exporter in ("dynamo", "torchscript")),
    Case("bert", "dynamo", 23, attention="sdpa"),
    Case("llama", "dynamo", 23, attention="sdpa"),
    Case("resnet", "dynamo", optimize=False),
)

#: Operators that are one product; attention and recurrent layers are several, or one, as the exporter likes.
SINGLE = {"Conv", "ConvTranspose", "Gemm"}

pytestmark = [pytest.mark.exports, pytest.mark.parametrize("exported", CASES, ids=str, indirect=True, scope="session")]


def _products(profile: flopwise.Profile) -> int:
    ops = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "Attention", "LSTM", "aten::lstm"}
    return sum(row.macs or 0 for row in profile.rows if row.node.op in ops)


def test_a_module_and_its_export_cost_the_same(exported: Exported) -> None:
    from tests.exports import exporting, models

    module = exporting._module(exported.case)
    arguments = models.MODELS[exported.case.model].arguments()
    own = flopwise.profile(module, list(arguments.values()))
    file = flopwise.profile(exported.path)
    assert _products(own) == _products(file)
    ours = Counter(row.macs for row in own.rows if row.node.op in SINGLE and row.macs)
    theirs = Counter(row.macs for row in file.rows if row.node.op in {*SINGLE, "MatMul"} and row.macs)
    assert not ours - theirs
    assert not own.unknown


def test_parameters_are_those_of_the_module(exported: Exported) -> None:
    from tests.exports import exporting, models

    module = exporting._module(exported.case)
    arguments = models.MODELS[exported.case.model].arguments()
    own = flopwise.profile(module, list(arguments.values()))
    assert own.total("params") == sum(p.numel() for p in module.parameters())


def test_layers_go_by_the_paths_of_their_modules(exported: Exported) -> None:
    rows = exported.profile.rows
    assert not [row.name for row in rows if row.name.startswith("node_") and row.node.module]
    for row in rows:
        if row.node.op == "Conv":  # also where a batch norm was fused into it
            assert exported.modules[row.node.module] == "Conv2d", row.name
            if exported.case.exporter == "dynamo":
                assert row.name.partition(":")[0].removesuffix(".conv2d") == row.node.module
