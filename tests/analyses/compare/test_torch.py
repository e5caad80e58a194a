"""A module and its ONNX exports side by side."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import flopwise

torch = pytest.importorskip("torch")
nn = torch.nn


class Block(nn.Module):  # type: ignore[name-defined,misc]
    """Two convolutions with batch norm around a shortcut, which is one more where sizes change."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def network() -> Any:
    """A small residual network; all its weights differ, or an exporter would merge those that are equal."""
    torch.manual_seed(0)
    blocks = [Block(3, 8, 1), Block(8, 8, 1), Block(8, 16, 2), Block(16, 16, 1)]
    module = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.1, 1)
    return module.eval()


def check(module: Any, shape: tuple[int, ...], path: Path, convolutions: int) -> flopwise.Comparison:
    """All convolutions and linear layers are matched in order, and have the same figures."""
    found = flopwise.compare(flopwise.profile(module, shape), path)
    for op, count in (("Conv", convolutions), ("Gemm", 1)):
        groups = [g for g in found.layers if g.op == op]
        assert len(groups) == count
        assert not any(g.missing for g in groups)
        for figure in ("macs", "params") if op == "Gemm" else ("macs",):
            assert all(len(set(g.values(figure))) == 1 for g in groups)
    return found


@pytest.mark.exports
def test_an_export_that_keeps_batch_norm(tmp_path: Path) -> None:
    onnx_file = tmp_path / "network.onnx"
    module = network()
    keep = torch.onnx.TrainingMode.PRESERVE  # a module in eval mode stays so, and batch norm stays apart
    given = (torch.zeros(1, 3, 16, 16),)
    torch.onnx.export(module, given, onnx_file, dynamo=False, do_constant_folding=False, training=keep)
    found = check(module, (1, 3, 16, 16), onnx_file, 10)
    assert [found.difference(figure) for figure in ("macs", "params", "buffers")] == [0, 0, 0]
    assert sum(group.op == "BatchNormalization" for group in found.layers) == 10


@pytest.mark.exports
def test_an_export_that_folds_batch_norm(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    onnx_file = tmp_path / "network.onnx"
    module = network()
    torch.onnx.export(module, (torch.zeros(1, 3, 16, 16),), onnx_file, dynamo=True)
    check(module, (1, 3, 16, 16), onnx_file, 10)


@pytest.mark.exports
def test_resnet50(tmp_path: Path) -> None:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    from tests.torch_vision import torchvision

    module = torchvision.models.resnet50(weights=None).eval()
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.1, 1)
    onnx_file = tmp_path / "resnet50.onnx"
    given = torch.zeros(1, 3, 224, 224)
    keep = torch.onnx.TrainingMode.PRESERVE
    torch.onnx.export(module, (given,), onnx_file, dynamo=False, do_constant_folding=False, training=keep)
    found = check(module, (1, 3, 224, 224), onnx_file, 53)
    assert [found.difference(figure) for figure in ("macs", "flops", "params", "buffers")] == [0, 0, 0, 0]
    assert not any(group.changed for group in found.layers if group.op in ("Conv", "Gemm", "BatchNormalization"))
