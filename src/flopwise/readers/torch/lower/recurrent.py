"""Recurrent layers and cells. A stack of layers stays one operator, because that is what the program called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered, tensors


def _layers(op: str) -> Callable[..., Lowered]:
    """A stack of recurrent layers, from a padded batch or a packed one (data, batch_sizes)."""

    def lowered(input: Tensor, second: Any, third: Any, fourth: Any, *rest: Any, **more: Any) -> Lowered:
        packed = not isinstance(third, (list, tuple)) or isinstance(fourth, (list, tuple))
        state, weights = (third, fourth) if packed else (second, third)
        has_biases, layers, dropout, train, both = rest[:5] if packed else (fourth, *rest[:4])
        attrs = {
            "layers": layers,
            "directions": 2 if both else 1,
            "biases": int(bool(has_biases)),
            "packed": int(packed),
            "dropout": int(bool(train and dropout)),
            "batch_first": int(not packed and len(rest) > 4 and bool(rest[4])),
        }
        return Lowered(op, (input, *tensors(*weights), *tensors(state)), attrs)

    return lowered


def _cell(op: str) -> Callable[..., Lowered]:
    def lowered(
        input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
    ) -> Lowered:
        return Lowered(op, (input, w_ih, w_hh, b_ih, b_hh, *tensors(hx)))

    return lowered


LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **{name: _layers(f"aten::{name}") for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{name: _cell(f"aten::{name}") for name in ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")},
}
