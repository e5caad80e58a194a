"""How fast the page that needs no installation answers, in a headless Chromium, and how much memory it takes.

    npm pack pyodide@314.0.7 && tar xf pyodide-314.0.7.tgz
    python packaging/app.py package app
    python benchmarks/app_speed.py app resnet50.onnx [--rounds 3]

Printed for each round: seconds from the runtime being there to the first report of a model that is dropped at once
(bar: 3); of ResNet-50, dropped on a page at rest, seconds until its JSON and until its page has been made (bar: 0.5),
and until that is drawn; the same of a sparse ONNX file of 1.3 GB (bar: 2 s), with the megabytes that the page's process
holds by itself then (bar: 300). Processor time of the page's process stands beside each: on a busy machine that is the
figure to look at.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.distribution.test_app import _Files, sparse  # noqa: E402
from tests.report.html.browser import Page, open_browser  # noqa: E402

#: Has the worker tell when the runtime is there, and the page when a report is drawn.
MARKS = """
const Whole = Blob;
const mark = "new BroadcastChannel('runtime').postMessage(Date.now()); ";
window.Blob = class extends Whole {
  constructor(parts, options) {
    super(parts.map((part) => typeof part === "string" ? part.replace("const there", mark + "$&") : part), options);
  }
};
new BroadcastChannel("runtime").onmessage = ({ data }) => { window.runtimeAt = data; };
document.addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  if (document.documentElement.dataset.shown) window.shownAt = Date.now();
}).observe(document.documentElement, { attributeFilter: ["data-shown"] }));
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", type=Path, help="the folder that packaging/app.py has written")
    parser.add_argument("resnet", type=Path, help="ResNet-50 as ONNX")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(arguments.app))) as serving:
        serving.daemon_threads = True
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        with tempfile.TemporaryDirectory() as folder:
            large = Path(folder, "large.onnx")
            sparse(large, 1_300_000_000 // 4096 * 4096)
            for _ in range(arguments.rounds):
                print("; ".join(measured(f"http://127.0.0.1:{serving.server_port}/", arguments.resnet, large)))
        serving.shutdown()


def measured(url: str, resnet: Path, large: Path) -> list[str]:
    """The figures of one round, in a browser of its own."""
    browser = open_browser()
    try:
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": MARKS})
        page = Page.at(browser, url)
        first = dropped(page, ROOT / "examples" / "tiny_resnet.onnx") - page.run("return runtimeAt / 1000")
        figures = [f"first report {first:.2f} s after the runtime"]
        for name, model in (("ResNet-50", resnet), ("1.3 GB", large)):
            browser.get(url)
            page.wait("document.getElementById('drop-state').hidden")
            asked(page, "profile", "json", "nothing")  # waits until the worker is at rest
            begun, used = time.time(), cpu(browser)
            drawn = dropped(page, model) - begun
            drawing = cpu(browser) - used
            parts = [f"drawn {drawn:.2f} s (processor {drawing:.2f})"]
            for kind in ("json", "html"):
                used = cpu(browser)
                parts.append(
                    f"{kind} {asked(page, 'profile', kind, model.name):.3f} s (processor {cpu(browser) - used:.2f})"
                )
            figures.append(f"{name}: {', '.join(parts)}")
        return [*figures, f"{held(browser) / 1e6:.0f} MB"]
    finally:
        browser.quit()


def dropped(page: Page, model: Path) -> float:
    """When the report of a model that is dropped now is drawn, in seconds of the clock."""
    page.browser.execute_script("delete document.documentElement.dataset.shown; window.shownAt = 0")
    page.browser.find_element("css selector", "#pick").send_keys(str(model.resolve()))
    page.wait("window.shownAt")
    return float(page.browser.execute_script("return shownAt / 1000"))


def asked(page: Page, tab: str, kind: str, name: str) -> float:
    """Seconds that the worker takes to answer."""
    question = {"tab": tab, "files": [{"drop": 0, "name": name}], "options": {}, "format": kind}
    script = (
        "const [question, done] = arguments, begun = performance.now();"
        "flopwise.service.ask(question).then(() => done(performance.now() - begun), () => done(0))"
    )
    return float(page.browser.execute_async_script(script, question)) / 1000


def renderer(browser: Any) -> Path:
    """The process of the page: the largest of the browser's own that draw pages."""
    service = browser.service.process.pid
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int(process.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    own = {service}
    while more := {pid for pid, parent in parents.items() if parent in own and pid not in own}:
        own |= more
    pages = [Path(f"/proc/{pid}") for pid in own if b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return max(pages, key=lambda process: int(process.joinpath("statm").read_text().split()[1]))


def cpu(browser: Any) -> float:
    """Seconds of processor time of the process of the page so far."""
    fields = renderer(browser).joinpath("stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def held(browser: Any) -> int:
    """Bytes of memory that the process of the page shares with no other."""
    lines = renderer(browser).joinpath("smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))


if __name__ == "__main__":
    main()
