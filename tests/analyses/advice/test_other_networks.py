"""Rules that ask for another network: what they save by hand, and silence where their condition does not hold."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from tests.analyses.advice.planted import Network

import flopwise
from flopwise.analyses.advice import subject
from flopwise.analyses.advice.advice import Suggestion
from flopwise.analyses.advice.rule import Rule
from flopwise.analyses.timing.machine import Facts

#: channels in, channels out, kernel, grid, groups.
Sizes = tuple[int, int, tuple[int, int], int, int]


def conv(taken: int, made: int, kernel: tuple[int, int], grid: int, groups: int) -> onnx.ModelProto:
    """One convolution that keeps the grid."""
    net = Network(inputs={"x": (TensorProto.FLOAT, (1, taken, grid, grid))})
    pads = [kernel[0] // 2, kernel[1] // 2] * 2
    net.add("Conv", f"x {net.weight('w', made, taken // groups, *kernel)}", "y", pads=pads, group=groups)
    return net.model()


#: Rule -> a convolution that it is about, the multiply-adds that it saves, and one that it is silent about.
CONVOLUTIONS: dict[str, tuple[Sizes, int, Sizes]] = {
    "two-kernels": ((32, 32, (5, 5), 30, 1), 900 * 7 * 32 * 32, (16, 32, (3, 3), 30, 1)),
    "asymmetric-kernels": ((32, 32, (7, 7), 14, 1), 196 * 35 * 32 * 32, (32, 32, (7, 7), 30, 1)),
    "separable": ((16, 32, (3, 3), 30, 1), 900 * (9 * 16 * 32 - 9 * 16 - 16 * 32), (16, 16, (3, 3), 30, 16)),
    "reduction": ((256, 256, (3, 3), 7, 1), 49 * (9 * 256 * 256 - 2 * 64 * 256 - 9 * 64 * 64), (64, 64, (3, 3), 7, 1)),
}

#: The same for rules that speak where memory binds, with the bytes that they save.
BOUND_BY_MEMORY: dict[str, tuple[Sizes, int, Sizes]] = {
    "equal-channels": ((16, 256, (1, 1), 14, 1), 4 * 196 * (16 + 256 - 2 * 64), (64, 64, (1, 1), 14, 1)),
    "groups": ((64, 64, (1, 1), 14, 4), 4 * (196 * (128 - 64) + 64 * 16 - 32 * 32), (64, 64, (1, 1), 14, 1)),
}


@pytest.mark.parametrize("rule", CONVOLUTIONS)
def test_convolutions(rule: str) -> None:
    sizes, saved, other = CONVOLUTIONS[rule]
    found = {each.rule.name: each for each in flopwise.advise(conv(*sizes)).suggestions}
    assert found[rule].saved.macs == saved
    assert found[rule].place == ("y",)
    assert rule not in {each.rule.name for each in flopwise.advise(conv(*other)).suggestions}
    assert not flopwise.advise(conv(*sizes), keep_network=True).suggestions


@pytest.mark.parametrize("rule", CONVOLUTIONS)
@pytest.mark.parametrize("strides", [1, 2])
def test_the_code_for_pytorch_multiplies_what_the_advice_says(rule: str, strides: int) -> None:
    torch = pytest.importorskip("torch")
    taken, made, kernel, grid, groups = CONVOLUTIONS[rule][0]
    net = Network(inputs={"x": (TensorProto.FLOAT, (1, taken, strides * grid, strides * grid))})
    pads = [kernel[0] // 2, kernel[1] // 2] * 2
    net.add("Conv", f"x {net.weight('w', made, taken // groups, *kernel)}", "y", pads=pads, strides=[strides] * 2)
    advice = flopwise.advise(net.model())
    (found,) = _about(rule, advice)
    assert found.change is not None
    assert isinstance(found.rule, Rule)
    assert found.rule.code is not None
    module = eval(found.rule.code(found.change), {"nn": torch.nn})
    profile = flopwise.profile(module, (1, taken, strides * grid, strides * grid))
    assert profile.total("macs") == advice.profile.total("macs") - found.saved.macs
    assert profile.graph.outputs[0].shape == (1, made, grid, grid)


#: Rule -> the convolution, the tensor that the code is for, and what it multiplies.
CODES: dict[str, tuple[Sizes, tuple[int, ...], int]] = {
    "equal-channels": ((16, 256, (1, 1), 14, 1), (1, 64, 14, 14), 196 * 64 * 64),
    "groups": ((64, 64, (1, 1), 14, 4), (1, 32, 14, 14), 196 * 32 * 32),
    "channel-unit": ((256, 9, (11, 11), 64, 1), (1, 256, 64, 64), 4096 * 121 * 256 * 8),
}


@pytest.mark.parametrize("rule", CODES)
def test_the_code_of_other_sizes(rule: str) -> None:
    torch = pytest.importorskip("torch")
    sizes, taken, macs = CODES[rule]
    (found,) = _about(rule, flopwise.advise(conv(*sizes), device="h100"))
    assert isinstance(found.rule, Rule)
    assert found.rule.code is not None
    assert found.change is not None
    module = eval(found.rule.code(found.change), {"nn": torch.nn})
    assert flopwise.profile(module, taken).total("macs") == macs


def test_the_code_of_an_unpadded_convolution() -> None:
    """A 3x3 from 32 to 30: no stride, no padding."""
    pytest.importorskip("torch")
    net = Network(inputs={"x": (TensorProto.FLOAT, (1, 16, 32, 32))})
    net.add("Conv", f"x {net.weight('w', 32, 16, 3, 3)}", "y")
    (found,) = _about("separable", flopwise.advise(net.model()))
    assert isinstance(found.rule, Rule)
    assert found.rule.code is not None
    assert found.change is not None
    code = "nn.Sequential(nn.Conv2d(16, 16, 3, groups=16), nn.Conv2d(16, 32, 1))"
    assert found.rule.code(found.change) == code


@pytest.mark.parametrize("rule", BOUND_BY_MEMORY)
def test_where_memory_binds(rule: str) -> None:
    sizes, saved, other = BOUND_BY_MEMORY[rule]
    found = {each.rule.name: each for each in flopwise.advise(conv(*sizes), device="h100").suggestions}
    assert (found[rule].saved.macs, found[rule].saved.nbytes) == (0, saved)
    for model, device in ((conv(*other), "h100"), (conv(*sizes), None)):  # the second: nobody knows what binds
        assert rule not in {each.rule.name for each in flopwise.advise(model, device=device).suggestions}
    wide = (512, 4096, (1, 1), 128, 1) if rule == "equal-channels" else (2048, 2048, (3, 3), 64, 2)
    assert rule not in {each.rule.name for each in flopwise.advise(conv(*wide), device="h100").suggestions}


@pytest.mark.parametrize(("flag", "padded"), [("avx512f", 80), ("sse2", 72)])
def test_padding_of_channels(flag: str, padded: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensor cores of 4 floats compute 9 channels as 12; level all 65 in blocks of 16, without AVX-512 of 8."""
    monkeypatch.setattr(subject, "facts", lambda: Facts(flags=(flag,)))
    (found,) = _about("channel-unit", flopwise.advise(conv(256, 9, (11, 11), 64, 1), device="h100"))
    assert found.saved.macs == 4096 * 121 * 256 * (12 - 8)
    path = tmp_path / "model.onnx"
    onnx.save(conv(64, 65, (3, 3), 32, 1), path)
    (found,) = _about("channel-unit", flopwise.advise(path, device="epyc-7742", optimization="all"))
    assert found.saved.macs == 1024 * 9 * 64 * (padded - 64)


