"""The server of ``flopwise view``: its own page gets answers, and nobody and nothing else gets anything."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import flopwise
from flopwise.cli.view import drops
from flopwise.cli.view.server import Server, Viewer
from flopwise.errors import InputError
from flopwise.report.formats.json import render_content

RESNET = "examples/tiny_resnet.onnx"
PROFILE = {"tab": "profile", "options": {}, "format": "json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:  # a folder that no other program writes to
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("view")))
        viewer = Viewer([RESNET])
    with Server(viewer) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving
        serving.shutdown()
    viewer.close()
    assert not os.path.exists(viewer.drops.folder)


def call(server: Server, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, Any]:
    """Status, body and headers of a request; a path that begins with * stands behind the token."""
    own = {"Origin": f"http://127.0.0.1:{server.server_port}"} if method != "GET" else {}
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    with contextlib.closing(connection):
        path = path.replace("*", f"/{server.viewer.token}/", 1)
        connection.request(method, path, body, {**own, **{k.replace("_", "-"): v for k, v in headers.items()}})
        reply: HTTPResponse = connection.getresponse()
        return reply.status, reply.read(), reply.headers


def ask(server: Server, question: Any) -> Any:
    status, body, _ = call(server, "POST", "*ask", json.dumps(question).encode())
    return json.loads(body) if status == 200 else body.decode()


def put(server: Server, name: str, data: bytes, at: int = 0) -> int:
    return call(server, "PUT", f"*files/{name}?at={at}", data)[0]


def test_the_page_comes_with_its_policy(server: Server) -> None:
    status, body, headers = call(server, "GET", "*")
    assert (status, headers["Cache-Control"], headers["X-Content-Type-Options"]) == (200, "no-store", "nosniff")
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    page = body.decode()
    policy = page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert "default-src &#x27;none&#x27;" in policy
    assert "connect-src &#x27;self&#x27;" in policy
    assert RESNET in page
    assert server.viewer.token not in page


def test_files_that_two_tabs_of_the_browser_drop_lie_apart(server: Server) -> None:
    firsts = [int(call(server, "GET", "*")[1].partition(b'"drops":')[2].partition(b",")[0]) for _ in range(2)]
    assert firsts[1] == firsts[0] + 100
    for first, name in zip(firsts, (RESNET, "examples/custom_op.onnx"), strict=True):
        assert put(server, f"{first}/model.onnx", Path(name).read_bytes()) == 204
    for first, macs in zip(firsts, (1_859_904, 640), strict=True):
        answer = ask(server, {**PROFILE, "files": [{"drop": first, "name": "model.onnx"}]})
        assert json.loads(answer["text"])["totals"]["macs"] == macs


def test_a_page_that_is_loaded_often_takes_files_still(server: Server) -> None:
    for _ in range(12):
        first = int(call(server, "GET", "*")[1].partition(b'"drops":')[2].partition(b",")[0])
    assert put(server, f"{first + 99}/model.onnx", b"x") == 204
    assert put(server, f"{first + 100}/model.onnx", b"x") == 400  # nobody has been given that number


def test_a_browser_is_started_with_an_address_that_leads_to_the_page_once(server: Server) -> None:
    assert server.viewer.token not in server.entrance
    path = urlsplit(server.entrance).path
    assert call(server, "POST", path, b"{}")[0] == 404
    assert call(server, "GET", path, Host="evil.example")[0] == 403
    status, _, headers = call(server, "GET", path)
    assert (status, headers["Location"]) == (303, f"/{server.viewer.token}/")
    assert call(server, "GET", path)[0] == 404
    assert call(server, "GET", "//")[0] == 404


def test_a_model_of_the_command_line_and_a_dropped_one_have_the_same_figures(server: Server) -> None:
    expected = flopwise.profile(RESNET).to_dict()
    given = ask(server, {**PROFILE, "files": [{"given": 0}]})
    assert given["text"] == render_content(expected)
    assert given["command"] == f"flopwise profile -f json {RESNET}"
    data = Path(RESNET).read_bytes()
    assert put(server, "0/mine%20%281%29.onnx", data[:100_000]) == 204
    assert put(server, "0/mine%20%281%29.onnx", data[100_000:], at=100_000) == 204
    dropped = ask(server, {**PROFILE, "files": [{"drop": 0, "name": "mine (1).onnx"}]})
    document = json.loads(dropped["text"])
    assert document["model"]["source"] == "mine (1).onnx"
    assert {**document, "model": expected["model"]} == expected
    assert ask(server, {"kinds": [{"given": 0}, {"drop": 0, "name": "mine (1).onnx"}]}) == {"kinds": ["model", "model"]}
    pair = ask(server, {**PROFILE, "tab": "compare", "files": [{"given": 0}, {"drop": 0, "name": "mine (1).onnx"}]})
    assert pair["code"] == 0


def test_files_of_one_drop_lie_together(server: Server) -> None:
    pytest.importorskip("onnx")
    import numpy
    from onnx import TensorProto, helper, numpy_helper, save

    folder = Path(server.viewer.drops.folder).parent / f"{os.getpid()}-external"
    folder.mkdir()
    weight = numpy_helper.from_array(numpy.ones((64, 64), numpy.float32), "w")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [weight])
    try:
        save(
            helper.make_model(graph),
            folder / "net.onnx",
            save_as_external_data=True,
            location="net.data",
            size_threshold=0,
        )
        for file in sorted(folder.iterdir()):
            assert put(server, f"7/{file.name}", file.read_bytes()) == 204
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    answer = ask(server, {**PROFILE, "tab": "weights", "files": [{"drop": 7, "name": "net.onnx"}]})
    assert (answer["code"], answer["error"]) == (0, "")
    assert json.loads(answer["text"])["model"]["source"] == "net.onnx"


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "*", {"Host": "example.org"}),
        ("GET", "*", {"Host": "127.0.0.1"}),
        ("GET", "*", {"Origin": "https://example.org"}),
        ("GET", "*", {"Origin": "null"}),
        ("POST", "*ask", {"Origin": "https://example.org"}),
        ("POST", "*ask", {"Origin": "null"}),
        ("POST", "*ask", {"Origin": ""}),
        ("PUT", "*files/0/a.onnx?at=0", {"Host": "rebound.example.org"}),
    ],
)
def test_other_origins_and_other_hosts_are_refused(
    server: Server, method: str, path: str, headers: dict[str, str]
) -> None:
    status, body, _ = call(server, method, path, b"{}" if method != "GET" else None, **headers)
    assert status == 403
    assert b"flopwise view has opened" in body


def test_without_the_token_there_is_nothing(server: Server) -> None:
    token = server.viewer.token
    for path in ("/", "/ask", f"/{token[:-1]}/", f"/{token}x/", "*../etc/passwd", "*files/0/a", "*page.css"):
        assert call(server, "GET", path)[0] == 404, path
    assert call(server, "POST", f"/{token[::-1]}/ask", b"{}")[0] == 404
    assert call(server, "DELETE", "*files/0/a")[0] == 501


@pytest.mark.parametrize(
    "name",
    [
        "0/..",
        "0/.",
        "0/",
        "0/..%2Fx",
        "0/a%2Fb",
        "0/%2Fetc%2Fx",
        "0/a%5Cb",
        "0/c%3Ax",
        "0/a%00",
        "../x",
        "1e3/x",
        "-1/x",
        "9999/x",
    ],
)
def test_a_name_is_that_of_a_file_alone(server: Server, name: str) -> None:
    folder = Path(server.viewer.drops.folder)
    before = sorted(folder.rglob("*")), sorted(os.listdir(folder.parent))
    assert put(server, name, b"x") == 400
    assert (sorted(folder.rglob("*")), sorted(os.listdir(folder.parent))) == before


def test_pieces_follow_each_other(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert put(server, "5/x.bin", b"123") == 204
    assert put(server, "5/x.bin", b"4", at=2) == 400
    assert put(server, "5/x.bin", b"4", at=4) == 400
    assert put(server, "5/x.bin", b"4", at=3) == 204
    assert put(server, "5/y.bin", b"4", at=3) == 400
    monkeypatch.setattr(drops, "TOTAL", 1000)
    status, body, _ = call(server, "PUT", "*files/5/z.bin?at=0", bytes(1001))
    assert (status, b"are not copied" in body) == (400, True)


def test_requests_of_ten_gigabytes_are_not_read(server: Server) -> None:
    ten = str(10 << 30)
    for path, method in (("files/0/big.onnx?at=0", "PUT"), ("ask", "POST"), ("stop", "POST")):
        for header, status in (
            (f"Content-Length: {ten}", 413),
            (f"Content-Length: {ten * 9}", 413),
            ("Content-Length: -1", 411),
            ("Transfer-Encoding: chunked", 411),
        ):
            with socket.create_connection(("127.0.0.1", server.server_port), 30) as client:
                own = f"127.0.0.1:{server.server_port}"
                lines = (
                    f"{method} /{server.viewer.token}/{path} HTTP/1.1",
                    f"Host: {own}",
                    f"Origin: http://{own}",
                    header,
                )
                client.sendall("\r\n".join((*lines, "", "")).encode())
                assert client.recv(100).split()[1] == str(status).encode(), (path, header)


def test_a_question_that_is_none_is_one_line(server: Server) -> None:
    for body in (
        b"",
        b"[",
        b"[]",
        b"{}",
        b'{"files": 1}',
        b'{"files": [1]}',
        b"[" * 60_000,
        b'{"files": [{"given": 1}]}',
    ):
        status, text, _ = call(server, "POST", "*ask", body)
        assert (status, text.count(b"\n")) == (400, 0), body[:40]
    for file in ({"drop": 0, "name": "../x"}, {"drop": 0, "name": "not there"}, {"given": -1}, {"given": True}, {}):
        assert "file" in ask(server, {**PROFILE, "files": [file]}), file
    assert put(server, "8/damaged.onnx", b"\x08\x07\xff\xff") == 204
    answer = ask(server, {**PROFILE, "files": [{"drop": 8, "name": "damaged.onnx"}]})
    assert (answer["code"], answer["text"]) == (2, "")
    assert answer["error"].startswith("damaged.onnx: ")


def test_what_is_computed_can_be_stopped(server: Server) -> None:
    assert ask(server, {"kinds": [{"given": 0}]}) == {"kinds": ["model"]}
    assert call(server, "POST", "*stop", b"")[0] == 204
    assert ask(server, {"kinds": [{"given": 0}]}) == {"kinds": ["model"]}


def test_a_port_that_is_taken_is_one_line(server: Server) -> None:
    with pytest.raises(InputError, match="cannot be used"):
        Server(server.viewer, server.server_port)
