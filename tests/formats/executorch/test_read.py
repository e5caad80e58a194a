"""Programs of ExecuTorch against PyTorch's counts of the modules that they were lowered from, and hand counts.

The files in ``data`` were written by executorch 1.5.1 with torch 2.13.0 from the modules below and two more.
"""

from __future__ import annotations

import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import flopwise
from flopwise.errors import InputError, ModelError
from flopwise.formats.executorch.file import SCHEMA, address_of
from flopwise.formats.sources.flatbuffer import FlatBuffer
from flopwise.formats.sources.source import BytesSource
from flopwise.formats.torch.lower.operators import lower
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.tables import count

DATA = Path(__file__).parent / "data"


class Network(nn.Module):
    """A convolution, statistics and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.b, self.l = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.l(torch.relu(self.b(self.c(x))).mean((2, 3))).softmax(-1)


def test_a_tensor_may_lie_behind_four_gigabytes() -> None:
    layout, fields = struct.pack("<5H", 10, 16, 4, 8, 12), struct.pack("<3I", 1, 16, 2)
    data = layout + bytes(2) + struct.pack("<i", 12) + fields
    buffer = FlatBuffer(BytesSource(data), 0, len(data), SCHEMA, "program")
    assert address_of(buffer.table("AllocationDetails", 12)) == (1, 2 * 2**32 + 16)


def test_network_counts_as_its_module() -> None:
    module, x = Network().eval(), torch.randn(1, 3, 16, 16)
    with FlopCounterMode(display=False) as counter:
        module(x)
    ours, twin = flopwise.profile(DATA / "network.pte"), flopwise.profile(module, (x,))
    assert ours.sum.macs == counter.get_total_flops() // 2 == 8 * 27 * 256 + 8 * 5
    assert (ours.sum.flops, ours.sum.params, ours.sum.buffers) == (twin.sum.flops, twin.sum.params, twin.sum.buffers)
    assert ours.exact
    assert ours.graph.format == "executorch"
    assert [t.shape for t in (*ours.graph.inputs, *ours.graph.outputs)] == [(1, 3, 16, 16), (1, 5)]
    assert ours.to_dict()["totals"]["peak_activation_bytes"] == 16384  # as the program plans its memory


def test_elements_lie_where_the_file_has_them() -> None:
    stored = flopwise.read(DATA / "network.pte").weights
    shapes = sorted(tensor.shape for tensor in stored.values() if tensor.role == "weight")
    assert shapes == sorted(tuple(p.shape) for p in Network().parameters())
    bias = next(tensor for tensor in stored.values() if tensor.shape == (5,))
    assert numpy.abs(bias.array()).max() < 8**-0.5  # as PyTorch initialises a Linear of 8 inputs
    ones = [tensor for tensor in stored.values() if tensor.shape == (8,) and (tensor.array() == 1).all()]
    assert sorted(tensor.role for tensor in ones) == ["buffer", "weight"]


def test_branches_loops_states_and_bounds() -> None:
    cond = flopwise.profile(DATA / "cond.pte")
    assert cond.sum.macs == 2 * (2 * 4 * 4)  # of two products in one branch, and one in the other
    assert cond.sum.params == 2 * 20
    loop = flopwise.profile(DATA / "map.pte")
    assert loop.sum.macs == 6 * 3 * 4 * 4
    assert loop.sum.buffers == 0
    assert flopwise.profile(DATA / "map.pte", trips={"loop": 2}).sum.macs == 2 * 3 * 4 * 4
    with pytest.raises(InputError, match="no loop is named 'x'; the loops of the model are: 'loop'"):
        flopwise.profile(DATA / "map.pte", trips={"x": 2})
    state = flopwise.profile(DATA / "state.pte")
    assert (state.sum.macs, state.sum.params, state.sum.buffers) == (4 * 4 + 4 * 8, 16, 32)
    open_batch = flopwise.profile(DATA / "dynamic.pte")
    assert open_batch.sum.macs == 8 * 4 * 3
    assert not open_batch.exact
    assert "sizes that the inputs decide are the largest that the program plans for" in open_batch.notes


def test_what_a_backend_compiled_is_unknown() -> None:
    profile = flopwise.profile(DATA / "delegate.pte")
    assert dict(profile.unknown) == {"executorch::XnnpackBackend": 1}
    assert [row.node.op for row in profile.rows] == ["executorch::XnnpackBackend", "TopK"]
    assert "give the module, or the ETRecord that was saved with the program" in profile.notes[0]
    rule = {"executorch::XnnpackBackend": lambda node: flopwise.Counts(mac=12)}
    assert flopwise.profile(DATA / "delegate.pte", rules=rule).sum.macs == 12


def test_etrecord_is_read_in_full(tmp_path: Path) -> None:
    from torch._export.serde.serialize import serialize

    program = serialize(torch.export.export(Network().eval(), (torch.randn(1, 3, 16, 16),)))
    for name in ("m.etrecord", "etrecord.bin"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("ETRECORD_V0", "")
            archive.writestr("exported_program", program.exported_program)
            for part in ("state_dict", "constants", "example_inputs"):
                archive.writestr(f"exported_program_{part}", getattr(program, part))
            archive.writestr("edge_dialect_exported_program/forward", b"{}")
        profile = flopwise.profile(tmp_path / name)
        assert (profile.sum.macs, profile.sum.params, profile.sum.buffers) == (55336, 285, 16)
        assert {row.name for row in profile.rows} >= {"c", "b", "l"}


#: What is written over a program, from where -> words of the error.
HOSTILE: dict[str, tuple[int, bytes, str]] = {
    "root": (0, b"\xff\xff\xff\xff", "is named, but there are"),
    "identifier": (4, b"ET99", "it does not begin as one"),
    "size": (16, b"\xff" * 8, ""),
    "segments": (24, b"\xff" * 8, "elements at byte"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_one_line(case: str, tmp_path: Path) -> None:
    place, bytes_, words = HOSTILE[case]
    data = bytearray((DATA / "network.pte").read_bytes())
    data[place : place + len(bytes_)] = bytes_
    path = tmp_path / "m.pte"
    path.write_bytes(data)
    if not words:
        assert flopwise.profile(path).sum.macs == 55336  # the header says no more than where the segments begin
        return
    with pytest.raises(ModelError) as raised:
        flopwise.profile(path)
    assert str(raised.value).startswith(f"{path}: truncated or damaged ExecuTorch program")
    assert words in str(raised.value)
    path.write_bytes(data[:1000])
    with pytest.raises(ModelError, match="truncated or damaged ExecuTorch program"):
        flopwise.profile(path)


def test_a_few_changes_end_in_a_line_or_a_number() -> None:
    chance = random.Random(0)
    programs = [path.read_bytes() for path in sorted(DATA.glob("*.pte"))]
    for _ in range(150):
        data = bytearray(chance.choice(programs))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(8, len(data))
            data[place] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
            if chance.random() < 0.3:
                data[place : place + 8] = b"\xff" * chance.choice([4, 7]) + b"\x7f"
        try:
            flopwise.profile(bytes(data)).to_dict()
        except flopwise.FlopwiseError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_kernels_of_cortex_m() -> None:
    """Each lowered as ExecuTorch's kernels for Cortex-M take their arguments; weights have the channels last."""
    x, weight, bias = Tensor("x", (1, 8, 5, 5), "int8"), Tensor("w", (4, 3, 3, 8), "int8"), Tensor("b", (4,), "int32")
    depth, y = Tensor("d", (1, 3, 3, 8), "int8"), Tensor("y", (1, 4, 3, 3), "int8")
    window = [1, 1], [0, 0], [1, 1], 128, -128
    again = Counts(mul=1, add=1, cmp=3)
    conv, _ = lower("cortex_m.quantized_conv2d", (x, weight, bias, *window), {}, ())
    assert count(Node(conv.op, "", conv.inputs, (y,), conv.attrs)) == Counts(mac=72, add=1) * 36 + again * 36 + Counts(
        add=200
    )
    conv, _ = lower("cortex_m.quantized_depthwise_conv2d", (x, depth, None, *window), {}, ())
    y = Tensor("y", (1, 8, 3, 3), "int8")
    assert count(Node(conv.op, "", conv.inputs, (y,), conv.attrs)) == Counts(mac=9) * 72 + again * 72 + Counts(add=200)
    pool, _ = lower("cortex_m.quantized_avg_pool2d", (x, [3, 3], [1, 1], [0, 0], False, 0, 1, 0), {}, ())
    assert count(Node(pool.op, "", pool.inputs, (y,), pool.attrs)) == (Counts(add=9, div=1) + again) * 72


def test_a_keyword_spotter_for_cortex_m() -> None:
    """By hand: 320,000 and 4 x (72,000 + 512,000) MACs of the convolutions, 768 of the product."""
    path = Path(__file__).parents[4] / "shared/reproducers/files/cortex_m_keyword_spotting.pte"
    if not path.is_file():
        pytest.skip("the file is not here")
    profile = flopwise.profile(path)
    assert (profile.total("macs"), profile.total("params"), profile.sum.unknown) == (2_656_768, 22_016, 0)
