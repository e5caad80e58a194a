"""Graphs that no TensorFlow wrote: one line, whatever they say."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.formats.tensorflow.protobuf import constant, field, function, graph, node, placeholder, shape

import flopwise
from flopwise.errors import ModelError
from flopwise.formats.table import open_stored

DATA = Path(__file__).parent / "data"


def _called(name: str) -> bytes:
    return field(10, field(1, name))


def _doubling(count: int) -> bytes:
    """Functions each of which calls the next one twice."""
    functions = []
    for number in range(count):
        calls = [node("a", "PartitionedCall", "x", f=_called(f"f{number + 1}"))]
        calls.append(node("b", "PartitionedCall", "a:output:0", f=_called(f"f{number + 1}")))
        functions.append(function(f"f{number}", "x", "b:output:0", *calls))
    functions.append(function(f"f{count}", "x", "r:activations:0", node("r", "Relu", "x")))
    start = placeholder("x", 2)
    return graph(start, node("y", "PartitionedCall", "x", f=_called("f0")), functions=tuple(functions))


def _dead() -> bytes:
    """A function of many nodes that nothing reads, called often: each call of it is as long as what it runs."""
    dead = [constant(f"c{number}", 1) for number in range(10_000)]
    body = function("f", "x", "r:activations:0", node("r", "Relu", "x"), *dead)
    calls = [node(f"y{number}", "PartitionedCall", "x", f=_called("f")) for number in range(5_000)]
    return graph(placeholder("x", 2), *calls, functions=(body,))


_ITSELF = function("f", "x", "a:output:0", node("a", "PartitionedCall", "x", f=_called("f")))
_LOOP = function("g", "x", "w:output:0", node("w", "While", "x", cond=_called("g"), body=_called("g")))

#: Graphs, or functions that write large ones, with words of the message.
CASES: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "function in itself": (
        graph(placeholder("x", 2), node("y", "f", "x"), functions=(_ITSELF,)),
        "functions call each other without end",
    ),
    "loop in itself": (
        graph(placeholder("x", 2), node("y", "While", "x", cond=_called("g"), body=_called("g")), functions=(_LOOP,)),
        "functions run each other without end",
    ),
    "doubling": (_doubling(30), "names the same parts so often that it has more than 100,000 operators"),
    "no function": (graph(placeholder("x", 2), node("y", "PartitionedCall", "x", f=_called("f"))), "does not hold"),
    "circle": (graph(node("a", "Relu", "b"), node("b", "Relu", "a"), node("c", "Relu", "a")), "reads its own result"),
    "circle of names": (graph(node("a", "Identity", "b"), node("b", "Identity", "a")), ""),
    "nothing makes it": (graph(node("a", "Relu", "b")), "which nothing makes"),
    "huge": (
        graph(placeholder("x", 2**62, 2**62), node("y", "Relu", "x")),
        "more elements than any memory can hold",
    ),
    "sizes of 2^63": (
        graph(placeholder("x", 2**63), node("y", "Relu", "x")),
        "a shape has the size -9223372036854775808",
    ),
    "negative constant": (
        graph(node("c", "Const", value=field(8, field(1, 1) + field(2, shape(-4)))), node("y", "Relu", "c")),
        "a shape has the size -4",
    ),
    "axes": (lambda: graph(placeholder("x", *[2**62] * 60_000), node("y", "Relu", "x")), "more than 254 sizes"),
    "dead nodes": (_dead, ""),
    "short constant": (graph(constant("c", 4, data=b"abc"), node("y", "Relu", "c")), ""),
    "many results": (graph(placeholder("x", 2), node("y", "IdentityN", "x"), node("z", "Relu", "y:4000000000")), ""),
    "loops of TensorFlow 1": (
        graph(
            placeholder("x", 2), node("e", "Enter", "x"), node("m", "Merge", "e", "n"), node("n", "NextIteration", "m")
        ),
        "has loops of TensorFlow 1",
    ),
    "stride 0": (
        graph(
            placeholder("x", 1, 8, 8, 3),
            constant("w", 3, 3, 3, 4),
            node("c", "Conv2D", "x", "w", strides=field(1, field(3, b"\1\0\0\1")), padding=field(2, "SAME")),
        ),
        "",
    ),
    "empty": (b"\n\0", ""),
    "no graph": (b"\n\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "truncated or damaged"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line(case: str, tmp_path: Path) -> None:
    data, words = CASES[case]
    path = tmp_path / "net.pb"
    path.write_bytes(data() if callable(data) else data)
    try:
        flopwise.profile(path)
        message = ""
    except flopwise.FlopwiseError as error:
        message = str(error)
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["frozen.pb", "saved/saved_model.pb"])
def test_cut_off(name: str, tmp_path: Path) -> None:
    data = (DATA / name).read_bytes()
    path = tmp_path / Path(name).name
    for length in range(1, len(data), len(data) // 40):
        path.write_bytes(data[:length])
        with pytest.raises(ModelError):
            flopwise.profile(path)


@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
def test_links_out_of_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    shutil.copytree(DATA / "saved", tmp_path / "saved")
    file = tmp_path / "saved" / "variables" / name
    file.rename(tmp_path / name)
    file.symlink_to(tmp_path / name)
    assert flopwise.profile(tmp_path / "saved").total("macs") == 336
    with (
        pytest.raises(ModelError, match="leads out of the model's folder; refused"),
        open_stored(tmp_path / "saved") as stored,
    ):
        [tensor.array() for tensor in stored.tensors]
