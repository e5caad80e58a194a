"""How fast the HTML report of a large model is made and opened, and how large it is.

    python benchmarks/html_speed.py [--layers 5000] [--page FILE.html]

The model is a residual network of that many operators in nested modules, and the same without module names. A page is
opened five times in a headless Chromium (with selenium and chromedriver); the figure is the time from the start of the
navigation to the first frame after the load event, when every chart, the graph and the table stand. The limits are
those of the project: under 3 s and under 5 MB at 5,000 layers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

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


def seconds_to_open(page: Path) -> list[float]:
    """Seconds from the start of the navigation to the first frame after loading, each time in a fresh tab."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.report.html.browser import open_browser

    found = []
    browser = open_browser()
    try:
        for _ in range(TIMES):
            browser.switch_to.new_window("tab")
            browser.get(page.as_uri())
            assert browser.execute_script("return document.documentElement.dataset.ready") == "true"
            painted = "requestAnimationFrame(() => setTimeout(() => arguments[0](performance.now())))"
            found.append(browser.execute_async_script(painted) / 1000)
        errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert not errors, errors
    finally:
        browser.quit()
    return found


def main() -> int:
    """Measure and print; 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=5000)
    parser.add_argument("--page", type=Path, help="Open this page instead.")
    given = parser.parse_args()
    pages: dict[str, Path] = {}
    good = True
    with tempfile.TemporaryDirectory() as folder:
        if given.page:
            pages[given.page.name] = given.page.resolve()
        for named in () if given.page else (True, False):
            profile = flopwise.profile(network(given.layers, named))
            start = time.perf_counter()
            text = render(profile, "html")
            label = f"{given.layers} layers, {'in modules' if named else 'flat'}"
            print(f"{label}: made in {time.perf_counter() - start:.2f} s")
            pages[label] = Path(folder) / f"{named}.html"
            pages[label].write_text(text, "utf-8")
        for label, page in pages.items():
            size, found = page.stat().st_size, seconds_to_open(page)
            good &= size < BYTES and statistics.median(found) < SECONDS
            print(f"{label}: {size / 1e6:.2f} MB, opens in {statistics.median(found):.2f} s (most {max(found):.2f} s)")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
