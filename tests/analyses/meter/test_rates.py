"""The element type that a step's products are held against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from flopwise.analyses.meter.rates import _rounds  # noqa: E402 - needs torch

SETTINGS = (torch.backends.cudnn.conv, torch.backends.cuda.matmul)


@pytest.fixture
def settings() -> Iterator[None]:
    """What a test sets of how float32 is rounded is as it was behind it."""
    before = [each.fp32_precision for each in SETTINGS]
    yield
    for each, precision in zip(SETTINGS, before, strict=True):
        each.fp32_precision = precision


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="before PyTorch 2.9")
def test_float32_is_rounded_where_the_backends_of_a_model_may(settings: None) -> None:
    """cuDNN rounds convolutions and recurrent layers unless it is told not to, cuBLAS where it is told to."""
    models = (torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1)), torch.nn.LSTM(4, 4))
    assert [_rounds(model) for model in models] == [False, True, True]
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    assert [_rounds(model) for model in models] == [False, False, True]
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert [_rounds(model) for model in models] == [True, True, True]
