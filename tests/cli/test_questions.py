"""Forty questions of people with a model in hand: each is one command, and this is what it must say.

The page of questions (docs/guides/questions.md) has the same commands, with ``model.onnx`` and the like for the files.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import EXAMPLES, LIGHT, Run

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "questions.md"

#: Command as the page has it -> what it prints, with single spaces.
QUESTIONS = {
    "profile model.onnx": "MACs 1,859,904",
    "profile model.onnx --top 3": "… 51 more layers",
    "profile model.onnx --by op": "Conv 15 43,480",
    "profile model.onnx --by module --depth 1": "stage1 14 1×8×16×16",
    "profile model.onnx --only Conv": "15 of 54 layers",
    "profile block.onnx --dim batch=1 --dim sequence=8 --only attention": "/attention/Softmax",
    "profile tiny_llama --fold --columns name,layers": "4 × LlamaDecoderLayer",
    "profile model.onnx -i 1x3x128x128": "MACs 7,438,656",
    "profile model.onnx -i 1x3x64x64 -b 1,8": "MACs 1,859,904 14,879,232",
    "profile model.onnx --train --optimizer adamw": "training memory bytes",
    "profile custom.onnx --rules rule.py --strict": "MACs 736",
    "profile models/": "Total 78 61,009,594",
    "profile model.onnx -c fvcore": "convention fvcore",
    "profile tiny_llama --masked needed --by op --columns name,needed_macs": "Attention",
    "profile model.onnx -o layers.csv": "",
    "profile model.onnx -o layers.xlsx": "",
    "profile model.onnx -o page.html": "",
    "profile model.onnx -f json": '"macs": 1859904',
    "profile resnet50": "timm:resnet50",
    "memory model.onnx": "peak activation bytes 81,920",
    "memory model.onnx --dtype fp16": "weight bytes 89,860",
    "memory model.onnx --device t4": "fits: NVIDIA T4, 180 kB of weights and 82 kB of peak activations",
    "memory model.onnx --train --optimizer adam --device rtx4090": "355 kB of adam state",
    'formula model.onnx -i N,3,64,64 --solve "weight_bytes + peak_activation_bytes <= 24G for N"': "292,966",
    "formula model.onnx -i N,3,64,64": "MACs = 1859904*N",
    "bound model.onnx --device h100": "physical floor",
    "bound model.onnx --device h100 --measured 35us": "MFU 0.0 %",
    "bound --help": "Energy is not estimated",
    "devices h100": "its driver reports 85.5 GB",
    "llm tiny_llama --device 2xh100": "fits: 2 x NVIDIA H100",
    "llm tiny_llama --train --device h100": "fits: NVIDIA H100",
    "llm tiny_llama --train --lora r=4,targets=q_proj,v_proj --device h100": "LoRA of rank 4",
    "memory classifier.py:Classifier -i 8x3x32x32 --train --lora r=4 --device t4": "beside 1 layer; the base is frozen",
    "llm tiny_llama --weights nf4 --device t4": "fits: NVIDIA T4",
    "table model.onnx custom.onnx -f latex": r"\begin{tabular}",
    "compare model.onnx new.onnx --fail-on 'params>0'": "parameters 44,370 44,370",
    "check model.onnx --budget budget.toml": "1,859,904",
    "explain model.onnx -c fvcore -c flops": "factor of two",
    "explain Conv": "Conv",
    "shapes model.onnx -o shapes.onnx": "",
    "weights model.onnx --top 1": "0.0589085",
    "sparsity model.onnx": "zeros %",
    "trace trace.json.gz": "3 steps",
    "advise model.onnx": "batch-norm",
    "layers model.onnx -f dot": "digraph",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the questions name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOPWISE_STORE", str(tmp_path / "times.sqlite"))
    names = {
        "tiny_resnet.onnx": ("model.onnx", "new.onnx"),
        "transformer_block.onnx": ("block.onnx",),
        "custom_op.onnx": ("custom.onnx",),
        "classifier.py": ("classifier.py",),
        "spline_rule.py": ("rule.py",),
        "classifier_trace.json.gz": ("trace.json.gz",),
    }
    for name, copies in names.items():
        for copy in copies:
            shutil.copy(EXAMPLES / name, copy)
    shutil.copytree(EXAMPLES / "tiny_llama", "tiny_llama")
    (tmp_path / "models").mkdir()
    shutil.copy(LIGHT / "light_bvlc_alexnet.onnx", "models")
    shutil.copy(EXAMPLES / "tiny_resnet.onnx", "models")
    (tmp_path / "budget.toml").write_text("[model]\nmacs = 1_859_903\n")
    return tmp_path


@pytest.mark.upstream
@pytest.mark.parametrize("line", QUESTIONS)
def test_a_question_is_one_command(run: Run, folder: Path, line: str) -> None:
    needed = {"tiny_llama": "transformers", "classifier": "torch", ".xlsx": "xlsxwriter", "formula": "sympy"}
    for word, package in needed.items():
        if word in line and importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}: pip install {package}")
    code, out, err = run(*shlex.split(line))
    wrong = {"profile resnet50": 2, "check model.onnx --budget budget.toml": 1}
    assert code == wrong.get(line, 0), err
    assert QUESTIONS[line] in " ".join((out or err).split())
    if written := re.search(r" -o (\S+)", line):
        assert (folder / written[1]).stat().st_size > 100


def test_the_page_of_questions_has_these_commands() -> None:
    page = PAGE.read_text("utf-8")
    assert re.findall(r"^\| .* \| `flopwise (.*)` \|$", page, re.MULTILINE) == list(QUESTIONS)
