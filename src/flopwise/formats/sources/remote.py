"""Files by URL: ranges of bytes over HTTP and of stores that fsspec knows."""

from __future__ import annotations

import contextlib
import http.client
import os
import posixpath
import re
import socket
import threading
import time
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import urllib3
from urllib3 import exceptions

from flopwise._limits import current
from flopwise.errors import ModelError
from flopwise.formats.sources.location import explained, in_words, shown
from flopwise.formats.sources.source import Source

# Models by URL: only the ranges that somebody asks for come over the network, and their bytes are counted.

#: Bytes that are kept together. A walk over a file reads one or two of them for each tensor.
BLOCK = 1 << 10

#: Blocks of the first request, and most blocks of one that reads ahead.
FIRST, MOST = 16, 1 << 10

#: Ranges from this many bytes on are elements, and are not kept.
LARGE = 1 << 20

#: Bytes that are kept at most.
KEPT = 64 << 20


@dataclass
class Traffic:
    """The bytes and requests over the network for one model, for all its files."""

    nbytes: int = 0
    requests: int = 0
    #: File -> bytes.
    sizes: dict[str, int] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def add(self, nbytes: int) -> None:
        """Count a request."""
        with self.lock:
            self.nbytes += nbytes
            self.requests += 1

    def __str__(self) -> str:
        requests = "1 request" if self.requests == 1 else f"{self.requests:,} requests"
        return f"read {self.nbytes:,} of {sum(self.sizes.values()):,} bytes over the network in {requests}"


class Transport(ABC):
    """A way to fetch ranges of one remote file."""

    @abstractmethod
    def first(self, length: int) -> tuple[int, bytes]:
        """The size of the file, and its first bytes: ``length``, or all where it has fewer.

        Raises:
            ModelError: the file is not there, or does not come in ranges.
        """

    @abstractmethod
    def fetch(self, start: int, end: int) -> bytes:
        """The bytes [start, end)."""

    @abstractmethod
    def beside(self, location: str) -> tuple[str, Transport]:
        """The name of another file in the same folder, for messages, and what brings it."""

    def close(self) -> None:  # noqa: B027 - nothing to let go of is the usual case
        """Let go of connections."""


