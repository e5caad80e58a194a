"""The convention of ptflops' ATen backend beside its figures, recorded and as ptflops 0.7.5 gives them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from tests.conventions.nodes import node, total

import flopwise

torch = pytest.importorskip("torch")

from tests import torch_golden, torch_modules  # noqa: E402 - they import torch

nn = torch.nn
F = torch.nn.functional


def _profile(module: Any, inputs: Any, **more: Any) -> flopwise.Profile:
    return flopwise.profile(module, inputs, convention="ptflops-aten", **more)


def _figures(found: flopwise.Profile) -> list[int | None]:
    return [found.total("count") if found.exact else None, found.own["params"]]


@pytest.mark.parametrize("name", torch_modules.MODULES)
def test_recorded_figures(name: str) -> None:
    said = torch_golden.recorded(name, "ptflops-aten")
    assert _figures(_profile(*torch_modules.MODULES[name]())) == said


class _Called(nn.Module):
    """A module that gets its positional inputs, whatever the tool hands over."""

    def __init__(self, module: Any, args: Any, kwargs: Any) -> None:
        super().__init__()
        self.module, self.given = module, (args, kwargs)

    def forward(self, x: Any) -> Any:
        args, kwargs = self.given
        return self.module(*args, **kwargs)


def of_tool(module: Any, args: Any, kwargs: Any = None) -> list[Any]:
    """What ptflops says, with gradients on as it is by default."""
    tool = pytest.importorskip("ptflops")
    with torch.enable_grad():
        macs, params = tool.get_model_complexity_info(
            _Called(module, args, kwargs or {}), (1,), False, False, backend="aten", ost=io.StringIO()
        )
    return [macs, params]


@pytest.mark.parametrize("name", torch_modules.MODULES)
def test_ptflops_itself(name: str) -> None:
    module, inputs = torch_modules.MODULES[name]()
    assert _figures(_profile(module, inputs)) == of_tool(module, inputs)


@pytest.mark.parametrize(
    ("inside", "shapes"),
    [
        (F.linear, ((4,), (3, 4), (3,))),
        (F.linear, ((5, 4), (3, 4), (3,))),
        (F.linear, ((2, 6, 5, 4), (3, 4), (3,))),
        (lambda x, w, b: F.linear(x.transpose(0, 1), w, b), ((2, 5, 4), (3, 4), (3,))),
        (lambda x, w, b: F.linear(x.transpose(0, 1).contiguous(), w, b), ((2, 5, 4), (3, 4), (3,))),
        (lambda b, x, y: torch.addmm(b, x, y, beta=0), ((5, 7), (5, 3), (3, 7))),
        (torch.matmul, ((2, 1, 5, 8), (3, 8, 16))),
        (torch.matmul, ((8,), (3, 8, 16))),
        (lambda x, y: torch.einsum("ij,kj->ik", x, y), ((3, 4), (5, 4))),
        (F.scaled_dot_product_attention, ((2, 5, 8), (2, 7, 8), (2, 7, 8))),
        (F.scaled_dot_product_attention, ((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6))),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5), ((2, 4, 5, 8),) * 3),
        (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            ((2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)),
        ),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), ((2, 4, 5, 8),) * 3),
        (lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), ((2, 4, 5, 8), (5, 5))),
    ],
)
def test_forms(inside: Any, shapes: Any) -> None:
    inputs, module = [torch.zeros(s) for s in shapes], torch_modules.Function(inside)
    assert _figures(_profile(module, inputs)) == of_tool(module, inputs)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.LSTM(10, 20, 2, batch_first=True, bidirectional=True), (3, 5, 10)),
        (nn.LSTM(10, 20, proj_size=7), (5, 3, 10)),
        (nn.GRU(10, 20, 2, bidirectional=True), (5, 3, 10)),
        (nn.GRU(10, 20, 2, batch_first=True), (3, 5, 10)),
        (nn.GRU(10, 20, batch_first=True), (1, 5, 10)),
        (nn.GRU(10, 20, 2, bias=False), (5, 3, 10)),
        (nn.RNN(10, 20, nonlinearity="relu"), (5, 10)),
        (nn.GRUCell(10, 20, bias=False), (3, 10)),
        (nn.RNNCell(10, 20), (10,)),
        (nn.TransformerEncoderLayer(16, 2, 32), (5, 2, 16)),
        (nn.MultiheadAttention(16, 2), ((5, 2, 16),) * 3),
        (nn.Conv2d(3, 4, 3), (3, 8, 8)),
    ],
    ids=str,
)
def test_layers(module: Any, shape: Any) -> None:
    inputs = [torch.zeros(s) for s in (shape if isinstance(shape[0], tuple) else (shape,))]
    assert _figures(_profile(module.eval(), inputs)) == of_tool(module, inputs)


def test_parameters_that_are_not_trained_are_left_out() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    module[0].requires_grad_(False)
    assert _figures(_profile(module, (2, 4))) == of_tool(module, [torch.zeros(2, 4)]) == [80, 20]


#: Model -> what it counts, at 224 x 224 (inception 299), or 128 tokens.
MODELS: dict[str, int] = {
    "alexnet": 714_682_664,
    "vgg16": 15_483_821_032,
    "resnet18": 1_814_074_344,
    "resnet50": 4_089_185_256,
    "densenet121": 2_834_162_664,
    "mobilenet_v2": 300_775_272,
    "efficientnet_b0": 385_825_092,
    "vit_b_16": 16_864_992_232,
    "inception_v3": 5_713_217_096,
    "googlenet": 1_498_377_192,
    "squeezenet1_1": 351_741_288,
    "shufflenet_v2_x1_0": 144_908_992,
    "bert_base": 10_882_843_392,
    "gpt2": 15_822_716_928,
}


@pytest.mark.parametrize("name", MODELS)
def test_architectures(name: str) -> None:
    module, args, kwargs = torch_golden.architectures()[name]()
    found = _figures(_profile(module, (args, kwargs)))
    assert found[0] == MODELS[name]
    assert found == of_tool(module, args, kwargs)


@pytest.mark.parametrize(
    ("one", "macs"),
    [
        (node("Gemm", [(8, 16), (16, 5), (5,)], [(8, 5)]), 640 + 40),
        (node("Gemm", [(8, 16), (16, 5)], [(8, 5)]), 640),
        (node("MatMul", [(8, 16), (16,)], [(8,)]), 0),
        (node("Conv", [(1, 3, 8, 8), (4, 3, 3, 3), (4,)], [(1, 4, 6, 6)]), 3888 + 144),
        (node("ConvTranspose", [(1, 3, 8, 8), (3, 4, 2, 2)], [(1, 4, 9, 9)]), 3072),
        (node("Softmax", [(8, 16)], [(8, 16)]), 0),
    ],
    ids=lambda value: value.op if hasattr(value, "op") else str(value),
)
def test_operators_of_files(one: Any, macs: int) -> None:
    assert total("ptflops-aten", one) == macs
