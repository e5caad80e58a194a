"""Help: groups of options, examples that run as they stand, the tour, completion, names of other tools."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from tests.analyses.traces.nets import made_up
from tests.cli.conftest import Run
from tests.cli.view.served import served

import flopwise
from flopwise.cli import COMMANDS, cli, elsewhere
from flopwise.cli.command import GROUPS, Command
from flopwise.cli.places import Model
from flopwise.formats.table import FORMATS

ROOT = Path(__file__).parents[2]

#: Examples that take a while to start, because of what they import.
NEEDS = {"llm": "transformers", "pipeline/": "diffusers", "bench": "onnxruntime", "zoo": "duckdb", "mcp": "mcp_types"}


def _commands() -> Iterator[tuple[str, Command]]:
    context = click.Context(cli)
    for name in COMMANDS:
        found = cli.get_command(context, name)
        if isinstance(found, click.Group):
            for inner, command in found.commands.items():
                assert isinstance(command, Command)
                yield f"{name} {inner}", command
        else:
            assert isinstance(found, Command)
            yield name, found


EXAMPLES = [(name, example) for name, command in _commands() for example in command.examples]


def test_every_command_ends_with_three_examples(run: Run) -> None:
    for name, command in _commands():
        assert len(command.examples) == 3, name
        out = run(*name.split(), "--help").out
        lines = out.rstrip().splitlines()
        at = lines.index("Examples:")
        told = " ".join(" ".join(lines[at + 1 :]).split())
        assert told == " ".join(f"flopwise {name} {example}".strip() for example in command.examples)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the examples are about."""
    folder = tmp_path_factory.mktemp("examples")
    helper, array = onnx.helper, onnx.numpy_helper.from_array
    value = helper.make_tensor_value_info
    weights = {"conv1.weight": (8, 3, 3, 3), "fc.weight": (10, 8)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "conv1.weight"], ["c"], "conv1"),
            helper.make_node("Relu", ["c"], ["r"], "relu"),
            helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
            helper.make_node("Flatten", ["p"], ["f"], "flatten"),
            helper.make_node("Gemm", ["f", "fc.weight"], ["y"], "fc", transB=1),
        ],
        "model",
        [value("x", 1, [1, 3, 224, 224])],
        [value("y", 1, None)],
        [array(np.ones(shape, np.float32), name) for name, shape in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "models").mkdir()
    for name in ("model", "a", "b", "models/one", "models/two"):
        onnx.save(model, folder / f"{name}.onnx")
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    data = len(header).to_bytes(8, "little") + header + np.arange(4, dtype=np.float32).tobytes()
    (folder / "model.safetensors").write_bytes(data)
    (folder / "budget.toml").write_text("[model]\nparams = 1_000_000\n")
    (folder / "list.txt").write_text("model.onnx\n")
    config = {"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    for name in ("profile", "before", "after"):
        (folder / f"{name}.json").write_text(made_up(flopwise.profile(folder / "model.onnx")))
    shutil.copyfile(ROOT / "examples" / "classifier_trace.json.gz", folder / "trace.json.gz")
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForCausalLM"]}))
    shutil.copytree(ROOT / "examples" / "tiny_diffusion", folder / "pipeline")
    return folder


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_examples_run(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, example: str) -> None:
    for word, needed in NEEDS.items():
        if word in f"{name} {example}":
            pytest.importorskip(needed)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FLOPWISE_STORE", str(folder / "store"))
    if "torchvision" in example:
        pytest.importorskip("tests.torch_vision")  # it declares what torchvision's extension may lack here
    if name == "mcp" and "--tools" not in example:  # it serves until its input ends
        line = [sys.executable, "-m", "flopwise", "mcp", *example.split()]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        return
    if name == "view":
        served(*shlex.split(example), folder=folder)
        return
    if name in ("zoo query", "zoo report") and not os.path.exists("zoo"):
        assert run("zoo", "build", "models/", "-o", "zoo").code == 0
    code, out, err = run(*name.split(), *shlex.split(example))
    assert code == 0, err
    assert out or "-o " in example or "--update" in example or "--export" in example or "zoo" in name


def test_options_come_in_groups(run: Run) -> None:
    out = run("profile", "--help").out
    titles = ["Inputs:", "What to count:", "What to show:", "Output:", "PyTorch:", "Caffe:"]
    places = [out.index(f"\n{title}\n") for title in titles]
    assert places == sorted(places)
    assert set(GROUPS) > {title.rstrip(":") for title in titles}


def test_the_forms_of_a_model_stand_in_one_place(run: Run) -> None:
    out = run("--help").out
    assert out.count("MODEL is one of:") == 1
    endings = {ending for format in FORMATS for ending in format.endings} | {"timm:resnet50", "hf:org/name"}
    assert endings <= {word.rstrip(",") for word in out.partition("MODEL is one of:")[2].split()}
    for name, command in _commands():
        takes_models = any(isinstance(param.type, Model) for param in command.params)
        told = " ".join(run(*name.split(), "--help").out.split())
        assert told.count("'flopwise --help' lists all forms.") == takes_models, name


def test_alone_it_prints_a_tour(run: Run) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    shown = [line.split()[1] for line in lines if line.startswith("  flopwise ")]
    assert set(shown) <= COMMANDS.keys()
    assert {"profile", "memory", "table", "explain", "compare", "check", "llm"} <= set(shown)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("profil", "model.onnx"), "did you mean 'profile'?"),
        (("profile", "modle.onnx"), "modle.onnx: no such file; did you mean 'model.onnx'?"),
        (("profile", "model.onnx", "-c", "fvcor"), "did you mean 'fvcore'?"),
        (("profile", "model.onnx", "--columns", "nam"), "did you mean 'name'?"),
        (("profile", "model.onnx", "--sort", "flop"), "did you mean 'flops'?"),
        (("profile", "model.onnx", "-f", "tabel"), "did you mean 'table'?"),
        (("profile", "model.onnx", "--convenion", "macs"), "--convention"),
        (("profile", "model.onnx", "-i", "x:f32:batch,3,9,9", "--dim", "bacth=1"), "did you mean 'batch'?"),
        (("formula", "model.onnx", "-i", "x:f32:batch,3,9,9", "--dim", "bacth=1"), "did you mean 'batch'?"),
        (("explain", "Covn"), "did you mean Conv"),
        (("bound", "model.onnx", "--device", "h10"), "did you mean 'h100'"),
        (("weights", "model.onnx", "--columns", "lenght"), "did you mean 'length'?"),
    ],
)
def test_a_typo_is_answered_with_what_was_meant(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("flopsinfo -p model.onnx --full --no_header", "flops model.onnx -c benanza --full --no-header"),
        ("flopsinfo --model_path model.onnx --batch_size 2", "flops model.onnx -c benanza --batch-size 2"),
        ("weightsinfo -p model.onnx --num_buckets 5 -f json", "weights model.onnx -c benanza --bins 5 -f json"),
        ("layersinfo --model_path=model.onnx -f csv", "layers model.onnx -c benanza -f csv"),
        ("layerstats -p model.onnx", "layers model.onnx -c benanza"),
        ("profile model.onnx -d x:f32:1x3x32x32", "profile model.onnx -i x:f32:1x3x32x32"),
        (
            "profile --dynamic_shapes x:f32:1x3x32x32 --top 2 model.onnx",
            "profile -i x:f32:1x3x32x32 --top 2 model.onnx",
        ),
    ],
)
def test_names_of_other_tools_work(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, theirs: str, ours: str
) -> None:
    monkeypatch.chdir(folder)
    found = run(*theirs.split())
    assert found.code == 0, found.err
    assert found.out == run(*ours.split()).out


