"""Every model that PyTorch exports is counted whole, and as PyTorch counts the module itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.exports.cases import CASES, DIFFERENCES, DYNAMIC_DIFFERENCES

if TYPE_CHECKING:
    from tests.exports.exporting import Exported

#: Operators that hold what FlopCounterMode counts: convolutions and matrix products.
PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "Attention", "LSTM"}

pytestmark = [pytest.mark.exports, pytest.mark.parametrize("exported", CASES, ids=str, indirect=True, scope="session")]


def test_everything_is_known(exported: Exported) -> None:
    assert exported.profile.unknown == {}
    assert exported.profile.unresolved == ()
    assert exported.profile.graph.warnings == ()


def test_products_are_those_of_the_module(exported: Exported) -> None:
    # Attention's softmax and an LSTM's gates are other classes than mac, so that nothing has to be taken off.
    assert sum(r.counts.mac for r in exported.profile.rows if r.node.op in PRODUCTS) == exported.macs


def test_parameters_are_those_of_the_module(exported: Exported) -> None:
    case, profile = exported.case, exported.profile
    difference, why = (DYNAMIC_DIFFERENCES if case.dims else DIFFERENCES).get((case.model, case.exporter), (0, ""))
    if any(r.node.op == "BatchNormalization" for r in profile.rows):
        assert profile.total("params") == exported.params
        assert profile.total("buffers") == exported.statistics
    else:
        assert profile.total("params") == exported.params - exported.statistics // 2 + difference, why


def test_modules_are_those_of_the_module(exported: Exported) -> None:
    whole, *groups = exported.profile.by("module")
    assert whole.name == ""
    for group in groups:
        # The TorchScript exporter numbers the calls of a module that is called several times: relu, relu_1, relu_2.
        path = group.name if group.name in exported.modules else re.sub(r"_\d+$", "", group.name)
        assert path in exported.modules
        assert group.kind in ("", exported.modules[path])


@pytest.mark.parametrize("figure", ["macs", "flops", "params", "weight_bytes", "activations"], scope="function")
def test_modules_add_up(exported: Exported, figure: str) -> None:
    whole, *modules = exported.profile.by("module", depth=1)
    outside = [r for r in exported.profile.rows if not r.node.module]  # what the model's own forward does
    assert {m.depth for m in modules} <= {1}
    assert sum(getattr(m, figure) for m in (*modules, *outside)) == getattr(whole, figure)
    assert getattr(whole, figure) == exported.profile.total(figure)


def test_attention_is_one_operator_where_the_exporter_knows_it(exported: Exported) -> None:
    """What the newest operator sets are tried for: elsewhere attention is matrix products."""
    ops = {r.node.op for r in exported.profile.rows}
    assert ("Attention" in ops) == (exported.case.attention == "sdpa" and exported.case.opset == 23)
