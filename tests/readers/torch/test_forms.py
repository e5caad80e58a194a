"""Forms in which a caller may hand over a model, its inputs and a batch size, and modes that are on meanwhile."""

from __future__ import annotations

import functools
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402
from flopwise.errors import InputError  # noqa: E402
from flopwise.operators.tables import count  # noqa: E402
from flopwise.readers.inputs import input_specs  # noqa: E402

LAYER = nn.Linear(4, 5)


def by_layer(x: Any, times: int = 1) -> Any:
    """A function that finds its layer among the names around it."""
    for _ in range(times):
        y = LAYER(x)
    return y


@pytest.mark.parametrize(
    ("function", "macs", "params"),
    [
        (by_layer, 60, 25),
        (functools.partial(by_layer, times=2), 120, 25),
        (LAYER.forward, 60, 25),
        (lambda x: x @ x.mT, 36, 0),
        (torch.square, 0, 0),
    ],
    ids=["function", "partial", "method", "lambda", "builtin"],
)
def test_functions(function: Any, macs: int, params: int) -> None:
    LAYER.train()
    profile = flopwise.profile(function, (3, 4))
    assert (profile.total("macs"), profile.total("params"), profile.exact) == (macs, params, True)
    assert LAYER.training


@pytest.mark.parametrize(
    "size", [[3, 4], (numpy.int64(3), 4), [[3, 4]], {"input": [3, numpy.int32(4)]}, torch.Size([3, 4])]
)
def test_shapes(size: Any) -> None:
    assert flopwise.profile(LAYER, size).total("macs") == 60


def test_batch_sizes() -> None:
    for size in (6, numpy.int64(6), numpy.uint8(6), torch.tensor(6)):
        assert flopwise.profile(LAYER, (3, 4), batch_size=size).total("macs") == 120
    for wrong in (True, 2.5, "6", -1):
        with pytest.raises(InputError, match="whole number"):
            flopwise.profile(LAYER, (3, 4), batch_size=wrong)


def test_inside_fake_mode() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        model, x = nn.Linear(4, 5), torch.zeros(3, 4)
        assert flopwise.profile(LAYER, (3, 4)).total("macs") == 60
        assert flopwise.profile(model, (x,)).total("macs") == 60
        assert type(torch.zeros(2)).__name__ == "FakeTensor"


def test_inside_a_function_that_is_compiled() -> None:
    totals = []

    @torch.compile(backend="eager")
    def compiled(x: Any) -> Any:
        totals.append(flopwise.profile(LAYER, (3, 4)).total("macs"))
        return x + 1

    assert compiled(torch.zeros(2)).sum() == 2
    assert totals == [60]


class OfValues(nn.Module):
    """Takes images in a row with the shape of each, as image transformers do."""

    def forward(self, x: Any, img_shapes: Any, flag: bool = False) -> Any:
        (frames, height, width) = img_shapes[0]
        assert all(isinstance(size, int) for size in (frames, height, width))
        return x.reshape(-1, frames * height * width) @ x.new_ones(frames * height * width, 2 + flag)


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": (4, 64), "img_shapes": flopwise.Value([(1, 8, 8)])},
        [(4, 64), flopwise.Value([(1, 8, 8)])],
        ([(4, 64)], {"img_shapes": flopwise.Value([(1, 8, 8)])}),
        ["x:f32:4x64", "img_shapes:value:[(1, 8, 8)]"],
        ["4x64", "value:[(1, 8, 8)]"],
        {"x": (4, 64), "img_shapes": "value:[(1, 8, 8)]", "flag": flopwise.Value(False)},
    ],
    ids=["mapping", "sequence", "pair", "named texts", "texts", "text in a mapping"],
)
def test_a_value_is_handed_over_as_it_is(inputs: Any) -> None:
    assert flopwise.profile(OfValues(), inputs).total("macs") == 4 * 64 * 2


@pytest.mark.parametrize("text", ["__import__('os').getcwd()", "[(1, 8", "x"])
def test_what_is_no_literal_is_refused_and_not_evaluated(text: str) -> None:
    with pytest.raises(InputError, match="is no value; write it as in Python"):
        flopwise.profile(OfValues(), ["x:4x64", f"img_shapes:value:{text}"])


def test_a_value_is_no_input_of_a_file() -> None:
    with pytest.raises(InputError, match="takes no value"):
        input_specs({"x": flopwise.Value(1)}, ["x"])


def test_operators_that_repeat_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share their attributes, so that a long program takes no longer than a long file."""
    from flopwise.profiles import count as counting

    counted: list[str] = []
    monkeypatch.setattr(counting, "count", lambda node, rules: counted.append(node.op) or count(node, rules))
    steps = [nn.Softmax(-1), nn.ELU(2.0), nn.ELU(), nn.Softmax(0)]
    profile = flopwise.profile(nn.Sequential(*(steps * counting.MANY)), (4, 3))
    assert len(profile.rows) == len(steps) * counting.MANY
    assert len(counted) < 10
    assert profile.total("flops") == counting.MANY * flopwise.profile(nn.Sequential(*steps), (4, 3)).total("flops")
