"""How many of onnx's own tests flopwise and onnx-tool can profile, and with which shapes.

    python benchmarks/onnx_operators.py [--data DIR] [--write docs/reference/coverage.md]

The ``node`` tests are made by the installed onnx's generators; ``--data`` takes the files of an unpacked package of
onnx 1.22 or before instead (its ``onnx/backend/test/data``). Each test runs twice: with nothing but the model, as on
the command line, and with the values of its inputs. onnx-tool is run on the same models in the same process.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.onnx_suite import cases
from tests.onnx_suite.cases import Case
from tests.onnx_suite.judging import judge

KINDS = ("node", *cases.STORED)


def tool_verdict(case: Case, with_inputs: bool) -> str:
    """What onnx-tool makes of a test: "right" or "wrong" shapes, "unchecked" without any, or "error"."""
    import onnx_tool

    feeds = {n: v for n, v in case.inputs.items() if isinstance(v, numpy.ndarray)} if with_inputs else None
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            model = onnx_tool.Model(case.model, {"verbose": False})
            model.graph.shape_infer(feeds)
            model.graph.profile()
        tensors = model.graph.tensormap
        pairs = [
            (tuple(tensors[n].get_shape()), v.shape)
            for n, v in case.outputs.items()
            if isinstance(v, numpy.ndarray) and n in tensors
        ]
    except BaseException as error:  # the tool ends the process where it gives up
        if isinstance(error, KeyboardInterrupt):
            raise
        return "error"
    if not pairs:
        return "unchecked"
    return "right" if all(a == b for a, b in pairs) else "wrong"


def measure(data: Path | None) -> list[tuple[str, int, bool, Counter[str], Counter[str]]]:
    """Kind, number of tests, whether the values are known, our verdicts, the tool's."""
    found = []
    for kind in KINDS:
        if kind == "node":
            tests: list[Case] = list(cases.stored(kind, data) if data else cases.made())
        else:
            tests = list(cases.stored(kind, data or cases.DATA))
        for with_inputs in (False, True):
            ours, tool = Counter[str](), Counter[str]()
            for place, case in enumerate(tests):
                if sys.stderr.isatty():
                    print(f"\r{kind} {place + 1} of {len(tests)}   ", end="", file=sys.stderr)
                ours[judge(case, with_inputs)[0]] += 1
                tool[tool_verdict(case, with_inputs)] += 1
            found.append((kind, len(tests), with_inputs, ours, tool))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return found


def table(rows: list[tuple[str, int, bool, Counter[str], Counter[str]]]) -> list[str]:
    """The figures as a table in Markdown."""
    heads = ["tests", "values", "flopwise: profiled", "shapes right / bound / open / wrong", "unknown operators"]
    heads += ["onnx-tool: profiled", "shapes right / wrong / none"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for kind, number, with_inputs, ours, tool in rows:
        done, theirs = number - ours["error"], number - tool["error"]
        shown: list[Any] = [
            f"{kind} ({number:,})",
            "known" if with_inputs else "not known",
            f"{done:,} ({100 * done / number:.1f} %)",
            f"{ours['right']:,} / {ours['bound']:,} / {ours['unresolved']:,} / {ours['wrong']:,}",
            f"{ours['unknown']:,}",
            f"{theirs:,} ({100 * theirs / number:.1f} %)",
            f"{tool['right']:,} / {tool['wrong']:,} / {tool['unchecked']:,}",
        ]
        lines.append(f"| {' | '.join(shown)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="onnx/backend/test/data of an unpacked package of onnx")
    parser.add_argument("--write", type=Path, help="file in which the table between its marks is replaced")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = table(measure(arguments.data))
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("onnx", "onnx-tool"))
    text = "\n".join([f"Run with {versions}.", "", *lines])
    if arguments.write:
        whole = arguments.write.read_text()
        start, end = "<!-- measured -->\n", "\n<!-- end -->"
        before, after = whole.partition(start)[0], whole.partition(end)[2]
        arguments.write.write_text(f"{before}{start}{text}{end}{after}")
    else:
        print(text)


if __name__ == "__main__":
    main()
