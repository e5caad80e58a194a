"""PyTorch models by name and in files; what is no model is refused in one line and never unpickled."""

from __future__ import annotations

import os
import pickle
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.cli import main  # noqa: E402
from flopwise.errors import InputError, ModelError  # noqa: E402
from flopwise.formats.torch import load  # noqa: E402
from flopwise.formats.torch.libraries import CATALOGUES  # noqa: E402

NET = """
import torch
from torch import nn

class Config:
    def __init__(self, width=8, name="x"):
        self.width = width

class Net(nn.Module):
    def __init__(self, width=8, bias=True, config=None):
        super().__init__()
        self.layer = nn.Linear(4, config.width if config else width, bias)
    def forward(self, x):
        return self.layer(x)

class Asks(Net):
    def forward(self, x):
        return self.layer(x) if self.layer.weight.sum() > -1000 else x

def broken():
    raise ValueError("no such luck\\nat all")

instance = Net()
number = 3

def numbers():
    return 3
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "my_net.py").write_text(NET)
    return str(tmp_path / "my_net.py")


@pytest.mark.parametrize(
    ("name", "arguments", "macs"),
    [
        ("Net", {}, 32),
        ("Net", {"width": "16"}, 64),
        ("Net", {"width": "16", "bias": "false"}, 64),
        ("instance", {}, 32),
        ("Asks", {}, 32),
        ("Net", {"config": "{}:Config"}, 32),
        ("Net", {"config": "{}:Config", "config.width": "5", "config.name": "y"}, 20),
    ],
)
def test_a_callable_makes_the_model(net: str, name: str, arguments: dict[str, str], macs: int) -> None:
    given = {key: value.format(net) for key, value in arguments.items()}
    profile = flopwise.profile(f"{net}:{name}", (1, 4), arguments=given)
    assert profile.total("macs") == macs
    assert profile.graph.source == f"{net}:{name}"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("Nett", {}, "has no 'Nett'; did you mean 'Net'?"),
        ("broken", {}, "failed with ValueError: no such luck at all"),
        ("numbers", {}, "returned an int, not a torch.nn.Module"),
        ("number", {}, "is an int, not a callable"),
        ("Net", {"depth": "3"}, "has no argument .depth."),
        ("Net", {"config.width": "3"}, "there is no --arg config=package.module:callable"),
    ],
)
def test_what_makes_no_model_is_one_line(net: str, name: str, arguments: dict[str, str], words: str) -> None:
    with pytest.raises((ModelError, InputError), match=words) as caught:
        flopwise.profile(f"{net}:{name}", (1, 4), arguments=arguments)
    assert "\n" not in str(caught.value)


def test_modules_that_are_not_there() -> None:
    with pytest.raises(ModelError, match=r"no\.such\.package:net: cannot be imported \(No module named 'no'\)"):
        flopwise.profile("no.such.package:net", (1, 4))
    with pytest.raises(ModelError, match=r"nowhere\.py: no such file"):
        flopwise.profile("nowhere.py:net", (1, 4))


def test_the_current_folder_has_what_is_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module there is found by its name, and takes no other's place."""
    (tmp_path / "only_here.py").write_text("import beside_only_here\nfrom torch import nn\nNet = nn.Linear")
    (tmp_path / "beside_only_here.py").write_text("")
    for name in ("torchvision", "torch", "colorsys"):
        (tmp_path / f"{name}.py").write_text("raise ValueError")
    monkeypatch.chdir(tmp_path)
    assert flopwise.profile("only_here:Net", (1, 4), arguments={"in_features": "4", "out_features": "3"})
    assert flopwise.profile("torch.nn:ReLU", (1, 4))
    with pytest.raises(ModelError, match="has no 'Net'"):
        flopwise.profile("colorsys:Net", (1, 4))
    with pytest.raises(ModelError, match="no module 'only_heer'; did you mean only_here:Net"):
        flopwise.profile("only_heer:Net", (1, 4))