def test_names_of_other_tools_are_not_in_the_help(run: Run) -> None:
    for name in (None, "profile", "weights"):
        out = run(*([name] if name else []), "--help").out
        assert not any(word in out for word in (*elsewhere.COMMANDS, "dynamic", "model-path", "num-buckets"))


#: What the value of an option is called: a number or a name, a list of them, a pair, a place, or a word of its own.
VALUES = re.compile(
    r"(N|X|NAME|TYPE|PATTERN|CONDITION|SIZES|TIME|BYTES|URL|DIR|FILE|FILE\.py|MODEL|FILE\|N)"
    r"|(N|NAME|CONDITION|RxC|N:M|NAME=N|NAME=VALUE),\.\.\."
    r"|NAME=(N|VALUE)|INPUT=OUTPUT|WxH|\[NAME=\]PREFIX|NAME:DTYPE:SHAPE\[:DATA\]"
    r"|\[[\w|-]+\]"
)


def test_values_of_options_have_names_of_one_kind() -> None:
    for name, command in _commands():
        context = click.Context(command, info_name=name)
        for param in command.params:
            if isinstance(param, click.Option) and not param.is_flag:
                metavar = param.make_metavar(context)
                assert VALUES.fullmatch(metavar), f"{name} {param.opts[-1]} {metavar}"
            extra = param.get_help_extra(context) if isinstance(param, click.Option) else {}
            assert "x" not in extra.get("range", ""), f"{name} {param.opts[-1]}"


