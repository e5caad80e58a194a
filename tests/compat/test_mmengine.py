"""``flopwise.compat.mmengine`` beside mmengine's page and the installed mmengine (0.10.7)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests import torch_golden  # noqa: E402
from tests.compat.nets import NETS, TestNet  # noqa: E402

from flopwise.compat import mmengine as ours  # noqa: E402 - after the question for torch

TABLE = """
+---------------------+----------------------+--------+--------------+
| module              | #parameters or shape | #flops | #activations |
+---------------------+----------------------+--------+--------------+
| model               | 0.44K                | 0.4K   | 40           |
|  fc1                |  0.11K               |  100   |  10          |
|   fc1.weight        |   (10, 10)           |        |              |
|   fc1.bias          |   (10,)              |        |              |
|  fc2                |  0.11K               |  100   |  10          |
|   fc2.weight        |   (10, 10)           |        |              |
|   fc2.bias          |   (10,)              |        |              |
|  inner              |  0.22K               |  0.2K  |  20          |
|   inner.fc1         |   0.11K              |   100  |   10         |
|    inner.fc1.weight |    (10, 10)          |        |              |
|    inner.fc1.bias   |    (10,)             |        |              |
|   inner.fc2         |   0.11K              |   100  |   10         |
|    inner.fc2.weight |    (10, 10)          |        |              |
|    inner.fc2.bias   |    (10,)             |        |              |
+---------------------+----------------------+--------+--------------+
"""

ARCH = """
TestNet(
  #params: 0.44K, #flops: 0.4K, #acts: 40
  (fc1): Linear(
    in_features=10, out_features=10, bias=True
    #params: 0.11K, #flops: 100, #acts: 10
  )
  (fc2): Linear(
    in_features=10, out_features=10, bias=True
    #params: 0.11K, #flops: 100, #acts: 10
  )
  (inner): InnerNet(
    #params: 0.22K, #flops: 0.2K, #acts: 20
    (fc1): Linear(
      in_features=10, out_features=10, bias=True
      #params: 0.11K, #flops: 100, #acts: 10
    )
    (fc2): Linear(
      in_features=10, out_features=10, bias=True
      #params: 0.11K, #flops: 100, #acts: 10
    )
  )
)"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "160")
    logging.disable(logging.CRITICAL)
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def test_the_page() -> None:
    found = ours.get_model_complexity_info(TestNet(), inputs=torch.zeros(1, 10))
    assert list(found) == [
        "flops",
        "flops_str",
        "activations",
        "activations_str",
        "params",
        "params_str",
        "out_table",
        "out_arch",
    ]
    assert (found["flops"], found["flops_str"]) == (400, "0.4K")
    assert (found["activations"], found["activations_str"]) == (40, "40")
    assert (found["params"], found["params_str"]) == (440, "0.44K")
    assert found["out_table"] == TABLE
    assert found["out_arch"] == ARCH


def test_the_convolution_of_the_page() -> None:
    found = ours.get_model_complexity_info(torch.nn.Conv2d(3, 10, 3), (3, 10, 10))
    assert (found["flops"], found["activations"], found["params"]) == (17_280, 640, 280)


def test_a_model_with_modes_of_forward() -> None:
    """mmengine's BaseModel: labels and a mode beside the image."""

    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Conv2d(3, 10, 3)

        def forward(self, imgs: Any, labels: Any = None, mode: str = "tensor") -> Any:
            x = self.layer(imgs)
            if mode == "loss":
                return {"loss": torch.nn.functional.cross_entropy(x, labels)}
            return (x, labels) if mode == "predict" else x

    assert ours.get_model_complexity_info(Classifier(), (3, 10, 10))["flops"] == 17_280


def test_resnet_50_in_training_as_the_page_prints_it() -> None:
    module, _, _ = torch_golden.architectures()["resnet50"]()
    found = ours.get_model_complexity_info(module.train(), (3, 224, 224), show_table=False, show_arch=False)
    assert (found["flops_str"], found["params_str"]) == ("4.145G", "25.557M")
    assert (found["out_table"], found["out_arch"]) == ("", "")
    assert ours.get_model_complexity_info(module.eval(), (3, 224, 224))["flops_str"] == "4.112G"


class Product(torch.nn.Module):  # type: ignore[misc] # torch may be missing
    """A product of two tensors in one argument."""

    def forward(self, both: Any) -> Any:
        left, right = both.values() if isinstance(both, dict) else both
        return left @ right


@pytest.mark.parametrize("inputs", [[torch.ones(4, 4)] * 2, {"x": torch.ones(4, 4), "y": torch.ones(4, 4)}])
def test_what_is_no_tuple_is_one_argument(inputs: Any) -> None:
    assert ours.get_model_complexity_info(Product(), inputs=inputs)["flops"] == 64
    tool = pytest.importorskip("fvcore.nn").FlopCountAnalysis
    assert ours.FlopAnalyzer(Product(), inputs).total() == tool(Product(), inputs).total() == 64


@pytest.mark.parametrize("width", ["60", "160"])
@pytest.mark.parametrize("name", [*NETS, "resnet18", "vit_b_16"])
def test_mmengine_itself(name: str, width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pytest.importorskip("mmengine.analysis")
    monkeypatch.setenv("COLUMNS", width)
    if name in NETS:
        module, x = NETS[name]()
    else:
        module, (x,), _ = torch_golden.architectures()[name]()
    assert ours.get_model_complexity_info(module, inputs=x) == theirs.get_model_complexity_info(module, inputs=x)
    if list(module.parameters()):
        if x.shape[0] == 1 and width == "160":  # the width is of no matter here, and the tool takes seconds
            shape = tuple(x.shape[1:])
            own, tool = (room.get_model_complexity_info(module, shape) for room in (ours, theirs))
            assert own == tool
        assert ours.parameter_count_table(module) == theirs.parameter_count_table(module)


def test_tables_of_your_own_depth() -> None:
    helper = pytest.importorskip("mmengine.analysis.print_helper")
    theirs = pytest.importorskip("mmengine.analysis")
    for depth in (0, 1, 3):
        for shapes in (True, False):
            own, tool = (
                table(room.FlopAnalyzer(*args), depth, room.ActivationAnalyzer(*args), shapes)
                for args in [(TestNet(), torch.zeros(1, 10))]
                for room, table in ((ours, ours.complexity_stats_table), (theirs, helper.complexity_stats_table))
            )
            assert own == tool
    args = (TestNet(), torch.zeros(1, 10))
    assert ours.complexity_stats_str(ours.FlopAnalyzer(*args)) == helper.complexity_stats_str(
        theirs.FlopAnalyzer(*args)
    )


def test_several_inputs() -> None:
    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 5)

        def forward(self, a: Any, b: Any) -> Any:
            return self.layer(a) + self.layer(b)

    assert ours.get_model_complexity_info(Sum(), ((4,), (3, 4)))["flops"] == 20 + 60


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "One of"),
        ({"input_shape": (10,), "inputs": 1}, "cannot be both"),
        ({"input_shape": [10]}, "should be either"),
        ({"input_shape": ((10,), 10)}, "should be either"),
    ],
)
def test_refusals(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ours.get_model_complexity_info(TestNet(), **given)
    theirs = pytest.importorskip("mmengine.analysis")
    with pytest.raises(ValueError, match=words):
        theirs.get_model_complexity_info(TestNet(), **given)
