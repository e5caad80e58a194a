"""Formulas of a step of a language model in the batch, the tokens in its state and the tokens that are fed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest

pytest.importorskip("transformers")
pytest.importorskip("sympy")

from tests.language_models import ENCODER_DECODER, LLAMA, MIXTURE, SOUND, STATE_SPACE, WINDOW, written

import flopwise
from flopwise.report.commands.formula import formula_report
from flopwise.report.report import as_text


@pytest.mark.parametrize("config", [LLAMA, MIXTURE, WINDOW], ids=["llama", "mixture", "window"])
def test_steps_equal_their_profiles(tmp_path: Path, config: dict[str, object]) -> None:
    folder = written(tmp_path, config)
    found = flopwise.formula(folder, past="past", new="new", convention="macs")
    for batch, past, new in ((1, 1, 1), (1, 64, 1), (2, 5, 3), (3, 9, 1), (2, 40, 17)):
        expected = flopwise.profile(folder, past=past, new=new, batch_size=batch, convention="macs")
        point = found.at(batch=batch, past=past, new=new)
        assert point["macs"] == expected.total("macs"), (batch, past, new)
        assert point["params"] == expected.total("params")


#: A window that is as long as a state at which formulas are tried.
_WIDE = {**WINDOW, "sliding_window": 1024, "max_position_embeddings": 8192}


@pytest.mark.parametrize(
    "config",
    [LLAMA, WINDOW, _WIDE, STATE_SPACE, ENCODER_DECODER, SOUND],
    ids=["llama", "window", "wide window", "state space", "encoder-decoder", "sound"],
)
def test_there_is_a_formula_for_all_sizes(tmp_path: Path, config: dict[str, object]) -> None:
    """A prompt, one token after a state and several take different ways, each with a formula of its own."""
    folder = written(tmp_path, config)
    found = flopwise.formula(folder, past="past", new="new")
    assert found.closed
    functions = found.lambdify()
    for batch, past, new in (
        (1, 0, 1),
        (1, 3, 1),
        (2, 0, 5),
        (1, 7, 2),
        (1, 8, 1),
        (2, 6, 300),
        (1, 0, 256),
        (3, 70, 4),
    ):
        point = found.point({"batch": batch, "past": past, "new": new})
        expected = flopwise.profile(folder, past=past, new=new, batch_size=batch)
        values = found.at(**point)
        for figure in ("flops", "macs", "params", "output_bytes"):
            assert values[figure] == expected.total(figure), (figure, point)
            assert functions[figure](batch, past, new) == values[figure], (figure, point)
        assert found.value("peak_activation_bytes", **point) == expected.peak_activation_bytes, point
        assert found.value("exp", **point) == expected.sum.counts.exp, point
    past, new = numpy.array([0, 0, 7, 8]), numpy.array([[1], [4]])
    assert functions["flops"](2, past, new).tolist() == [[functions["flops"](2, p, n) for p in past] for n in (1, 4)]


#: A prompt, one token and several after short, full and long windows.
_POINTS = (
    (1, 0, 1),
    (2, 0, 5),
    (2, 0, 9),
    (1, 3, 1),
    (1, 7, 1),
    (3, 8, 1),
    (1, 2, 4),
    (1, 6, 5),
    (2, 7, 2),
    (1, 70, 4),
)

_FIGURES = ["macs", "flops", "peak_activation_bytes", "state_bytes"]


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> flopwise.Formula:
    formula = flopwise.formula(written(tmp_path_factory.mktemp("model"), WINDOW), past="past", new="new")
    assert len(formula.ways) > 5
    return formula


def _expected(formula: flopwise.Formula) -> list[list[int | None]]:
    return [
        [formula.value(figure, batch=batch, past=past, new=new) for figure in _FIGURES] for batch, past, new in _POINTS
    ]


@pytest.mark.parametrize(("format", "begin"), [("markdown", "- {} = "), ("latex", r"  \text{{{}, ")])
def test_each_way_of_a_figure_is_called_by_its_name(windowed: flopwise.Formula, format: str, begin: str) -> None:
    text = as_text(formula_report(windowed, columns=["flops", "state_bytes", "peak_activation_bytes"]), format)
    lines = [line for line in text.splitlines() if line.startswith(begin.format("FLOPs"))]
    assert len(lines) > 1
    assert sum("otherwise" in line for line in lines) == 1
    assert re.search(r"^(- |  \\text\{)state bytes.*256", text, re.MULTILINE)


def test_python_source_of_several_ways(windowed: flopwise.Formula) -> None:
    scope: dict[str, Any] = {}
    exec(windowed.source("python", _FIGURES), scope)
    assert [[scope[figure](*point) for figure in _FIGURES] for point in _POINTS] == _expected(windowed)
    assert [bool(scope["holds"](*point)) for point in ((1, 3, 1), (1, 3, 0), (0, 3, 1))] == [True, False, False]
    assert scope["macs"](batch=1, past=3, new=1) == windowed.lambdify("macs")(batch=1, past=3, new=1)


@pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler is needed")
def test_c_source_of_several_ways(windowed: flopwise.Formula, tmp_path: Path) -> None:
    calls = [f"{figure}({', '.join(map(str, point))})" for point in _POINTS for figure in _FIGURES]
    lines = "".join(f'    printf("%lld\\n", (long long){call});\n' for call in calls)
    main = f"#include <stdio.h>\nint main(void) {{\n{lines}    return holds(1, 3, 0);\n}}\n"
    (tmp_path / "cost.c").write_text(windowed.source("c", _FIGURES) + main)
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "cost.c", "-o", "cost"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "cost"], capture_output=True, text=True, check=True).stdout
    assert list(map(int, printed.split())) == [value for values in _expected(windowed) for value in values]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is needed")
def test_javascript_source_of_several_ways(windowed: flopwise.Formula, tmp_path: Path) -> None:
    calls = ", ".join(f"{figure}({', '.join(map(str, point))})" for point in _POINTS for figure in _FIGURES)
    script = f"console.log(JSON.stringify([[{calls}], holds(1, 3, 1), holds(1, 3, 0), holds(1, 3.5, 1)]));\n"
    (tmp_path / "cost.mjs").write_text(windowed.source("javascript", _FIGURES) + script)
    printed = subprocess.run(["node", "cost.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [[value for values in _expected(windowed) for value in values], True, False, False]


def test_figures_that_all_ways_share_have_one_formula(tmp_path: Path) -> None:
    found = flopwise.formula(written(tmp_path, WINDOW), past="past", new="new", batch_size=1)
    text = str(found)
    assert "min(past, 7)" in next(line for line in text.splitlines() if line.startswith("MACs"))
    head, _, below = text.partition("\nMACs")
    assert "otherwise" in head
    assert "where" not in below.partition("\nactivation")[0]
    assert "holds for past: 0 or more\nholds for new: 1 or more\n" in text
    content = found.to_dict()
    assert content["closed"]
    assert content["ways"][0]["totals"]["macs"]


def test_some_sizes_may_be_fixed(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    found = flopwise.formula(folder, past="past", new=1, batch_size=2, convention="macs")
    assert found.at(past=100)["macs"] == flopwise.profile(folder, past=100, new=1, batch_size=2).total("macs")


def test_what_is_missing(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    with pytest.raises(flopwise.InputError, match="no size is open"):
        flopwise.formula(folder, past=8, new=1, batch_size=2)
    with pytest.raises(flopwise.InputError, match="has no value"):
        flopwise.profile(folder, past="past")
    with pytest.raises(flopwise.InputError, match="give no others"):
        flopwise.formula(folder, {"input_ids": ("b", 4)}, past="past")
