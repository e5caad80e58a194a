"""``summary`` against torchinfo itself: same totals, same text."""

from __future__ import annotations

from typing import Any

import pytest

from flopwise.errors import InputError, ModelError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from flopwise.compat.torchinfo import summary  # noqa: E402

TOTALS = (
    "total_params",
    "trainable_params",
    "total_mult_adds",
    "total_input",
    "total_param_bytes",
    "total_output_bytes",
)

ALL_COLUMNS = (
    "kernel_size",
    "input_size",
    "output_size",
    "num_params",
    "params_percent",
    "mult_adds",
    "trainable",
)


class Net(nn.Module):
    """Nested containers that are not called, a layer called twice, frozen and tied parameters, an own parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.ModuleList([nn.ModuleList([nn.Conv2d(8, 8, 1), nn.Sequential(nn.ReLU())]) for _ in range(2)])
        self.act = nn.PReLU()
        self.scale = nn.Parameter(torch.ones(8, 1, 1))
        self.empty = nn.Sequential()
        self.rnn = nn.LSTM(8, 6, bidirectional=True)
        self.first = nn.Linear(12, 5)
        self.second = nn.Linear(12, 5)
        self.second.weight = self.first.weight
        self.frozen = nn.Linear(5, 3).requires_grad_(False)
        self.unused = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        x = self.empty(self.act(self.stem(x)))
        for conv, rest in self.blocks:
            x = self.act(rest(conv(x)))
        x, _ = self.rnn((x * self.scale).flatten(2).permute(2, 0, 1))
        return self.frozen(self.first(x) + self.second(x))


class Pair(nn.Module):
    """Two inputs of different types, one by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.linear = nn.Linear(4, 4)

    def forward(self, tokens: Any, other: Any) -> Any:
        return self.linear(self.table(tokens)) + other


def same(ours: Any, theirs: Any) -> None:
    assert {name: getattr(ours, name) for name in TOTALS} == {name: getattr(theirs, name) for name in TOTALS}
    text = str(theirs)
    for long, short in (("MEGABYTES", "M"), ("GIGABYTES", "G"), ("TERABYTES", "T")):
        text = text.replace(f"Units.{long}", short)
    assert str(ours) == text


@pytest.mark.parametrize(
    "options",
    [
        {"input_size": (2, 3, 12, 12)},
        {"input_size": (3, 12, 12), "batch_dim": 0},
        {"input_size": (2, 3, 12, 12), "col_names": ALL_COLUMNS, "col_width": 18},
        {"input_size": [(2, 3, 12, 12)], "depth": 1, "col_names": ALL_COLUMNS},
        {"input_size": (2, 3, 12, 12), "depth": 2, "row_settings": ("var_names", "ascii_only"), "mode": "train"},
        {"input_size": (1, 3, 9, 9), "row_settings": ("depth", "var_names", "hide_recursive_layers")},
        {"input_data": torch.zeros(1, 3, 12, 12), "verbose": 2, "col_names": ("kernel_size", "num_params")},
        {},
        {"depth": 2, "col_names": ("num_params", "kernel_size", "trainable")},
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_text_and_totals(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    tool = pytest.importorskip("torchinfo")
    same(summary(Net(), **{"verbose": 0, **options}), tool.summary(Net(), **{"verbose": 0, **options}))
    capsys.readouterr()


def test_several_inputs() -> None:
    tool = pytest.importorskip("torchinfo")
    tokens, other = torch.zeros(2, 5, dtype=torch.int64), torch.zeros(2, 5, 4)
    for options in (
        {"input_data": [tokens, other]},
        {"input_data": {"tokens": tokens, "other": other}},
        {"input_data": [tokens], "other": other},
        {"input_size": [(2, 5), (2, 5, 4)], "dtypes": [torch.int64, torch.float32]},
    ):
        same(summary(Pair(), verbose=0, **options), tool.summary(Pair(), verbose=0, **options))


@pytest.mark.parametrize("name", ["resnet18", "googlenet", "vit_b_16"])
@pytest.mark.filterwarnings("ignore")
def test_architectures(name: str) -> None:
    tool = pytest.importorskip("torchinfo")
    pytest.importorskip("tests.torch_vision")
    from tests.torch_models import MODELS

    model, inputs, _ = MODELS[name]()
    for depth in (2, 5):
        options = {"input_data": inputs, "depth": depth, "col_names": ALL_COLUMNS, "verbose": 0}
        same(summary(model, **options), tool.summary(model, **options))


def test_prints_unless_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = summary(nn.Linear(2, 3), (1, 2), verbose=0)
    assert capsys.readouterr().out == ""
    for options in ({"verbose": 1}, {}):  # a script prints, an interpreter shows what comes back
        summary(nn.Linear(2, 3), (1, 2), **options)
        assert capsys.readouterr().out == f"{quiet}\n"


def test_the_module_is_left_as_it_was() -> None:
    model = Net().train()
    values = {key: value.clone() for key, value in model.state_dict().items()}
    for mode in ("train", "eval"):
        summary(model, (2, 3, 12, 12), mode=mode, verbose=0)
    assert model.training
    assert all(torch.equal(values[key], value) for key, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"col_names": ("flops",)}, "unknown column 'flops'; known: kernel_size"),
        ({"row_settings": ("names",)}, "unknown row setting 'names'"),
        ({"mode": "test"}, "unknown mode 'test'"),
        ({"verbose": 3}, "unknown verbosity 3"),
        ({"col_width": 0}, "col_width must be above 0"),
        ({"input_size": (1, 2), "input_data": torch.zeros(1, 2)}, "not both"),
        ({"col_names": ("mult_adds",)}, "the columns mult_adds need input_size or input_data"),
        ({"input_size": (1, 0)}, "numbers above 0"),
        ({"input_size": 5}, "a shape or a list of shapes"),
    ],
)
def test_refuses(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        summary(nn.Linear(2, 3), **options)


def test_where_the_module_fails() -> None:
    with pytest.raises(ModelError, match="Linear"):
        summary(nn.Linear(2, 3), (1, 5), verbose=0)
