"""The signatures of ptflops, thop and torchstat against the tools themselves: same results, same text."""

from __future__ import annotations

import contextlib
import copy
import io
import re
from collections.abc import Callable
from typing import Any

import pytest

import flopwise
from flopwise.analyses.traces.assembly import trace_of
from flopwise.analyses.traces.land import Place, Step, Work, land
from flopwise.analyses.traces.trace import Matched, Recording, Trace, layers_of
from flopwise.errors import FlopwiseError, InputError

torch = pytest.importorskip("torch")

from tests import torch_tools  # noqa: E402
from torch import nn  # noqa: E402

from flopwise.compat import calflops, fvcore, mmengine, ptflops, thop, torchinfo, torchstat  # noqa: E402


def made_up_trace(counted: flopwise.Profile) -> Trace:
    """A trace in which the rows took 10 µs, 20 µs, 30 µs ..."""
    works, start = [], 0
    for number in range(len(counted.rows)):
        works.append(Work(Place((number,)), "", start, start + 10_000 * (number + 1)))
        start = works[-1].end_ns
    landing = land(Step("step", 0, start, works))
    return trace_of(Recording("CPU", layers_of(counted), (landing,), Matched()), "net", "kineto")


class Net(nn.Module):
    """Layers that the tools know, one that is called twice, one that is never called, one of no tool, and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(8, 8, 1), nn.LeakyReLU()) for _ in range(3)])
        self.shared = nn.PReLU()
        self.unused = nn.Linear(4, 4)
        self.gate = nn.Hardswish()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = self.features(x)
        for block in self.blocks:
            x = self.shared(block(x))
        x = torch.add(self.gate(x), nn.functional.relu(x))
        return self.fc(self.pool(x).flatten(1))


class Failing(nn.Module):
    """A module that raises halfway."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Any) -> Any:
        self.norm(self.conv(x))
        raise RuntimeError("half way")


class Pair(nn.Module):
    """Two inputs, one of them by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(6, 4)
        self.right = nn.Linear(6, 4)

    def forward(self, a: Any, b: Any) -> Any:
        return self.left(a) * self.right(b)


def printed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, str]:
    """What a function returns, and what it prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        found = function(*args, **kwargs)
    return found, text.getvalue()


def state(model: nn.Module) -> Any:
    """All that a tool may leave changed."""
    hooks = [(dict(m._forward_hooks), dict(m._forward_pre_hooks)) for m in model.modules()]
    attributes = [{key: id(value) for key, value in vars(m).items()} for m in model.modules()]
    modes = [m.training for m in model.modules()]
    values = {key: value.clone() for key, value in model.state_dict().items()}
    return hooks, attributes, modes, list(values), repr(model), torch.nn.functional.relu, nn.Conv2d.__call__


