"""Sources: directories, lists, catalogues, and lists that are hostile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flopwise import InputError, ModelError, zoo
from flopwise.analyses.zoo.build import WHOLE, content_hash
from flopwise.analyses.zoo.entry import Entry
from flopwise.analyses.zoo.sources import entries, with_own_names, year_of
from flopwise.cli import main
from flopwise.formats.sources.location import is_callable

EXAMPLES = Path(__file__).parents[3] / "examples"
MODEL = EXAMPLES / "tiny_resnet.onnx"


def test_a_directory_is_a_family(tmp_path: Path) -> None:
    for name in ("a.onnx", "resnet/b.onnx", "resnet/deep/c.onnx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(MODEL.read_bytes())
    listed = [(entry.name, entry.family) for entry in entries([str(tmp_path)])]
    assert listed == [("a.onnx", ""), ("resnet/b.onnx", "resnet"), ("resnet/deep/c.onnx", "resnet/deep")]
    assert len(entries([str(tmp_path / "**" / "*.onnx")])) == 3


def test_a_directory_has_language_models_too(tmp_path: Path) -> None:
    settings = {"tiny": '{"model_type": "llama"}', "unet": '{"sample_size": 64}', "exported": '{"model_type": "bert"}'}
    for name, text in settings.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    (tmp_path / "exported" / "model.onnx").write_bytes(MODEL.read_bytes())
    assert [entry.name for entry in entries([str(tmp_path)])] == ["exported/model.onnx", "tiny"]


def test_a_directory_of_gguf_files(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    pytest.importorskip("transformers")
    from tests.formats.torch.language.test_gguf import made

    for name in ("a.gguf", "b.gguf"):
        made(tmp_path / name)
    assert [entry.name for entry in entries([str(tmp_path)])] == ["a.gguf", "b.gguf"]


def test_models_on_a_hub(tmp_path: Path) -> None:
    (tmp_path / "models.txt").write_text("hf:org/name --family mine\n")
    listed = entries(["hf:org/name", str(tmp_path / "models.txt")])
    assert [(entry.name, entry.model, entry.family) for entry in listed] == [
        ("hf:org/name", "hf:org/name", ""),
        ("hf:org/name", "hf:org/name", "mine"),
    ]
    assert not listed[1].problem


def test_names_are_unique() -> None:
    listed = with_own_names(entries([str(MODEL), str(MODEL), str(MODEL)]))
    assert [entry.name for entry in listed] == [str(MODEL), f"{MODEL}#2", f"{MODEL}#3"]
    mine = with_own_names([Entry("a", "x"), Entry("a", "y")], lambda name, position: name == "a" and position == 0)
    assert [(entry.name, entry.model) for entry in mine] == [("a#2", "x"), ("a", "y")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "is not text in UTF-8"),
        (b"", "lists no model"),
        (b"# nothing\n\n", "lists no model"),
        (b'"open', "line 1: No closing quotation"),
        (b"{model} --colour red", "line 1: only these options may follow the model: -i, --arg"),
        (b"{model} -i", "line 1: only these options may follow the model"),
        (b"{model} --name a --name b", "line 1: has --name more than once"),
        (b"{model} --year 99999999999999999999", "is not a year"),
        (b"{model} --year -5", "is not a year"),
        (b"{model} --arg wide", "line 1: --arg takes NAME=VALUE"),
        (b"a" * 9000, "line 1: has a word of more than 4,096 characters"),
        (b"a\0b.onnx", "a character that no path has"),
        (b"{model}\n../../../../etc/passwd\0", "line 2: has a word"),
    ],
)
def test_hostile_lists_are_one_line(tmp_path: Path, content: bytes, message: str, capsys: Any) -> None:
    listed = tmp_path / "list.txt"
    listed.write_bytes(content.replace(b"{model}", str(MODEL).encode()))
    assert main(["zoo", "build", str(listed), "-o", str(tmp_path / "zoo")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "zoo").exists()


def test_a_list_beside_its_models(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(MODEL.read_bytes())
    (tmp_path / "list.txt").write_text("m.onnx --tag a --tag 'b c'\nhttps://user:secret@example.org/a.onnx?token=1\n")
    first, second = entries([str(tmp_path / "list.txt")])
    assert (first.name, first.model, first.tags) == ("m.onnx", str(tmp_path / "m.onnx"), ("a", "b c"))
    assert (second.name, second.model) == (
        "https://example.org/a.onnx",
        "https://user:secret@example.org/a.onnx?token=1",
    )


def test_a_program_is_sought_beside_its_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, here = tmp_path / "lists", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    (folder / "list.txt").write_text("net.py:Net\nm.onnx\ntorch.nn:Linear\n")
    for where in (here, folder):
        (where / "net.py").write_text("class Net: ...")
        (where / "m.onnx").write_bytes(MODEL.read_bytes())
        places = [entry.model for entry in entries([str(folder / "list.txt")], trust_code=True)]
        if where == here:
            assert places == ["net.py:Net", "m.onnx", "torch.nn:Linear"]
    assert places == [f"{folder / 'net.py'}:Net", str(folder / "m.onnx"), "torch.nn:Linear"]


def test_the_hash_of_a_file_is_of_its_content(tmp_path: Path) -> None:
    one, other = tmp_path / "one.onnx", tmp_path / "other.onnx"
    one.write_bytes(b"a")
    other.write_bytes(b"a")
    assert content_hash(str(one)) == content_hash(str(other))
    other.write_bytes(b"b")
    assert content_hash(str(one)) != content_hash(str(other))
    with one.open("wb") as file:
        file.truncate(WHOLE + 1)
        file.seek(WHOLE)
        file.write(b"x")
    large = content_hash(str(one))
    with one.open("r+b") as file:
        file.seek(WHOLE)
        file.write(b"y")
    assert content_hash(str(one)) != large


def test_the_hash_of_a_callable_is_of_its_code(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("def model(): ...")
    first = content_hash(f"{file}:model")
    assert content_hash(f"{file}:other") != first
    from flopwise.analyses.zoo.build import _version

    _version.cache_clear()
    file.write_text("def model(): return None")
    assert content_hash(f"{file}:model") != first


def test_a_source_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file, directory or model; catalogues: torchvision:"):
        entries([str(tmp_path / "*.onnx")])
    with pytest.raises(InputError, match="no such file"):
        entries(["a\0b"])
    with pytest.raises(ModelError, match="no model and no weights in this directory"):
        entries([str(tmp_path)])


def test_catalogues() -> None:
    torch = pytest.importorskip("torch")
    assert torch
    import tests.torch_vision  # noqa: F401 - it declares what torchvision lacks here

    vision = {entry.name: entry for entry in entries(["torchvision:*"])}
    assert vision["torchvision/resnet50"].inputs == ("1x3x224x224",)
    assert vision["torchvision/vit_h_14"].arguments["image_size"] == "518"
    assert (vision["torchvision/resnet50"].year, vision["torchvision/resnet50"].family) == (2015, "resnet")
    assert vision["torchvision/raft_large"].inputs == ("1x3x512x512", "1x3x512x512")
    with pytest.raises(InputError, match="no model of torchvision has such a name"):
        entries(["torchvision:nothing*"])
    pytest.importorskip("timm")
    (net,) = entries(["timm:vit_base_patch16_384"])
    assert (net.inputs, net.family, net.year) == (("1x3x384x384",), "vision_transformer", 2020)
    pytest.importorskip("transformers")
    (bert,) = entries(["transformers:bert"])
    assert bert.arguments == {"config": "transformers:BertConfig"}


def test_the_year_of_a_paper() -> None:
    assert year_of("https://arxiv.org/pdf/2103.14030.pdf") == 2021
    assert year_of("no paper", None, "") is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("os:system --arg command=true", "os:system: is code"),
        ("net.py:Net", "net.py:Net: is code"),
        ("torchvision.models:resnet18", r"torchvision\.models:resnet18: is code"),
        ("{model} --arg a=os:system", "--arg a=os:system: a value is"),
        ("timm:resnet18 --arg checkpoint_path=../weights.pth", "--arg checkpoint_path=../weights.pth: a value is"),
        ("timm:resnet18 --arg checkpoint_path=weights.pth", "--arg checkpoint_path=weights.pth: a value is"),
    ],
)
def test_a_list_runs_no_code_unasked(line: str, message: str, tmp_path: Path, capsys: Any) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "net.py").write_text(f"open({str(ran)!r}, 'w')")
    (tmp_path / "list.txt").write_text(f"# models\n{line.format(model=MODEL)}\n")
    assert main(["zoo", "build", str(tmp_path / "list.txt"), "-o", str(tmp_path / "zoo")]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert re.search(message, said)
    assert "list.txt, line 2: " in said
    assert "--trust-code" in said
    assert not ran.exists()
    assert not (tmp_path / "zoo").exists()
    assert entries([str(tmp_path / "list.txt")], trust_code=True)


def test_a_list_of_names(tmp_path: Path) -> None:
    """Catalogues' names stand in lists as they do on the command line; their own arguments stay."""
    pytest.importorskip("timm")
    listed = tmp_path / "list.txt"
    listed.write_text(
        "timm:resnet18 --arg num_classes=10 --name small --tag a\ntimm:resnet[13]4 --family f -i 1x3x64x64\n"
    )
    small, *rest = entries([str(listed)])
    assert (small.name, small.model, small.tags) == ("small", "timm:create_model", ("classification", "a"))
    assert small.arguments == {"model_name": "resnet18", "num_classes": "10"}
    assert [(entry.name, entry.family, entry.inputs) for entry in rest] == [("timm/resnet34", "f", ("1x3x64x64",))]
    for line, message in (
        ("timm:resnet18 --arg model_name=resnet34", "line 1: --arg model_name: is set by the catalogue"),
        ("timm:resnet* --name one", "line 1: --name is for one model, and timm:resnet\\* has "),
        ("timm:nothing", "line 1: timm:nothing: no model of timm has such a name"),
    ):
        listed.write_text(line)
        with pytest.raises(InputError, match=message):
            entries([str(listed)])


