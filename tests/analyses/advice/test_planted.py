"""Faults planted in networks of five families: each is found at its place with the exact saving, its twin is silent."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.analyses.advice.planted import FAMILIES, Fault, Network, _rms, faults

import flopwise

FAULTS = {f"{fault.family.name}: {fault.name}": fault for fault in faults()}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_found_with_its_saving(fault: Fault) -> None:
    advice = flopwise.advise(fault.model(), keep_network=True)
    (found,) = advice.suggestions
    assert (found.rule.name, found.place) == (fault.rule, fault.layers)
    assert (found.saved.macs, found.saved.nbytes) == (fault.macs, fault.nbytes)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_repaired_twin_is_silent(fault: Fault) -> None:
    assert not flopwise.advise(fault.model(repaired=True), keep_network=True).suggestions


def test_axes_are_read_where_the_exporter_shaped_them() -> None:
    """PyTorch's exporter gives a ReduceMean its axes through a Reshape of -1."""
    net = Network(inputs={"h": (TensorProto.FLOAT, (4, 64))})
    _rms(net, FAMILIES["mlp"])
    shape = net.weight("one", 1, values=[-1], dtype=np.int64)
    net.nodes.insert(0, helper.make_node("Reshape", ["na", shape], ["shaped"], name="shaped"))
    net.nodes[2].input[1] = "shaped"
    found = {each.rule.name: each for each in flopwise.advise(net.model("g"), keep_network=True).suggestions}
    assert found["normalization"].place == ("square", "variance", "shifted", "root", "inverse", "normal", "g")
