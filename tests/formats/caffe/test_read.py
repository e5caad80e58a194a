"""Caffe nets as graphs: forms of the file, states, sharing, weights beside a net, and files that make no sense."""

from __future__ import annotations

import random
import resource
from pathlib import Path

import numpy
import pytest
from tests.formats.caffe.caffemodel import blob, field, varint

from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.api.weights import weights
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.formats.table import open_stored

V2 = """
name: "three"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "f" type: "InnerProduct" bottom: "p" top: "f" inner_product_param { num_output: 5 } }
layer { name: "s" type: "Softmax" bottom: "f" top: "s" }
"""

V1 = """
name: "three"
input: "data" input_dim: 2 input_dim: 3 input_dim: 8 input_dim: 8
layers { name: "c" type: CONVOLUTION bottom: "data" top: "c" blobs_lr: 1 blobs_lr: 2
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layers { name: "r" type: RELU bottom: "c" top: "c" }
layers { name: "p" type: POOLING bottom: "c" top: "p" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layers { name: "f" type: INNER_PRODUCT bottom: "p" top: "f" inner_product_param { num_output: 5 } }
layers { name: "s" type: SOFTMAX bottom: "f" top: "s" }
"""

V0 = """
name: "three"
input: "data" input_dim: 2 input_dim: 3 input_dim: 8 input_dim: 8
layers { layer { name: "pad" type: "padding" pad: 1 } bottom: "data" top: "pad" }
layers { layer { name: "c" type: "conv" num_output: 4 kernelsize: 3 blobs_lr: 1. blobs_lr: 2. } bottom: "pad" top: "c" }
layers { layer { name: "r" type: "relu" } bottom: "c" top: "c" }
layers { layer { name: "p" type: "pool" pool: MAX kernelsize: 3 stride: 2 } bottom: "c" top: "p" }
layers { layer { name: "f" type: "innerproduct" num_output: 5 } bottom: "p" top: "f" }
layers { layer { name: "s" type: "softmax" } bottom: "f" top: "s" }
"""


def net(folder: Path, text: str, name: str = "net.prototxt") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("text", [V0, V1, V2], ids=["v0", "v1", "v2"])
def test_the_three_forms_of_one_net(tmp_path: Path, text: str) -> None:
    counted = profile(net(tmp_path, text))
    assert [(r.name, r.node.op, r.node.origin) for r in counted.rows] == [
        ("c", "Conv", "Convolution"),
        ("r", "Relu", "ReLU"),
        ("p", "MaxPool", "Pooling"),
        ("f", "Gemm", "InnerProduct"),
        ("s", "Softmax", "Softmax"),
    ]
    assert [r.node.output().shape for r in counted.rows] == [(2, 4, 8, 8), (2, 4, 8, 8), (2, 4, 4, 4), (2, 5), (2, 5)]
    assert counted.total("params") == 4 * 3 * 9 + 4 + 64 * 5 + 5
    assert counted.total("macs") == 2 * (4 * 64 * 27 + 64 * 5)
    assert counted.exact
    assert counted.graph.name == "three"
    assert [t.name for t in counted.graph.outputs] == ["s"]


def test_the_batch_and_other_shapes(tmp_path: Path) -> None:
    path = net(tmp_path, V2)
    one, ten = profile(path, batch_size=1), profile(path, batch_size=10)
    assert ten.total("macs") == 10 * one.total("macs")
    wide = profile(path, ["data:f32:1x3x16x16"])
    assert wide.graph.nodes[0].output().shape == (1, 4, 16, 16)
    with pytest.raises(InputError, match="the model has no input 'nope'"):
        profile(path, {"nope": (1, 3, 8, 8)})
    for first in (1, 2):
        assert profile(path, {"data": (first, 3, 8, 8)}, batch_size=2).total("macs") == 2 * one.total("macs")
    with pytest.raises(InputError, match="given with the batch 3, not 2"):
        profile(path, {"data": (3, 3, 8, 8)}, batch_size=2)


