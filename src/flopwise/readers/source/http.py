"""Ranges of a file on a web server. A server that would send the whole file instead is refused before it does.

Source: RFC 9110, sections 14 and 15.4.
"""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request
from typing import NamedTuple

from flopwise.errors import ModelError
from flopwise.readers.source.location import shown
from flopwise.readers.source.remote import Transport

#: Seconds that a server may stay silent, and the least bytes a second after that time.
TIMEOUT, SLOWEST = 30.0, 1 << 10

#: Redirects in a row that are followed.
REDIRECTS = 10

#: Bytes taken at a time, so that a length that a server only claims is never allocated.
CHUNK = 1 << 20

#: A file up to this many bytes may come whole.
SMALL = 1 << 16

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)\Z")
_EMPTY = re.compile(r"bytes \*/(\d+)\Z")
_MOVED = frozenset({301, 302, 303, 307, 308})

#: What a status means, where its name does not say what to do.
_MEANINGS = {
    401: "asks for a login; download it first",
    403: "refuses access; download it first",
    404: "has no such file",
    410: "has no such file any more",
    429: "had too many requests; try later",
}


class Answer(NamedTuple):
    """What a server sent."""

    status: int
    #: The first byte of the range, and the bytes of the whole file.
    start: int
    size: int
    data: bytes


class _BrokenError(Exception):
    """A connection that broke before the answer was complete."""