def test_a_file_finds_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "blocks_beside_it.py").write_text("from torch import nn\nBlock = nn.Linear")
    (tmp_path / "outer.py").write_text("from blocks_beside_it import Block\ndef net():\n    return Block(4, 3)")
    before = list(sys.path)
    assert flopwise.profile(f"{tmp_path / 'outer.py'}:net", (1, 4)).total("macs") == 12
    assert sys.path == before


def test_what_is_given_in_place_of_a_callable(net: str) -> None:
    with pytest.raises(ModelError, match=r"what makes the model, as .*:NAME; it has Config, Net, Asks, b"):
        flopwise.profile(net)
    with pytest.raises(ModelError, match=r"a callable is given as torchvision\.models:resnet50$"):
        flopwise.profile("torchvision.models.resnet50", (1, 3, 224, 224))


def test_on_the_command_line(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", f"{net}:Net", "-i", "1x4", "--arg", "width=16", "-f", "json"]) == 0
    assert '"macs": 64' in capsys.readouterr().out
    assert main(["profile", f"{net}:Net"]) == 2
    assert "give -i x:f32:" in capsys.readouterr().err
    assert main(["profile", f"{net}:Net", "-i", "1x4", "--arg", "width"]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err
    assert main(["flops", f"{net}:Net", "-i", "1x4"]) == 0
    assert main(["layers", f"{net}:Net", "-i", "1x4"]) == 0


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def test_an_exported_program(tmp_path: Path) -> None:
    program = torch.export.export(Small().eval(), (torch.zeros(2, 3, 8, 8),))
    path = str(tmp_path / "small.pt2")
    torch.export.save(program, path)
    direct = flopwise.profile(Small(), (2, 3, 8, 8))
    for model in (path, program):
        profile = flopwise.profile(model)
        assert profile.total("macs") == direct.total("macs")
        assert profile.total("params") == direct.total("params")
        assert [row.node.module for row in profile.rows] == [row.node.module for row in direct.rows]
    with pytest.raises(InputError, match="the mode that it was exported in"):
        flopwise.profile(path, mode="train")


def test_torchscript(tmp_path: Path) -> None:
    path = str(tmp_path / "small.pt")
    torch.jit.script(Small().eval()).save(path)
    direct = flopwise.profile(Small(), (2, 3, 8, 8))
    profile = flopwise.profile(path, (2, 3, 8, 8), trust_code=True)
    assert profile.total("macs") == direct.total("macs")
    assert profile.total("params") == direct.total("params")


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("ending", [".pt", ".pth", ".pt2", ".ckpt", ".bin"])
@pytest.mark.parametrize("kind", ["checkpoint", "trap", "plain trap", "damaged", "empty"])
def test_what_is_no_model_is_never_unpickled(tmp_path: Path, ending: str, kind: str) -> None:
    path, sprung = tmp_path / f"model{ending}", tmp_path / "sprung"
    if kind == "checkpoint":
        torch.save(Small().state_dict(), path)
    elif kind == "trap":
        torch.save({"a": Trap(str(sprung))}, path)
    elif kind == "plain trap":
        path.write_bytes(pickle.dumps(Trap(str(sprung))))
    else:
        path.write_bytes(b"PK\x03\x04" * 20 if kind == "damaged" else b"")
    with pytest.raises(ModelError) as caught:
        flopwise.profile(str(path), (1, 3, 8, 8)).total("macs")
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert not sprung.exists()


def test_a_trap_inside_an_exported_program(tmp_path: Path) -> None:
    import zipfile

    path, trapped = tmp_path / "small.pt2", tmp_path / "trapped.pt2"
    torch.export.save(torch.export.export(Small().eval(), (torch.zeros(2, 3, 8, 8),)), str(path))
    sprung = tmp_path / "sprung"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(trapped, "w") as new:
        for member in old.namelist():
            data = old.read(member)
            if member.endswith("sample_inputs/model.pt"):
                data = pickle.dumps(Trap(str(sprung)))
            new.writestr(member.replace("small/", "trapped/"), data)
    with pytest.raises(ModelError) as caught:
        flopwise.profile(str(trapped))
    assert "\n" not in str(caught.value)
    assert not sprung.exists()


def test_a_callable_that_decides_by_values_takes_no_memory_for_its_weights(tmp_path: Path) -> None:
    """torchvision's RegNet reads the elements of a tensor that it makes, which the meta device does not have."""
    file = tmp_path / "wide.py"
    file.write_text(
        "import torch\n\ndef model():\n    width = int(torch.arange(4).sum()) << 17\n"
        "    first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)\n    second.weight = first.weight\n"
        "    return torch.nn.Sequential(first, second, torch.nn.Linear(4, width), torch.nn.Linear(width, 1 << 12))\n"
    )
    module = load.made(f"{file}:model")
    assert all(parameter.is_meta for parameter in module.parameters())
    assert module[0].weight is module[1].weight
    assert flopwise.profile(f"{file}:model", (1, 4)).total("params") == 20 + 4 + (6 << 17) * 5 + (6 << 29) + 4096


# Models by the names of timm, torchvision and transformers, with the sizes of their images.


pytest.importorskip("torch")


pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("timm", "torchvision", "transformers"))), reason="timm and transformers are not installed"
)

