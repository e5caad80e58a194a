"""The convention of fvcore and mmengine beside their figures, recorded and as the installed fvcore gives them.

fvcore 0.1.5.post20221221, torch 2.13, torchvision 0.28, transformers 5.23.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest
from onnx import TensorProto, helper
from tests.conventions.nodes import node, total

import flopwise
from flopwise.conventions import fvcore

torch = pytest.importorskip("torch")

from tests import torch_golden, torch_modules  # noqa: E402 - they import torch

nn = torch.nn

#: Module -> what the convention says, and why fvcore said something else when it was recorded.
APART: dict[str, tuple[int | None, str]] = {
    "matmul mat-vec [8,16]x[16]": (None, "fvcore fails with an IndexError"),
    "MHA(64,4) batch_first [2,10,64] eval": (327_680, "recorded without gradients, where PyTorch fuses attention"),
    "TransformerEncoderLayer(64,4,128) [2,10,64] eval": (668_160, "recorded without gradients"),
    "dynamic-quantised Linear(64->32)": (0, "fvcore fails: a quantised layer cannot be traced"),
    "sparse mm (coo 10% dense) [64,64]x[64,32]": (0, "fvcore fails: a sparse matrix cannot be traced"),
    "torch.compile(Linear)": (16_384, "fvcore fails: a compiled module cannot be traced"),
}

#: Operators on the sizes of tensors are in fvcore's trace, and no operators on tensors.
ON_SIZES = ("aten::mul", "aten::div", "aten::add", "aten::sub", "aten::floor_divide")


def _profile(module: Any, inputs: Any, **more: Any) -> flopwise.Profile:
    return flopwise.profile(module, inputs, convention="fvcore", **more)


def _count(profile: flopwise.Profile) -> int | None:
    return profile.total("count") if profile.exact else None


@pytest.mark.parametrize("name", torch_modules.MODULES)
def test_recorded_figures(name: str) -> None:
    said = torch_golden.recorded(name, "fvcore")
    module, inputs = torch_modules.MODULES[name]()
    found = _profile(module, inputs)
    if name in APART:
        assert _count(found) == APART[name][0]
        assert isinstance(said, str) or said[0] != APART[name][0]
        return
    assert _count(found) == said[0]
    unsupported = dict(fvcore.unsupported(found.graph))
    if name == "custom autograd.Function matmul":
        assert unsupported == {"prim::PythonOp.Product": 1}
        assert said[1] == {"prim::PythonOp.Cust": 1}  # the same class under another name
    else:
        assert unsupported == said[1]


@pytest.mark.parametrize(
    "name", [name for name in torch_modules.MODULES if APART.get(name, (0, ""))[1][:12] != "fvcore fails"]
)
def test_fvcore_itself(name: str) -> None:
    tool = pytest.importorskip("fvcore.nn")
    module, inputs = torch_modules.MODULES[name]()
    found = _profile(module, inputs)
    flops, activations = (
        _of_tool(tool.FlopCountAnalysis, module, inputs),
        _of_tool(tool.ActivationCountAnalysis, module, inputs),
    )
    assert _count(found) == flops.total()
    assert found.total("activations") == activations.total()
    assert found.own["params"] == tool.parameter_count(module)[""]
    assert _without_sizes(fvcore.unsupported(found.graph)) == _without_sizes(flops.unsupported_ops())


def _of_tool(kind: Any, module: Any, inputs: Any) -> Any:
    """An analysis of the tool, with gradients on as it is by default."""
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis = kind(module, inputs).unsupported_ops_warnings(False).uncalled_modules_warnings(False)
        analysis.total()
    return analysis


def _without_sizes(found: Counter[str]) -> dict[str, int]:
    return {name: times for name, times in found.items() if name not in ON_SIZES}


#: Model -> flops, activations and parameters by fvcore, at 224 x 224 (inception 299), or 128 tokens.
MODELS: dict[str, tuple[int, int, int]] = {
    "alexnet": (714_197_696, 494_184, 61_100_840),
    "vgg16": (15_470_289_408, 13_556_712, 138_357_544),
    "resnet18": (1_819_065_856, 2_484_712, 11_689_512),
    "resnet50": (4_111_512_576, 11_114_984, 25_557_032),
    "densenet121": (2_865_546_752, 6_900_200, 7_978_856),
    "mobilenet_v2": (314_193_216, 6_679_112, 3_504_872),
    "efficientnet_b0": (401_659_392, 6_748_036, 5_288_548),
    "vit_b_16": (16_867_412_736, 16_491_496, 86_567_656),
    "inception_v3": (5_731_282_144, 8_968_488, 27_161_264),
    "googlenet": (1_504_878_688, 3_227_160, 13_004_888),
    "squeezenet1_1": (349_320_936, 2_589_352, 1_235_496),
    "shufflenet_v2_x1_0": (148_808_392, 1_951_200, 2_278_604),
    "bert_base": (10_884_513_792, 10_617_600, 109_482_240),
    "gpt2": (15_824_388_096, 17_049_728, 124_439_808),
}


@pytest.mark.parametrize("name", MODELS)
def test_architectures(name: str) -> None:
    module, args, kwargs = torch_golden.architectures()[name]()
    found = _profile(module, (args, kwargs))
    assert (_count(found), found.total("activations"), found.own["params"]) == MODELS[name]


@pytest.mark.parametrize("name", MODELS)
def test_architectures_in_fvcore_itself(name: str) -> None:
    tool = pytest.importorskip("fvcore.nn")
    module, args, _ = torch_golden.architectures()[name]()
    if name in ("bert_base", "gpt2"):
        from tests.torch_models import FirstTensor

        module = FirstTensor(module)  # a trace gives nothing but tensors
    found = _profile(module, args)
    assert _count(found) == _of_tool(tool.FlopCountAnalysis, module, args).total()
    assert found.total("activations") == _of_tool(tool.ActivationCountAnalysis, module, args).total()


def test_batch_norm_costs_more_in_training() -> None:
    module, args, _ = torch_golden.architectures()["resnet50"]()
    found = _profile(module, args, mode="train")
    assert _count(found) == 4_144_854_528
    assert fvcore.size(found.total("count")) == "4.145G"
    assert fvcore.size(_profile(module, args).total("count")) == "4.112G"


@pytest.mark.parametrize(
    ("module", "shape", "flops"),
    [
        (nn.BatchNorm2d(16), (2, 16, 8, 8), 5 * 2048),
        (nn.BatchNorm2d(16, affine=False), (2, 16, 8, 8), 4 * 2048),
        (nn.InstanceNorm2d(16, affine=True), (2, 16, 8, 8), 5 * 2048),
        (nn.InstanceNorm2d(16), (2, 16, 8, 8), 4 * 2048),
        (nn.LayerNorm(8, elementwise_affine=False), (2, 16, 8, 8), 4 * 2048),
        (nn.GRUCell(10, 20), (3, 10), 3 * 60 * 30),
        (nn.RNNCell(10, 20), (3, 10), 3 * 20 * 30),
        (nn.RNNCell(10, 20, nonlinearity="relu", bias=False), (3, 10), 3 * 20 * 30),
        (nn.Conv2d(3, 10, 3), (3, 10, 10), 17_280),
        (nn.ConvTranspose1d(4, 6, 3, stride=2), (4, 10), 720),
        (nn.Linear(64, 32), (64,), 2048),
        (nn.Bilinear(4, 5, 6), ((2, 4), (2, 5)), 0),
        (nn.Upsample(scale_factor=2, mode="nearest"), (1, 3, 8), 0),
        (nn.AdaptiveAvgPool1d(2), (1, 3, 8), 0),
    ],
    ids=str,
)
def test_forms_in_training_mode(module: Any, shape: Any, flops: int) -> None:
    shapes = shape if isinstance(shape[0], tuple) else (shape,)
    found = _profile(module.train(), shapes, mode="train")
    assert _count(found) == flops
    tool = pytest.importorskip("fvcore.nn")
    analysis = _of_tool(tool.FlopCountAnalysis, module, tuple(torch.zeros(s) for s in shapes))
    assert analysis.total() == flops
    assert dict(fvcore.unsupported(found.graph)) == dict(analysis.unsupported_ops())


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("nct,ncp->ntp", ((2, 3, 4), (2, 3, 5))),
        ("ntg,ncg->nct", ((2, 30, 40), (2, 50, 40))),
        ("...ij,...jk->...ik", ((7, 11, 13), (7, 13, 17))),
        ("ij,jk,kl->il", ((3, 50), (50, 7), (7, 90))),
        ("ii->i", ((5, 5),)),
        ("i,j->ij", ((30,), (70,))),
    ],
)
def test_einsum_as_numpy_prints_it(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    module = torch_modules.Function(lambda *given: torch.einsum(equation, *given))
    inputs = tuple(torch.zeros(shape) for shape in shapes)
    tool = pytest.importorskip("fvcore.nn")
    assert _count(_profile(module, inputs)) == _of_tool(tool.FlopCountAnalysis, module, inputs).total()


def test_an_einsum_takes_no_memory() -> None:
    huge = 1 << 20
    assert total("fvcore", node("Einsum", [(huge, huge), (huge, huge)], [(huge, huge)], {"equation": "ij,jk->ik"}))


def test_a_file_counts_as_the_module_that_it_came_from() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )
    shapes = {"w": (8, 3, 3, 3), "b": (8,), "s": (8,), "o": (8,), "m": (8,), "v": (8,), "lw": (5, 8), "lb": (5,)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", ["c", "s", "o", "m", "v"], ["n"]),
            helper.make_node("Relu", ["n"], ["r"]),
            helper.make_node("GlobalAveragePool", ["r"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("Gemm", ["f", "lw", "lb"], ["y"], transB=1),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 12, 12))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 5))],
        [helper.make_tensor(n, TensorProto.FLOAT, s, [0.0] * torch.Size(s).numel()) for n, s in shapes.items()],
    )
    file = flopwise.profile(helper.make_model(graph), convention="fvcore")
    found = _profile(module, (2, 3, 12, 12))
    for figure in ("count", "activations"):
        assert file.total(figure) == found.total(figure)
    assert file.own == found.own
    assert _count(found) == 2 * 144 * 8 * 27 + 2 * 2304 + 2304 + 80


@pytest.mark.parametrize(
    ("one", "flops"),
    [
        (node("MatMul", [(8, 16), (4, 16, 32)], [(4, 8, 32)]), 4096),
        (node("MatMul", [(8, 16), (16,)], [(8,)]), None),
        (node("Gemm", [(16, 8), (16, 5), (5,)], [(8, 5)], {"transA": 1}), 640),
        (node("Resize", [(1, 3, 4, 4), None, None, None], [(1, 3, 8, 8)], {"mode": "linear"}), 4 * 192),
        (node("Resize", [(1, 3, 4, 4), None, None, None], [(1, 3, 8, 8)], {"mode": "cubic"}), 0),
        (node("BatchNormalization", [(2, 3, 4), (3,), (3,), (3,), (3,)], [(2, 3, 4)], {"training_mode": 1}), 120),
        (node("LayerNormalization", [(2, 3, 4, 5, 6, 7), (7,)], [(2, 3, 4, 5, 6, 7)]), None),
        (node("GroupNormalization", [(2, 4, 6), (4,), (4,)], [(2, 4, 6)], {"num_groups": 2}), 240),
        (node("InstanceNormalization", [(2, 4, 6), (4,), (4,)], [(2, 4, 6)]), 240),
        (node("GlobalAveragePool", [(2, 4, 6, 6)], [(2, 4, 1, 1)]), 288),
        (node("GlobalAveragePool", [(2, 4, 6)], [(2, 4, 1)]), 0),
        (node("GridSample", [(2, 4, 6, 6), (2, 3, 3, 2)], [(2, 4, 3, 3)]), 288),
        (node("Softmax", [(4, 10)], [(4, 10)]), 0),
    ],
    ids=lambda value: value.op if hasattr(value, "op") else str(value),
)
def test_operators_of_files(one: Any, flops: int | None) -> None:
    assert total("fvcore", one) == flops


@pytest.mark.parametrize(
    "inside", [lambda x: (x @ x.t(), x + 1)[1], lambda x: (torch_modules.Product.apply(x, x.t()), x + 1)[1]]
)
def test_what_does_not_reach_the_result_is_not_in_the_trace(inside: Any) -> None:
    module, inputs = torch_modules.Function(inside), (torch.zeros(4, 8),)
    tool = pytest.importorskip("fvcore.nn")
    analysis = _of_tool(tool.FlopCountAnalysis, module, inputs)
    found = _profile(module, inputs)
    assert _count(found) == analysis.total() == 0
    assert fvcore.unsupported(found.graph) == analysis.unsupported_ops()
    assert flopwise.profile(module, inputs, convention="macs").total("count") == 4 * 8 * 4


def test_assignments_to_elements() -> None:
    def inside(x: Any) -> Any:
        y = x + 1
        y[0, 1:3] = 2
        y[:, 0] = x.sum()
        y[1] = x[0]
        y[torch.tensor([0])] = x[0]
        return torch.nn.functional.pad(y, (1, 1))

    module, inputs = torch_modules.Function(inside), (torch.zeros(4, 8),)
    tool = pytest.importorskip("fvcore.nn")
    analysis = _of_tool(tool.FlopCountAnalysis, module, inputs)
    assert fvcore.unsupported(_profile(module, inputs).graph) == analysis.unsupported_ops()


def test_what_the_tool_lacks_is_named() -> None:
    module, inputs = torch_modules.MODULES["SDPA causal"]()
    (note,) = [note for note in _profile(module, inputs).notes if "fvcore" in note]
    assert note.endswith("counts nothing for them: aten::scaled_dot_product_attention 1")