def _about(rule: str, advice: flopwise.Advice) -> list[Suggestion]:
    return [each for each in advice.suggestions if each.rule.name == rule]


def test_global_pooling() -> None:
    net = Network(inputs={"x": (TensorProto.FLOAT, (1, 32, 6, 6))})
    net.add("Flatten", "x", "f")
    net.add("Dropout", "f", "d")
    net.add("Gemm", f"d {net.weight('w', 1152, 10)} {net.weight('b', 10)}", "y")
    (found,) = flopwise.advise(net.model()).suggestions
    assert (found.rule.name, found.saved.macs) == ("global-pooling", 1152 * 10 - 32 * 10)
    assert found.place == ("f", "d", "y")
    torch = pytest.importorskip("torch")
    assert isinstance(found.rule, Rule)
    assert found.rule.code is not None
    assert found.change is not None
    module = eval(found.rule.code(found.change), {"nn": torch.nn})
    assert flopwise.profile(module, (1, 32, 6, 6)).total("macs") == 32 * 10


def test_element_wise_passes_of_a_convolutional_network(tmp_path: Path) -> None:
    net = Network(inputs={"x": (TensorProto.FLOAT, (1, 64, 56, 56))})
    net.add("Conv", f"x {net.weight('v', 64, 64, 1, 1)}", "s")
    net.add("Conv", f"s {net.weight('w', 64, 64, 3, 3)}", "c", pads=[1, 1, 1, 1])
    net.add("Add", "c s", "a")
    net.add("Relu", "a", "y")
    model = net.model()
    found = {e.rule.name: e for e in flopwise.advise(model, device="h100").suggestions}
    assert found["element-wise"].saved.nbytes == 5 * 4 * 64 * 56 * 56
    onnx.save(model, tmp_path / "model.onnx")  # where they are fused into the convolution
    assert not _about("element-wise", flopwise.advise(tmp_path / "model.onnx", device="h100", optimization="all"))


def test_silent_about_what_is_no_network_of_convolutions() -> None:
    net = Network(inputs={"x": (TensorProto.FLOAT, (16, 64))})
    net.add("MatMul", f"x {net.weight('w', 64, 64)}", "h")
    net.add("Relu", "h", "y")
    assert not flopwise.advise(net.model(), device="h100").suggestions
