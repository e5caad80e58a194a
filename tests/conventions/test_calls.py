"""The modules as which the hooks of other tools see operators of a file, beside PyTorch's own."""

from __future__ import annotations

import pytest

from flopwise.conventions.calls import as_layer
from flopwise.graph import Node, Tensor

torch = pytest.importorskip("torch")


def weight(*shape: int) -> Tensor:
    return Tensor("w", shape, "float32", "weight")


@pytest.mark.parametrize("transposed", [False, True])
def test_channels_of_convolutions_in_groups(transposed: bool) -> None:
    kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
    module = kind(6, 8, (5, 3), groups=2)
    stored = weight(*module.weight.shape)
    node = Node("ConvTranspose" if transposed else "Conv", "n", (weight(1, 6, 9, 9), stored), (), {"group": 2})
    (layer,) = as_layer(node, 0)
    assert (layer.kind, layer.tensors) == (kind.__name__, {"weight": stored})
    assert layer.options == {key: getattr(module, key) for key in layer.options}
    assert {"in_channels", "out_channels", "kernel_size", "groups"} == set(layer.options)


def test_a_table_is_an_embedding_along_its_first_axis_alone() -> None:
    table, places = weight(9, 4), Tensor("i", (3,), "int64")
    (layer,) = as_layer(Node("Gather", "n", (table, places), ()), 0)
    assert (layer.kind, layer.tensors) == ("Embedding", {"weight": table})
    assert as_layer(Node("Gather", "n", (table, places), (), {"axis": 1}), 0) == []
    assert as_layer(Node("Gather", "n", (weight(9, 4, 2), places), ()), 0) == []
