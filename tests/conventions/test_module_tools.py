"""ptflops, thop, torchinfo, calflops, DeepSpeed and torchstat against the tools themselves and figures of theirs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import flopwise
from flopwise.conventions import get
from flopwise.graph import Graph
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile

torch = pytest.importorskip("torch")

from tests import torch_tools  # noqa: E402
from tests.torch_modules import MODULES  # noqa: E402
from torch import nn  # noqa: E402

from flopwise.formats.torch.read import read_torch  # noqa: E402

RECORDS = Path(__file__).parents[1] / "recorded" / "module_tools.json"


def figures(tool: str, profile: Profile) -> tuple[int | None, ...]:
    """What a tool returns, from a profile in its convention."""
    count = None if profile.sum.unknown else profile.sum.count
    own = profile.own
    between = (own["macs"],) if tool in ("calflops", "deepspeed") else ()
    behind = (own["output_bytes"],) if tool == "torchinfo" else ()
    return (count, *between, own["params"], *behind)


def ours(tool: str, graph: Graph) -> tuple[int | None, ...]:
    return figures(tool, profile_graph(graph, get(tool)))


def case(tool: str, name: str) -> tuple[Any, tuple[Any, ...]]:
    """A small module; thop has to be given one that holds it, because it looks at what a module holds."""
    module, inputs = MODULES[name]()
    if tool == "thop" and not list(module.children()) and len(inputs) == 1:
        module = nn.Sequential(module).eval()
    return module, inputs


#: Module -> tool -> what it says; text where the tool fails.
RECORDED_MODULES: dict[str, dict[str, Any]] = json.loads(RECORDS.read_text())


@pytest.mark.parametrize(
    ("name", "tool"),
    [(name, tool) for name in MODULES for tool in torch_tools.TOOLS if isinstance(RECORDED_MODULES[name][tool], list)],
)
def test_recorded_figures_of_small_modules(name: str, tool: str) -> None:
    expected = RECORDED_MODULES[name][tool]
    module, inputs = case(tool, name)
    figures = ours(tool, read_torch(module, inputs))
    assert figures[: len(expected)] == tuple(map(int, expected))


#: Modules that tools may be given: some change what is compiled or quantised for good.
PLAIN = [name for name in MODULES if "compile" not in name and "quantised" not in name]

#: Of these, those with parameters: calflops asks for the first, and where there is none leaves PyTorch patched.
TRAINABLE = [name for name in PLAIN if any(True for _ in MODULES[name]()[0].parameters())]


@pytest.mark.parametrize(
    ("name", "tool"),
    [(n, tool) for tool in torch_tools.INSTALLED for n in (TRAINABLE if tool == "calflops" else PLAIN)],
)
@pytest.mark.filterwarnings("ignore")
def test_the_tool_itself_on_small_modules(name: str, tool: str) -> None:
    module, inputs = case(tool, name)
    figures = ours(tool, read_torch(module, inputs))
    assert figures == torch_tools.TOOLS[tool](module, inputs, {})


#: MACs in ptflops, thop and torchinfo, FLOPs in calflops and DeepSpeed, MACs in torchstat; params; torchinfo's bytes.
RECORDED: dict[str, tuple[int | None, ...]] = {
    "alexnet": (716441128, 714206912, 714682664, 1429741184, 1429741184, 715543488, 61100840, 3953472),
    "vgg16": (15523225576, 15470314496, 15483821032, 30973778432, 30973778432, 15503489024, 138357544, 108453696),
    "resnet18": (1825313768, 1824033792, 1814083944, 3636250112, 3636250112, 1821399040, 11689512, 39747392),
    "resnet50": (4132436968, 4133742592, 4089238376, 8211108352, 8211108352, 4118537216, 25557032, 177831744),
    "densenet121": (2899843048, 2897007104, 2834246312, 5716881152, 5716881152, 2882619136, 7978856, 180541248),
    "mobilenet_v2": (320300008, 327486720, 300809384, 614967488, 614967488, 320236288, 3504872, 106857792),
    "efficientnet_b0": (410196896, 415145024, 385867108, 793641400, 793641400, 399299484, 5288548, 107885856),
    "vit_b_16": (17606030584, 11286254592, 173232616, 33723326208, 35153981184, None, 86567656, 104093504),
    "inception_v3": (5747660552, 5749219168, 5713251528, 11458393728, 11458393728, 5733501920, 27161264, 143487808),
    "googlenet": (1513907448, 1511332032, 1498391752, 3009356752, 3009356752, 1507704224, 13004888, 51626560),
    "squeezenet1_1": (359982728, 349321936, 351741288, 705013944, 705013944, 355693008, 1235496, 20714816),
    "shufflenet_v2_x1_0": (152387568, 152708792, 144925172, 295505472, 295505472, 150597480, 2278604, 31211200),
    "bert_base": (10885300992, 10882056192, 109482240, 21756739584, 22360719360, None, 109482240, 106960896),
    "gpt2": (15814640640, 4950294528, 163343662080, 31636571136, 32240550912, None, 124439808, 157631488),
}

#: Params where a tool has others: thop and torchstat leave out what is not called or not known.
OTHER_PARAMS: dict[tuple[str, str], int] = {
    ("thop", "vit_b_16"): 58067176,
    ("thop", "bert_base"): 85646592,
    ("thop", "gpt2"): 38635776,
    ("torchinfo", "gpt2"): 163037184,
    **{(tool, "inception_v3"): 23834568 for tool in ("thop", "torchstat")},
    **{(tool, "googlenet"): 6624904 for tool in ("thop", "torchstat")},
}

#: MAdd and moved bytes of torchstat.
TORCHSTAT: dict[str, tuple[int, int]] = {
    "alexnet": (1429567512, 253606976),
    "vgg16": (30958666264, 783170624),
    "resnet18": (3638757912, 101756992),
    "resnet50": (8219637272, 332849216),
    "densenet121": (5742018328, 377184576),
    "mobilenet_v2": (627687672, 170075968),
    "efficientnet_b0": (791841592, 129392400),
    "inception_v3": (11457943704, 271239404),
    "googlenet": (3017565800, 101044160),
    "squeezenet1_1": (703534632, 49664384),
    "shufflenet_v2_x1_0": (297755728, 54080208),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_figures_of_architectures(name: str) -> None:
    pytest.importorskip("tests.torch_vision")
    pytest.importorskip("transformers")
    from tests.torch_models import MODELS

    model, args, kwargs = MODELS[name]()
    graph = read_torch(model, (args, kwargs))
    *counts, params, output_bytes = RECORDED[name]
    for tool, count in zip((*torch_tools.TOOLS, "torchstat"), counts, strict=True):
        found = figures(tool, profile_graph(graph, get(tool)))
        assert found[0] == count, tool
        if count is not None:
            known = OTHER_PARAMS.get((tool, name), params)
            assert found[2 if tool in ("calflops", "deepspeed") else 1] == known, tool
        if tool == "torchinfo":
            assert found[-1] == output_bytes
    if name in TORCHSTAT:
        own = profile_graph(graph, get("torchstat")).own
        assert (own["madd"], own["moved_bytes"]) == TORCHSTAT[name]


@pytest.mark.parametrize("tool", torch_tools.INSTALLED)
@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_1", "shufflenet_v2_x1_0", "googlenet", "vit_b_16"])
@pytest.mark.filterwarnings("ignore")
def test_the_tool_itself_on_architectures(name: str, tool: str) -> None:
    pytest.importorskip("tests.torch_vision")
    from tests.torch_models import MODELS

    model, args, kwargs = MODELS[name]()
    found = ours(tool, read_torch(model, (args, kwargs)))
    assert found == torch_tools.TOOLS[tool](model, args, kwargs)


def small() -> Any:
    """A network of layers that torchstat knows, one of them called twice, one never, and some that it does not know."""

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, padding=1, groups=1)
            self.norm = nn.BatchNorm2d(8)
            self.act = nn.PReLU()
            self.up = nn.Upsample(scale_factor=2)
            self.back = nn.ConvTranspose2d(8, 8, 2, stride=2, groups=2)
            self.pools = nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.LeakyReLU(), nn.Softmax(1))
            self.unused = nn.Linear(3, 3)
            self.fc = nn.Linear(8 * 16 * 16, 5, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.act(self.norm(self.conv(x)))
            x = self.pools(self.act(self.back(self.up(x))))
            return self.fc(x.flatten(1))

    return Small().eval()


@pytest.mark.filterwarnings("ignore")
def test_torchstat_itself() -> None:
    model = small()
    profile = profile_graph(read_torch(model, (1, 3, 16, 16)), get("torchstat"))
    said = torch_tools.totals_of_torchstat(torch_tools.torchstat(model, (3, 16, 16)))
    assert {key: profile.own[key] for key in ("params", "madd", "moved_bytes")} == {
        key: said[key] for key in ("params", "madd", "moved_bytes")
    }
    assert profile.sum.count == said["count"]


class _Features(nn.Module):
    """Positions by images by channels."""

    def forward(self, x: Any) -> Any:
        return x.flatten(2).permute(2, 0, 1)


@pytest.mark.parametrize("tool", torch_tools.INSTALLED)
@pytest.mark.filterwarnings("ignore")
def test_more_layers(tool: str) -> None:
    """Classes and functions that the small modules and the architectures do not have, with a batch of 3."""

    class More(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                [
                    nn.Conv2d(4, 8, 3, stride=2, dilation=2, padding=1, padding_mode="circular"),
                    nn.GroupNorm(2, 8),
                    nn.ELU(),
                    nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1, dilation=2, groups=2),
                    nn.InstanceNorm2d(6, affine=True),
                    nn.LeakyReLU(),
                    nn.AvgPool2d(2),
                    nn.Upsample(scale_factor=1.5, mode="bilinear"),
                    nn.Upsample(size=(12, 12), mode="bicubic"),
                    nn.AdaptiveMaxPool2d(5),
                    nn.PReLU(6),
                    nn.AdaptiveAvgPool2d((3, 2)),
                    nn.ReLU6(inplace=True),
                    _Features(),
                ]
            )
            self.rnn = nn.RNN(6, 5, 2, bidirectional=True, bias=False)
            self.gru = nn.GRU(10, 4, batch_first=True)
            self.cells = nn.ModuleList([nn.GRUCell(4, 3), nn.RNNCell(3, 2)])
            self.out = nn.Sequential(nn.Linear(2, 6), nn.Dropout(), nn.Softmax(-1))

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            x, _ = self.rnn(x)
            x, _ = self.gru(x)
            x = x[:, 0]
            for cell in self.cells:
                x = cell(x)
            x = self.out(x)
            x = torch.add(torch.mul(x, 2), x[:, :1]) + x
            x = torch.addmm(torch.mm(x, x.t()), x, x.t()) * 3
            x = (x @ x).matmul(x).add(x).mul(2)
            return nn.functional.interpolate(nn.functional.silu(x)[None], scale_factor=3)

    model = More().eval()
    inputs = (torch.zeros(3, 4, 15, 15),)
    found = ours(tool, read_torch(model, inputs))
    assert found == torch_tools.TOOLS[tool](model, inputs, {})


class Shared(nn.Module):
    """One layer at two places and under two names at one of them, and a block at two places."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.Linear(6, 6)
        self.left = nn.Sequential(layer, nn.PReLU())
        self.right = nn.Sequential(layer, layer, self.left)

    def forward(self, x: Any) -> Any:
        return self.right(self.left(x))


