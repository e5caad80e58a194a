"""Elements that a program asks for while it runs on tensors that have none."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812
from torch import Tensor, nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.formats.torch.lower.operators import lower  # noqa: E402
from flopwise.graph import Node  # noqa: E402
from flopwise.graph import Tensor as Ours  # noqa: E402
from flopwise.operators.tables import count  # noqa: E402


class Does(nn.Module):
    """A function with a weight, so that it has a device."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        return self.function(x * self.weight)


def number(value: int) -> Tensor:
    """A number as a tensor."""
    return torch.tensor(value)


#: What a program does with a tensor of 3 × 4 -> the shape of the result.
SIZED: list[tuple[str, Callable[[Tensor], Tensor], tuple[int, ...]]] = [
    ("view", lambda x: x.view(number(2), number(6)), (2, 6)),
    ("view by a quotient", lambda x: x.view(torch.div(6, 3, rounding_mode="trunc"), -1), (2, 6)),
    ("reshape", lambda x: x.reshape((number(2), 6)), (2, 6)),
    ("expand", lambda x: x.expand(number(5), 3, 4), (5, 3, 4)),
    ("repeat", lambda x: x.repeat(number(2), 1), (6, 4)),
    ("tile", lambda x: x.tile((number(2), 1)), (6, 4)),
    ("narrow", lambda x: x.narrow(1, number(1), number(2)), (3, 2)),
    ("split", lambda x: x.split([number(1), number(2)])[1], (2, 4)),
    ("chunk", lambda x: x.chunk(number(2), 1)[0], (3, 2)),
    ("unflatten", lambda x: x.unflatten(1, (number(2), 2)), (3, 2, 2)),
    ("pad", lambda x: F.pad(x, (number(1), number(2))), (3, 7)),
    ("interpolate", lambda x: F.interpolate(x[None], size=(number(8),)), (1, 3, 8)),
    ("zeros", lambda x: x.new_zeros(number(3), 4) + x, (3, 4)),
    ("full", lambda x: torch.full((number(3), 4), 1.0) + x, (3, 4)),
    ("an unknown fill", lambda x: torch.full((3, 4), x.sum()) + x, (3, 4)),
    ("arange", lambda x: torch.arange(number(4)) + x, (3, 4)),
    ("arange by name", lambda x: torch.arange(end=4) + x, (3, 4)),
    ("ones by name", lambda x: torch.ones(size=(3, 4)) + x, (3, 4)),
    ("slice", lambda x: x[:, number(1) :], (3, 3)),
    ("row", lambda x: x[number(1)], (4,)),
    ("a row nobody knows", lambda x: x[x.sum().long()], (4,)),
    ("column", lambda x: x[:, number(1)], (3,)),
    ("flags", lambda x: x[:, torch.arange(4) > 1], (3, 2)),
    ("repeat_interleave", lambda x: x.repeat_interleave(torch.tensor([1, 2, 1]), dim=0), (4, 4)),
    ("one number of repetitions", lambda x: x.repeat_interleave(torch.tensor([2]), dim=0), (6, 4)),
    ("tensors of tensors", lambda x: x.view(torch.tensor([number(2), torch.arange(7)[6]]).tolist()), (2, 6)),
    ("a distribution", lambda x: torch.distributions.Normal(0, 1).icdf(torch.tensor(0.9)) + x, (3, 4)),
]


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize(("name", "does", "shape"), SIZED, ids=[name for name, _, _ in SIZED])
def test_numbers_given_as_tensors(name: str, does: Any, shape: tuple[int, ...], device: str) -> None:
    profile = flopwise.profile(Does(does).to(device), (3, 4))
    assert [t.dims for t in profile.graph.outputs] == [shape]
    assert not profile.unknown
    assert not any("real" in note for note in profile.notes)


#: What a program does -> the function that reads elements.
ASKING: list[tuple[Callable[[Tensor], Any], str]] = [
    (lambda x: x.nonzero(), "torch.Tensor.nonzero"),
    (lambda x: x.masked_select(x > 0), "torch.Tensor.masked_select"),
    (lambda x: x[x > 0], "torch.Tensor.__getitem__"),
    (lambda x: torch.unique(x), "torch.unique"),
    (lambda x: torch.where(x > 0), "torch.where"),
    (lambda x: F.one_hot(x.long()), "torch.nn.functional.one_hot"),
    (lambda x: torch.arange(x.sum() + 2), "torch.arange"),
    (lambda x: x.repeat_interleave((x[:, 0] > 0).long(), dim=0), "torch.Tensor.repeat_interleave"),
]