def test_a_file_of_a_list_never_becomes_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one with the name of a function, which is gone when its turn comes."""
    monkeypatch.chdir(tmp_path)
    Path("os:getcwd").write_bytes(MODEL.read_bytes())
    Path("list.txt").write_text("os:getcwd\n")
    (entry,) = entries(["list.txt"])
    Path("os:getcwd").unlink()
    assert not is_callable(entry.model)


def test_programs_in_files_run_where_code_is_trusted(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("duckdb")
    torch.jit.script(torch.nn.Linear(4, 4)).save(str(tmp_path / "net.pt"))
    (tmp_path / "list.txt").write_text("net.pt -i 1x4\n")
    listed, folder = str(tmp_path / "list.txt"), tmp_path / "zoo"
    ((_, error),) = zoo.build(listed, output=folder).failures
    assert "--trust-code" in error
    built = zoo.build(listed, str(MODEL), output=folder, trust_code=True)
    assert (built.models, built.kept, built.failures) == (2, 0, ())
    assert zoo.build(str(MODEL), output=folder).kept == 1  # a file that holds no code is the same


def test_an_argument_of_a_file_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "list.txt").write_text(f"{MODEL} --arg width=4\n")
    ((_, error),) = zoo.build(str(tmp_path / "list.txt"), output=tmp_path / "zoo").failures
    assert error.startswith("InputError: ")
    assert "only for PyTorch modules" in error
