"""A web server on this machine that can be told to behave badly, and logs what it sent."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: Ways to behave: as asked, without ranges, with ranges that are not those asked for, and so on.
(
    RANGES,
    WHOLE,
    OTHER_RANGE,
    LONGER_FILE,
    CHANGING,
    HALF,
    WRONG_LENGTH,
    NO_RANGE_NAMED,
    LOGIN,
    SLOW_HEADERS,
    SLOW_BODY,
) = range(11)


@dataclass
class Web:
    """A running server."""

    url: str = ""
    mode: int = RANGES
    #: Path -> where a request for it is sent.
    moved: dict[str, str] = field(default_factory=dict)
    #: Seconds before each answer.
    pause: float = 0
    #: Bytes of bodies sent, and one line for each request.
    sent: int = 0
    log: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)


@contextlib.contextmanager
def serving(folder: Path, mode: int = RANGES) -> Iterator[Web]:
    """A server of the files in a folder."""
    web = Web(mode=mode)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def body(self, data: bytes) -> None:
            with contextlib.suppress(OSError):
                for at in range(0, len(data), 1 << 16):
                    web.sent += len(data[at : at + (1 << 16)])  # before the client can go on
                    self.wfile.write(data[at : at + (1 << 16)])

        def nothing(self, status: int, **headers: str) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            asked = self.headers.get("Range", "")
            web.log.append(f"{path} {asked}")
            web.logins.append(self.headers.get("Authorization"))
            time.sleep(web.pause)
            if path in web.moved:
                return self.nothing(302, Location=web.moved[path])
            file = folder / path.lstrip("/")
            if web.mode == LOGIN and not self.headers.get("Authorization"):
                return self.nothing(401)
            if not file.is_file():
                return self.nothing(404)
            size = file.stat().st_size
            if web.mode == SLOW_HEADERS:
                with contextlib.suppress(OSError):
                    for byte in b"HTTP/1.1 206 Partial Content\r\n" + 1000 * b"X-Wait: a\r\n":
                        self.wfile.write(bytes([byte]))
                        time.sleep(0.05)
                self.close_connection = True
                return None
            if web.mode == WHOLE or not asked:
                self.send_response(200)
                self.send_header("Content-Length", str(size))
                self.end_headers()
                with open(file, "rb") as opened:
                    return self.body(opened.read(1 << 26))
            first, last = (int(text) for text in asked.removeprefix("bytes=").split("-"))
            if first >= size:
                return self.nothing(416, Content_Range=f"bytes */{size}")
            last = min(last, size - 1)
            with open(file, "rb") as opened:
                opened.seek(first)
                data = opened.read(last + 1 - first)
            told = (first, last, size)
            if web.mode == OTHER_RANGE:
                told = (first + 1, last, size)
            elif web.mode == LONGER_FILE:
                told = (first, last, size + 1000)
            elif web.mode == CHANGING:
                told = (first, last, size + len(web.log))
            self.send_response(206)
            if web.mode != NO_RANGE_NAMED:
                self.send_header("Content-Range", "bytes {}-{}/{}".format(*told))
            self.send_header("Content-Length", str(len(data) + 10**12 * (web.mode == WRONG_LENGTH)))
            self.end_headers()
            if web.mode == SLOW_BODY:
                with contextlib.suppress(OSError):
                    for byte in data:
                        self.wfile.write(bytes([byte]))
                        time.sleep(0.05)
                return None
            if web.mode == HALF:
                self.body(data[: len(data) // 2])
                self.close_connection = True
                return None
            return self.body(data)

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that hangs up is no news."""

    server = Quiet(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    web.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