@pytest.mark.parametrize(("does", "name"), ASKING, ids=[name for _, name in ASKING])
def test_who_asks_is_said_in_one_line(does: Any, name: str) -> None:
    with pytest.raises(flopwise.FlopwiseError) as raised:
        flopwise.profile(Does(does).to("meta"), (3, 4))
    assert re.search(rf"{re.escape(name)} reads elements \(test_values.py:\d+\); ", str(raised.value))
    (note,) = [n for n in flopwise.profile(Does(does), (3, 4)).notes if "real" in n]
    assert f"{name} reads elements; " in note


def test_a_tensor_of_unknown_numbers_is_no_constant() -> None:
    model = Does(lambda x: torch.tensor([x[0, 0], x[1, 1]]) * 3)
    profile = flopwise.profile(model, (3, 4))
    (made,) = [row for row in profile.rows if row.node.origin == "aten.tensor"]
    assert [t.dims for t in made.node.known_inputs] == [(), ()]
    assert [row.flops for row in profile.rows if row.node.origin == "aten.mul"] == [12, 2]


def test_flags_that_are_known_leave_operations_whole() -> None:
    profile = flopwise.profile(Does(lambda x: F.linear(x[:, torch.arange(4) > 1], x[:2, :2])), (3, 4))
    assert "aten.linear" in [row.node.origin for row in profile.rows]
    assert not any("empty" in row.node.origin for row in profile.rows)


def test_writing_over_a_part_of_a_result_does_not_run_the_model_again() -> None:
    runs = []
    layer = nn.Linear(4, 5, bias=False)

    def does(x: Tensor) -> Tensor:
        runs.append(1)
        return F.relu(layer(x.expand(2, 3, 4).transpose(0, 1)), inplace=True)

    flopwise.profile(Does(does), (3, 4))
    assert len(runs) == 1


def test_weights_of_what_leads_nowhere_are_parameters_all_the_same() -> None:
    def does(x: Tensor) -> Tensor:
        torch.cat([model.weight[None] * 2, torch.zeros(3)])
        return x + 1

    model = Does(does)
    model.forward = does  # type: ignore[method-assign]
    assert flopwise.profile(model, (3, 4)).total("params") == 1
    assert flopwise.profile(model, (3, 4), fold=False).total("params") == 1


def test_a_negative_size_is_refused_in_one_line() -> None:
    with pytest.raises(flopwise.InputError, match=r"^input 'x': 1x-1 has a negative size$"):
        flopwise.profile(Does(lambda x: x), (1, -1))


#: Operators whose first argument has a name of its own, called by it -> the operator, and its work.
NAMED: list[tuple[Callable[[Tensor], Any], str, int]] = [
    (lambda x: torch.cat(tensors=[x, x]), "Concat", 0),
    (lambda x: torch.fft.fftn(x, s=(2, 4)), "aten::fft", 80),
    (lambda x: torch.isin(elements=x.long(), test_elements=torch.arange(3)), "aten::isin", 36),
    (lambda x: torch.polar(abs=x, angle=x), "aten::polar", 48),
]


@pytest.mark.parametrize(("does", "op", "flops"), NAMED, ids=[op for _, op, _ in NAMED])
def test_arguments_by_name(does: Any, op: str, flops: int) -> None:
    profile = flopwise.profile(Does(does), (3, 4))
    assert not profile.unknown
    assert [row.flops for row in profile.rows if row.node.op == op] == [flops]


def test_boxes_are_suppressed_as_in_onnx() -> None:
    boxes, scores, kept = (Ours(n, d, "float32") for n, d in (("b", (9, 4)), ("s", (9,)), ("k", (5,))))
    lowered, _ = lower("torchvision.nms", (boxes, scores, 0.5), {}, [kept])
    node = Node(lowered.op, "nms", lowered.inputs, (kept,), lowered.attrs)
    assert node.op == "NonMaxSuppression"
    counts = count(node)
    assert counts is not None
    assert counts.div == 9 * 8 // 2


class Asks(nn.Module):
    """A program that asks something of the elements of an input of which only the shape is given."""

    def __init__(self, only_warns: bool) -> None:
        super().__init__()
        self.layer = nn.Embedding(8, 4)
        self.only_warns = only_warns

    def check(self, ids: Any) -> None:
        if 0 in ids[:, [-1, 0]]:
            logging.getLogger("asks").warning("there may be padding")

    def forward(self, input_ids: Any) -> Any:
        RUNS.append(self)
        if self.only_warns:
            self.check(input_ids)
        elif 0 in input_ids:
            return self.layer(input_ids)
        return self.layer(input_ids) * 2


RUNS: list[Any] = []


@pytest.mark.parametrize("only_warns", [True, False])
def test_a_question_is_answered_both_ways_where_more_than_a_warning_depends_on_it(only_warns: bool) -> None:
    RUNS.clear()
    profile = flopwise.profile(Asks(only_warns), {"input_ids": (2, 5)})
    assert len(RUNS) == (1 if only_warns else 2)
    assert any("decide what runs and were made up" in note for note in profile.notes) is not only_warns
