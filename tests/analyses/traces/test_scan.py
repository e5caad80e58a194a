"""Traces as streams: the same events as json.load, whatever the blocks, and one line for what is cut or damaged."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

import flopwise
from flopwise.analyses.traces.scan import Scan, nanoseconds

EVENTS = [
    {"name": 'quo"te ]}, {', "ts": 1, "args": {"Input Dims": [[1, 2], []], "x": None}},
    {"name": "ünï\n", "dur": 12, "ok": True},
    {},
    {"deep": [[[[{"a": "]"}]]]]},
]
OBJECT = {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": EVENTS, "traceName": "t", "last": 12345}


@pytest.mark.parametrize("block", [1, 2, 3, 7, 50, 1 << 20])
@pytest.mark.parametrize("content", [EVENTS, OBJECT])
@pytest.mark.parametrize("indent", [None, 2])
def test_blocks_change_nothing(tmp_path: Path, block: int, content: object, indent: int | None) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(content, indent=indent), "utf-8")
    with Scan(path, block) as scan:
        assert scan.first == EVENTS[0]
        assert list(scan.events()) == EVENTS
        assert scan.array == ("traceEvents" if content is OBJECT else "")
        assert scan.head == ({k: v for k, v in OBJECT.items() if k != "traceEvents"} if content is OBJECT else {})


def test_packed_and_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(OBJECT).encode()))
    with Scan(path) as scan:
        assert list(scan.events()) == EVENTS


def test_every_place_to_cut_a_file_at_is_one_line(tmp_path: Path) -> None:
    whole = json.dumps(OBJECT).encode()
    packed = gzip.compress(whole)
    path = tmp_path / "t.json"
    for cut in [*(whole[:n] for n in range(len(whole))), *(packed[:n] for n in range(2, len(packed) - 8))]:
        path.write_bytes(cut)
        with pytest.raises(flopwise.ModelError, match=r"cut off|begins with neither"), Scan(path, 16) as scan:
            list(scan.events())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{]  ", "damaged: event 1|cut off"),
        ('[{"a" 1}, {}] ', "damaged: event 1"),
        ('[{"a": 1}, {"b": 2,, "c": 3}, {"d": 4}]', "damaged: event 2, at character 11, is no JSON"),
        ("[1]", "event 1 is no object"),
        ("{1: 2}", "damaged"),
        ("ONNX", "begins with neither"),
        ("[" * 100_000 + "]" * 100_000, "event 1 is (no object|nested too deeply)"),
    ],
)
def test_damage_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(flopwise.ModelError, match=message), Scan(path) as scan:
        list(scan.events())
    with pytest.raises(flopwise.ModelError, match="no such file"):
        Scan(tmp_path / "missing.json")


def test_one_event_without_an_end_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'[{"a": "' + b"x" * (10 << 20)))
    with pytest.raises(flopwise.ModelError, match="the limit unpacked_bytes"), Scan(path, 1 << 20) as scan:
        list(scan.events())


def test_times_are_exact() -> None:
    assert nanoseconds(1695835573847842) == 1695835573847842000
    assert nanoseconds("1695835573847842.123") == 1695835573847842123
    assert nanoseconds("1.6958355738478421e15") == 1695835573847842100
    assert nanoseconds("-0.0005") == 0
    assert nanoseconds("0.0217", 1_000_000) == 21700
    for wrong in ("nan", "inf", "", "x", None):
        with pytest.raises(ValueError, match="no time"):
            nanoseconds(wrong)


def test_a_packed_trace_does_not_grow_without_end(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents":[' + b'{"ph":"X"},' * 100_000 + b"{}]}"))
    with Scan(path) as scan:
        assert len([*scan.events()]) == 100_001  # a short one may grow as it likes
    with flopwise.limits(unpacked_bytes=1 << 18), Scan(path, 1 << 16) as scan:
        with pytest.raises(flopwise.ModelError, match="more than the limit unpacked_bytes of 262,144"):
            [*scan.events()]
        assert scan._before < 1 << 19


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no pipes with names")
    os.mkfifo(tmp_path / "trace.json")
    with pytest.raises(flopwise.ModelError, match="not a regular file"):
        Scan(tmp_path / "trace.json")
