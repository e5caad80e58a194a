"""A web server on this machine that lies: about lengths, ranges, statuses, types and places, as bytes tell it.

Each answer takes the next bytes of the input as its choices; when they run out, the server is honest. It waits nowhere
for long, so that what it can do to a client in a second shows.
"""

from __future__ import annotations

import contextlib
import gzip
import http.server
import re
import socket
import threading
import time
from collections.abc import Callable

#: Seconds that an answer may be held up in all.
HELD = 0.4

#: What a header may hold.
VALUES: tuple[bytes, ...] = (
    b"",
    b"0",
    b"-1",
    b"1e9",
    b"99999999999999999999",
    b"7, 7",
    b"bytes */0",
    b"bytes 0-0/1",
    b"bytes 0-99/*",
    b"bytes 5-2/9",
    b"bytes 0-18446744073709551615/18446744073709551616",
    b"\xff\xfe\x00\x1b[2J",
    b"a" * 70_000,
)

#: Where it may redirect to.
PLACES: tuple[bytes, ...] = (
    b"/model",
    b"/other",
    b"",
    b"file:///etc/passwd",
    b"//[::1",
    b"http://127.0.0.1:1/",
    b"http://127.0.0.1:99999/",
    b"http://user:secret@127.0.0.1:1/x",
    b"gopher://x/",
    b"\x1b]0;x\x07",
)

STATUSES = (
    100,
    101,
    103,
    200,
    203,
    204,
    206,
    301,
    302,
    307,
    308,
    304,
    400,
    401,
    403,
    404,
    416,
    418,
    429,
    500,
    503,
    999,
)


class Choices:
    """The bytes of an input as choices."""

    def __init__(self, data: bytes) -> None:
        self._bytes = iter(data)

    def __call__(self, most: int) -> int:
        """A number from 0 to most - 1; 0, the honest one, when there are no bytes left."""
        return next(self._bytes, 0) % most


class LyingServer:
    """The server; one for a process, as ports are few."""

    def __init__(self) -> None:
        self.choices = Choices(b"")
        self.file = b""
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 2

            def do_GET(self) -> None:
                with contextlib.suppress(OSError):
                    server.answer(self)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda request, address: None  # type: ignore[method-assign,assignment] # no noise
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/model"

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        """One answer: honest but for what the choices change."""
        choose = self.choices
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        start, end = (int(asked[1]), int(asked[2]) + 1) if asked else (0, len(self.file))
        end = min(end, len(self.file))
        status, body = 206, self.file[start:end]
        headers: dict[bytes, bytes] = {
            b"Content-Range": b"bytes %d-%d/%d" % (start, end - 1, len(self.file)),
            b"Content-Length": b"%d" % len(body),
            b"Content-Type": b"application/octet-stream",
        }
        lie = choose(16)
        if lie == 1:
            status = STATUSES[choose(len(STATUSES))]
        elif lie == 2:
            headers[b"Content-Length"] = VALUES[choose(len(VALUES))]
        elif lie == 3:
            headers[b"Content-Range"] = VALUES[choose(len(VALUES))]
        elif lie == 4:
            body = body[: choose(256) * len(body) // 256]
        elif lie == 5:
            body += bytes(choose(256) * 4096)
        elif lie == 6:
            status = (301, 302, 303, 307, 308)[choose(5)]
            headers[b"Location"] = PLACES[choose(len(PLACES))]
        elif lie == 7:
            headers[b"Content-Encoding"] = (b"gzip", b"deflate", b"br", b"identity", b"gzip, gzip")[choose(5)]
            body = gzip.compress(bytes(1 << 20)) if choose(2) else body
        elif lie == 8:
            headers[b"Transfer-Encoding"] = b"chunked"
            size = (b"%x" % len(body), b"ffffffffffffffff", b"-1", b"zz", b"0")[choose(5)]
            body = size + b"\r\n" + body + b"\r\n0\r\n\r\n"
            if choose(2):
                del headers[b"Content-Length"]
        elif lie == 9:
            del headers[(b"Content-Range", b"Content-Length")[choose(2)]]
        elif lie == 10:
            at, change = choose(256), choose(256)
            body = bytes(byte ^ change if i % 256 == at else byte for i, byte in enumerate(body))
        elif lie == 11:
            headers[b"Content-Range"] = b"bytes %d-%d/%d" % (start, end - 1, len(self.file) + choose(256) - 128)
        elif lie == 12:
            headers[b"X" * (1 + choose(256))] = VALUES[choose(len(VALUES))]
        elif lie == 13:
            for number in range(choose(256)):
                headers[b"X-%d" % number] = b"y"
        elif lie == 14:
            self._send(request, VALUES[choose(len(VALUES))] + b"\r\n\r\n")
            request.close_connection = True
            return
        head = b"HTTP/1.1 %d OK\r\n" % status
        whole = head + b"".join(b"%b: %b\r\n" % item for item in headers.items()) + b"\r\n" + body
        way = choose(8)
        if way == 1:  # disconnects in the middle
            whole = whole[: choose(256) * len(whole) // 256]
            request.close_connection = True
        elif way == 2:  # drips
            end_of_drip, step = time.monotonic() + HELD, 1 + choose(64)
            for at in range(0, len(whole), step):
                if time.monotonic() > end_of_drip:
                    break
                self._send(request, whole[at : at + step])
                time.sleep(0.005)
            request.close_connection = True
            return
        elif way == 3:  # resets
            self._send(request, whole[: choose(256)])
            with contextlib.suppress(OSError):
                request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                request.connection.close()
            request.close_connection = True
            return
        elif way == 4:  # says nothing for a while
            time.sleep(HELD)
        self._send(request, whole)

    def _send(self, request: http.server.BaseHTTPRequestHandler, data: bytes) -> None:
        request.wfile.write(data)
        request.wfile.flush()


_RUNNING: list[LyingServer] = []


def with_lies(file: bytes, read: Callable[[str], None], data: bytes) -> None:
    """Read a file from the server while it lies as the bytes tell it."""
    if not _RUNNING:
        _RUNNING.append(LyingServer())
    server = _RUNNING[0]
    server.file, server.choices = file, Choices(data)
    read(server.url)
