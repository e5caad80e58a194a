"""Requests on a device: what fits it to the byte, and None where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.analyses.llm.test_step import EXACT, asked

from flopwise.analyses.llm.inference import Inference
from flopwise.analyses.llm.on_device import OnDevice, on_device
from flopwise.analyses.llm.serving.serving import Engine, served
from flopwise.analyses.timing.catalog import find

REQUEST = asked(EXACT, EXACT)


def on(memory_bytes: int | None, request: Inference = REQUEST) -> OnDevice:
    device = replace(find("h100"), memory_bytes=memory_bytes, reported=None)
    return on_device(request, device, served(request, Engine(memory_fraction=1.0), device))


def test_a_request_fits_memory_that_is_as_large() -> None:
    serving = served(REQUEST, Engine(), None)
    assert serving is not None
    need = serving.must_fit_bytes
    assert [on(have).fits for have in (need - 1, need, need + 1)] == [False, True, True]


@pytest.mark.parametrize("have", [None, 0])
def test_whether_it_fits_unknown_memory_is_unknown(have: int | None) -> None:
    device = on(have)
    assert device.fits is device.memory_bytes is None


def test_whether_a_request_of_unknown_size_fits_is_unknown() -> None:
    assert on(1 << 40, asked("a result without a shape", EXACT)).fits is None


def test_times_are_whole_nanoseconds_rounded_up() -> None:
    device = on(1 << 30)
    content = device.to_dict()
    least = content["prefill"]["least_ns"]
    assert 0 < device.prefill.seconds * 1e9 <= least < device.prefill.seconds * 1e9 + 1
    assert device.request_seconds == device.prefill.seconds + device.generate.seconds


def test_without_steps_there_is_no_rate_of_them() -> None:
    device = on(1 << 30, asked(EXACT, None))
    assert device.decode is device.decode_tokens_per_second is None
    assert device.to_dict()["decode"] is None
    assert device.prefill_tokens_per_second == 3 / device.prefill.seconds