@pytest.mark.parametrize("tool", [tool for tool in torch_tools.INSTALLED if tool != "torchinfo"])
@pytest.mark.filterwarnings("ignore")
def test_a_layer_at_several_places(tool: str) -> None:
    inputs = (torch.zeros(1, 6),)
    assert ours(tool, read_torch(Shared(), inputs)) == torch_tools.TOOLS[tool](Shared(), inputs, {})


def in_a_file() -> tuple[Any, Any]:
    """An ONNX model, and the module that it is."""
    helper = pytest.importorskip("onnx").helper
    floats = 1
    shapes = {"w": (8, 4, 3, 3), **dict.fromkeys("bstmv", (8,)), "u": (8, 3, 2, 2)}
    weights = [helper.make_tensor(name, floats, shape, [0.0] * math.prod(shape)) for name, shape in shapes.items()]
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], group=1),
        node("BatchNormalization", ["c", "s", "t", "m", "v"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("ConvTranspose", ["p", "u"], ["q"], strides=[2, 2], group=2),
        node("GlobalAveragePool", ["q"], ["a"]),
        node("Resize", ["a", "", "scales"], ["z"], mode="nearest"),
        node("LeakyRelu", ["z"], ["l"]),
        node("AveragePool", ["l"], ["o"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Softmax", ["o"], ["y"], axis=1),
    ]
    weights.append(helper.make_tensor("scales", floats, (4,), [1.0, 1.0, 4.0, 4.0]))
    graph = helper.make_graph(
        nodes,
        "file",
        [helper.make_tensor_value_info("x", floats, (2, 4, 8, 8))],
        [helper.make_tensor_value_info("y", floats, (2, 6, 2, 2))],
        weights,
    )
    module = nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(8, 6, 2, stride=2, groups=2, bias=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Upsample(scale_factor=4),
        nn.LeakyReLU(),
        nn.AvgPool2d(2),
        nn.Softmax(1),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), module


@pytest.mark.parametrize("tool", [*torch_tools.TOOLS, "torchstat"])
def test_a_file_counts_as_the_module(tool: str) -> None:
    model, module = in_a_file()
    of_file = flopwise.profile(model, convention=tool)
    of_module = flopwise.profile(module, (2, 4, 8, 8), convention=tool)
    assert (of_file.sum.count, of_file.own["params"]) == (of_module.sum.count, of_module.own["params"])
    assert any("a file has no modules" in note for note in of_file.notes)
    assert not any("a file has no modules" in note for note in of_module.notes)


def test_thop_of_a_bare_layer_has_no_params() -> None:
    profile = profile_graph(read_torch(nn.Linear(8, 4), (2, 8)), get("thop"))
    assert (profile.sum.count, profile.own["params"]) == (64, 0)


def test_says_which_modules_have_no_rule() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.SiLU(), nn.SiLU())
    notes = profile_graph(read_torch(model, (2, 8)), get("thop")).notes
    assert "thop has no rule for these modules and counts nothing for them: SiLU 2" in notes


def test_torchstat_stops_where_the_tool_stops() -> None:
    model = nn.Sequential(nn.Linear(8, 4))
    profile = profile_graph(read_torch(model, (2, 3, 8)), get("torchstat"))
    assert profile.sum.unknown == 1
    assert any("fails at the module '0'" in note for note in profile.notes)
