"""What is asked of a model's sizes is done or refused, whatever its format; nothing is passed over in silence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from fuzz import seeds

import flopwise
from flopwise.errors import FlopwiseError, InputError, UnknownDimensionError
from flopwise.formats.table import FORMATS, GRAPH, format_of

EXAMPLES = Path(__file__).parents[2] / "examples"


class Fixed(torch.nn.Module):
    """A module that makes its own input."""

    def forward(self) -> torch.Tensor:
        return torch.ones(2, 3) @ torch.ones(3, 4)


def program(folder: Path) -> str:
    """An exported program with an open batch, and its example input."""
    shapes = {"input": {0: torch.export.Dim("N")}}
    exported = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=shapes)
    torch.export.save(exported, folder / "p.pt2")
    return str(folder / "p.pt2")


def checkpoint(folder: Path) -> str:
    torch.save({"w": torch.ones(3)}, folder / "c.pth")
    return str(folder / "c.pth")


def file(name: str, content: Callable[[], list[bytes]]) -> Callable[[Path], str]:
    def made(folder: Path) -> str:
        (folder / name).write_bytes(content()[0])
        return str(folder / name)

    return made


#: A model of each format, in each form in which one may come.
MODELS: dict[str, Callable[[Path], Any]] = {
    "onnx": lambda folder: str(EXAMPLES / "tiny_resnet.onnx"),
    "caffe": file("net.prototxt", seeds.prototxts),
    "safetensors": file("m.safetensors", seeds.safetensors),
    "gguf": file("m.gguf", seeds.ggufs),
    "npz": file("m.npz", seeds.archives),
    "npy": file("m.npy", seeds.arrays),
    "checkpoint": checkpoint,
    "config": file("config.json", seeds.configurations),
    "program": program,
    "module": lambda folder: Fixed(),
    "graph": lambda folder: flopwise.read(EXAMPLES / "tiny_resnet.onnx"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_sizes_are_taken_or_refused(kind: str, tmp_path: Path) -> None:
    model = MODELS[kind](tmp_path)
    calls: list[Callable[..., Any]] = [flopwise.profile]
    if not format_of(model).takes:  # the stored tensors of others may be read without their sizes
        calls.append(flopwise.weights)
    for call in calls:
        with pytest.raises(UnknownDimensionError, match=r"nobody|does not apply"):
            call(model, dims={"nobody": 3})
        with pytest.raises(FlopwiseError):
            call(model, inputs={"nobody": (1, 2)})
    with contextlib.suppress(InputError):
        assert 7 in [tensor.dims[0] for tensor in flopwise.profile(model, batch_size=7).graph.inputs]


def test_tensors_have_their_own_sizes() -> None:
    module = torch.nn.Linear(4, 2)
    assert flopwise.profile(module, (2, 4), batch_size=8).graph.inputs[0].dims == (8, 4)
    with pytest.raises(InputError, match="Linear: the batch size 8 applies to none of the inputs"):
        flopwise.profile(module, torch.ones(2, 4), batch_size=8)
    with pytest.raises(UnknownDimensionError, match="no input has a dimension named 'M'; the named dimensions are: N"):
        flopwise.profile(module, ("N", 4), dims={"N": 3, "M": 4})


def test_what_was_read_or_counted_before(tmp_path: Path) -> None:
    graph = flopwise.read(EXAMPLES / "tiny_resnet.onnx")
    profile = flopwise.profile(graph)
    assert flopwise.read(graph) is graph
    for call in (flopwise.bound, flopwise.sparsity, lambda model, **sizes: flopwise.compare(model, model, **sizes)):
        for sizes in ({"batch_size": 8}, {"inputs": (8, 3, 64, 64)}, {"dims": {"N": 8}}):
            for model in (graph, profile):
                with pytest.raises(InputError, match=f"{next(iter(sizes))}= does not apply"):
                    call(model, **sizes)
    with pytest.raises(InputError, match="convention= does not apply"):
        flopwise.compare(profile, profile, convention="fvcore")
    with pytest.raises(InputError, match="batch_size= does not apply"):
        flopwise.compare(profile, batch_size=[1, 8])


def test_options_of_other_formats(tmp_path: Path) -> None:
    for call in (flopwise.profile, flopwise.weights):
        with pytest.raises(InputError, match="phase: only for Caffe nets"):
            call(EXAMPLES / "tiny_resnet.onnx", phase="TEST")


@pytest.mark.parametrize("format", [*FORMATS, GRAPH], ids=lambda format: format.models)
def test_nothing_given_is_nothing_asked(format: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = format._replace(read=lambda *given: given)
    for nothing in (None, {}, [], ""):
        assert read.graph("m", nothing, None, None, print, None)[0] == "m"
    if not format.takes:
        with pytest.raises(InputError, match=r"^m: inputs= does not apply"):
            read.graph("m", numpy.zeros(3), None, None, print, None)
        with pytest.raises(InputError, match="batch_size="):
            read.graph("m", None, None, 0, print, None)