#: Name -> input and parameters as the library's own documentation states them.
STATED = {
    "timm:resnet50.a1_in1k": ((1, 3, 224, 224), 25_557_032),
    "timm:vit_base_patch14_dinov2": ((1, 3, 518, 518), 86_579_712),  # without the token of masks, which nobody reads
    "torchvision:efficientnet_b1": ((1, 3, 240, 240), 7_794_184),
    "torchvision.models:resnet18": ((1, 3, 224, 224), 11_689_512),
    "torchvision:inception_v3": ((1, 3, 299, 299), 27_161_264),
    "transformers:xlm-roberta": ((1, 128), 109_482_240),
}


@pytest.mark.parametrize("name", STATED)
def test_models_as_their_libraries_state_them(name: str) -> None:
    shape, params = STATED[name]
    profile = flopwise.profile(name)
    assert profile.graph.inputs[0].shape == shape
    assert profile.sum.params == params


def test_a_batch_and_an_input_of_ones_own() -> None:
    assert flopwise.profile("timm:resnet18", batch_size=4).graph.inputs[0].shape == (4, 3, 224, 224)
    assert flopwise.profile("timm:resnet18", "1x3x64x64").graph.inputs[0].shape == (1, 3, 64, 64)
    arguments = {"num_hidden_layers": "2"}
    two_layers = flopwise.profile("transformers:bert", arguments=arguments)
    assert two_layers.sum.params == STATED["transformers:xlm-roberta"][1] - 10 * 7_087_872


def test_a_formula_is_of_a_batch_of_the_image_that_the_library_states() -> None:
    formula = flopwise.formula("torchvision:squeezenet1_1")
    assert [str(symbol) for symbol in formula.symbols] == ["batch"]
    assert formula.value("macs", batch=3) == 3 * flopwise.profile("torchvision:squeezenet1_1").sum.macs


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timm:resnt50", "timm has no model 'resnt50'; did you mean timm:resnet50"),
        ("torchvision:vit_b", "did you mean .*torchvision:vit_b_16"),
        ("transformers:bertt", "did you mean transformers:bert "),
        ("timm:create_model", r"needs 'model_name': give arguments=\{'model_name': 'VALUE'\}"),
    ],
)
def test_names_that_are_not_there(name: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        flopwise.profile(name)


def test_detectors_have_no_size_of_an_image() -> None:
    with pytest.raises(InputError, match="needs the shape of its input 'images'"):
        flopwise.profile("torchvision:fasterrcnn_resnet50_fpn")


def test_every_name_has_a_maker() -> None:
    for library, catalogue in CATALOGUES.items():
        names = catalogue.names()
        assert len(names) > 50, library
        assert callable(catalogue.maker(names[0]))
