"""Recurrent layers: whole sequences, and single steps of them."""

from __future__ import annotations

from flopwise.formats.openvino.lower.lowered import Application, Lowered, Rule, batched
from flopwise.operators import shape

#: Operator of the house -> its activations where the file names none.
_DEFAULT = {"LSTM": "sigmoid,tanh,tanh", "GRU": "sigmoid,tanh", "RNN": "tanh"}


def _attrs(application: Application, op: str) -> dict[str, object]:
    names = tuple([name.strip() for name in application.text("activations", _DEFAULT[op]).split(",") if name.strip()])
    direction = application.text("direction", "forward")
    attrs: dict[str, object] = {"direction": direction, "layout": 1, "hidden_size": application.number("hidden_size")}
    attrs["activations"] = names * (2 if direction == "bidirectional" else 1)
    if application.real("clip"):
        attrs["clip"] = application.real("clip")
    if application.flag("linear_before_reset"):
        attrs["linear_before_reset"] = 1
    if application.flag("input_forget"):
        attrs["input_forget"] = 1
    return attrs


def sequence(op: str) -> Rule:
    """The rule for a sequence: X, the states, lengths, W, R, B; the batch comes first."""
    states = 2 if op == "LSTM" else 1

    def rule(application: Application) -> Lowered:
        first = 1 + states
        places = (0, first + 1, first + 2, first + 3, first, *range(1, first))
        return Lowered(op, places, _attrs(application, op), shape.by("openvino:sequence"))

    return rule


def cell(op: str) -> Rule:
    """The rule for one step: X, the states, W, R, B, without axes of steps and directions."""
    states = 2 if op == "LSTM" else 1

    def rule(application: Application) -> Lowered:
        first = 1 + states
        bias = first + 2 if application.inputs > first + 2 else -1
        places = (0, first, first + 1, bias, -1, *range(1, first))
        views = {place: batched for place, taken in enumerate(places) if taken >= 0}
        return Lowered(op, places, _attrs(application, op), shape.by("openvino:cell"), views=views)

    return rule
