"""Operations of a TorchScript program stand in the modules that they stand in when the same modules run in Python."""

from __future__ import annotations

import io
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch import nn

import flopwise
from flopwise.profiles.grouping import by_module


class Block(nn.Module):
    """Calls several alike in one line, a module that does nothing in an inference, and one without weights."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.a, self.b, self.drop = nn.GELU(), nn.Linear(4, 8), nn.Linear(8, 4), nn.Dropout()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.b(self.act(self.a(x)).relu())) + x


class Net(nn.Module):
    """Lists of modules, a loop over them, a branch, a method of its own, and a module that nobody calls."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2), nn.ReLU())
        self.idle = nn.Linear(4, 4)

    def pooled(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x).mean(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        if x.size(0) > 1:
            x = x * 2
        return self.pooled(x)


class Choosing(nn.Module):
    """Takes one of two layers, by the shape of what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 8), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(0) > 2:
            return self.one(x).relu()
        return self.other(x)


def through_file(script: Any) -> Any:
    """A script as it comes back from a file."""
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)


def figures(module: nn.Module) -> dict[str, tuple[int, int]]:
    """MACs and operators that compute of each module in which something ran."""
    profile = flopwise.profile(module, (3, 4))
    sums = by_module([row for row in profile.rows if row.flops], None, profile.graph.program.modules)
    return {one.name: (one.macs, one.count) for one in sums if one.count}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("filed", [False, True])
@pytest.mark.parametrize("how", ["script", "trace"])
def test_rows_stand_in_their_modules(how: str, filed: bool) -> None:
    net = Net().eval()
    script: Any = torch.jit.script(net) if how == "script" else torch.jit.trace(net, torch.zeros(3, 4))
    script = through_file(script) if filed else script
    assert figures(script) == figures(net)
    assert figures(nn.Sequential(script)).keys() == figures(nn.Sequential(net)).keys()
    program = flopwise.profile(script, (3, 4)).graph.program
    assert {module.path for module in program.modules} - program.in_scripts == {"", "blocks", "idle"}
    assert [call.path for call in program.calls] == [""]  # as hooks, and the tools that have them, see it


@pytest.mark.filterwarnings("ignore")
def test_a_script_that_is_called_in_turns_and_twice() -> None:
    first, again = torch.jit.script(Block().eval()), nn.ReLU()

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.again = first, again

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(self.again(self.first(x)))

    profile = flopwise.profile(Twice(), (3, 4))
    products = [(row.node.scope[-1].path, row.node.scope[-1].kind) for row in profile.rows if row.macs]
    assert products == [("first.a", "Linear"), ("first.b", "Linear")] * 2
    assert [call.path for call in profile.graph.program.calls] == ["", "first", "again", "first"]


@pytest.mark.filterwarnings("ignore")
def test_functions_and_methods_beside_forward_have_no_module() -> None:
    @torch.jit.script
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return doubled(self.layer(doubled(x)))

    profile = flopwise.profile(through_file(torch.jit.script(Calls())), (3, 4))
    found = [(row.node.op, row.node.scope[-1].path) for row in profile.rows]
    assert found == [("Mul", ""), ("Gemm", "layer"), ("Mul", "")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["script", "trace"])
@pytest.mark.parametrize(
    "freeze",
    [torch.jit.freeze, torch.jit.optimize_for_inference, lambda s: torch.jit.freeze(s, preserved_attrs=["training"])],
)
def test_constants_of_a_frozen_script_are_parameters(how: str, freeze: Any) -> None:
    """What PyTorch compares of them before it runs the program is no part of it."""
    net = Choosing().eval()
    script: Any = torch.jit.script(net) if how == "script" else torch.jit.trace(net, torch.zeros(3, 4))
    frozen = flopwise.profile(through_file(freeze(script)), (3, 4))
    plain = flopwise.profile(net, (3, 4))
    for figure in ("macs", "flops"):
        assert frozen.total(figure) == plain.total(figure), figure
    assert frozen.total("params") == (plain.total("params") if how == "script" else 40)  # a trace has no branches
    assert frozen.exact
    assert [note for note in frozen.notes if "frozen" in note]
    assert not [note for note in frozen.notes if "real tensors" in note]
