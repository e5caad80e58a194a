"""The stored tensors of a graph: what is no number is left out, and data that many tensors share are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.graphs import sketch

from flopwise.errors import InputError, ModelError
from flopwise.formats.weights.graphs import stored_in_graph
from flopwise.graph import Graph, StoredTensor
from flopwise.graph.stored import NoElements

#: Bytes up to which tensors may share their data as they like.
GIGABYTE = 1 << 30


class Beside(NoElements):
    """Elements in a file beside the model."""

    def __init__(self, start: int) -> None:
        self.start = start

    @property
    def place(self) -> tuple[str, int]:
        return "w.bin", self.start


def graph(*tensors: StoredTensor) -> Graph:
    made = sketch({"x": (4, 8), "w": (8, 8), "y": (4, 8)}, x="input", w="weight")
    made.node("MatMul", "x w", "y", "product")
    return replace(made.graph(), weights={tensor.name: tensor for tensor in tensors})


def shared(number: int, nbytes: int) -> Graph:
    """A graph of which so many tensors begin at the same byte."""
    return graph(*[StoredTensor(f"t{i}", (nbytes,), "uint8", nbytes, elements=Beside(0)) for i in range(number)])


@pytest.mark.parametrize(
    ("number", "nbytes", "refused"),
    [
        (64, GIGABYTE // 64, False),  # 64 times the same, but a gigabyte in all
        (64, GIGABYTE // 64 + 1, True),
        (16, GIGABYTE // 8, False),  # more than a gigabyte, but 16 times the same
        (17, GIGABYTE // 8, True),
    ],
)
def test_tensors_that_share_their_data(number: int, nbytes: int, refused: bool) -> None:
    model = shared(number, nbytes)
    if refused:
        with pytest.raises(ModelError, match=f"share the first {nbytes:,} bytes of 'w.bin'"):
            stored_in_graph(model)
    else:
        assert len(stored_in_graph(model).tensors) == number


def test_data_that_lie_further_on_are_not_the_same() -> None:
    each = GIGABYTE // 8
    tensors = (StoredTensor(f"t{i}", (each,), "uint8", each, elements=Beside(i * each)) for i in range(64))
    assert len(stored_in_graph(graph(*tensors)).tensors) == 64


def test_a_tensor_belongs_to_the_operator_that_uses_it() -> None:
    (tensor,) = stored_in_graph(graph(StoredTensor("w", (8, 8), "float32", 256))).tensors
    assert (tensor.layer, tensor.op, tensor.slot, tensor.role) == ("product", "MatMul", 0, "weight")


@pytest.mark.parametrize(
    ("number", "change", "told"),
    [
        (1, {"dtype": "string"}, "tensor 's0' holds strings and no numbers; left out"),
        (2, {"dtype": "string"}, "2 tensors hold strings and no numbers; left out"),
        (
            1,
            {"repeated": True},
            "tensor 's0' holds one value that ConstantOfShape repeats, and is not stored; left out",
        ),
        (2, {"repeated": True}, "2 tensors hold one value that ConstantOfShape repeats, and is not stored; left out"),
    ],
)
def test_what_holds_no_numbers_is_left_out(number: int, change: dict[str, object], told: str) -> None:
    plain = StoredTensor("", (8, 8), "float32", 256)
    others = [replace(plain, name=f"s{i}", **change) for i in range(number)]  # type: ignore[arg-type]
    stored = stored_in_graph(graph(replace(plain, name="w"), *others))
    assert [tensor.name for tensor in stored.tensors] == ["w"]
    assert stored.notes == (told,)


def test_a_caffe_net_as_text_has_no_weights() -> None:
    net = replace(graph(), format="caffe", source="net.prototxt")
    with pytest.raises(InputError, match=r"net\.prototxt: describes a net without its weights"):
        stored_in_graph(net)
    assert stored_in_graph(graph()).tensors == ()
