"""Work that is done for every position or step: scores of a vocabulary, and products of an unrolled loop."""

from __future__ import annotations

from onnx import TensorProto
from tests.analyses.advice.planted import Network

import flopwise
from flopwise.analyses.advice.advice import Suggestion


def _about(rule: str, net: Network) -> list[Suggestion]:
    found = flopwise.advise(net.model(), keep_network=True).suggestions
    return [each for each in found if each.rule.name == rule]


def _language_model(positions: int) -> Network:
    net = Network(inputs={"tokens": (TensorProto.INT64, (2, positions))})
    net.add("Gather", f"{net.weight('table', 100, 32)} tokens", "h")
    net.add("Tanh", "h", "t")
    net.add("MatMul", f"t {net.weight('head', 32, 100)}", "y")
    return net


def test_logits_of_all_positions() -> None:
    (found,) = _about("all-logits", _language_model(16))
    assert found.saved.macs == 2 * 15 * 32 * 100
    assert found.saved.nbytes == 4 * 2 * 15 * (32 + 100)
    assert not _about("all-logits", _language_model(1))


def _recurrent(steps: int, at_once: bool) -> Network:
    """tanh(x W + h R) over steps, with x W step by step or before the loop."""
    net = Network(inputs={"x": (TensorProto.FLOAT, (steps, 1, 20))})
    weight, recurrent = net.weight("w", 20, 24), net.weight("r", 24, 24)
    source = "x"
    if at_once:
        net.add("MatMul", f"x {weight}", "xw")
        source = "xw"
    net.add("Split", source, " ".join(f"p{t}" for t in range(steps)), num_outputs=steps)
    for t in range(steps):
        if not at_once:
            net.add("MatMul", f"p{t} {weight}", f"a{t}")
        part = f"p{t}" if at_once else f"a{t}"
        if t:
            net.add("MatMul", f"h{t - 1} {recurrent}", f"b{t}")
            net.add("Add", f"{part} b{t}", f"c{t}")
        net.add("Tanh", f"c{t}" if t else part, "y" if t == steps - 1 else f"h{t}")
    return net


def test_products_of_an_unrolled_loop() -> None:
    (found,) = _about("unrolled", _recurrent(6, at_once=False))
    assert found.place == tuple(f"a{t}" for t in range(6))
    assert (found.saved.macs, found.saved.nbytes) == (0, 5 * 4 * 20 * 24)
    assert not _about("unrolled", _recurrent(6, at_once=True))
