"""A folder with the files that the pages name: the examples, and small models under the names of a reader's own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
from tests.analyses.traces.nets import made_up
from tests.docs.blocks import ROOT
from tests.language_models import LLAMA, PUBLISHED

import flopwise

EXAMPLES = ROOT / "examples"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def _copy(source: Path) -> Callable[[Path], object]:
    return lambda path: shutil.copyfile(source, path)


def _config(config: dict[str, object]) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps(config))

    return write


def _wider(path: Path) -> None:
    """The small ResNet whose classifier has ten classes more."""
    model = onnx.load(EXAMPLES / "tiny_resnet.onnx")
    for stored in model.graph.initializer:
        if stored.dims and stored.dims[0] == 10:
            values = onnx.numpy_helper.to_array(stored)
            doubled = values.repeat(2, axis=0)
            stored.CopyFrom(onnx.numpy_helper.from_array(doubled, stored.name))
    for output in model.graph.output:
        output.type.tensor_type.shape.dim[-1].dim_value = 20
    del model.graph.value_info[:]
    onnx.save(model, path)


def _pruned(path: Path) -> None:
    """A convolution without its smaller half, and a product of which four of five 4x4 blocks are zero."""
    import numpy
    from onnx import helper, numpy_helper

    random = numpy.random.default_rng(0)
    w = random.normal(size=(64, 32, 3, 3)).astype(numpy.float32)
    w[numpy.abs(w) < numpy.median(numpy.abs(w))] = 0
    g = random.normal(size=(64, 128)).astype(numpy.float32)
    g *= numpy.kron(random.random((16, 32)) > 0.8, numpy.ones((4, 4))).astype(numpy.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], "c", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["y"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "g"], ["z"], "fc"),
    ]
    ends = [
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)]
        for name, shape in (("x", (1, 32, 16, 16)), ("z", (1, 128)))
    ]
    stored = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(g, "g")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "pruned", *ends, stored)), path)


def _module(path: Path) -> None:
    path.write_text(
        "from torch import nn\n\n\n"
        "def make_model(width: int = 16) -> nn.Module:\n"
        "    return nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),\n"
        "                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))\n"
    )


def _exported(path: Path) -> None:
    import torch

    torch.export.save(torch.export.export(_net(), (torch.zeros(1, 3, 64, 64),)), path)


def _scripted(path: Path) -> None:
    import torch

    torch.jit.trace(_net(), torch.zeros(1, 3, 64, 64)).save(str(path))


def _net() -> object:
    from torch import nn

    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()


def _tensors(path: Path) -> None:
    import numpy
    from safetensors.numpy import save_file

    save_file({"a": numpy.arange(6, dtype=numpy.float32).reshape(2, 3)}, path)


def _folder(path: Path) -> None:
    path.mkdir()
    for name in ("tiny_resnet.onnx", "alexnet.prototxt"):
        shutil.copyfile(EXAMPLES / name, path / name)
    shutil.copyfile(EXAMPLES / "tiny_resnet.onnx", path / "mobile.onnx")


def _budget(path: Path) -> None:
    path.write_text('[model]\nmacs = "2 M"\nparams = "50 k"\nunknown = 0\n')


def _node_profile(path: Path) -> None:
    path.write_text(made_up(flopwise.profile(EXAMPLES / "tiny_resnet.onnx")))


#: Path -> how it is made. Only those that a page names are. What lies under ``path/to`` has few layers: no page shows
#: its figures, and the formulas of a deep model take ten seconds.
FILES: dict[str, Callable[[Path], object]] = {
    "models": _folder,
    **{f"models/{name}": _config(config) for name, config in PUBLISHED.items()},
    **{f"path/to/{name}": _config({**config, "num_hidden_layers": 4}) for name, config in PUBLISHED.items()},
    **{f"path/to/{name}": _config(dict(LLAMA)) for name in ("model", "llama", "mixtral")},
    **dict.fromkeys(
        ("model.onnx", "main.onnx", "a.onnx", "base.onnx", "old.onnx"), _copy(EXAMPLES / "tiny_resnet.onnx")
    ),
    **dict.fromkeys(("branch.onnx", "b.onnx", "head.onnx", "new.onnx"), _wider),
    **{
        f"{name}.onnx": _copy(LIGHT / f"light_{name}.onnx")
        for name in ("resnet50", "squeezenet", "vgg19", "densenet121")
    },
    "alexnet.onnx": _copy(LIGHT / "light_bvlc_alexnet.onnx"),
    "net.prototxt": _copy(EXAMPLES / "alexnet.prototxt"),
    "alexnet.prototxt": _copy(EXAMPLES / "alexnet.prototxt"),
    "pruned.onnx": _pruned,
    "my_net.py": _module,
    "exported.pt2": _exported,
    "model.pte": _copy(ROOT / "tests" / "formats" / "executorch" / "data" / "network.pte"),
    "scripted.pt": _scripted,
    "tiny_resnet.onnx": _copy(EXAMPLES / "tiny_resnet.onnx"),
    "model.safetensors": _tensors,
    "budget.toml": _budget,
    "profile.json": _node_profile,
    "list.txt": lambda path: path.write_text("model.onnx\n"),
}


def stage(folder: Path, text: str) -> None:
    """The files that a page's text names, in the folder."""
    shutil.copytree(EXAMPLES, folder / "examples")
    for name, make in FILES.items():
        if re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w-])", text) and not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            make(folder / name)
