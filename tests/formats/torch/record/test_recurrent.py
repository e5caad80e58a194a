"""Recurrent layers run on few steps, and what they give and keep is that of all steps."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402
from flopwise.formats.torch.read import read_torch  # noqa: E402
from flopwise.formats.torch.record import recorder, stand_ins  # noqa: E402
from flopwise.formats.torch.record.stand_ins import shortened, steps_of  # noqa: E402

LAYERS: list[tuple[Any, dict[str, Any]]] = [
    (nn.GRU, {}),
    (nn.LSTM, {}),
    (nn.RNN, {}),
    (nn.RNN, {"nonlinearity": "relu", "bias": False}),
    (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    (nn.LSTM, {"proj_size": 4, "bidirectional": True}),
    (nn.LSTM, {"num_layers": 3, "dropout": 0.5}),
]


def facts(layer: Any, shape: tuple[int, ...], grad: bool) -> Any:
    """All that a reading says of the layer: its results, and the bytes that it keeps of each tensor."""
    graph = read_torch(layer, shape, grad=grad, mode="train")
    nodes = [
        (node.op, [(t.shape, t.contiguous, t.grad) for t in node.known_outputs], _sums(node.attrs.get("saved")))
        for node in graph.nodes
    ]
    return nodes, [(t.shape, t.contiguous) for t in graph.outputs]


def _sums(saved: Any) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, size in saved or ():
        sums[name] = sums.get(name, 0) + size
    return sums


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("batch_first", [False, True], ids=["steps first", "batch first"])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 11])
@pytest.mark.parametrize(("kind", "options"), LAYERS, ids=[f"{k.__name__} {o}" for k, o in LAYERS])
def test_few_steps_say_what_all_say(
    kind: Any, options: Any, steps: int, batch_first: bool, grad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = kind(8, 6, batch_first=batch_first, **options)
    shape = (5, steps, 8) if batch_first else (steps, 5, 8)
    few = facts(layer, shape, grad)
    monkeypatch.setattr(stand_ins, "steps_of", lambda args: 0)
    assert few == facts(layer, shape, grad)


def test_no_more_than_three_steps_run_however_many_there_are() -> None:
    lengths: list[int] = []

    def layer(input: Any, *args: Any) -> Any:
        lengths.append(input.shape[0])
        return torch.empty(input.shape[0], 2, 6, device="meta"), torch.empty(1, 2, 6, device="meta")

    args = (torch.empty(4096, 2, 8, device="meta"), None, [], True, 1, 0.0, False, False, False)
    assert steps_of(args) == 4096
    assert shortened(layer, args, None)[0].shape == (4096, 2, 6)
    assert max(lengths) <= 3


def test_long_sequences_count_in_proportion_to_their_steps() -> None:
    layer = nn.GRU(16, 16, bidirectional=True)
    one, many = (flopwise.profile(layer, (steps, 2, 16)).total("macs") for steps in (1, 4096))
    assert many == 4096 * one


def test_a_packed_sequence_still_runs_for_real() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(8, 6)

        def forward(self, x: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]))
            return self.layer(packed)[0].data

    profile = flopwise.profile(Packed(), (torch.rand(5, 2, 8),))
    assert profile.total("macs") == (5 + 3) * 4 * 6 * (8 + 6)


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTMCell, 4), (nn.GRUCell, 3), (nn.RNNCell, 1)])
def test_cells_that_repeat_are_asked_for_shapes_once(kind: Any, gates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = kind(5, 7)

        def forward(self, x: Any) -> Any:
            state = None
            for step in x:
                state = self.cell(step, state)
            return state

    monkeypatch.setattr(recorder, "_KNOWN", {})
    profile = flopwise.profile(Steps(), (20, 3, 5))
    assert profile.total("macs") == 20 * 3 * gates * 7 * (5 + 7)
    assert [t.dims for t in profile.graph.outputs] == [(3, 7)] * (2 if kind is nn.LSTMCell else 1)
    assert len([key for key in recorder._KNOWN if key[0].__name__.endswith("_cell")]) == 1
