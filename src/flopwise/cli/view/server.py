"""The server of ``flopwise view``: the page and its answers, on the loopback address, for who knows the token.

It answers requests that name this machine as their host and come from its own page; it writes dropped files, in pieces,
to a temporary folder and nothing else. Commands run one at a time in a child process, which a request can end.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from urllib.parse import parse_qs, unquote, urlsplit

from flopwise._child import Child, LostError
from flopwise._results import Json
from flopwise.cli.view.drops import PAGE, PIECE, Drops, located
from flopwise.cli.view.tabs import described
from flopwise.errors import FlopwiseError, InputError, one_line
from flopwise.report.html.view import LOCAL, render_view

#: The only address that it listens on.
HOST = "127.0.0.1"

#: Bytes of a question at most, seconds that a client may stay silent, and those that a command may take.
QUESTION, SILENT, WORKING = 1 << 16, 30, 600


class Viewer:
    """The page of one start of ``flopwise view``: its models, its files, and the child process that answers it.

    Args:
        models: names of models as on the command line, which the page has from the start.
    """

    def __init__(self, models: Sequence[str]) -> None:
        self.models = models
        self.token = secrets.token_urlsafe(24)
        #: What leads to the page once: a browser is started with it, and every user may read its command line.
        self.ticket = secrets.token_urlsafe(24)
        self.drops = Drops()
        self._page = render_view(LOCAL, {"drops": 0, "tabs": described(), "given": models}).encode()
        self._pages = itertools.count()
        self._home = os.getcwd()
        self._child: Child | None = None
        self._one, self._turn = threading.Lock(), threading.Lock()

    def page(self) -> bytes:
        """The page for one more tab of the browser, which numbers its drops apart from those of the others."""
        first = next(self._pages) * PAGE
        self.drops.numbers = max(self.drops.numbers, first + PAGE)
        return self._page.replace(b'"drops":0,', b'"drops":%d,' % first, 1)

    def takes(self, ticket: str) -> bool:
        """True for the ticket, which is then of no use any more."""
        with self._turn:
            valid = bool(self.ticket) and secrets.compare_digest(ticket.encode(), self.ticket.encode())
            self.ticket = "" if valid else self.ticket
        return valid

    def ask(self, question: Json) -> Json:
        """The answer to a question of the page (see ``answers.respond``), whose files are ``{"given": N}`` or
        ``{"drop": N, "name": NAME}``.

        Raises:
            InputError: it names a file that is not there.
        """
        key = "kinds" if "kinds" in question else "files"
        files = question.get(key)
        if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
            raise InputError("a question has a list of files")
        folder, names = self._located(files)
        with self._one:
            self._child = self._child or Child("flopwise.cli.view.answers:serve")
            try:
                self._child.send({**question, key: names, "folder": folder}, WORKING)
                answer: Json = self._child.receive(WORKING)
                return answer
            except LostError as error:
                self.stop()
                raise InputError(f"no answer: {one_line(error)}") from error

    def _located(self, files: Sequence[Json]) -> tuple[str, list[str]]:
        """The folder for a command, and the names of files from there: as dropped, or as on the command line."""
        dropped = [file for file in files if "drop" in file]
        if not all(self.drops.has(self.drops.name(file["drop"], file.get("name"))) for file in dropped):
            raise InputError("no such file on the page")
        folder, names = located(dropped)
        root = os.path.join(self.drops.folder, folder) if dropped else self._home
        rest = iter(names)
        return root, [next(rest) if "drop" in file else self._given(file, bool(dropped)) for file in files]

    def _given(self, file: Json, elsewhere: bool) -> str:
        """A model of the command line; a command in another folder needs the whole path of a file."""
        place = file.get("given")
        if type(place) is not int or not 0 <= place < len(self.models):
            raise InputError("no such file on the page")
        path = os.path.join(self._home, self.models[place])
        return path if elsewhere and os.path.exists(path) else self.models[place]

    def stop(self) -> None:
        """End what is being computed."""
        if (child := self._child) is not None:
            self._child = None
            child.end()

    def close(self) -> None:
        """End the child process and remove what was dropped."""
        self.stop()
        self.drops.remove()


class Server(ThreadingHTTPServer):
    """The server of a viewer; port 0 is any that is free.

    Raises:
        InputError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, viewer: Viewer, port: int = 0) -> None:
        self.viewer = viewer
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise InputError(f"--port {port}: cannot be used ({error.strerror})") from error

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}/{self.viewer.token}/"

    @property
    def entrance(self) -> str:
        """An address that leads to the page once."""
        return f"http://{HOST}:{self.server_port}/{self.viewer.ticket}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is no error: it is not printed."""


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "flopwise", ""
    timeout = SILENT

    def do_GET(self) -> None:
        self._answer({"": self._page})

    def do_PUT(self) -> None:
        self._answer({"files": self._piece})

    def do_POST(self) -> None:
        self._answer({"ask": self._ask, "stop": self._stop})

    def _answer(self, resources: dict[str, Callable[[], None]]) -> None:
        """Answer a request, if it is one of the page's own."""
        parts = urlsplit(self.path)
        token, _, rest = parts.path.removeprefix("/").partition("/")
        resource, _, self.rest = rest.partition("/")
        self.query = parse_qs(parts.query)
        own = (f"{HOST}:{self.server.server_port}", f"localhost:{self.server.server_port}")
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        foreign = origin != f"http://{host}" if origin or self.command != "GET" else False
        if host not in own or foreign:
            self._send(403, b"this address is for the page that flopwise view has opened")
        elif self.command == "GET" and rest == "" and self.server.viewer.takes(token):
            self._send(303, more={"Location": f"/{self.server.viewer.token}/"})
        elif not secrets.compare_digest(token.encode(), self.server.viewer.token.encode()) or resource not in resources:
            self._send(404, b"not found")
        else:
            try:
                resources[resource]()
            except FlopwiseError as error:
                self._send(400, one_line(error).encode())

    def _page(self) -> None:
        self._send(200, self.server.viewer.page(), "text/html; charset=utf-8")

    def _piece(self) -> None:
        drop, _, name = self.rest.partition("/")
        offset = self.query.get("at", [""])[0]
        body = self._body(PIECE)
        if body is None:
            return
        if not (drop.isdecimal() and offset.isdecimal() and len(drop) < 9 and len(offset) < 16):
            raise InputError("a piece has the number of its drop and its offset")
        self.server.viewer.drops.append(int(drop), unquote(name), int(offset), body)
        self._send(204)

    def _ask(self) -> None:
        body = self._body(QUESTION)
        if body is None:
            return
        try:
            question = json.loads(body)
        except (ValueError, RecursionError):
            question = None
        if not isinstance(question, dict):
            raise InputError("a question is a JSON object")
        self._send(200, json.dumps(self.server.viewer.ask(question)).encode(), "application/json")

    def _stop(self) -> None:
        if self._body(0) is not None:
            self.server.viewer.stop()
            self._send(204)

    def _body(self, most: int) -> bytes | None:
        """The body of the request; None where its length is missing or too large, which is answered."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()) or "Transfer-Encoding" in self.headers:
            self._send(411, b"a request has a length")
            return None
        if len(length) > 12 or int(length) > most:
            self._send(413, f"at most {most:,} bytes at a time".encode())
            return None
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self._send(400, b"a request ends before its length")
            return None
        return body

    def _send(
        self,
        status: int,
        body: bytes = b"",
        kind: str = "text/plain; charset=utf-8",
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.send_response(status)
        if status >= 400:
            self.close_connection = True
            self.send_header("Connection", "close")
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": "frame-ancestors 'none'",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            **more,
        }.items():
            if status != 204 or name != "Content-Length":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not printed: their paths hold the token."""