class RemoteSource(Source):
    """A remote file, read in ranges. What steers the reading is kept; elements are not."""

    remote = True
    threadsafe = True

    def __init__(self, name: str, transport: Transport, traffic: Traffic | None = None) -> None:
        """
        Args:
            name: the URL as it may be shown.
            transport: brings the bytes.
            traffic: counts them; None: a count of its own.
        """
        self.name = name
        self.traffic = traffic or Traffic()
        self._transport = transport
        self._lock = threading.Lock()
        self._blocks: dict[int, bytes] = {}
        self.size, head = transport.first(FIRST * BLOCK)
        self.traffic.add(len(head))
        self.traffic.sizes[name] = self.size
        self._keep(0, head)
        self._next, self._ahead = -(-len(head) // BLOCK), FIRST

    def part(self, offset: int, length: int) -> bytes:
        if length >= LARGE:
            return self._fetched(offset, offset + length)
        if not length:
            return b""
        with self._lock:
            first, last = offset // BLOCK, (offset + length - 1) // BLOCK
            missing = [i for i in range(first, last + 1) if i not in self._blocks]
            if missing:
                self._bring(missing[0], missing[-1] + 1)
            data = b"".join(self._blocks[i] for i in range(first, last + 1))
        at = offset - first * BLOCK
        return data[at : at + length]

    def _bring(self, first: int, end: int) -> None:
        """Get blocks, and more of them where reading goes on where it stopped."""
        self._ahead = min(2 * self._ahead, MOST) if first == self._next else 1
        end = max(end, first + self._ahead)
        while end - 1 > first and end - 1 in self._blocks:
            end -= 1
        data = self._fetched(first * BLOCK, min(end * BLOCK, self.size))
        if len(self._blocks) * BLOCK > KEPT:
            self._blocks = {i: self._blocks[i] for i in range(first - FIRST, first) if i in self._blocks}
        self._keep(first, data)
        self._next = end

    def _keep(self, first: int, data: bytes) -> None:
        for i in range(-(-len(data) // BLOCK)):
            self._blocks[first + i] = data[i * BLOCK : (i + 1) * BLOCK]

    def _fetched(self, start: int, end: int) -> bytes:
        data = self._transport.fetch(start, end)
        self.traffic.add(len(data))
        return data

    def later(self) -> Callable[[], Source]:
        return lambda: self  # connections open again by themselves, and the count goes on

    def beside(self, location: str, what: str) -> Source:
        for path in (PurePosixPath(location), PureWindowsPath(location)):
            if path.anchor or ".." in path.parts or not path.parts:
                raise ModelError(f"the data of {what} are in {location!r}, outside the model's folder; refused")
        name, transport = self._transport.beside(posixpath.normpath(location))
        return RemoteSource(name, transport, self.traffic)

    def network_summary(self) -> str:
        return str(self.traffic)

    def close(self) -> None:
        self._transport.close()


class Fsspec(Transport):
    """A file in such a file system."""

    def __init__(self, url: str, system: Any = None) -> None:
        """
        Args:
            url: where the file is; with a ``system``, its path there.
            system: the file system; None: the one that the URL's scheme names.
        """
        self.name = shown(url)
        self._path, self._system = url, system
        if system is None:
            scheme = url.partition("://")[0]
            try:
                from fsspec.core import url_to_fs
            except ImportError:
                raise ModelError(
                    f"{self.name}: {scheme}:// needs fsspec: pip install 'flopwise[remote]', or download the file"
                ) from None
            self._system, self._path = self._explained(lambda: url_to_fs(url))

    def _explained(self, work: Callable[[], object]) -> Any:
        with explained(lambda error: f"{self.name}: cannot be read ({in_words(error, 150)})"):
            try:
                return work()
            except FileNotFoundError:
                raise ModelError(f"{self.name}: no such file") from None
            except ImportError as error:
                raise ModelError(f"{self.name}: fsspec cannot open it ({in_words(error, 150)})") from None

    def first(self, length: int) -> tuple[int, bytes]:
        size = self._explained(lambda: self._system.info(self._path)["size"])
        if not isinstance(size, int) or size < 0:
            raise ModelError(f"{self.name}: its length is unknown; download it first")
        return size, self.fetch(0, min(length, size))

    def fetch(self, start: int, end: int) -> bytes:
        if start == end:
            return b""
        data = self._explained(lambda: self._system.cat_file(self._path, start=start, end=end))
        if not isinstance(data, bytes) or len(data) != end - start:
            raise ModelError(f"{self.name}: gave {len(data):,} bytes instead of {end - start:,}; download it first")
        return data

    def beside(self, location: str) -> tuple[str, Transport]:
        other = Fsspec(f"{os.path.dirname(self._path)}/{location}", self._system)
        other.name = f"{self.name.rpartition('/')[0]}/{location}"
        return other.name, other


# Ranges of a file on a web server, by urllib3. A server that would send the whole file instead is refused first.
#
# Source: RFC 9110, sections 14 and 15.4.

#: The least bytes a second that a server may send.
SLOWEST = 1 << 10

#: Redirects in a row that are followed, and how often a request is tried whose connection breaks.
REDIRECTS, TRIES = 10, 3

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
    """A server's answer."""

    status: int
    #: The bytes of the whole file.
    size: int
    data: bytes


class _BrokenError(Exception):
    """A connection that broke before the answer was complete."""


class _Watched:
    """A connection that can be cut from another thread, wherever it waits."""

    sock: object
    #: The connection that each thread used last, and whether its time is over.
    last = threading.local()

    def _watch(self) -> None:
        _Watched.last.connection = self
        if _Watched.last.late.is_set():
            raise OSError("the time for it is over")

    def connect(self) -> None:
        self._watch()
        super().connect()  # type: ignore[misc] # of the connection that it is mixed into

    def request(self, *arguments: object, **options: object) -> None:
        self._watch()
        super().request(*arguments, **options)  # type: ignore[misc]


def _watched(pool: type[urllib3.HTTPConnectionPool]) -> type[urllib3.HTTPConnectionPool]:
    """A class of pools whose connections can be cut."""
    connection = type("Connection", (_Watched, pool.ConnectionCls), {})
    return type("Pool", (pool,), {"ConnectionCls": connection})


_POOLS = {"http": _watched(urllib3.HTTPConnectionPool), "https": _watched(urllib3.HTTPSConnectionPool)}


class Http(Transport):
    """A file on a web server, by connections that stay open."""

    def __init__(self, url: str) -> None:
        self.name = shown(url)
        self._url = urllib.parse.urldefrag(url).url
        self._limits = current()
        self._size = -1
        self._whole: bytes | None = None
        #: Where redirects led to last.
        self._moved = ""
        self._pools: dict[str, urllib3.PoolManager] = {}

    def first(self, length: int) -> tuple[int, bytes]:
        answer = self._ask(0, length)
        if answer.status == 200:
            self._whole = answer.data
        self._size = answer.size
        return answer.size, answer.data[:length]

    def fetch(self, start: int, end: int) -> bytes:
        if self._whole is not None:
            return self._whole[start:end]
        return self._ask(start, end).data if end > start else b""

    def beside(self, location: str) -> tuple[str, Transport]:
        parts = urllib.parse.urlsplit(self._url)
        path = parts.path.rpartition("/")[0] + "/" + urllib.parse.quote(location)
        url = urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
        return shown(url), Http(url)

    def page(self, most: int) -> tuple[int, bytes]:
        """The status and the whole body of an answer, of any length up to ``most`` bytes; no redirect is followed.

        Raises:
            ModelError: there is no answer, or a longer one.
        """
        body, status = bytearray(), 0
        late = threading.Event()
        try:
            with self._deadline(late), self._request(self._url, 0, 0) as response:
                status = response.status
                # a body without a length is read past the connection, which cannot be cut then
                while len(body) <= most and not late.is_set() and (part := response.read1(1 << 16)):
                    body += part
        except (exceptions.HTTPError, OSError, http.client.HTTPException, ValueError) as error:
            raise ModelError(f"{self.name}: no answer ({in_words(error, 100)})") from error
        except ModelError:
            if not late.is_set():
                raise
        if late.is_set() and not body:
            seconds = f"{self._limits.request_seconds:g} seconds (the limit request_seconds)"
            raise ModelError(f"{self.name}: no answer within {seconds}")
        if len(body) > most or late.is_set():
            raise ModelError(f"{self.name}: more than {most:,} bytes, or too slow, for a page of metrics")
        return status, bytes(body)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.clear()

    def _ask(self, start: int, end: int) -> Answer:
        """The bytes [start, end), fewer where the file ends; requested again when a connection breaks."""
        why: object = ""
        with self._deadline(threading.Event()) as late:
            for _ in range(TRIES):
                try:
                    return self._follow(start, end)
                except exceptions.NewConnectionError as error:
                    reason = getattr(error.__cause__ or error.__context__, "strerror", None) or "cannot connect"
                    raise ModelError(f"{self.name}: no connection to the server ({reason})") from error
                except exceptions.TimeoutError:
                    silent = f"{self._limits.silent_seconds:g} seconds (the limit silent_seconds)"
                    raise ModelError(f"{self.name}: the server was silent for {silent}") from None
                except exceptions.SSLError as error:
                    cause = error.args[0] if error.args else error
                    text = (
                        getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or "no secure connection"
                    )
                    raise ModelError(f"{self.name}: no secure connection to the server ({text})") from error
                except (exceptions.HTTPError, OSError, http.client.HTTPException, _BrokenError, ValueError) as error:
                    why = in_words(error, 100)
                    if late.is_set():
                        break
            raise ModelError(f"{self.name}: the connection broke {TRIES} times ({why})")

    def _follow(self, start: int, end: int) -> Answer:
        """The answer at the end of all redirects."""
        url = self._moved or self._url
        for _ in range(REDIRECTS):
            with self._request(url, start, end) as response:
                answer = self._answer(response, start, end)
                if answer is not None:
                    self._moved = url if url != self._url else ""
                    return answer
                status, target = response.status, response.headers.get("Location", "")
            if status in _MOVED:
                url = urllib.parse.urljoin(url, target)
                scheme = url.partition(":")[0].lower()
                if scheme not in ("http", "https"):
                    raise ModelError(f"{self.name}: the server redirects to {scheme or 'no'}://, which is not followed")
            elif url == self._moved != "":
                self._moved, url = "", self._url  # the place that redirects led to was for a while only
            else:
                meaning = _MEANINGS.get(status) or f"said: {http.client.responses.get(status, 'an unknown answer')}"
                raise ModelError(f"{self.name}: the server {meaning} (HTTP {status})")
        raise ModelError(f"{self.name}: more than {REDIRECTS} redirects")

    @contextlib.contextmanager
    def _request(self, url: str, start: int, end: int) -> Iterator[urllib3.BaseHTTPResponse]:
        """The answer to one request, of which no byte of the body is read; what is left of it is never read. Without
        an end, the whole file is asked for.

        Raises:
            ModelError: the URL is none.
        """
        parts = self._parts(url)
        headers = {"Accept-Encoding": "identity", "User-Agent": "flopwise"}
        headers |= {"Range": f"bytes={start}-{end - 1}"} if end else {}
        own = self._parts(self._url)
        if own.username is not None and _origin(own) == _origin(parts):  # for the server that it was given for alone
            login = f"{urllib.parse.unquote(own.username)}:{urllib.parse.unquote(own.password or '')}"
            headers |= urllib3.make_headers(basic_auth=login)
        target = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        silent = self._limits.silent_seconds
        response = self._pool(parts).request(
            "GET",
            target,
            headers=headers,
            preload_content=False,
            decode_content=False,
            enforce_content_length=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(connect=silent, read=silent),
        )
        try:
            yield response
        finally:
            if response.length_remaining != 0:
                response.close()

    def _pool(self, parts: urllib.parse.SplitResult) -> urllib3.PoolManager:
        """The connections to a server, through a proxy where the environment names one."""
        bypass = urllib.request.proxy_bypass(parts.hostname or "")
        proxy = "" if bypass else urllib.request.getproxies().get(parts.scheme, "")
        if proxy not in self._pools:
            via = proxy if "://" in proxy else f"http://{proxy}"
            pool = urllib3.ProxyManager(via) if proxy else urllib3.PoolManager()
            pool.pool_classes_by_scheme = _POOLS
            self._pools.setdefault(proxy, pool)
        return self._pools[proxy]

    @contextlib.contextmanager
    def _deadline(self, late: threading.Event) -> Iterator[threading.Event]:
        """Cut the connections of this thread when the block takes longer than the limit, which sets the event.

        Raises:
            ModelError: the block fails when its time is over.
        """
        seconds = self._limits.request_seconds
        _Watched.last.connection, _Watched.last.late = None, late
        mine = _Watched.last.__dict__

        def cut() -> None:
            late.set()
            sock: socket.socket | None = getattr(mine.get("connection"), "sock", None)
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, cut)
        timer.daemon = True
        timer.start()
        try:
            yield late
        except Exception:
            if late.is_set():
                text = f"the request took longer than {seconds:g} seconds (the limit request_seconds)"
                raise ModelError(f"{self.name}: {text}") from None
            raise
        finally:
            timer.cancel()

    def _parts(self, url: str) -> urllib.parse.SplitResult:
        """The parts of a URL.

        Raises:
            ModelError: it has no host name, or no port.
        """
        try:
            parts = urllib.parse.urlsplit(url)
            _ = parts.port  # asked for here, as it may be no number
        except ValueError as error:
            raise ModelError(
                f"{self.name}: is not the URL of a server ({' '.join(str(error).split())[:100]})"
            ) from None
        if not parts.hostname:
            raise ModelError(f"{self.name}: has no host name")
        return parts

    def _answer(self, response: urllib3.BaseHTTPResponse, start: int, end: int) -> Answer | None:
        """The bytes of an answer; None where it holds none of the file."""
        stated = response.headers.get("Content-Length", "")
        if response.status == 206:
            return self._range(response, stated, start, end)
        if response.status == 200:
            if not stated.isdecimal() or int(stated) > SMALL or response.headers.get("Content-Encoding"):
                raise ModelError(
                    f"{self.name}: the server does not send parts of a file (no range requests); download it first"
                )
            return Answer(200, int(stated), self._body(response, int(stated)))
        if response.status == 416 and (empty := _EMPTY.match(response.headers.get("Content-Range", ""))):
            if start == 0 and empty[1] == "0":
                return Answer(416, 0, b"")
            raise ModelError(f"{self.name}: changed while it was read; it has {int(empty[1]):,} bytes now")
        if stated.isdecimal() and int(stated) <= SMALL:
            self._body(response, int(stated))  # so that the connection can be asked again
        return None

    def _range(self, response: urllib3.BaseHTTPResponse, stated: str, start: int, end: int) -> Answer:
        """The answer of a server that sends a range, once it is known to be the one that was asked for."""
        match = _RANGE.match(response.headers.get("Content-Range", ""))
        if match is None:
            raise ModelError(f"{self.name}: the server does not say which range it sends; download it first")
        first, last, size = (int(number) for number in match.groups())
        if self._size >= 0 and size != self._size:
            raise ModelError(f"{self.name}: changed while it was read; it has {size:,} bytes now")
        if first != start or last + 1 != min(end, size) or response.headers.get("Content-Encoding"):
            raise ModelError(f"{self.name}: the server sends another range than it was asked for; download it first")
        length = last + 1 - first
        if stated and stated != str(length):
            raise ModelError(f"{self.name}: the server says that {length:,} bytes are {stated[:20]}; download it first")
        return Answer(206, size, self._body(response, length))

    def _body(self, response: urllib3.BaseHTTPResponse, length: int) -> bytes:
        """The bytes of an answer; a server that trickles is given up."""
        parts: list[bytes] = []
        left, began, patience = length, time.monotonic(), self._limits.silent_seconds
        while left:
            part = response.read1(min(left, CHUNK))
            if not part:
                raise _BrokenError(f"{left:,} of {length:,} bytes are missing")
            parts.append(part)
            left -= len(part)
            passed = time.monotonic() - began
            if passed > patience and (length - left) / passed < SLOWEST:
                raise ModelError(f"{self.name}: the server sends less than {SLOWEST:,} bytes a second")
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _origin(parts: urllib.parse.SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port