def test_states_choose_layers(tmp_path: Path) -> None:
    text = (
        V2
        + """
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "f" bottom: "y" top: "loss" include { phase: TRAIN } }
layer { name: "extra" type: "ReLU" bottom: "s" top: "extra" include { stage: "more" min_level: 2 } }
"""
    )
    text = text.replace(
        'name: "three"',
        'name: "three"\nlayer { name: "y" type: "Input" top: "y" include { phase: TRAIN }'
        " input_param { shape { dim: 2 } } }",
    )
    path = net(tmp_path, text)

    def names(**state: object) -> list[str]:
        return [n.name for n in read(path, **state).nodes]  # type: ignore[arg-type]

    assert names() == ["c", "r", "p", "f", "s"]
    assert names(phase="TRAIN") == ["c", "r", "p", "f", "s", "loss"]
    assert names(stages=["more"], level=2) == ["c", "r", "p", "f", "s", "extra"]
    assert names(stages=["more"], level=1) == ["c", "r", "p", "f", "s"]


def test_shared_weights_count_once_and_work_twice(tmp_path: Path) -> None:
    branch = """layer { name: "f%s" type: "InnerProduct" bottom: "x%s" top: "f%s"
      param { name: "w" } param { name: "b" } inner_product_param { num_output: 5 } }"""
    inputs = "".join(
        f'layer {{ name: "x{i}" type: "Input" top: "x{i}" input_param {{ shape {{ dim: [1, 7] }} }} }}' for i in "ab"
    )
    counted = profile(net(tmp_path, inputs + "".join(branch % (i, i, i) for i in "ab")))
    assert (counted.total("params"), counted.total("macs")) == (40, 70)


def test_a_layer_that_nobody_knows(tmp_path: Path) -> None:
    behind = 'layer { name: "z" type: "ReLU" bottom: "odd" top: "z" }'
    text = V2 + 'layer { name: "odd" type: "Wobble" bottom: "s" top: "odd" }' + behind
    counted = profile(net(tmp_path, text))
    assert counted.unknown == {"caffe::Wobble": 1}
    assert not counted.exact
    assert {"odd", "z"} <= set(counted.unresolved)
    told = profile(net(tmp_path, text), {"odd": (2, 9)})
    assert told.graph.outputs[0].shape == (2, 9)


def layer(name: str, kind: str, bottoms: str, tops: str, *blobs: tuple[int, ...]) -> bytes:
    parts = [field(1, name.encode()), field(2, kind.encode())]
    parts += [field(3, b.encode()) for b in bottoms.split()] + [field(4, t.encode()) for t in tops.split()]
    return field(100, b"".join([*parts, *(field(7, blob(b)) for b in blobs)]))


def stored(*conv: int) -> bytes:
    return (
        field(1, b"three")
        + layer("c", "Convolution", "data", "c", conv, (4,))
        + layer("f", "InnerProduct", "p", "f", (5, 64), (5,))
    )


def test_weights_beside_a_net(tmp_path: Path) -> None:
    path = net(tmp_path, V2)
    (tmp_path / "net.caffemodel").write_bytes(stored(4, 3, 3, 3))
    graph = read(path)
    assert graph.warnings == ()
    assert graph.weights["c/weight"].array().shape == (4, 3, 3, 3)
    assert graph.weights["f/bias"].array().dtype == numpy.float32
    (tmp_path / "net.caffemodel").write_bytes(stored(6, 3, 3, 3) + layer("gone", "InnerProduct", "s", "gone", (2, 5)))
    told = read(path).warnings
    assert any("stored blobs" in w for w in told)
    assert any("gone" in w for w in told)


def test_weights_in_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = net(tmp_path, V2)
    with h5py.File(tmp_path / "net.caffemodel.h5", "w") as file:
        file["data/c/0"], file["data/c/1"] = numpy.zeros((4, 3, 3, 3), "f"), numpy.zeros(4, "f")
    assert read(path).warnings == ()
    with h5py.File(tmp_path / "net.caffemodel.h5", "w") as file:
        file["data/c/0"], file["data/c/1"] = numpy.zeros((9, 3, 3, 3), "f"), numpy.zeros(9, "f")
    assert any("stored blobs" in w for w in read(path).warnings)
    with pytest.raises(ModelError, match="holds weights alone"):
        read(str(tmp_path / "net.caffemodel.h5"))
    (tmp_path / "net.caffemodel.h5").write_bytes(b"\x89HDF\r\n" + b"\0" * 100)
    with pytest.raises(ModelError, match="not Caffe weights, or damaged"):
        read(path)


