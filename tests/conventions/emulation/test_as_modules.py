"""The modules as which the hooks of other tools see operators of a file, beside PyTorch's own."""

from __future__ import annotations

import pytest

from flopwise.conventions.emulation import as_modules
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
    name, options, tensors = as_modules._conv(node, transposed)
    assert (name, tensors) == (kind.__name__, {"weight": stored})
    assert options == {key: getattr(module, key) for key in options}
    assert {"in_channels", "out_channels", "kernel_size", "groups"} == set(options)


def test_a_table_is_an_embedding_along_its_first_axis_alone() -> None:
    table, places = weight(9, 4), Tensor("i", (3,), "int64")
    assert as_modules._embedding(Node("Gather", "n", (table, places), ())) == ("Embedding", {}, {"weight": table})
    assert as_modules._embedding(Node("Gather", "n", (table, places), (), {"axis": 1})) is None
    assert as_modules._embedding(Node("Gather", "n", (weight(9, 4, 2), places), ())) is None
