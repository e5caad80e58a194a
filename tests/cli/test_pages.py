"""The five public pages that people come from: every command and program on them, typed as it stands there.

A command has ``flopwise`` in place of the tool's name, a program ``flopwise.compat`` in place of the tool's package;
what the page prints below is what has to come. The pages are no part of the repository.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.cli.conftest import EXAMPLES, Run
from tests.cli.test_elsewhere import folder  # noqa: F401 # the models that the pages name

import flopwise

PAGES = Path(__file__).parents[3] / "shared" / "pages"

pytestmark = [
    pytest.mark.skipif(not PAGES.exists(), reason="needs the pages, which are no part of the repository"),
    pytest.mark.usefixtures("folder"),
]


def text(name: str) -> str:
    return (PAGES / f"{name}.txt").read_text("utf-8") if PAGES.exists() else ""


def table(page: str, head: str) -> list[list[str]]:
    """The lines of a Markdown table of a page, by the first cell of its head."""
    lines = page.partition(f"{head} |")[2].splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[:-1]] for line in lines]
    return rows[: next((place for place, row in enumerate(rows) if len(row) < 2), len(rows))]


BENANZA = re.findall(r"^benanza (?!.*\[flags\])(.*)", text("benanza_layer_information"), re.MULTILINE)
ONNX_TOOL = re.findall(r"python -m onnx_tool (.*)", text("onnx_tool_profile").replace("\\\n", " "))


@pytest.mark.parametrize("line", [*BENANZA, *ONNX_TOOL])
def test_every_command_line_runs(run: Run, line: str) -> None:
    line = re.sub(r"/+(BVLC_)?AlexNet", "AlexNet", line.partition(" #")[0])
    code, out, err = run(*shlex.split(line))
    assert code == 0, err
    written = re.search(r"-o '(.*?)'", line)
    assert out or (written and Path(written[1]).exists())


def test_every_page_with_command_lines_has_them() -> None:
    assert (len(BENANZA), len(ONNX_TOOL)) == (4, 4)


def test_benanzas_table_of_classes(run: Run) -> None:
    out = run(*shlex.split("flopsinfo --model_path AlexNet/model.onnx")).out.replace(",", "")
    numbers = re.findall(r" (\d+)$", out.partition("─\n")[2], re.MULTILINE)
    rows = table(text("benanza_layer_information"), "FLOP TYPE | #")
    assert numbers[:7] == [number for _, number in rows]


def test_benanzas_table_of_layers(run: Run) -> None:
    out = run(*shlex.split("flopsinfo --model_path AlexNet/model.onnx --full --human")).out
    rows = table(text("benanza_layer_information"), "GENERAL | TOTAL")
    lines = [re.split(r"  +", line.strip()) for line in out.splitlines()]
    layers = [line for line in lines if len(line) == 9 and re.search(r"_\d+$", line[0])]
    assert [row[:2] for row in rows if row[1] == "Conv"] == [line[:2] for line in layers if line[1] == "Conv"]
    figures = {line[0]: [cell.lower().replace("flops", "flop") for cell in line[2:]] for line in layers}
    for name, kind, *cells in rows:
        if kind in ("Conv", "Gemm"):
            assert figures[name] == [cell.lower().replace("flops", "flop") for cell in cells], name


def test_benanzas_lengths_of_weights() -> None:
    """The model here has the page's shapes without its weights."""
    rows = table(text("benanza_layer_information"), "LAYERWEIGHTSMIN | LAYERWEIGHTSSDEV")
    params = [row.params for row in flopwise.profile("AlexNet/model.onnx").rows if row.params]
    assert params == [int(row[2]) for row in rows]


def test_onnx_tools_names_are_outputs_afterwards(run: Run) -> None:
    line = next(line for line in ONNX_TOOL if "--names" in line)
    assert run(*shlex.split(line)).code == 0
    names = re.findall(r"resnetv17_stage1_conv\d_fwd", line)
    assert [o.name for o in onnx.load("resnet50_shapes.onnx").graph.output][1:] == names