def test_help_fits_a_narrow_terminal(run: Run) -> None:
    for name, command in _commands():
        out = run(*name.split(), "--help").out
        assert max(map(len, out.splitlines())) <= 80, name
        lines = {line.strip() for line in out.splitlines()}
        assert {f"flopwise {name} {example}".strip() for example in command.examples} <= lines, name
        assert re.search(r"^  -h, --help ", out, re.MULTILINE), name


def test_benanza_names_layers_in_its_way(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    nameless = onnx.load("model.onnx")
    for node in nameless.graph.node:
        node.name = ""
    onnx.save(nameless, "nameless.onnx")
    layers = json.loads(run("layers", "nameless.onnx", "-c", "benanza", "-f", "json").out)["layers"]
    assert [layer["name"] for layer in layers] == ["conv_1", "relu_1", "globalaveragepool_1", "flatten_1", "gemm_1"]
    assert layers[2]["type"] == "GlobalPooling"
    weights = json.loads(run("weights", "nameless.onnx", "-c", "benanza", "-f", "json").out)["entries"]
    assert [(entry["name"], entry["op"]) for entry in weights] == [("conv_1", "Conv"), ("gemm_1", "Gemm")]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("flopwise pro", {"profile"}),
        ("flopwise profile m.onnx -c pt", {"ptflops", "ptflops-aten"}),
        ("flopwise profile m.onnx --columns name,par", {"name,params", "name,params%"}),
        ("flopwise profile m.onnx --sort para", {"params", "params%"}),
        ("flopwise profile m.onnx -f mark", {"markdown"}),
        ("flopwise bound m.onnx --device h100", {"h100-sxm", "h100-pcie", "h100-nvl"}),
        ("flopwise weights m.onnx --columns len", {"length"}),
        ("flopwise completion z", {"zsh"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str, typed: str, expected: set[str]
) -> None:
    words = typed.split()
    monkeypatch.setenv("COMP_WORDS", typed if shell != "fish" else " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1) if shell != "fish" else words[-1])
    monkeypatch.setenv("_FLOPWISE_COMPLETE", f"{shell}_complete")
    with pytest.raises(SystemExit):
        cli.main(args=[], prog_name="flopwise")
    out = capsys.readouterr().out
    lines = out.splitlines()
    found = {
        "bash": {line.partition(",")[2] for line in lines},
        "zsh": set(lines[1::3]),
        "fish": {line.partition(",")[2].partition("\t")[0] for line in lines},
    }[shell]
    assert found == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(run: Run, shell: str) -> None:
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    assert f"_FLOPWISE_COMPLETE={shell}_complete" in out
