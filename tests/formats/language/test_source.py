"""Configurations on a hub: from its cache, else by one request."""

from __future__ import annotations

import json
import os
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
        name = self.path.removeprefix("http://hub.invalid").split("/")[2]
        if name == "old":
            self.send_response(307)
            self.send_header("Location", "/org/name/resolve/main/config.json")
            self.end_headers()
            return
        token = self.headers.get("Authorization")
        codes = {"name": 200, "page": 200, "gated": 403 if token else 401, "busy": 503}
        if (code := codes.get(name, 404)) != 200:
            self.send_error(code)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>" if name == "page" else json.dumps(LLAMA).encode())

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


#: The name -> what the hub answers, in the words of the line.
REFUSED = {
    "org/other": r"HTTP 404: no model of that name, or none with such a file",
    "org/gated": r"HTTP 401: no model of that name, or one whose terms must be accepted: set HF_TOKEN",
    "org/page": r"what the hub sent is not JSON",
    "org/busy": r"HTTP 503",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_one_line(hub: list[tuple[str, str]], name: str) -> None:
    with pytest.raises(flopwise.ModelError, match=rf"hf:{name}: is not in the cache .* \({REFUSED[name]}\)") as caught:
        flopwise.llm(f"hf:{name}", prompt=8)
    assert "\n" not in str(caught.value)


def test_a_token_that_does_not_open_it(hub: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "another")
    with pytest.raises(flopwise.ModelError, match=r"HTTP 403: HF_TOKEN does not open it"):
        flopwise.llm("hf:org/gated", prompt=8)


def test_a_model_that_has_another_name_now(hub: list[tuple[str, str]]) -> None:
    assert flopwise.llm("hf:org/old", prompt=8, generate=1).params == 102_720


def test_no_hub(hub: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(flopwise.ModelError, match=r"\(HF_HUB_OFFLINE keeps the hub's client offline\)"):
        flopwise.llm("hf:org/name", prompt=8)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(flopwise.ModelError, match=r"the hub cannot be reached: Connection refused"):
        flopwise.llm("hf:org/name", prompt=8)


def test_a_proxy_is_asked_where_one_is_set(hub: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", os.environ["HF_ENDPOINT"])
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setattr("urllib.request._opener", None)  # which remembers the proxies of its first request
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    assert flopwise.llm("hf:org/name", prompt=8, generate=1).params == 102_720
    assert hub[0][0] == "http://hub.invalid/org/name/resolve/main/config.json"


def test_the_cache_of_the_hub_is_read_where_it_is(hub: list[tuple[str, str]], tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--org--cached"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0123abcd")
    snapshot = folder / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(LLAMA))
    assert flopwise.profile("hf:org/cached", {"input_ids": (1, 8)}).total("params") == 102_720
    assert not hub
