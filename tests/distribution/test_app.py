"""The page that needs no installation, under its real runtime: in node and in a headless Chromium.

The runtime is the npm package pyodide: ``npm install --no-save pyodide@314.0.7``, or FLOPWISE_PYODIDE names its folder.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pytest
from tests.report.html.browser import Page, open_browser

ROOT = Path(__file__).parents[2]
RESNET = ROOT / "examples" / "tiny_resnet.onnx"
PYODIDE = Path(os.environ.get("FLOPWISE_PYODIDE", ROOT / "node_modules" / "pyodide"))

pytestmark = pytest.mark.skipif(not (PYODIDE / "pyodide.mjs").exists(), reason="needs the npm package pyodide")

#: Answers in node: the runtime, the folder of the page, that of the models, the questions.
NODE = """
import fs from "fs";
const [runtime, app, models, ...questions] = process.argv.slice(2);
const { loadPyodide } = await import(`file://${runtime}/pyodide.mjs`);
const python = await loadPyodide();
python.unpackArchive(fs.readFileSync(`${app}/flopwise.zip`).buffer, "zip", { extractDir: "/lib/app" });
python.FS.mkdirTree("/drops/0");
for (const name of fs.readdirSync(models))
  python.FS.writeFile(`/drops/0/${name}`, fs.readFileSync(`${models}/${name}`));
const respond = python.runPython("import sys; sys.path.append('/lib/app'); import json\\n"
  + "from flopwise.cli.view.answers import respond_in\\n"
  + "lambda text: json.dumps(respond_in('/drops', json.loads(text)))");
process.stdout.write(JSON.stringify(questions.map((question) => JSON.parse(respond(question)))));
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("app")
    build = [sys.executable, str(ROOT / "packaging" / "app.py"), str(PYODIDE), str(folder)]
    subprocess.run(build, check=True, timeout=600)
    return folder


class _Files(SimpleHTTPRequestHandler):
    """Files of the page, as any server of files hands them out."""

    extensions_map: ClassVar = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}
    timeout = 60

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture(scope="module")
def server(app: Path) -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(app))) as serving:
        serving.daemon_threads = True
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving
        serving.shutdown()


@pytest.fixture(scope="module")
def page(server: ThreadingHTTPServer) -> Iterator[Page]:
    browser = open_browser()
    opened = Page.at(browser, f"http://127.0.0.1:{server.server_port}/")
    opened.wait("document.getElementById('drop-state').hidden")
    yield opened
    browser.quit()


def printed(tab: str, model: Path) -> str:
    """What the command line prints in the folder of a model."""
    line = [sys.executable, "-m", "flopwise", tab, model.name, "-f", "json"]
    return subprocess.run(line, cwd=model.parent, capture_output=True, text=True, check=True, timeout=60).stdout


def ask(page: Page, tab: str, name: str) -> Any:
    question = {"tab": tab, "files": [{"drop": 0, "name": name}], "options": {}, "format": "json"}
    asking = "flopwise.service.ask(arguments[0]).then(arguments[1], (error) => arguments[1]({ error: error.message }))"
    return page.browser.execute_async_script(asking, question)


def drop(page: Page, *files: Path) -> None:
    page.browser.find_element("css selector", "#pick").send_keys("\n".join(map(str, files)))


def sparse(path: Path, nbytes: int) -> None:
    """An ONNX model with one product, whose weight takes so many bytes that no disk has to hold."""

    def field(number: int, data: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(data)) + data

    def varint(value: int) -> bytes:
        return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])

    def port(number: int, name: str, width: int) -> bytes:
        dims = b"".join(field(1, b"\x08" + varint(size)) for size in (1, width))
        return field(number, field(1, name.encode()) + field(2, field(1, b"\x08\x01" + field(2, dims))))

    columns = nbytes // 4 // 1024
    weight = b"\x08" + varint(1024) + b"\x08" + varint(columns) + b"\x10\x01" + field(8, b"w")
    weight += varint(9 << 3 | 2) + varint(nbytes)  # raw_data, of which nothing is written
    node = field(1, field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"MatMul"))
    before = node + varint(5 << 3 | 2) + varint(len(weight) + nbytes) + weight
    after = port(11, "x", 1024) + port(12, "y", columns)
    head = b"\x08\x08" + field(8, b"\x10\x11") + varint(7 << 3 | 2) + varint(len(before) + nbytes + len(after))
    with path.open("wb") as file:
        file.write(head + before)
        file.seek(nbytes, os.SEEK_CUR)
        file.write(after)


def files_of_every_format(folder: Path) -> dict[str, str]:
    """File -> the kind that it has in a browser."""
    from tests.tflite_models import convolution

    for name in ("tiny_resnet.onnx", "alexnet.prototxt", "tiny_llama/config.json"):
        shutil.copy(ROOT / "examples" / name, folder)
    (folder / "net.tflite").write_bytes(convolution().bytes())
    header = json.dumps({"w": {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 32]}}).encode()
    (folder / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(32))
    gguf = pytest.importorskip("gguf").GGUFWriter(folder / "w.gguf", "llama")
    gguf.add_tensor("blk.0.attn_q.weight", numpy.zeros((8, 32), numpy.float32))
    gguf.write_header_to_file()
    gguf.write_kv_data_to_file()
    gguf.write_tensors_to_file()
    gguf.close()
    models = dict.fromkeys(("tiny_resnet.onnx", "alexnet.prototxt", "net.tflite"), "model")
    return models | {"config.json": "language", "w.safetensors": "weights", "w.gguf": "weights"}


