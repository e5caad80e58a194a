"""``calculate_flops`` against calflops itself: same results, same figures, same printed module."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any

import pytest

from flopwise.errors import FlopwiseError, InputError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from flopwise.compat import calflops  # noqa: E402


class Net(nn.Module):
    """Convolutions, norms, functions, an operator, a recurrent layer, a layer called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.MaxPool2d(2))
        self.twice = nn.Sequential(nn.Conv2d(8, 8, 1, bias=False), nn.ReLU())
        self.rnn = nn.GRU(8, 6, batch_first=True)
        self.fc = nn.Linear(6, 5)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)

    def forward(self, x: Any) -> Any:
        x = self.twice(self.twice(self.features(x)))
        x, _ = self.rnn(nn.functional.relu(x).flatten(2).transpose(1, 2))
        x = self.frozen(self.fc(x))
        return torch.matmul(x, x.transpose(1, 2)) + torch.mul(x, 2).sum()


def _tool() -> Any:
    from tests import torch_tools  # noqa: F401 - makes torchvision importable for transformers

    pytest.importorskip("accelerate")
    pytest.importorskip("calflops")
    from calflops import flops_counter

    return flops_counter


def printed(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    """What a function returns, and the lines of totals and of modules that it prints; other words are its own."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        found = function(*args, **kwargs)
    totals = ("Total Training", "fwd MACs: ", "fwd FLOPs: ", "fwd+bwd ")
    return found, [line for line in text.getvalue().splitlines() if line.startswith(totals) or "% Params" in line]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output_as_string": False, "print_results": False},
        {"print_detailed": False, "output_precision": 4, "output_unit": "M"},
        {"include_backPropagation": True, "compute_bp_factor": 1.5},
        {"include_backPropagation": True, "output_as_string": False},
        {"ignore_modules": [nn.Conv2d, nn.GRU]},
    ],
)
def test_results_and_text(options: dict[str, Any]) -> None:
    tool = _tool()
    model = Net()
    ours = printed(calflops.calculate_flops, model, (2, 3, 8, 8), **options)
    theirs = printed(tool.calculate_flops, copy.deepcopy(model), (2, 3, 8, 8), **options)
    assert ours == theirs
    assert len(ours[1]) == (0 if "print_results" in options else 5 if "print_detailed" in options else 17)


def test_arguments() -> None:
    tool = _tool()
    x = torch.zeros(2, 3, 8, 8)
    quiet = {"print_results": False, "output_as_string": False}
    for given in ({"args": [x]}, {"kwargs": {"x": x}}):
        found = calflops.calculate_flops(Net(), **given, **quiet)  # type: ignore[arg-type]
        assert found == tool.calculate_flops(Net(), **given, **quiet)


def test_tokenizer() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    model = transformers.BertModel(config)

    def tokenizer(text: str) -> dict[str, list[int]]:
        return {"input_ids": [1], "token_type_ids": [0], "attention_mask": [1]}

    quiet = {"print_results": False, "output_as_string": False}
    by_tokens = calflops.calculate_flops(model, (2, 16), transformer_tokenizer=tokenizer, **quiet)  # type: ignore[arg-type]
    tokens = torch.zeros(2, 16, dtype=torch.int64)
    mask = {"input_ids": tokens, "token_type_ids": tokens, "attention_mask": tokens + 1}
    assert by_tokens == _tool().calculate_flops(model, kwargs=mask, **quiet)


def test_texts_of_numbers() -> None:
    pytest.importorskip("calflops")
    _tool()
    from calflops import utils

    for number in (0, 0.0002, 0.5, 7, 999, 1000, 12345, 10**6 - 1, 987654321, 10**9, 4.1e12, 3e16):
        for units in (None, "T", "G", "M", "K", "m", "u"):
            for ours, theirs in (
                (calflops.flops_to_string, utils.flops_to_string),
                (calflops.macs_to_string, utils.macs_to_string),
                (calflops.params_to_string, utils.params_to_string),
            ):
                assert ours(number, units, 3) == theirs(number, units, 3)


def test_the_module_is_left_as_it_was() -> None:
    model = Net().train()
    values = {key: value.clone() for key, value in model.state_dict().items()}
    relu = nn.functional.relu
    with contextlib.redirect_stdout(io.StringIO()):
        calflops.calculate_flops(model, (2, 3, 8, 8))
        with pytest.raises(FlopwiseError, match=r"in features\.0 \(Conv2d\)"):
            calflops.calculate_flops(model, (2, 4, 8, 8))
    assert model.training
    assert nn.functional.relu is relu
    assert all(torch.equal(values[key], value) for key, value in model.state_dict().items())
    assert not any(m._forward_hooks or "extra_repr" in vars(m) for m in model.modules())


def test_without_parameters() -> None:
    found = calflops.calculate_flops(nn.ReLU(), (2, 3), print_results=False, output_as_string=False)
    assert found == (6, 0, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give input_shape, args or kwargs"),
        ({"input_shape": (1, 2), "args": [1]}, "not both"),
        ({"input_shape": [1, 2]}, "must be a tuple"),
        ({"input_shape": (1, 2), "forward_mode": "generate"}, "'generate' is not supported"),
        ({"input_shape": (1, 2, 3), "transformer_tokenizer": dict}, "batch and length"),
    ],
)
def test_refuses(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        calflops.calculate_flops(Net(), **options)
    with pytest.raises(InputError, match="expected a torch Module"):
        calflops.calculate_flops(len, (1,))  # type: ignore[arg-type]
