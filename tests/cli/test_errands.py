"""The errands of somebody's first day: each is one command, named by the help or the README, with what it must say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


class Done(NamedTuple):
    code: int
    out: str
    err: str


def flopwise(line: str, **environment: str) -> Done:
    """What a command prints in a process of its own, in a pipe."""
    command = [sys.executable, "-m", "flopwise", *shlex.split(line)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(environment))
    return Done(done.returncode, done.stdout, done.stderr)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("FLOPWISE_TRACEBACK", "COLUMNS")}
    return {**kept, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path]), **more}


def on_terminal(line: str, columns: int, **environment: str) -> str:
    """What a command prints on a terminal so many cells wide."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "flopwise", *shlex.split(line)]
    more = _environment({"COLUMNS": str(columns), **environment})
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=more) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # Linux says so when the other end is closed
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    assert process.returncode == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example models."""
    for name in ("tiny_resnet.onnx", "custom_op.onnx", "transformer_block.onnx", "spline_rule.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


#: Models of torchvision run in a process of their own, so that only whether it is installed matters.
TORCHVISION = pytest.mark.skipif(find_spec("torchvision") is None, reason="needs torchvision: pip install torchvision")

#: Errand -> what the help says that leads to it: the command whose help it is ("" for the tour), and the words.
LED_BY = {
    "latex": ("table", "-f latex"),
    "why": ("explain", "-c fvcore -c thop"),
    "heaviest": ("profile", "--top 10"),
    "config.json": ("profile", "config.json"),
    "peak": ("", "weights, activations, their peak"),
    "budget": ("", "a budget in CI"),
    "diff": ("", "compare old.onnx new.onnx"),
    "jq": ("profile", "json"),
    "custom": ("profile", "--rules FILE.py"),
    "shapes": ("profile", "-i, --input"),
    "directory": ("", "profile models/"),
    "completion": ("", "completion bash"),
}


@pytest.mark.parametrize("errand", LED_BY)
def test_the_help_leads_there(errand: str) -> None:
    command, words = LED_BY[errand]
    done = flopwise(f"{command} --help" if command else "")
    assert done.code == 0
    assert words in " ".join(done.out.split())


@TORCHVISION
def test_a_latex_table_of_four_models() -> None:
    names = ["resnet18", "resnet50", "mobilenet_v2", "vit_b_16"]
    models = " ".join(f"torchvision.models:{name}" for name in names)
    done = flopwise(f"table {models} -i 1x3x224x224 -f latex")
    assert (done.code, done.err) == (0, "")
    rows = [line.strip() for line in done.out.splitlines() if " & " in line]
    assert rows == [
        r"Model & {Parameters {[}M{]}} & {MACs {[}G{]}} & {FLOPs {[}G{]}} & {Peak activations {[}MB{]}} \\",
        r"resnet18 & 11.69 & 1.814 & 3.638 & 7.02 \\",
        r"resnet50 & 25.56 & 4.089 & 8.218 & 11.04 \\",
        r"mobilenet\_v2 & 3.50 & 0.301 & 0.627 & 11.04 \\",
        r"vit\_b\_16 & 86.57 & 17.564 & 35.242 & 8.47 \\",
    ]
    assert r"\caption{Convention flops, unit FLOP; input 1$\times$3$\times$224$\times$224.}" in done.out


@TORCHVISION
def test_why_fvcore_and_thop_differ_on_a_vit() -> None:
    done = flopwise("explain torchvision.models:vit_b_16 -i 1x3x224x224 -c fvcore -c thop")
    assert (done.code, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "attention's in and out projections 12 5,577,375,744 0 -5,577,375,744 99.9 thop does not see them" in lines
    assert "layer norm 25 18,912,000 15,129,600 -3,782,400 0.1 for each output element fvcore counts 5, thop 4" in lines
    assert "Total -5,581,158,144 100.0" in lines
    assert "difference -5,581,158,144 -5.58 GMAC" in lines


def test_the_ten_most_expensive_layers(folder: Path) -> None:
    done = flopwise("profile tiny_resnet.onnx --top 10")
    assert (done.code, done.err) == (0, "")
    body = done.out.split("─\n")[1].splitlines()
    assert body[0].startswith("/stem/conv/Conv ")
    assert "442,368" in body[0]
    assert len(body) == 12  # ten layers, what is left out, and the rule
    assert body[10].startswith("… 44 more layers")


def test_a_configuration_from_hugging_face(folder: Path) -> None:
    pytest.importorskip("transformers")
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "hidden_size": 64}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128}
    Path("config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    done = flopwise("profile config.json -i input_ids:i64:1x16 --by op -f json")
    assert done.code == 0, done.err
    totals = json.loads(done.out)["totals"]
    # of each layer queries and output, keys and values, and the three of the MLP; norms, embedding and head beside them
    each = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128
    assert totals["params"] == 2 * 32000 * 64 + 2 * (each + 2 * 64) + 64
    assert totals["macs"] >= 16 * 2 * each + 16 * 64 * 32000


def test_the_peak_of_the_memory(folder: Path) -> None:
    done = flopwise("memory tiny_resnet.onnx")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^peak activation bytes +81,920 +81.9 kB$", done.out, re.MULTILINE)
    assert "alive at the peak, at /stem/conv/Conv" in done.out


def test_a_budget_in_ci(folder: Path) -> None:
    assert flopwise("check tiny_resnet.onnx --budget budget.toml --update").code == 0
    assert flopwise("check tiny_resnet.onnx --budget budget.toml").code == 0
    text = Path("budget.toml").read_text()
    Path("budget.toml").write_text(text.replace("macs = 1859904", "macs = 1_000_000"))
    done = flopwise("check tiny_resnet.onnx --budget budget.toml")
    assert done.code == 1
    assert re.search(r"macs .*1,859,904 .*1,000,000", done.out)


def test_what_changed_between_two_versions(folder: Path) -> None:
    import onnx

    model = onnx.load("tiny_resnet.onnx")
    (last,) = [node for node in model.graph.node if node.op_type == "Softmax"]
    last.op_type = "LogSoftmax"
    onnx.save(model, "new.onnx")
    done = flopwise('compare tiny_resnet.onnx new.onnx --fail-on "params>0"')
    assert (done.code, done.err) == (0, "")
    assert "/head/softmax/Softmax" in done.out
    assert re.search(r"^parameters +44,370 +44,370 +0 +0.0$", done.out, re.MULTILINE)
    done = flopwise('compare tiny_resnet.onnx new.onnx --fail-on "flops!=0"')
    assert done.code == 1
    assert "flops!=0: flops 3,818,068 -> " in done.err


def test_in_a_notebook() -> None:
    import flopwise as package

    profile = package.profile(str(EXAMPLES / "tiny_resnet.onnx"))
    assert repr(profile) == "<Profile 'tiny_resnet': 3,818,068 FLOP (flops), 44,370 parameters, 54 layers>"
    page = profile._repr_html_()
    assert page is not None
    assert "<table" in page
    assert "3,818,068" in page
    assert repr(profile.by("op")[0]).count("\n") == 0
    assert "_repr_html_" in dir(profile)
    assert "flopwise.profile(" in (ROOT / "README.md").read_text("utf-8")


def test_a_figure_for_jq(folder: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -m flopwise profile tiny_resnet.onnx -f json | jq .totals.macs"
    if shutil.which("jq") is None:
        pytest.skip("needs jq: apt-get install jq")
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, env=_environment({}))
    assert (done.stdout, done.stderr) == ("1859904\n", "")


def test_an_operator_of_ones_own(folder: Path) -> None:
    done = flopwise("profile custom_op.onnx --strict")
    assert done.code == 1
    assert "unknown: com.example::Spline at '/spline/Spline' (no rule); totals are lower bounds" in done.out
    done = flopwise("profile custom_op.onnx --strict --rules spline_rule.py")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^MACs +736", done.out, re.MULTILINE)


def test_shapes_that_are_missing(folder: Path) -> None:
    done = flopwise("profile transformer_block.onnx")
    assert (done.code, done.out) == (2, "")
    cure = re.search(r"give them with ((?:--dim \S+ ?)+), or", done.err)
    assert cure is not None
    done = flopwise(f"profile transformer_block.onnx {cure[1]}")
    assert (done.code, done.err) == (0, "")
    assert "1×128×40" in done.out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("profile tiny_resnt.onnx", "did you mean 'tiny_resnet.onnx'?"),
        ("profil tiny_resnet.onnx", "did you mean 'profile'?"),
        ("profile tiny_resnet.onnx -c fvcor", "did you mean 'fvcore'?"),
    ],
)
def test_a_typo(folder: Path, typed: str, meant: str) -> None:
    done = flopwise(typed)
    assert (done.code, done.out) == (2, "")
    assert meant in done.err
    assert done.err.count("\n") == 1


def test_a_directory(folder: Path) -> None:
    (folder / "models").mkdir()
    for name in ("tiny_resnet.onnx", "custom_op.onnx"):
        shutil.copy(name, "models")
    done = flopwise("profile models/")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^custom_op.onnx +3 +640 ", done.out, re.MULTILINE)
    assert re.search(r"^tiny_resnet.onnx +54 +44,370 +1,859,904 +3,818,068 ", done.out, re.MULTILINE)
    assert re.search(r"^Total +57 +45,010 ", done.out, re.MULTILINE)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal: run it on Linux or macOS")
@pytest.mark.parametrize(
    "line", ["profile tiny_resnet.onnx", "profile tiny_resnet.onnx --by module", "explain tiny_resnet.onnx --all", ""]
)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_on_a_narrow_terminal(folder: Path, line: str, columns: int) -> None:
    shown = on_terminal(line, columns, NO_COLOR="1")
    assert max(map(len, shown.splitlines())) <= (columns if line else 80)
    assert "\x1b" not in shown
    assert "1,859,904" in shown or not line


def test_completion_in_the_shell(folder: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash: apt-get install bash")
    script = flopwise("completion bash")
    assert script.code == 0
    Path("flopwise").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m flopwise "$@"\n')
    os.chmod("flopwise", 0o755)
    Path("script.sh").write_text(
        f"{script.out}\n"
        "COMP_WORDS=(./flopwise profile tiny_resnet.onnx -c fv); COMP_CWORD=4; COMPREPLY=()\n"
        '_flopwise_completion ./flopwise; echo "${COMPREPLY[@]}"\n'
        "COMP_WORDS=(./flopwise profile tiny_resnet.onnx --columns name,para); COMP_CWORD=4; COMPREPLY=()\n"
        '_flopwise_completion ./flopwise; echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run([bash, "script.sh"], capture_output=True, text=True, check=False, env=_environment({}))
    assert done.stdout.splitlines() == ["fvcore", "name,params name,params%"]
