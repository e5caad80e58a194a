"""Faults planted in networks of five families: each is found at its place with the exact saving, its twin is silent."""

from __future__ import annotations

import pytest
from tests.analyses.advice.planted import Fault, faults

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
