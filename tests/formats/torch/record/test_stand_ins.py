"""Tensors that are made beside the functions that PyTorch hands over: views under another class, parameters, zeros."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402


class Subclass(torch.Tensor):
    """A tensor of a program's own."""


class Of(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16, bias=False)
        self.register_buffer("held", torch.ones(16, 16))
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def _jagged(module: Any, values: Any) -> Any:
    nested = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 1, 4]))
    return module.layer(nested).values()


VIEWS = [
    (lambda module, x: module.layer(x.as_subclass(Subclass)), 1),
    (lambda module, x: module.layer(module.layer(x).as_subclass(Subclass)), 2),
    (lambda module, x: torch.func.jvp(module.layer, (x,), (x,))[1], 3),
    (_jagged, 1),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("function", "products"), VIEWS, ids=["input", "result", "jvp", "jagged"])
def test_views_and_zeros_are_known(function: Any, products: int) -> None:
    profile = flopwise.profile(Of(function), (torch.rand(4, 16),))
    assert profile.unknown == {}
    assert profile.exact
    assert profile.total("macs") == products * 4 * 16 * 16


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("given", [(4, 16), torch.rand(4, 16)], ids=["shape", "tensor"])
def test_parameters_that_a_program_makes_are_counted(given: Any, train: bool) -> None:
    class Makes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight: Any = None

        def forward(self, x: Any) -> Any:
            if self.weight is None:
                self.weight = nn.Parameter(torch.randn(16, 16))
            return x @ self.weight

    model = Makes()
    profile = flopwise.profile(model, (given,) if isinstance(given, torch.Tensor) else given, train=train)
    assert profile.total("params") == 16 * 16
    assert profile.total("macs") == 4 * 16 * 16
    assert profile.exact
    assert model.weight is None
    if train:
        figures = profile.to_dict()["training"]
        assert (figures["backward_macs"], figures["trained_params"]) == (4 * 16 * 16, 16 * 16)


def test_a_parameter_that_is_made_of_the_input_is_not_folded_away() -> None:
    profile = flopwise.profile(Of(lambda module, x: nn.Parameter(x * 2) @ module.held), (4, 16))
    assert profile.total("macs") == 4 * 16 * 16


def test_a_parameter_that_is_made_of_a_weight_is_that_weight() -> None:
    profile = flopwise.profile(Of(lambda module, x: x @ nn.Parameter(module.layer.weight.detach())), (4, 16))
    assert profile.total("params") == 16 * 16


CONSTANTS = [
    (lambda: torch.IntTensor([3]), torch.int32),
    (lambda: torch.FloatTensor(16).fill_(2), torch.float32),
    (lambda: torch.DoubleTensor([[3.0]]).type(torch.FloatTensor), torch.float32),
    (lambda: {torch.LongTensor: torch.LongTensor([4])}[torch.LongTensor], torch.int64),
    (lambda: torch.ones(16).type(torch.HalfTensor), torch.float16),
]


@pytest.mark.parametrize(("constant", "dtype"), CONSTANTS)
def test_what_the_oldest_constructors_make_is_known(constant: Any, dtype: Any) -> None:
    def scaled(module: Any, x: Any) -> Any:
        scale = constant()
        assert scale.dtype == dtype
        assert isinstance(scale, torch.IntTensor) == (dtype == torch.int32)
        return module.layer(x) * scale

    before = torch.IntTensor
    profile = flopwise.profile(Of(scaled), (4, 16))
    assert profile.exact
    assert profile.total("flops") == 4 * 16 * (2 * 16 + 1)
    assert torch.IntTensor is before


def test_the_oldest_constructors_take_what_else_they_take() -> None:
    def scaled(module: Any, x: Any) -> Any:
        return module.layer(x) * torch.FloatTensor(numpy.ones(16, "float32"))

    assert flopwise.profile(Of(scaled), (4, 16)).total("macs") == 4 * 16 * 16


def test_numbers_that_the_oldest_constructors_make_decide() -> None:
    profile = flopwise.profile(
        Of(lambda module, x: module.layer(x.repeat(torch.LongTensor([3])[0].item(), 1))), (4, 16)
    )
    assert profile.total("macs") == 3 * 4 * 16 * 16
    assert not any("real tensors" in note for note in profile.notes)


def _of_numbers(module: Any, x: Any) -> Any:
    return module.layer(x) * torch.Tensor([3.0])


def _of_a_table(module: Any, x: Any) -> Any:
    return module.layer(x) * torch.from_numpy(numpy.arange(x.shape[1], dtype="float32"))


@pytest.mark.parametrize("function", [_of_numbers, _of_a_table])
def test_what_is_made_of_numbers_beside_pytorch_is_a_constant(function: Any) -> None:
    """On tensors without elements nothing else can be in its memory."""
    profile = flopwise.profile(Of(function), (4, 16))
    assert profile.exact
    assert profile.total("flops") == 4 * 16 * (2 * 16 + 1)


def test_what_is_made_of_elements_of_an_input_is_unknown_and_never_zero() -> None:
    table = numpy.ones((8, 16), dtype="float32")

    class Looks(nn.Module):
        def forward(self, x: Any, ids: Any) -> Any:
            return x @ torch.from_numpy(table[ids.numpy()])

    profile = flopwise.profile(Looks(), {"x": (4, 4), "ids": torch.tensor([1, 2, 3, 4])})
    assert profile.unknown == {"torch::Unseen": 1}
    assert not profile.exact
