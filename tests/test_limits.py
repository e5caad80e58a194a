"""Limits on the cost of reading: a value may be as large as its limit, and no larger."""

from __future__ import annotations

import struct

import pytest
from tests.cases import each

import flopwise
from flopwise._limits import Limits, budget, current, spend, within_limit, within_unpacking
from flopwise.errors import InputError, ModelError
from flopwise.formats.sources.flatbuffer import FlatBuffer
from flopwise.formats.sources.schema import schema
from flopwise.formats.sources.source import BytesSource


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


def test_what_one_model_costs_adds_up() -> None:
    with flopwise.limits(repeated_nodes=10, unpacked_total=100), budget("a.onnx"):
        spend(repeated_nodes=10)
        with budget("b.onnx"):  # is charged with its own nodes alone
            spend(repeated_nodes=10)
        with pytest.raises(ModelError, match=r"a\.onnx: names the same parts .* more than 10 operators beyond"):
            spend(repeated_nodes=1)
        with pytest.raises(ModelError, match=r"a\.onnx: unpacks to 101 bytes, more than the limit unpacked_total"):
            spend(unpacked_total=101)


def test_arrays_that_each_are_short_add_up() -> None:
    with flopwise.limits(unpacked_total=10_000), budget("a.npz"):
        for _ in range(10):
            within_unpacking(0, 1000, "a.npz: one of its arrays")
        with pytest.raises(ModelError, match=r"a\.npz: unpacks to 11,000 bytes, more than the limit unpacked_total"):
            within_unpacking(0, 1000, "a.npz: one of its arrays")


def test_time_is_part_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with flopwise.limits(reading_seconds=5), budget("a.tflite"):
        now = 105.0
        spend(repeated_nodes=1)
        now = 105.1
        with pytest.raises(ModelError, match=r"a\.tflite: takes longer to read than the limit reading_seconds of 5$"):
            spend(repeated_nodes=1)


def _tables(places: list[int], size: int) -> FlatBuffer:
    """A root whose first field is a vector of tables at these places, each of two numbers, in a file of zeros."""
    data = bytearray(size)
    struct.pack_into("<IHHHHHH", data, 0, 16, 8, 12, 4, 8, 0, 0)  # one layout for all: fields at 4 and 8
    struct.pack_into("<iI", data, 16, 12, 8)  # the root; its vector begins at 28
    struct.pack_into(f"<I{len(places)}I", data, 28, len(places), *(p - 32 - 4 * i for i, p in enumerate(places)))
    for place in places:
        struct.pack_into("<i", data, place, place - 4)
    return FlatBuffer(BytesSource(bytes(data)), 0, size, schema("Root: tables 0 Table*\nTable: far 9 I"), "model")


REPEATED = {
    "beside each other": ([*range(800, 860, 12)], 0),
    "one again": ([800, 800, 800, 812, 812], 3),
    "over each other": ([*range(840, 1640, 4)], 98),
}


@pytest.mark.parametrize("case", REPEATED)
def test_tables_that_a_file_names_again_are_charged(case: str) -> None:
    places, repeated = REPEATED[case]
    with flopwise.limits(repeated_nodes=100), budget("a.tflite"):
        assert len(_tables(places, 1640).root("Root")["tables"]) == len(places)
        spend(repeated_nodes=100 - repeated)
        with pytest.raises(ModelError, match="names the same parts"):
            spend(repeated_nodes=1)
