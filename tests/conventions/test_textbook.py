"""The text's formulas: by hand, and on real models, where the page's own code is executed too if it is here."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conventions.nodes import Shapes, node, total

import flopwise
from flopwise.graph import Invocation

PAGE = Path(__file__).parents[3] / "shared" / "pages" / "flops_model.txt"

X = (2, 8, 6, 6)
N = 2 * 8 * 6 * 6

#: Operator, input shapes, output shapes, attributes, total.
ROWS: list[tuple[str, Shapes, Shapes, dict[str, Any], int | None]] = [
    ("Conv", [X, (4, 8, 3, 3)], [(2, 4, 4, 4)], {}, 2 * 4 * 4 * 4 * 72),
    ("Conv", [X, (4, 8, 3, 3), (4,)], [(2, 4, 4, 4)], {}, 2 * 4 * 4 * 4 * 73),
    ("Conv", [X, (8, 1, 3, 3)], [(2, 8, 4, 4)], {"group": 8}, 2 * 8 * 4 * 4 * 9),
    ("ConvTranspose", [(1, 4, 3, 3), (4, 2, 2, 2), (4,)], [(1, 4, 6, 6)], {"group": 2}, 4 * 36 * (2 * 4 + 1)),
    ("Gemm", [(2, 5), (7, 5), (7,)], [(2, 7)], {"transB": 1}, 2 * 7 * 9),
    ("MatMul", [(3, 2, 5), (5, 7)], [(3, 2, 7)], {}, 3 * 2 * 7 * 9),
    ("Relu", [X], [X], {}, N),
    ("Clip", [X], [X], {}, N),
    ("Tanh", [X], [X], {}, 5 * N),
    ("Sigmoid", [X], [X], {}, 4 * N),
    ("MaxPool", [X], [(2, 8, 3, 3)], {"kernel_shape": [2, 2]}, 144),
    ("AveragePool", [X], [(2, 8, 3, 3)], {"kernel_shape": [2, 2]}, 144 * 5),
    ("GlobalAveragePool", [X], [(2, 8, 1, 1)], {}, 0),
    ("BatchNormalization", [X, (8,), (8,), (8,), (8,)], [X], {}, 4 * N),
    ("Softmax", [(2, 10)], [(2, 10)], {}, 2 * 29),
    ("Dropout", [X], [X], {}, 0),
    ("Add", [X, X], [X], {}, 0),
    ("Reshape", [X, (2,)], [(2, 288)], {}, 0),
    ("Einsum", [(2, 3), (3, 4)], [(2, 4)], {"equation": "ij,jk->ik"}, None),
    ("acme::Mystery", [X], [X], {}, None),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "count"), ROWS)
def test_rows(op: str, inputs: Shapes, outputs: Shapes, attrs: dict[str, Any], count: int | None) -> None:
    assert total("textbook", node(op, inputs, outputs, attrs)) == count


def test_a_window_that_a_program_gives_as_one_number() -> None:
    pool = node("AveragePool", [X], [(2, 8, 3, 3)], {"kernel_shape": [2, 2]})
    called = replace(pool, invocation=Invocation(arguments={"kernel_size": 2}))
    assert total("textbook", called) == 144 * 3


def _pooled_window(layer: Any) -> int:
    """What the page multiplies is the size as it was written: one side of a square window."""
    sizes = layer.kernel_size if isinstance(layer.kernel_size, tuple) else (layer.kernel_size,)
    return math.prod(sizes)


#: Layers -> FLOPs from the layer, its input and its output, as the text's formulas say.
FORMULAS: dict[tuple[str, ...], Callable[[Any, Any, Any], int]] = {
    ("Linear",): lambda layer, x, y: y.numel() * (2 * layer.in_features - 1),
    ("ReLU", "ReLU6"): lambda layer, x, y: x.numel(),
    ("Tanh",): lambda layer, x, y: 5 * x.numel(),
    ("Sigmoid",): lambda layer, x, y: 4 * x.numel(),
    ("MaxPool1d", "MaxPool2d", "MaxPool3d"): lambda layer, x, y: y.numel(),
    ("AvgPool1d", "AvgPool2d", "AvgPool3d"): lambda layer, x, y: y.numel() * (_pooled_window(layer) + 1),
    ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"): lambda layer, x, y: 4 * x.numel(),
    ("Softmax",): lambda layer, x, y: x.shape[0] * (3 * x.shape[1] - 1),
    ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"): lambda layer, x, y: (
        y.numel() * (layer.in_channels // layer.groups * layer.weight[0, 0].numel() + (layer.bias is not None))
    ),
}


def functions() -> dict[str, Callable[..., Any]]:
    """The functions of the page, whose indentation is lost, by name."""
    torch = pytest.importorskip("torch")
    lines = PAGE.read_text("utf-8").replace("\\\n", "").splitlines()
    space: dict[str, Any] = {"_torch": torch}
    starts = [place for place, line in enumerate(lines) if line.startswith("def ")]
    for start in starts:
        end = next(place for place in range(start, len(lines)) if lines[place].startswith("return "))
        exec("\n    ".join(lines[start : end + 1]), space)
    return {name: value for name, value in space.items() if re.fullmatch(r"_\w+_flops", name)}


#: The page's function for each group of layers.
NAMES = ("linear", "relu", "tanh", "sigmoid", "maxpool", "avgpool", "bn", "softmax", "convNd")


def of_the_page(module: Any, shape: tuple[int, ...]) -> int:
    """What the text's formulas count when they hang on a module's layers, and the page's own code, where it is here."""
    import torch

    formulas: list[dict[tuple[str, ...], Callable[[Any, Any, Any], Any]]] = [FORMULAS]
    if PAGE.exists():
        page = functions()
        formulas.append({kinds: page[f"_{name}_flops"] for kinds, name in zip(FORMULAS, NAMES, strict=True)})
    totals = [0] * len(formulas)

    def count(layer: Any, inputs: Any, output: Any) -> None:
        for place, of in enumerate(formulas):
            formula = next((f for kinds, f in of.items() if type(layer).__name__ in kinds), None)
            totals[place] += int(formula(layer, inputs[0], output)) if formula else 0

    for layer in module.modules():
        layer.register_forward_hook(count)
    with torch.no_grad():
        module.eval()(torch.empty(shape, device="meta"))
    assert len(set(totals)) == 1
    return totals[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alexnet", 773_867_736),
        ("vgg16", 15_622_522_392),
        ("resnet50", 4_145_496_600),
        ("mobilenet_v2", 334_871_512),
        ("mnasnet1_0", None),
        ("squeezenet1_0", None),
    ],
)
def test_models_cost_what_the_functions_of_the_page_count(name: str, expected: int | None) -> None:
    torch = pytest.importorskip("torch")
    torchvision = pytest.importorskip("tests.torch_vision").torchvision
    with torch.device("meta"):
        module = torchvision.models.get_model_builder(name)(weights=None)
    ours = flopwise.profile(module, (1, 3, 224, 224), convention="textbook").total("count")
    assert ours == of_the_page(module, (1, 3, 224, 224))
    assert expected in (None, ours)


def test_every_function_of_the_page() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    with torch.device("meta"):
        module = nn.Sequential(
            *(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Tanh(), nn.AvgPool2d(2), nn.Sigmoid(), nn.AvgPool2d((2, 1))),
            *(nn.ConvTranspose2d(8, 4, 3, groups=2), nn.ReLU6(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout()),
            *(nn.LazyLinear(10, bias=False), nn.Softmax(1)),
        )
        module(torch.empty(2, 3, 20, 20, device="meta"))
    found = flopwise.profile(module, (2, 3, 20, 20), convention="textbook")
    assert found.total("count") == of_the_page(module, (2, 3, 20, 20))
    assert found.exact
