"""The report of published figures."""

from __future__ import annotations

import pytest

from flopwise.analyses.zoo.published.figures import figures
from flopwise.report.commands.published import counted


@pytest.mark.parametrize(
    ("source", "model", "quantity", "text"),
    [
        ("ultralytics", "YOLOv8n", "operations", "8.746"),
        ("ultralytics", "YOLO11n-seg", "operations", "10.371"),  # not reproduced: twice the multiply-adds even so
        ("ultralytics", "YOLOv8m-cls", "parameters", "17.053"),
        ("thop", "alexnet", "operations", "0.6652"),  # G is 2^30 there
        ("torchvision", "alexnet IMAGENET1K_V1", "parameters", "61,100,840"),
    ],
)
def test_counts_are_in_the_unit_and_way_of_the_source(source: str, model: str, quantity: str, text: str) -> None:
    (figure,) = [f for f in figures(source) if (f.model, f.quantity) == (model, quantity)]
    assert counted(figure) == text
