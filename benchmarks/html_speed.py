"""How fast the HTML report of a large model is made and opened, and how large it is.

    python benchmarks/html_speed.py [--layers 5000] [--page FILE.html] [--against SOURCES]

The model is a residual network of that many operators in nested modules, and the same without module names. A page is
opened five times in a headless Chromium (with selenium and chromedriver); the figure is the time from the start of the
navigation to the first frame after the load event, when every chart, the graph and the table stand. The limits are
those of the project: under 3 s and under 5 MB at 5,000 layers.

``--against`` makes and opens the same pages with another state of the project too (the folder with its ``flopwise``
package), each several times in turn with this one, and prints ratios of medians of processor time: of the process
that makes it, and of the main thread of the page that opens it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import flopwise
from flopwise.graph import Graph, Module, Node, Tensor
from flopwise.report.commands.profile import render

SECONDS, BYTES, TIMES = 3.0, 5_000_000, 5


def network(layers: int, named: bool) -> Graph:
    """Blocks of Conv, Relu, Conv, Add, Relu with a skip connection, ten blocks to a stage's part, in nested modules."""

    def value(name: str, *shape: int, kind: str = "activation") -> Tensor:
        return Tensor(name, shape, "float32", kind)  # type: ignore[arg-type]

    image = (1, 64, 56, 56)
    nodes: list[Node] = []
    now = before = value("x", *image, kind="input")
    for i in range(layers):
        op = ("Conv", "Relu", "Conv", "Add", "Relu")[i % 5]
        before = now if i % 5 == 0 else before
        path = f"stages.{i // 500}.blocks.{i // 5 % 100}".split(".")
        scope = tuple(Module(".".join(path[: k + 1]), "Block" if k == 3 else "") for k in range(4)) if named else ()
        name = f"/{'/'.join(path)}/{op.lower()}{i % 5}/{op}" if named else f"node_{i}"
        inputs = {"Conv": (now, value(f"w{i}", 64, 64, 3, 3, kind="weight")), "Add": (now, before), "Relu": (now,)}[op]
        now = value(f"t{i}", *image)
        nodes.append(Node(op, name, inputs, (now,), {"pads": [1, 1, 1, 1]} if op == "Conv" else {}, scope))
    return Graph("network", "made here", "", (value("x", *image, kind="input"),), (now,), tuple(nodes))


def make(layers: int, named: bool, page: Path) -> float:
    """Seconds of processor time to make the page of the network from its profile."""
    profile = flopwise.profile(network(layers, named))
    start = time.process_time()
    text = render(profile, "html")
    seconds = time.process_time() - start
    page.write_text(text, "utf-8")
    return seconds


def made_by(sources: Path, layers: int, named: bool, page: Path) -> float:
    """The same by another state of the project, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    command = [sys.executable, __file__, "--layers", str(layers), "--make", str(page), *(["--named"] if named else [])]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def open_in(browser: Any, page: Path) -> float:
    """Seconds from the start of the navigation to the first frame after loading, in a fresh tab."""
    return opened(browser, page)[0]


def opened(browser: Any, page: Path) -> tuple[float, float]:
    """Seconds to open a page in a fresh tab, and seconds of processor time of its main thread until then."""
    browser.switch_to.new_window("tab")
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.dataset.ready") == "true"
    painted = "requestAnimationFrame(() => setTimeout(() => arguments[0](performance.now())))"
    seconds: float = browser.execute_async_script(painted) / 1000
    metrics = {
        metric["name"]: metric["value"] for metric in browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    }
    browser.close()
    browser.switch_to.window(browser.window_handles[0])
    return seconds, metrics["TaskDuration"]


def compare(layers: int, against: Path, folder: Path) -> None:
    """Print the ratios of this state of the project to another one."""
    here = Path(flopwise.__file__).parents[1]
    browser = chromium()
    try:
        for named in (True, False):
            making: dict[str, list[float]] = {"this": [], "that": []}
            opening: dict[str, list[float]] = {"this": [], "that": []}
            pages = {name: folder / f"{name} {named}.html" for name in making}
            for _ in range(TIMES):
                for name, sources in (("this", here), ("that", against)):
                    making[name].append(made_by(sources, layers, named, pages[name]))
            for _ in range(2 * TIMES):
                for name, page in pages.items():
                    opening[name].append(opened(browser, page)[1])
            size = {name: page.stat().st_size for name, page in pages.items()}
            print(
                f"{layers} layers, {'in modules' if named else 'flat'}: size {size['this'] / size['that']:.2f}, "
                f"making {ratio(making):.2f}, opening {ratio(opening):.2f} of the other "
                f"({size['this'] / 1e6:.2f} MB, {statistics.median(making['this']):.2f} s, "
                f"{statistics.median(opening['this']):.2f} s)"
            )
    finally:
        browser.quit()


def ratio(times: dict[str, list[float]]) -> float:
    """The median of this state in parts of that of the other one."""
    return statistics.median(times["this"]) / statistics.median(times["that"])


def chromium() -> Any:
    """A headless Chromium."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.report.html.browser import open_browser

    return open_browser()


def main() -> int:
    """Measure and print; 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=5000)
    parser.add_argument("--page", type=Path, help="Open this page instead.")
    parser.add_argument("--against", type=Path, help="Sources of another state of the project, for ratios.")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--named", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        print(make(given.layers, given.named, given.make))
        return 0
    pages: dict[str, Path] = {}
    good = True
    with tempfile.TemporaryDirectory() as folder:
        if given.against:
            compare(given.layers, given.against.resolve(), Path(folder))
            return 0
        if given.page:
            pages[given.page.name] = given.page.resolve()
        for named in () if given.page else (True, False):
            label = f"{given.layers} layers, {'in modules' if named else 'flat'}"
            pages[label] = Path(folder) / f"{named}.html"
            print(f"{label}: made in {make(given.layers, named, pages[label]):.2f} s")
        browser = chromium()
        try:
            for label, page in pages.items():
                size, found = page.stat().st_size, [open_in(browser, page) for _ in range(TIMES)]
                good &= size < BYTES and statistics.median(found) < SECONDS
                most = max(found)
                print(f"{label}: {size / 1e6:.2f} MB, opens in {statistics.median(found):.2f} s (most {most:.2f} s)")
            errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
            assert not errors, errors
        finally:
            browser.quit()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
