"""Sparsity of models that are no ONNX files: PyTorch modules, Caffe nets, files of tensors alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.sparse_models import caffe_net, scattered, two_of_four

import flopwise
from flopwise.errors import InputError, ModelError
from flopwise.report.commands.profile import render


def test_a_module() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 12, bias=False))
    with torch.no_grad():
        module[0].weight[:, 1] = 0
        module[2].weight.copy_(torch.from_numpy(two_of_four((12, 288))))
    found = flopwise.sparsity(module, (1, 3, 8, 8), patterns="2:4")
    weight, linear = found.tensor("0.weight"), found.tensor("2.weight")
    assert (weight.zeros, weight.zero_inputs, weight.rows, weight.columns) == (72, 1, 8, 27)
    assert (linear.rows, linear.columns, linear.patterns[0].holds) == (12, 288, True)
    assert found.effective is not None
    assert found.effective.zeros == 36 * (216 - 72) + 12 * 144
    assert found.effective.patterns == (36 * 216 + 12 * 144,)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_modules(kind: str) -> None:
    torch = pytest.importorskip("torch")
    module = getattr(torch.nn, kind)(6, 4, num_layers=2, bidirectional=True)
    matrices = [p for p in module.parameters() if p.dim() == 2]
    with torch.no_grad():
        for parameter in matrices:
            parameter[::2] = 0
    found = flopwise.sparsity(module, (10, 3, 6))
    assert found.effective is not None
    assert found.effective.macs == 30 * sum(p.numel() for p in matrices)
    assert found.effective.zeros == found.effective.macs // 2


def test_a_module_without_elements() -> None:
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        module = torch.nn.Linear(8, 4)
    with pytest.raises(ModelError, match="meta device"):
        flopwise.sparsity(module, (1, 8))


def test_a_caffe_net(tmp_path: Path) -> None:
    net, weight = caffe_net(tmp_path)
    found = flopwise.sparsity(net, blocks="2x2")
    (tensor, *_) = found.tensors
    assert (tensor.op, tensor.rows, tensor.columns) == ("Conv", 4, 27)
    assert tensor.zeros == int((weight == 0).sum())
    assert found.effective is not None
    assert found.effective.zeros == 36 * int((weight != 0).sum())


def test_the_weights_of_a_caffe_net_without_its_net(tmp_path: Path) -> None:
    net, weight = caffe_net(tmp_path)
    found = flopwise.sparsity(net.with_suffix(".caffemodel"))
    assert found.tensors[0].zeros == int((weight == 0).sum())
    assert found.effective is None
    assert any("its operators cannot be read" in note for note in found.notes)


@pytest.mark.parametrize("form", ["npz", "npy", "pth"])
def test_tensors_alone(tmp_path: Path, form: str) -> None:
    weight = scattered((48, 128), 0.5)
    path = tmp_path / f"w.{form}"
    if form == "npz":
        numpy.savez(path, w=weight)
    elif form == "npy":
        numpy.save(path, weight)
    else:
        torch = pytest.importorskip("torch")
        torch.save({"w": torch.from_numpy(weight)}, path)
    found: Any = flopwise.sparsity(path, blocks="1x2")
    assert found.zeros == int((weight == 0).sum())
    assert (found.effective, found.layers) == (None, ())
    assert found.tensors[0].blocks[0].zero == int((weight.reshape(-1, 2) == 0).all(axis=1).sum())
    with pytest.raises(InputError, match="holds tensors and no operators"):
        flopwise.sparsity(path, (1, 128))


@pytest.mark.parametrize("arguments", [{"batch_size": 0}, {"inputs": numpy.zeros(2)}, {"inputs": numpy.zeros(())}])
def test_nothing_that_is_said_of_sizes_is_swallowed(tmp_path: Path, arguments: dict[str, Any]) -> None:
    numpy.save(tmp_path / "a.npy", numpy.zeros((2, 2), "f"))
    for function in (flopwise.sparsity, flopwise.profile):
        with pytest.raises(InputError, match=r"holds? tensors and no operators"):
            function(tmp_path / "a.npy", **arguments)


def test_columns_of_tensors_alone(tmp_path: Path) -> None:
    weight = scattered((48, 128), 0.5)
    numpy.savez(tmp_path / "w.npz", w=weight, half=weight.astype(numpy.float16), bias=numpy.ones(3))
    profile = flopwise.profile(tmp_path / "w.npz")
    table = render(profile, "csv", columns=["name", "sparsity", "zero_block", "effective_macs"])
    share = f"{100 * (weight == 0).mean():.4f}"
    assert [line.split(",")[:2] for line in table.splitlines()[1:]] == [
        ["w", share],
        ["half", share],
        ["bias", "0.0000"],
    ]
    assert all(line.endswith(",") for line in table.splitlines()[1:])  # nobody knows the MACs


def test_columns_of_blocks(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    weight = scattered((64, 256), 0.9)
    writer = gguf.GGUFWriter(str(tmp_path / "w.gguf"), "llama")
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("w", gguf.quants.quantize(weight, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    profile = flopwise.profile(tmp_path / "w.gguf")
    (row,) = render(profile, "csv", columns=["weights", "params", "sparsity"]).splitlines()[1:]
    shape, params, share = row.split(",")
    assert (shape, params) == ("64x256", str(64 * 256))
    assert float(share) >= 100 * (weight == 0).mean() - 1e-3


def test_integers_without_operators_say_what_zero_is(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "w.npz", w=numpy.zeros((4, 4), numpy.int8))
    found = flopwise.sparsity(tmp_path / "w.npz")
    assert any("zero points are not known" in note for note in found.notes)
