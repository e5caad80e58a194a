"""Metrics as the engines' documentation shows them, of a text and of a server, without waiting."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import threading
import time
from collections.abc import Iterator

import pytest

from flopwise._limits import limits
from flopwise.analyses.llm.serving.log import counters_of, scraped, watched
from flopwise.errors import InputError, ModelError

#: https://docs.sglang.io/references/production_metrics.html
SGLANG = """\
# HELP sglang:prompt_tokens_total Number of prefill tokens processed.
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{{model_name="meta-llama/Llama-3.1-8B-Instruct"}} 8.128902e+06
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{{model_name="meta-llama/Llama-3.1-8B-Instruct"}} {}
sglang:token_usage{{model_name="meta-llama/Llama-3.1-8B-Instruct"}} 0.28
sglang:num_running_reqs{{model_name="meta-llama/Llama-3.1-8B-Instruct"}} 1.0
"""

#: The names of https://docs.vllm.ai/en/latest/design/metrics.html, of two engines.
VLLM = """\
vllm:num_requests_running{{engine="0",model_name="m"}} 12.0
vllm:num_requests_running{{engine="1",model_name="m}}"}} 10.0
vllm:prompt_tokens_total{{engine="0",model_name="m"}} {0}
vllm:prompt_tokens_total{{engine="1",model_name="m"}} {0} 1395066363000
vllm:prompt_tokens_created{{engine="0",model_name="m"}} 1.7e+09
vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} {1}
vllm:generation_tokens_total{{engine="0",model_name="m"}} {2}
"""


def test_minutes_of_vllm_are_the_differences_of_all_engines_without_what_was_cached() -> None:
    pages: Iterator[str] = iter(
        [VLLM.format(*counts) for counts in ((1000, 0, 50), (1500, 300, 650), (1500, 300, 650))]
    )
    waited: list[float] = []
    log = watched("http://host/metrics", 2, lambda url: next(pages), waited.append)
    assert [(one.prompt, one.generated, one.running) for one in log.works] == [(700, 600, 22), (0, 0, 22)]
    assert (log.engine, waited) == ("vLLM", [60.0, 60.0])


def test_counters_of_sglang() -> None:
    counters = counters_of(SGLANG.format("7.557572e+06"), "page", datetime.datetime(2026, 1, 1))
    assert (counters.prompt, counters.generated, counters.running) == (8128902, 7557572, 1)


def test_refusals() -> None:
    pages = iter([SGLANG.format(900), SGLANG.format(20)])
    with pytest.raises(ModelError, match="counters fell"):
        watched("http://host/metrics", 1, lambda url: next(pages), lambda seconds: None)
    with pytest.raises(ModelError, match=r"http://host/metrics: no metrics of vLLM or SGLang"):
        watched("http://me:secret@host/metrics?key=1", 1, lambda url: "up 1\n", lambda seconds: None)
    with pytest.raises(InputError, match="--minutes 0"):
        watched("http://host/metrics", 0)
    with pytest.raises(InputError, match="begins with http"):
        scraped("file:///etc/passwd")


class Engine(http.server.BaseHTTPRequestHandler):
    """A server as engines are, and as they should not be."""

    asked = 0

    def do_GET(self) -> None:
        page = self.path.strip("/")
        if page in ("vllm", "sglang"):
            Engine.asked += 1
            text = VLLM.format(1000 * Engine.asked, 0, 50 * Engine.asked) if page == "vllm" else SGLANG.format(7.5e6)
            self._answer(200, text.encode())
        elif page == "moved":
            self.send_response(302)
            self.send_header("Location", "/vllm")
            self.end_headers()
        elif page == "silent":
            time.sleep(1)
        elif page == "head":  # a byte at a time, before there is a status
            with contextlib.suppress(OSError):
                for byte in b"HTTP/1.1 200 OK\r\nX: " + b"a" * 40:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.02)
        elif page == "unsized":
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(40):
                    self.wfile.write(b"#")
                    time.sleep(0.02)
        else:  # no end: fast, or a byte at a time
            self.send_response(200)
            self.send_header("Content-Length", str(10 << 30))
            self.end_headers()
            part = b"#" if page == "drops" else bytes(1 << 20)
            with contextlib.suppress(OSError):
                for _ in range(40 if page == "drops" else 10 << 10):
                    self.wfile.write(part)
                    time.sleep(0.02 if page == "drops" else 0)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """The URL of a running server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_running_server_of_each_engine(engine: str) -> None:
    log = watched(f"{engine}/vllm", 2, wait=lambda seconds: None)
    assert [(one.prompt, one.generated, one.running) for one in log.works] == [(2000, 50, 22)] * 2
    assert watched(f"{engine}/sglang", 1, wait=lambda seconds: None).engine == "SGLang"


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("moved", "the server answers with HTTP 302, not with metrics"),
        ("silent", "no answer"),
        ("head", "no answer within 0.3 seconds (the limit request_seconds)"),
        ("unsized", "more than 16,777,216 bytes, or too slow, for a page of metrics"),
        ("drops", "more than 16,777,216 bytes, or too slow, for a page of metrics"),
        ("endless", "more than 16,777,216 bytes, or too slow, for a page of metrics"),
    ],
)
def test_servers_that_are_no_engines(engine: str, page: str, line: str) -> None:
    with limits(request_seconds=0.3, silent_seconds=0.3), pytest.raises(ModelError) as caught:
        scraped(f"{engine}/{page}")
    assert str(caught.value).startswith(f"{engine}/{page}: {line}")
    assert "\n" not in str(caught.value)