def test_answers_under_node_are_those_of_the_command_line(app: Path, tmp_path: Path) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("needs node")
    models = tmp_path / "models"
    models.mkdir()
    kinds = files_of_every_format(models)
    (tmp_path / "ask.mjs").write_text(NODE)
    questions: list[Any] = [{"kinds": [{"drop": 0, "name": name} for name in kinds]}]
    asked = [("profile", name) for name in kinds] + [("llm", "config.json")]
    for tab, name in asked:
        questions.append({"tab": tab, "files": [{"drop": 0, "name": name}], "options": {}, "format": "json"})
    line = [node, str(tmp_path / "ask.mjs"), str(PYODIDE.resolve()), str(app), str(models), *map(json.dumps, questions)]
    first, *answers = json.loads(subprocess.run(line, capture_output=True, text=True, check=True, timeout=120).stdout)
    assert first["kinds"] == list(kinds.values())
    for (tab, name), answer in zip(asked, answers, strict=True):
        assert (answer["code"], answer["error"]) == (0, ""), name
        if name == "w.gguf":  # whose architecture is read only where PyTorch is
            assert json.loads(answer["text"])["totals"]["params"] == 256
        else:
            assert answer["text"] == printed(tab, models / name), name


def test_a_dropped_model_and_one_of_more_than_a_gigabyte(page: Page, tmp_path: Path) -> None:
    large, damaged = tmp_path / "large.onnx", tmp_path / "damaged.onnx"
    sparse(large, 1_300_000_000 // 4096 * 4096)
    damaged.write_bytes(b"\x08\x07\xff\xff\xff")
    drop(page, RESNET, large, damaged)
    page.wait("document.documentElement.dataset.shown === 'compare'")
    for tab in ("profile", "memory"):
        assert ask(page, tab, RESNET.name)["text"] == printed(tab, RESNET)
    answer = ask(page, "profile", large.name)
    assert answer["text"] == printed("profile", large)
    assert json.loads(answer["text"])["totals"]["macs"] == 1_300_000_000 // 4096 * 1024
    fault = ask(page, "profile", damaged.name)
    assert (fault["code"], fault["text"], fault["error"].count("\n")) == (2, "", 0)
    assert fault["error"].startswith("damaged.onnx: ")
    page.click("#tab-profile")
    page.wait("document.documentElement.dataset.shown === 'profile'")
    assert page.faults() == []
    assert page.errors() == []


def test_files_may_come_one_after_the_other(page: Page, server: ThreadingHTTPServer) -> None:
    page.browser.get("about:blank")
    page.browser.get(f"http://127.0.0.1:{server.server_port}/")
    page.wait("document.getElementById('drop-state').hidden")
    trace = ROOT / "examples" / "classifier_trace.json.gz"
    for tab, file in (("profile", RESNET), ("profile", RESNET.parent / "alexnet.prototxt"), ("trace", trace)):
        page.run("delete document.documentElement.dataset.shown")
        drop(page, file)
        page.wait("document.documentElement.dataset.shown === arguments[0]", tab)
    question = {"tab": "compare", "files": [{"drop": 0, "name": name} for name in (RESNET.name, "alexnet.prototxt")]}
    asking = "flopwise.service.ask(arguments[0]).then(arguments[1])"
    answer = page.browser.execute_async_script(asking, {**question, "options": {}, "format": "json"})
    assert answer["command"] == "flopwise compare -f json tiny_resnet.onnx alexnet.prototxt"
    assert (answer["code"], answer["error"]) == (0, "")
    page.errors()


def test_nothing_leaves_the_page_or_its_worker(page: Page) -> None:
    fetching = "fetch('https://example.org/').then(() => 'sent', () => 'kept')"
    assert page.browser.execute_async_script(f"{fetching}.then(arguments[0])") == "kept"
    working = (
        "const code = new Blob([\"addEventListener('securitypolicyviolation', (e) => postMessage(e.violatedDirective));"
        " fetch('https://example.org/').catch(() => null)\"]);"
        "const worker = new Worker(URL.createObjectURL(code));"
        "worker.onmessage = ({ data }) => arguments[0](data)"
    )
    assert page.browser.execute_async_script(working) == "connect-src"
    hosts: list[str] = page.run("return performance.getEntriesByType('resource').map((one) => new URL(one.name).host)")
    assert set(hosts) <= {page.run("return location.host"), ""}
    page.errors()  # the violations


def test_it_works_without_a_network_once_it_is_loaded(page: Page, server: ThreadingHTTPServer) -> None:
    assert page.browser.execute_async_script("navigator.serviceWorker.ready.then(() => arguments[0](true))")
    server.shutdown()
    server.server_close()
    page.browser.get("about:blank")
    page.browser.get(f"http://127.0.0.1:{server.server_port}/")
    page.wait("document.getElementById('drop-state').hidden")
    drop(page, RESNET)
    page.wait("document.documentElement.dataset.shown === 'profile'")
    assert ask(page, "profile", RESNET.name)["text"] == printed("profile", RESNET)