def test_hdf5_that_leads_to_other_files(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    (tmp_path / "secret").write_bytes(b"s" * 400)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["w"] = numpy.ones(100, "f")
    layout = h5py.VirtualLayout((100,), "f")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "w", (100,))
    ways = {
        "elements in other files": lambda g: g.create_dataset(
            "0", (100,), "f", external=[(tmp_path / "secret", 0, 400)]
        ),
        "in other files": lambda g: g.create_virtual_dataset("0", layout),
        "is a link": lambda g: g.__setitem__("0", h5py.ExternalLink(tmp_path / "other.h5", "w")),
    }
    for message, way in ways.items():
        with h5py.File(tmp_path / "net.caffemodel.h5", "w") as file:
            way(file.create_group("data/c"))
        for command in (read, weights):
            with pytest.raises(ModelError, match=message):
                command(str(tmp_path / "net.caffemodel.h5"))


def test_compressed_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    array = numpy.random.default_rng(0).random((300, 40)).astype("f")
    with h5py.File(tmp_path / "net.caffemodel.h5", "w") as file:
        file.create_dataset("data/c/0", data=array, chunks=(100, 40), compression="gzip")
        file["data/c/1"] = array.astype(">f8")
    with open_stored(tmp_path / "net.caffemodel.h5") as stored:
        for tensor in stored.tensors:
            numpy.testing.assert_array_equal(tensor.array(), array)


def test_a_solver_names_its_net(tmp_path: Path) -> None:
    net(tmp_path, V2, "inside.prototxt")
    graph = read(net(tmp_path, 'net: "models/inside.prototxt"\nbase_lr: 0.01', "solver.prototxt"))
    assert len(graph.nodes) == 5
    with pytest.raises(ModelError, match=r"is a solver for the net '\.\./other\.prototxt', which is not in its folder"):
        read(net(tmp_path, 'net: "../other.prototxt"', "solver.prototxt"))


BAD = {
    "": "the file is empty",
    "layer {": "does not end|ends",
    'layer { name: "a" type: "ReLU" bottom: "x" top: "y" }': "'x'",
    V2 + 'layer { name: "again" type: "ReLU" bottom: "s" top: "f" }': "'f'",
    V2.replace("num_output: 4", "num_output: -4"): "num_output is -4, must be at least 1",
    V2.replace("kernel_size: 3", "kernel_size: 30", 1): "layer 'c'",
    V2.replace("num_output: 4", "num_output: many"): "num_output is 'many'",
    V2.replace("dim: 8 dim: 8", "dim: 8 dim: 99999999999999999999"): "2\\^63|whole number|elements",
    "{" * 1000: "expected|name|unexpected",
    'layer { name: "a" ' * 200: "deep|nest|end",
    "hello world": "must follow 'hello'",
}


@pytest.mark.parametrize("text", BAD, ids=lambda t: t[:24].replace("\n", " ").strip() or "empty")
def test_one_line_for_what_makes_no_sense(tmp_path: Path, text: str) -> None:
    path = net(tmp_path, text)
    with pytest.raises(FlopwiseError, match=BAD[text]) as caught:
        profile(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("seed", range(120))
def test_damaged_files_give_one_line(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    binary = seed % 2
    data = bytearray(stored(4, 3, 3, 3) if binary else V2.encode())
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(data))
        if rng.random() < 0.3:
            del data[place : place + rng.randrange(1, 40)]
        else:
            data[place] = rng.randrange(256)
    path = tmp_path / ("net.caffemodel" if binary else "net.prototxt")
    path.write_bytes(bytes(data))
    told = ""
    try:
        str(profile(str(path)))
    except FlopwiseError as error:
        told = str(error)
    assert "\n" not in told


def test_large_weights_are_not_read(tmp_path: Path) -> None:
    """A file of 553 MB that takes no room on the disk: one blob of zeros, skipped by seeking."""
    size = 138_000_000 * 4
    head = field(7, field(1, varint(138_000_000))) + varint(5 << 3 | 2) + varint(size)
    outer = field(1, b"f") + field(2, b"InnerProduct") + field(3, b"p") + field(4, b"f") + varint(7 << 3 | 2)
    whole = outer + varint(len(head) + size) + head
    path = tmp_path / "vgg.caffemodel"
    with path.open("wb") as file:
        file.write(varint(100 << 3 | 2) + varint(len(whole) + size) + whole)
        file.truncate(file.tell() + size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FlopwiseError, match=r"num_output|shape"):
        read(str(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
