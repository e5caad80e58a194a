"""Configurations on a hub: from its cache, else by one request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.language_models import LLAMA

import flopwise


class _Hub(BaseHTTPRequestHandler):
    asked: list[tuple[str, str]] = []  # noqa: RUF012 - of one test at a time

    def do_GET(self) -> None:  # the name is that of the protocol
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        if self.path != "/org/name/resolve/main/config.json":
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(LLAMA).encode())

    def log_message(self, *arguments: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[tuple[str, str]]]:
    server = HTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    _Hub.asked.clear()
    yield _Hub.asked
    server.shutdown()


def test_a_configuration_takes_one_request(hub: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert flopwise.llm("hf:org/name", prompt=8, generate=1).params == 102_720
    assert hub == [("/org/name/resolve/main/config.json", "Bearer secret")]


def test_what_is_not_there_is_one_line(hub: list[tuple[str, str]]) -> None:
    with pytest.raises(flopwise.ModelError, match=r"hf:org/other: is not in the cache .* \(HTTP 404\)"):
        flopwise.llm("hf:org/other", prompt=8)


def test_the_cache_of_the_hub_is_read_where_it_is(hub: list[tuple[str, str]], tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--org--cached"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0123abcd")
    snapshot = folder / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(LLAMA))
    assert flopwise.profile("hf:org/cached", {"input_ids": (1, 8)}).total("params") == 102_720
    assert not hub