def test_the_script_for_caffe(run: Run) -> None:
    page = text("layer_params_and_flops")
    printed = page.partition("deploy.prototxt\nlayer name")[2]
    expected = [line.split() for line in printed.splitlines()[1:9]]
    out = run("flops", EXAMPLES / "alexnet.prototxt", "-c", "caffe").out
    assert [line.split() for line in out.splitlines() if re.match(r"(conv|fc)\d ", line)] == expected
    for name in ("parameters", "FLOPs"):
        number = re.search(rf"Total number of {name}:\s+(\d+)", printed)
        assert number
        assert re.search(rf"Total number of {name} +{number[1]}$", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("tool", "model", "printed"),
    [("torchstat", "alexnet", r"Total MAdd: [\d.]+GMAdd"), ("ptflops", "densenet161", r"complexity: +[\d.]+ GMac")],
)
def test_programs_of_the_page(tool: str, model: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines from the tool's import to the end of the program, with our package in its import."""
    pytest.importorskip("tests.torch_vision")
    lines = text("layer_params_and_flops").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"from {tool} "))
    body = [
        line
        for line in lines[max(start - 2, 0) : start + 9]
        if re.match(r"from |import |model = |stat\(|with | ", line)
    ]
    program = "\n".join(body).replace(f"from {tool} ", f"from flopwise.compat.{tool} ")
    program = program.replace("model.alexnet()", "models.alexnet()")  # as the page means it
    program = re.sub(r"with torch.cuda.device\(0\)", "if True", program)  # no device is asked for
    exec(program, {})
    assert model in program
    assert re.search(printed, capsys.readouterr().out)


@pytest.mark.parametrize(("groups", "expected"), [(1, "2HW(CinK^2+1)Cout"), (16, "2HW*Cin*(K^2+Cout)")])
def test_the_formulas_of_convolutions(groups: int, expected: str) -> None:
    torch = pytest.importorskip("torch")
    assert expected in text("layer_params_and_flops")
    h, w, inside, k, outside = 7, 9, 16, 3, 24
    depthwise = torch.nn.Conv2d(inside, inside, k, padding=1, groups=groups, bias=False)
    plain = torch.nn.Conv2d(inside, outside, k, padding=1)
    net = plain if groups == 1 else torch.nn.Sequential(depthwise, torch.nn.Conv2d(inside, outside, 1, bias=False))
    plain_flops = 2 * h * w * (inside * k**2 + 1) * outside
    separable_flops = 2 * h * w * inside * (k**2 + outside)
    convention = "molchanov" if groups == 1 else "macs"
    count = flopwise.profile(net, (1, inside, h, w), convention=convention).sum.count
    assert count == plain_flops if groups == 1 else count * 2 == separable_flops


def test_units_of_the_flops_model(run: Run) -> None:
    """Kilo to yotta: the prefixes of ``--human``."""
    from flopwise.report.sheet.sheet import PREFIXES

    rows = re.findall(r"\| (\w+)FLOPS \| (\w)FLOPS \| 10\^(\d+) \|", text("flops_model"))
    assert len(rows) == 8
    assert all(PREFIXES[int(power) // 3] == sign for _, sign, power in rows)


def mmengine_table() -> list[list[str]]:
    rows = re.findall(r"\| ([\w.]+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|", text("mmengine_model_complexity"))
    return [[cell.strip() for cell in row] for row in rows]


def test_mmengines_network() -> None:
    torch = pytest.importorskip("torch")
    from flopwise.compat.mmengine import get_model_complexity_info

    nn = torch.nn

    class Inner(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(10, 10), nn.Linear(10, 10)

        def forward(self, x: Any) -> Any:
            return self.fc1(self.fc2(x))

    class Net(Inner):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            return self.fc1(self.fc2(self.inner(x)))

    results = get_model_complexity_info(Net(), (1, 10))
    page = text("mmengine_model_complexity")
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in str(results["out_table"]).splitlines()
        if "|" in line
    ]
    assert [line for line in lines if line[0] in {row[0] for row in mmengine_table()}] == mmengine_table()
    for key in ("flops", "params"):
        shown = re.search(rf"Model {'Flops' if key == 'flops' else 'Parameters'}:(0\.[\d.]+K)", page)
        assert shown is None or shown[1] == results[f"{key}_str"]
    assert results["flops_str"] == "0.4K"
    for line in ("#params: 0.44K, #flops: 0.4K, #acts: 40", "#params: 0.11K, #flops: 100, #acts: 10"):
        assert line in page
        assert line in str(results["out_arch"])


def test_mmengines_convolution_and_resnet() -> None:
    torch = pytest.importorskip("torch")
    vision = pytest.importorskip("tests.torch_vision").torchvision
    from flopwise.compat.mmengine import get_model_complexity_info

    page = text("mmengine_model_complexity")
    plain = get_model_complexity_info(torch.nn.Conv2d(3, 10, 3), inputs=torch.zeros(1, 3, 10, 10), show_arch=False)
    for key, number in {"flops": 17280, "activations": 640, "params": 280}.items():
        assert f"{number} =" in page
        assert plain[key] == number
    with torch.device("meta"):
        net = vision.models.resnet50()
    results = get_model_complexity_info(net, (3, 224, 224), show_table=False, show_arch=False)
    assert f"Model Flops:{results['flops_str']}" in page
    assert f"Model Parameters:{results['params_str']}" in page