FUNCTIONS: dict[str, Callable[[nn.Module], Any]] = {
    "ptflops": lambda m: ptflops.get_model_complexity_info(m, (3, 16, 16)),
    "ptflops-aten": lambda m: ptflops.get_model_complexity_info(m, (3, 16, 16), backend="aten"),
    "thop": lambda m: thop.profile(m, (torch.zeros(1, 3, 16, 16),)),
    "torchstat": lambda m: torchstat.stat(m, (3, 16, 16)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [Net, Failing])
@pytest.mark.parametrize("training", [True, False])
def test_the_module_is_left_as_it_was(name: str, kind: type[nn.Module], training: bool) -> None:
    model = kind().train(training)
    before, norms = state(model), [b.clone() for b in model.buffers()]
    with contextlib.suppress(FlopwiseError), contextlib.redirect_stderr(io.StringIO()):
        printed(FUNCTIONS[name], model)
    assert state(model) == before
    assert all(torch.equal(a, b) for a, b in zip(norms, model.buffers(), strict=True))


#: Options of ptflops that both of its backends take in the same way.
PTFLOPS_OPTIONS: list[dict[str, Any]] = [
    {},
    {"as_strings": False, "print_per_layer_stat": False},
    {"output_precision": 4, "flops_units": "MMac", "param_units": "K"},
    {"flops_units": "KMac", "param_units": "M"},
    {"flops_units": "GMac", "param_units": "B"},
]


@pytest.mark.parametrize(
    ("options", "backend"),
    [
        *((options, backend) for options in PTFLOPS_OPTIONS for backend in ("pytorch", "aten")),
        ({"verbose": True}, "pytorch"),  # of aten, the tool's dispatcher names the operators that count nothing
    ],
)
def test_ptflops(options: dict[str, Any], backend: str) -> None:
    tool = pytest.importorskip("ptflops")
    with_own = printed(ptflops.get_model_complexity_info, Net(), (3, 16, 16), backend=backend, **options)
    assert with_own == _of_ptflops(tool, Net(), (3, 16, 16), backend=backend, **options)


def _of_ptflops(tool: Any, model: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        found = tool.get_model_complexity_info(model, *args, ost=text, **kwargs)
    return found, text.getvalue()


def test_ptflops_with_functions_left_out_classes_ignored_and_rules_of_a_user() -> None:
    tool = pytest.importorskip("ptflops")

    def hook(module: Any, inputs: Any, output: Any) -> None:
        module.__flops__ += 7 * inputs[0].numel() + output.shape[1]

    for options in (
        {"backend_specific_config": {"count_functional": False}},
        {"ignore_modules": [nn.Conv2d, nn.Hardswish]},
        {"custom_modules_hooks": {nn.Hardswish: hook, nn.BatchNorm2d: hook}},
    ):
        found = printed(ptflops.get_model_complexity_info, Net(), (3, 16, 16), **options)
        assert found == _of_ptflops(tool, Net(), (3, 16, 16), **options)
    ignored = {"ignore_modules": [torch.ops.aten.convolution], "backend": "aten"}
    found = printed(ptflops.get_model_complexity_info, Net(), (3, 16, 16), **ignored)
    assert found == _of_ptflops(tool, Net(), (3, 16, 16), **ignored)


def test_ptflops_with_inputs_that_a_function_makes() -> None:
    tool = pytest.importorskip("ptflops")

    def pair(shape: tuple[int, ...]) -> dict[str, Any]:
        return {"a": torch.zeros(3, *shape), "b": torch.zeros(3, *shape)}

    def batch(shape: tuple[int, ...]) -> Any:
        return torch.zeros(4, *shape)

    for model, shape, constructor in ((Pair, (6,), pair), (Net, (3, 16, 16), batch)):
        options = {"input_constructor": constructor, "as_strings": False}
        found = printed(ptflops.get_model_complexity_info, model(), shape, **options)
        assert found == _of_ptflops(tool, model(), shape, **options)


class Python(nn.Module):
    """Takes Python values beside a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8, bias=False) for _ in range(4)])

    def forward(self, x: Any, skip: Any = None, kind: Any = None) -> Any:
        assert kind in (None, "loss")
        for place, layer in enumerate(self.layers):
            x = x if place in (skip or ()) else layer(x)
        return x


@pytest.mark.parametrize("skip", [[1, 2], (0, 3), [1]], ids=str)
def test_python_values_of_a_call_are_what_they_are(skip: Any) -> None:
    net, x = Python(), torch.zeros(1, 8)
    macs = (4 - len(skip)) * 64
    quiet: dict[str, Any] = {"as_strings": False, "print_per_layer_stat": False}
    made = {"input_constructor": lambda size: {"x": torch.zeros(1, *size), "skip": skip, "kind": "loss"}}
    assert thop.profile(net, (x, skip, "loss"), verbose=False)[0] == macs
    assert ptflops.get_model_complexity_info(net, (8,), **quiet, **made)[0] == macs
    told = {"output_as_string": False, "print_results": False}
    assert calflops.calculate_flops(net, args=[x, skip], kwargs={"kind": "loss"}, **told)[1] == macs  # type: ignore[arg-type]
    assert fvcore.FlopCountAnalysis(net, (x, skip, "loss")).total() == macs
    assert mmengine.get_model_complexity_info(net, inputs=(x, skip, "loss"))["flops"] == macs
    assert torchinfo.summary(net, input_data=[x], skip=skip, kind="loss", verbose=0).total_mult_adds == macs


def test_a_packed_sequence_is_one_argument() -> None:
    packed = nn.utils.rnn.pack_sequence([torch.zeros(n, 6) for n in (7, 3, 1)])
    net = nn.LSTM(6, 8)
    assert fvcore.FlopCountAnalysis(net, (packed,)).total() == fvcore.FlopCountAnalysis(net, packed).total()
    assert thop.profile(net, (packed,), verbose=False)[0] > 0


def test_ptflops_has_no_result_where_the_module_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert ptflops.get_model_complexity_info(Failing(), (3, 16, 16)) == (None, None)
    out = capsys.readouterr()
    assert out.out.startswith("Flops estimation was not finished successfully")
    assert "half way" in out.out
    assert "Traceback" in out.err


def test_ptflops_refuses() -> None:
    with pytest.raises(InputError, match="input_res must be a tuple"):
        ptflops.get_model_complexity_info(Net(), [3, 16, 16])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected a torch Module"):
        ptflops.get_model_complexity_info(len, (3, 16, 16))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="use the backend pytorch"):
        ptflops.get_model_complexity_info(Net(), (3, 16, 16), backend="aten", custom_modules_hooks={1: print})
    with pytest.raises(ValueError, match="is not a valid FLOPS_BACKEND"):
        ptflops.get_model_complexity_info(Net(), (3, 16, 16), backend="jax")


def test_ptflops_texts_of_numbers() -> None:
    utils = pytest.importorskip("ptflops.utils")
    for number in (0, 7, 999, 1000, 12345, 10**6 - 1, 10**6, 987654321, 10**9, 4.1e12, 17.5):
        for units in (None, "GMac", "MMac", "KMac", "Mac"):
            assert ptflops.flops_to_string(number, units, 3) == utils.flops_to_string(number, units, 3)
        for units in (None, "M", "K", "B", "G"):
            assert ptflops.params_to_string(number, units, 3) == utils.params_to_string(number, units, 3)


def _of_thop() -> Any:
    pytest.importorskip("setuptools")
    return pytest.importorskip("thop")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"verbose": False},
        {"report_missing": True, "verbose": False},
        {"ret_layer_info": True},
    ],
)
def test_thop(options: dict[str, Any]) -> None:
    tool = _of_thop()
    inputs = (torch.zeros(2, 3, 16, 16),)
    assert printed(thop.profile, Net(), inputs, **options) == printed(tool.profile, Net(), inputs, **options)


def test_thop_with_rules_of_a_user() -> None:
    tool = _of_thop()

    def hook(module: Any, inputs: Any, output: Any) -> None:
        module.total_ops += torch.DoubleTensor([int(inputs[0].numel() + output.numel())])

    own = {nn.Hardswish: hook, nn.Linear: hook, nn.ModuleList: hook}
    for options in ({}, {"ret_layer_info": True}):
        found = printed(thop.profile, Net(), (torch.zeros(2, 3, 16, 16),), own, **options)
        assert found == printed(tool.profile, Net(), (torch.zeros(2, 3, 16, 16),), own, **options)


def test_thop_of_several_inputs_and_of_a_single_layer() -> None:
    tool = _of_thop()
    inputs = (torch.zeros(2, 6), torch.zeros(2, 6))
    assert printed(thop.profile, Pair(), inputs) == printed(tool.profile, Pair(), inputs)
    alone = printed(thop.profile, nn.Linear(6, 4), inputs[:1], ret_layer_info=True)
    assert alone == printed(tool.profile, nn.Linear(6, 4), inputs[:1], ret_layer_info=True)


class Shared(nn.Module):
    """One layer at two places, called at both."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.Linear(6, 6)
        self.left = nn.Sequential(layer, nn.PReLU())
        self.right = nn.Sequential(layer, layer)

    def forward(self, x: Any) -> Any:
        return self.right(self.left(x))


@pytest.mark.parametrize("name", ["ptflops", "thop", "calflops"])
def test_a_layer_at_two_places(name: str) -> None:
    inputs = torch.zeros(1, 6)
    if name == "ptflops":
        ours = printed(ptflops.get_model_complexity_info, Shared(), (6,))
        theirs = _of_ptflops(pytest.importorskip("ptflops"), Shared(), (6,))
        assert "counted twice" in ours[1]
        assert (ours[0], ours[1][-600:].split("Shared(")[1]) == (theirs[0], theirs[1].split("Shared(")[1])
    elif name == "thop":
        assert printed(thop.profile, Shared(), (inputs,)) == printed(_of_thop().profile, Shared(), (inputs,))
    else:
        pytest.importorskip("accelerate")
        quiet = {"print_results": False, "output_as_string": False}
        tool = pytest.importorskip("calflops")
        assert calflops.calculate_flops(Shared(), (1, 6), **quiet) == tool.calculate_flops(Shared(), (1, 6), **quiet)


def test_thop_texts_of_numbers() -> None:
    tool = _of_thop()
    numbers = [0, 355, 999.9, 1000, 1001, 4133742592.0, 10**12, 3.2e15]
    assert thop.clever_format(numbers) == tool.clever_format(numbers)
    for number in numbers:
        assert thop.clever_format(number, "%.3f") == tool.clever_format(number, "%.3f")


def test_thop_where_the_module_fails() -> None:
    with pytest.raises(FlopwiseError, match="half way"):
        thop.profile(Failing(), (torch.zeros(1, 3, 16, 16),))


def without_durations(text: str) -> str:
    """The text with each duration as a question mark of the same width."""
    return re.sub(r"\d+\.\d\d%", lambda found: "?".rjust(len(found[0])), text)


@pytest.mark.filterwarnings("ignore")
def test_torchstat() -> None:
    model = Net()
    model.spare = nn.Sequential()
    model.wide = nn.Upsample(scale_factor=2)
    for made in (Net(), model, nn.Sequential(nn.Conv2d(3, 64, 1), nn.Flatten(), nn.Linear(64 * 64 * 64, 1000))):
        size = (3, 64, 64)
        said = torch_tools.torchstat(copy.deepcopy(made), size)
        _, found = printed(torchstat.stat, made, size)
        assert found == without_durations(said)


def test_torchstat_with_durations_of_a_real_run() -> None:
    model = Net().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    _, plain = printed(torchstat.stat, model, (3, 16, 16))
    _, timed = printed(torchstat.stat, model, (3, 16, 16), timed=True)
    assert without_durations(timed) == plain
    shares = [float(share) for share in re.findall(r"(\d+\.\d\d)%", timed)]
    assert sum(shares[:-1]) == pytest.approx(shares[-1], abs=0.1)
    assert 90 < shares[-1] <= 100
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(FlopwiseError):
        torchstat.stat(Failing(), (3, 16, 16), 1, True)


def test_torchstat_with_durations_of_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """Shares of the time on each leaf: here as many microseconds as the place of its first row."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.BatchNorm2d(4), nn.ReLU()), nn.Conv2d(4, 4, 3)).eval()
    trace = made_up_trace(flopwise.profile(model, (1, 3, 16, 16)))
    torchstat.stat(model, (3, 16, 16), trace=trace)
    shares = re.findall(r"[\d.]+%", capsys.readouterr().out)
    assert shares == ["9.99%", "19.98%", "29.97%", "39.96%", "99.90%"]  # torchstat divides by 0.1 µs more than the sum
    with pytest.raises(InputError, match="give one of the two"):
        torchstat.stat(model, (3, 16, 16), 1, True, trace)
    with pytest.raises(InputError, match="no module of ReLU has time in it"):
        torchstat.stat(nn.ReLU(), (3, 16, 16), trace=trace)


def test_calflops_with_the_latency_of_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """The columns of DeepSpeed: time, its share, and FLOP/s, of a module with all that it holds."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.BatchNorm2d(4), nn.ReLU()), nn.Conv2d(4, 4, 3)).eval()
    trace = made_up_trace(flopwise.profile(model, (1, 3, 16, 16)))
    calflops.calculate_flops(model, (1, 3, 16, 16))
    plain = capsys.readouterr().out.splitlines()
    calflops.calculate_flops(model, (1, 3, 16, 16), trace=trace)
    shown = capsys.readouterr().out.splitlines()
    lines = [line for line in shown if "latency" in line]
    latencies = [found[1] for line in lines if (found := re.search(r"FLOPs, (.+? latency), ", line))]
    assert latencies == [
        *("100 us = 100% latency", "10 us = 10% latency", "50 us = 50% latency"),
        *("20 us = 20% latency", "30 us = 30% latency", "40 us = 40% latency"),
    ]
    units = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}
    figures = [re.findall(r"([\d.]+) ([KMG]?)FLOPS", line) for line in lines]
    for time, (work, reached) in zip((100, 10, 50, 20, 30, 40), figures, strict=True):
        flops, rate = (float(number) * units[unit] for number, unit in (work, reached))
        assert rate == pytest.approx(1e6 * flops / time, rel=0.01)
    assert [re.sub(r", [^,]+ latency, [\d.]+ .?FLOPS", "", line) for line in shown] == plain


def test_torchstat_refuses() -> None:
    with pytest.raises(InputError, match="three numbers"):
        torchstat.stat(Net(), (16, 16))
    with pytest.raises(InputError, match="query_granularity above 1"):
        torchstat.stat(Net(), (3, 16, 16), 2)
    with pytest.raises(FlopwiseError, match="torchstat fails at the module '0'"):
        torchstat.stat(nn.Sequential(nn.Linear(4, 4)), (3, 4, 4))