class Http(Transport):
    """A file on a web server, by connections that stay open, one for each thread."""

    def __init__(self, url: str) -> None:
        self.name = shown(url)
        self._given = urllib.parse.urldefrag(url).url
        self._size = -1
        self._whole: bytes | None = None
        #: Where redirects led to last.
        self._moved = ""
        self._local = threading.local()
        self._open: list[http.client.HTTPConnection] = []

    def first(self, length: int) -> tuple[int, bytes]:
        answer = self._asked(0, length)
        if answer.status == 200:
            self._whole = answer.data
        self._size = answer.size
        return answer.size, answer.data[:length] if answer.status == 200 else answer.data

    def fetch(self, start: int, end: int) -> bytes:
        if self._whole is not None:
            return self._whole[start:end]
        return self._asked(start, end).data if end > start else b""

    def beside(self, location: str) -> tuple[str, Transport]:
        parts = urllib.parse.urlsplit(self._given)
        path = parts.path.rpartition("/")[0] + "/" + urllib.parse.quote(location)
        url = urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
        return shown(url), Http(url)

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._local = threading.local()

    def _asked(self, start: int, end: int) -> Answer:
        """The bytes [start, end), fewer where the file ends; asked for once more when a connection breaks."""
        tries = 3
        for left in reversed(range(tries)):
            try:
                return self._followed(start, end)
            except TimeoutError:
                raise ModelError(f"{self.name}: the server was silent for {TIMEOUT:.0f} seconds") from None
            except ssl.SSLError as error:
                why = getattr(error, "verify_message", "") or error.reason or "no secure connection"
                raise ModelError(f"{self.name}: no secure connection to the server ({why})") from error
            except (socket.gaierror, ConnectionRefusedError) as error:
                raise ModelError(f"{self.name}: no connection to the server ({error.strerror})") from error
            except (OSError, http.client.HTTPException, _BrokenError, ValueError) as error:
                self._forget()
                if not left:
                    why = " ".join(str(error).split())[:100] or type(error).__name__
                    raise ModelError(f"{self.name}: the connection broke {tries} times ({why})") from error
        raise AssertionError("not reached")

    def _followed(self, start: int, end: int) -> Answer:
        """The answer at the end of all redirects."""
        url = self._moved or self._given
        for _ in range(REDIRECTS):
            status, target, answer = self._request(url, start, end)
            if answer is not None:
                self._moved = url if url != self._given else ""
                return answer
            if status in _MOVED:
                url = self._checked(urllib.parse.urljoin(url, target))
            elif url == self._moved != "":
                self._moved, url = "", self._given  # the place that redirects led to was for a while only
            else:
                meaning = _MEANINGS.get(status, http.client.responses.get(status, "an unknown answer"))
                raise ModelError(f"{self.name}: the server {_said(status, meaning)} (HTTP {status})")
        raise ModelError(f"{self.name}: more than {REDIRECTS} redirects")

    def _parts(self, url: str) -> urllib.parse.SplitResult:
        """The parts of a URL.

        Raises:
            ModelError: it names no server, or no port.
        """
        try:
            parts = urllib.parse.urlsplit(url)
            _ = parts.port  # asked for here, as it may be no number
        except ValueError as error:
            raise ModelError(f"{self.name}: is no URL of a server ({' '.join(str(error).split())[:100]})") from None
        if not parts.hostname:
            raise ModelError(f"{self.name}: names no server")
        return parts

    def _checked(self, url: str) -> str:
        scheme = url.partition(":")[0].lower()
        if scheme not in ("http", "https"):
            raise ModelError(f"{self.name}: the server redirects to {scheme or 'no'}://, which is not followed")
        return url

    def _request(self, url: str, start: int, end: int) -> tuple[int, str, Answer | None]:
        """Status, the place that a redirect names, and the answer if it holds bytes."""
        parts = self._parts(url)
        headers = {
            "Range": f"bytes={start}-{end - 1}",
            "Accept-Encoding": "identity",
            "User-Agent": "flopwise",
            **_login(parts, self._parts(self._given)),
        }
        connection, path = self._connection(parts)
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        if response.status == 206:
            return 206, "", self._range(response, start, end)
        if response.status == 200:
            return 200, "", self._all(response)
        if response.status == 416 and (found := _EMPTY.match(response.headers.get("Content-Range", ""))):
            self._drop(response)
            if start == 0 and found[1] == "0":
                return 416, "", Answer(416, 0, 0, b"")
            raise ModelError(f"{self.name}: changed while it was read; it has {int(found[1]):,} bytes now")
        self._drop(response)
        return response.status, response.headers.get("Location", ""), None

    def _range(self, response: http.client.HTTPResponse, start: int, end: int) -> Answer:
        found = _RANGE.match(response.headers.get("Content-Range", ""))
        if found is None:
            self._forget()
            raise ModelError(f"{self.name}: the server does not say which range it sends; download it first")
        first, last, size = (int(number) for number in found.groups())
        if self._size >= 0 and size != self._size:
            self._forget()
            raise ModelError(f"{self.name}: changed while it was read; it has {size:,} bytes now")
        if first != start or last + 1 != min(end, size) or response.headers.get("Content-Encoding"):
            self._forget()
            raise ModelError(f"{self.name}: the server sends another range than it was asked for; download it first")
        wanted = last + 1 - first
        stated = response.headers.get("Content-Length")
        if stated is not None and stated != str(wanted):
            self._forget()
            raise ModelError(f"{self.name}: the server says that {wanted:,} bytes are {stated[:20]}; download it first")
        return Answer(206, first, size, self._body(response, wanted))

    def _all(self, response: http.client.HTTPResponse) -> Answer:
        """A small file that came whole."""
        stated = response.headers.get("Content-Length", "")
        if not stated.isdecimal() or int(stated) > SMALL or response.headers.get("Content-Encoding"):
            self._forget()  # before it sends the rest
            raise ModelError(
                f"{self.name}: the server does not send parts of a file (no range requests); download it first"
            )
        return Answer(200, 0, int(stated), self._body(response, int(stated)))

    def _body(self, response: http.client.HTTPResponse, length: int) -> bytes:
        parts: list[bytes] = []
        left, began = length, time.monotonic()
        while left:
            part = response.read1(min(left, CHUNK))
            if not part:
                raise _BrokenError(f"{left:,} of {length:,} bytes are missing")
            parts.append(part)
            left -= len(part)
            passed = time.monotonic() - began
            if passed > TIMEOUT and (length - left) / passed < SLOWEST:
                self._forget()
                raise ModelError(f"{self.name}: the server sends less than {SLOWEST:,} bytes a second")
        over = response.read1(1) if response.length != 0 else b""
        response.close()  # so that the connection can be asked again
        if over:
            self._forget()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _drop(self, response: http.client.HTTPResponse) -> None:
        """Pass over the text of an answer without bytes."""
        stated = response.headers.get("Content-Length", "")
        if stated.isdecimal() and int(stated) <= SMALL:
            self._body(response, int(stated))
        else:
            self._forget()

    def _connection(self, parts: urllib.parse.SplitResult) -> tuple[http.client.HTTPConnection, str]:
        """A connection to a server, and what to ask it for."""
        host, port, secure = parts.hostname or "", parts.port, parts.scheme == "https"
        path = urllib.parse.quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (
            f"?{parts.query}" if parts.query else ""
        )
        key = (parts.scheme, host, port)
        held: tuple[object, http.client.HTTPConnection, bool] | None = getattr(self._local, "held", None)
        if held is not None and held[0] == key:
            return held[1], _absolute(parts, path) if held[2] else path
        proxy = "" if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(parts.scheme, "")
        connection = self._connected(host, port, secure, proxy)
        self._forget()
        absolute = bool(proxy) and not secure
        self._local.held = (key, connection, absolute)
        self._open.append(connection)
        return connection, _absolute(parts, path) if absolute else path

    def _connected(self, host: str, port: int | None, secure: bool, proxy: str) -> http.client.HTTPConnection:
        context = ssl.create_default_context() if secure else None
        if proxy:
            via = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            if not secure:
                return http.client.HTTPConnection(via.hostname or "", via.port, timeout=TIMEOUT)
            tunnel = http.client.HTTPSConnection(via.hostname or "", via.port, timeout=TIMEOUT, context=context)
            tunnel.set_tunnel(host, port or 443)
            return tunnel
        if secure:
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT)

    def _forget(self) -> None:
        """Close this thread's connection: what comes on it is not wanted."""
        held = getattr(self._local, "held", None)
        if held is not None:
            held[1].close()
            self._local.held = None


def _absolute(parts: urllib.parse.SplitResult, path: str) -> str:
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


def _said(status: int, meaning: str) -> str:
    return meaning if status in _MEANINGS else f"said: {meaning}"


def _login(parts: urllib.parse.SplitResult, given: urllib.parse.SplitResult) -> dict[str, str]:
    """The user and password of the URL that the user gave, for the server in it alone."""
    there, here = (parts.scheme, parts.hostname, parts.port), (given.scheme, given.hostname, given.port)
    if given.username is None or there != here:
        return {}
    text = f"{urllib.parse.unquote(given.username)}:{urllib.parse.unquote(given.password or '')}"
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}
