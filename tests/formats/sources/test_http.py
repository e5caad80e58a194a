"""Answers of web servers: which of them are taken, to the byte; no server is asked."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import pytest

from flopwise.errors import ModelError
from flopwise.formats.sources import remote
from flopwise.formats.sources.remote import REDIRECTS, SMALL, Http


class Response:
    """An answer with a status, headers, and a body."""

    def __init__(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.status = status
        self.headers = {name.replace("_", "-").title(): value for name, value in headers.items()}
        self._body = io.BytesIO(body)

    def read1(self, length: int) -> bytes:
        return self._body.read(length)

    @property
    def left(self) -> bytes:
        return self._body.read()


def file() -> Http:
    return Http("http://example.org/a.onnx")


def taken(response: Response, start: int, end: int, of: Http | None = None) -> Any:
    return (of or file())._answer(response, start, end)  # type: ignore[arg-type]


def part(first: int, last: int, size: int, **headers: str) -> Response:
    length = max(last + 1 - first, 0)
    return Response(206, b"x" * length, content_range=f"bytes {first}-{last}/{size}", **headers)


@pytest.mark.parametrize(("response", "length"), [(part(10, 19, 100), 10), (part(10, 14, 15), 5)])
def test_the_range_that_was_asked_for_is_taken(response: Response, length: int) -> None:
    answer = taken(response, 10, 20)
    assert (answer.status, len(answer.data)) == (206, length)


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (part(9, 19, 100), "sends another range"),
        (part(11, 19, 100), "sends another range"),
        (part(10, 18, 100), "sends another range"),
        (part(10, 20, 100), "sends another range"),
        (part(10, 19, 100, content_encoding="gzip"), "sends another range"),
        (part(10, 19, 100, content_length="11"), "says that 10 bytes are 11"),
        (Response(206, b"x" * 10), "does not say which range it sends"),
        (Response(206, b"x" * 10, content_range="bytes 10-19/*"), "does not say which range it sends"),
    ],
)
def test_another_range_is_refused(response: Response, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        taken(response, 10, 20)


def test_a_file_of_another_size_has_changed() -> None:
    model = file()
    model._size = 100
    assert taken(part(0, 9, 100), 0, 10, model).size == 100
    for size in (99, 101):
        with pytest.raises(ModelError, match=f"changed while it was read; it has {size} bytes now"):
            taken(part(0, 9, size), 0, 10, model)


def test_a_body_that_ends_early_is_a_broken_connection() -> None:
    response = Response(206, b"x" * 9, content_range="bytes 0-9/100")
    with pytest.raises(remote._BrokenError, match="1 of 10 bytes are missing"):
        taken(response, 0, 10)


def test_a_file_may_come_whole_up_to_64_kilobytes() -> None:
    whole = Response(200, b"x" * SMALL, content_length=str(SMALL))
    assert taken(whole, 0, 10).size == SMALL
    for headers in (
        {"content_length": str(SMALL + 1)},
        {"content_length": "-1"},
        {"content_length": "10", "content_encoding": "gzip"},
        {},
    ):
        with pytest.raises(ModelError, match="does not send parts of a file"):
            taken(Response(200, b"x" * 10, **headers), 0, 10)


def test_of_an_empty_file_there_is_no_range() -> None:
    assert taken(Response(416, content_range="bytes */0"), 0, 10) == (416, 0, b"")
    for start, size in ((10, 0), (0, 5)):
        with pytest.raises(ModelError, match=f"changed while it was read; it has {size} bytes now"):
            taken(Response(416, content_range=f"bytes */{size}"), start, 20)


@pytest.mark.parametrize(("length", "left"), [(SMALL, 0), (SMALL + 1, SMALL + 1)])
def test_of_an_answer_without_the_file_a_short_body_is_read(length: int, left: int) -> None:
    response = Response(404, b"x" * length, content_length=str(length))
    assert taken(response, 0, 10) is None
    assert len(response.left) == left


def redirecting(monkeypatch: pytest.MonkeyPatch, times: int) -> Http:
    """A file that so many redirects lead to."""

    @contextlib.contextmanager
    def request(self: Http, url: str, start: int, end: int) -> Iterator[Response]:
        number = int(url.rpartition("/")[2])
        yield part(start, end - 1, 100) if number == times else Response(302, location=f"/{number + 1}")

    monkeypatch.setattr(Http, "_request", request)
    return Http("http://example.org/0")


def test_redirects_are_followed_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert redirecting(monkeypatch, REDIRECTS - 1).first(10) == (100, b"x" * 10)
    with pytest.raises(ModelError, match=f"more than {REDIRECTS} redirects"):
        redirecting(monkeypatch, REDIRECTS).first(10)


@pytest.mark.parametrize("target", ["ftp://example.org/a", "file:///etc/passwd"])
def test_redirects_to_other_schemes_are_not_followed(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    @contextlib.contextmanager
    def request(self: Http, url: str, start: int, end: int) -> Iterator[Response]:
        yield Response(301, location=target)

    monkeypatch.setattr(Http, "_request", request)
    with pytest.raises(ModelError, match="which is not followed"):
        file().first(10)
