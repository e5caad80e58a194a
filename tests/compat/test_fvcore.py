"""Every method and text of ``flopwise.compat.fvcore`` beside fvcore 0.1.5.post20221221 (tabulate 0.10)."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cases import each

torch = pytest.importorskip("torch")

from tests import torch_golden  # noqa: E402
from tests.compat.nets import NETS, Odd, TestNet  # noqa: E402

from flopwise.compat import fvcore as ours  # noqa: E402 - after the question for torch
from flopwise.errors import FlopwiseError  # noqa: E402

#: Architectures of which everything is compared as well.
MODELS = ("resnet18", "vit_b_16", "googlenet")

#: Operators on the sizes of tensors are in fvcore's trace, and no operators on tensors.
ON_SIZES = ("aten::mul", "aten::div")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def theirs() -> Any:
    return pytest.importorskip("fvcore.nn")


@pytest.fixture(params=[*NETS, *MODELS], scope="module")
def net(request: pytest.FixtureRequest) -> Any:
    if request.param in NETS:
        return NETS[request.param]()
    module, (image,), _ = torch_golden.architectures()[request.param]()
    return module, image


@pytest.fixture(scope="module")
def analyses(net: Any, theirs: Any) -> Any:
    """The two analyses of the tool, and ours; they run once."""
    return [(room, room.FlopCountAnalysis(*net), room.ActivationCountAnalysis(*net)) for room in (theirs, ours)]


KINDS = ("FlopCountAnalysis", "ActivationCountAnalysis")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["owner", "caller"])
def test_figures(kind: str, mode: str, net: Any, theirs: Any) -> None:
    module, x = net
    tool, own = (getattr(room, kind)(module, x).ancestor_mode(mode) for room in (theirs, ours))
    assert own.total() == tool.total()
    assert list(own.by_module()) == list(tool.by_module())
    assert own.by_module() == tool.by_module()
    assert own.by_operator() == tool.by_operator()
    assert own.by_module_and_operator() == tool.by_module_and_operator()
    assert own.uncalled_modules() == tool.uncalled_modules()
    assert _without_sizes(own.unsupported_ops()) == _without_sizes(tool.unsupported_ops())
    for name, _ in module.named_modules(remove_duplicate=False):
        assert own.canonical_module_name(name) == tool.canonical_module_name(name)
        assert own.total(name) == tool.total(name)


def _without_sizes(found: Counter[str]) -> dict[str, int]:
    return {name: times for name, times in found.items() if name not in ON_SIZES}


@each("depth", [0, 1, 3, 7])
@each("shapes", [True, False])
@each("activations", [True, False])
def test_tables(depth: int, shapes: bool, activations: bool, analyses: Any) -> None:
    tool, own = (
        room.flop_count_table(flops, depth, acts if activations else None, shapes) for room, flops, acts in analyses
    )
    assert own == tool


@pytest.mark.parametrize("activations", [True, False])
def test_trees(activations: bool, analyses: Any) -> None:
    tool, own = (room.flop_count_str(flops, acts if activations else None) for room, flops, acts in analyses)
    assert own == tool


def test_parameters(net: Any, theirs: Any) -> None:
    module, _ = net
    assert ours.parameter_count(module) == theirs.parameter_count(module)
    if not list(module.parameters()):
        assert "model" in ours.parameter_count_table(module)  # fvcore fails with a KeyError
        return
    for depth in (1, 3, 9):
        assert ours.parameter_count_table(module, depth) == theirs.parameter_count_table(module, depth)


def test_one_call(net: Any, theirs: Any) -> None:
    module, x = net
    for name in ("flop_count", "activation_count"):
        (own, own_left), (tool, tool_left) = (getattr(room, name)(module, (x,)) for room in (ours, theirs))
        assert own == tool
        assert _without_sizes(own_left) == _without_sizes(tool_left)


def _seven(inputs: list[Any], outputs: list[Any]) -> int:
    return 7


def _shaped(inputs: list[Any], outputs: list[Any]) -> Counter[str]:
    """A rule as users write them: shapes of values."""
    x, weight = (v.type().sizes() for v in inputs[:2])
    assert inputs[0].isCompleteTensor()
    assert outputs[0].type().sizes()[:-1] == x[:-1]
    return Counter({"mine": len(x) * weight[0] + (1 if inputs[2].isCompleteTensor() else 0)})


def _plain(inputs: list[Any], outputs: list[Any]) -> int:
    return 3 if inputs[5].toIValue() else 5


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("aten::relu", _seven), {}),
        (("aten::linear", _shaped), {}),
        (("aten::batch_norm", None), {}),
        (("aten::batch_norm", _plain), {}),
        ((), {"aten::relu": _seven, "aten::matmul": _seven}),
    ],
)
def test_rules_of_your_own(given: Any, named: Any, theirs: Any) -> None:
    for module in (Odd(), Odd().eval()):
        tool, own = (
            room.FlopCountAnalysis(module, torch.zeros(4, 10)).set_op_handle(*given, **named) for room in (theirs, ours)
        )
        assert own.by_module_and_operator() == tool.by_module_and_operator()
        assert own.unsupported_ops() == tool.unsupported_ops()


def test_clearing_rules_and_copies(theirs: Any) -> None:
    x = torch.zeros(4, 10)
    for room in (theirs, ours):
        analysis = room.FlopCountAnalysis(Odd(), x)
        assert analysis.copy(new_inputs=torch.zeros(8, 10)).total("heads.0") == 8 * 60
        assert analysis.copy(TestNet()).total() == 1600
        cleared = analysis.clear_op_handles()
        assert cleared.total() == 0
        assert cleared.unsupported_ops()["aten::linear"] == 5


def test_refusals(theirs: Any) -> None:
    for room in (theirs, ours):
        analysis = room.FlopCountAnalysis(TestNet(), torch.zeros(1, 10))
        with pytest.raises(RuntimeError, match="before calling unsupported_ops"):
            analysis.unsupported_ops()
        with pytest.raises(KeyError, match="not among the descendants"):
            analysis.total("nobody")
        with pytest.raises(TypeError, match="pairs"):
            analysis.set_op_handle("aten::relu")
        with pytest.raises(ValueError, match="warning mode"):
            analysis.tracer_warnings("some")
        with pytest.raises(ValueError, match="ancestor mode"):
            analysis.ancestor_mode("some")


def test_what_fvcore_fails_on_is_one_line() -> None:
    class Product(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a @ b

    with pytest.raises(FlopwiseError, match=r"fvcore fails on aten::matmul at 'matmul'"):
        ours.FlopCountAnalysis(Product(), (torch.zeros(3, 4), torch.zeros(4))).total()


def test_warnings_are_the_same(theirs: Any, caplog: pytest.LogCaptureFixture) -> None:
    logging.disable(logging.NOTSET)
    texts = []
    for room in (theirs, ours):
        caplog.clear()
        room.FlopCountAnalysis(Odd(), torch.zeros(4, 10)).total()
        texts.append([record.getMessage() for record in caplog.records])
        caplog.clear()
        room.FlopCountAnalysis(Odd(), torch.zeros(4, 10)).unsupported_ops_warnings(False).uncalled_modules_warnings(
            False
        ).total()
        assert not caplog.records
    assert texts[0] == texts[1]


def test_no_weights_are_needed() -> None:
    with torch.device("meta"):
        module, x = TestNet(), torch.zeros(1, 10)
    assert ours.FlopCountAnalysis(module, x).total() == 400


def test_the_module_stays_in_its_mode() -> None:
    module = Odd()
    module.norm.eval()
    before = module.norm.running_mean.clone()
    assert ours.FlopCountAnalysis(module, torch.ones(4, 10)).by_operator()["batch_norm"] == 2 * 80
    assert [m.training for m in (module, module.norm)] == [True, False]
    assert torch.equal(module.norm.running_mean, before)
