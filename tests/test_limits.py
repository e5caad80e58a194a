"""Limits on the cost of reading: a value may be as large as its limit, and no larger."""

from __future__ import annotations

import pytest
from tests.cases import each

import flopwise
from flopwise._limits import Limits, current, within_limit, within_unpacking
from flopwise.errors import InputError, ModelError


def test_a_value_may_be_as_large_as_its_limit() -> None:
    with flopwise.limits(header_bytes=1000):
        within_limit("header_bytes", 1000, "a.pt: its header has")
        with pytest.raises(ModelError) as error:
            within_limit("header_bytes", 1001, "a.pt: its header has")
    assert str(error.value) == "a.pt: its header has 1,001 bytes, more than the limit header_bytes of 1,000"


def test_an_array_may_get_64_times_as_long_as_it_is_stored() -> None:
    with flopwise.limits(unpacked_bytes=1000):
        within_unpacking(100, 6400, "a")
        with pytest.raises(ModelError, match="a is stored in 100 bytes and has 6,401 bytes, more than the limit"):
            within_unpacking(100, 6401, "a")


def test_a_short_array_may_get_longer_than_that() -> None:
    with flopwise.limits(unpacked_bytes=1000):
        within_unpacking(1, 1000, "a")
        with pytest.raises(ModelError, match="more than the limit unpacked_bytes of 1,000"):
            within_unpacking(1, 1001, "a")


@each("name", Limits._fields)
@each("value", [0, -1, True, "", "x", float("nan"), float("inf")])
def test_a_limit_is_a_number_above_0(name: str, value: float | str) -> None:
    with pytest.raises(InputError, match="number above 0"), flopwise.limits(**{name: value}):
        pass


def test_the_least_limits() -> None:
    with flopwise.limits(header_bytes="1", request_seconds=0.001):
        assert (current().header_bytes, current().request_seconds) == (1, 0.001)
    assert current() == Limits()
