"""The 30 models of ``peers.py``, and the truth about them, by code that shares nothing with flopwise or a peer."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import onnx
import torch
from tests.torch_vision import torchvision
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

TORCHVISION = {
    **dict.fromkeys(
        (
            "resnet18",
            "resnet50",
            "mobilenet_v2",
            "mobilenet_v3_large",
            "efficientnet_b0",
            "densenet121",
            "squeezenet1_1",
            "shufflenet_v2_x1_0",
            "vit_b_16",
            "swin_t",
            "convnext_tiny",
        ),
        (1, 3, 224, 224),
    ),
    "r3d_18": (1, 3, 16, 112, 112),
}
TIMM = dict.fromkeys(
    (
        "vit_tiny_patch16_224",
        "levit_128s",
        "mixer_s16_224",
        "xcit_nano_12_p16_224",
        "poolformer_s12",
        "coatnet_0_224",
        "eva02_tiny_patch14_224",
        "sequencer2d_s",
    ),
    (1, 3, 224, 224),
)
FILES = (
    *(LIGHT / f"light_{name}.onnx" for name in ("bvlc_alexnet", "densenet121", "inception_v1", "resnet50")),
    *(LIGHT / f"light_{name}.onnx" for name in ("shufflenet", "squeezenet", "vgg19")),
    *(EXAMPLES / f"{name}.onnx" for name in ("tiny_resnet", "transformer_block", "custom_op")),
)
#: Sizes of the dimensions that a file leaves open.
SIZES = {"transformer_block": {"batch": 1, "sequence": 16}}
MODELS: dict[str, tuple[str, Any]] = {
    **{name: ("torchvision", shape) for name, shape in TORCHVISION.items()},
    **{name: ("timm", shape) for name, shape in TIMM.items()},
    **{path.name: ("onnx", path) for path in FILES},
}


def module_of(name: str) -> tuple[Any, Any]:
    """A model of a library with random weights, and its input."""
    kind, shape = MODELS[name]
    torch.manual_seed(0)
    if kind == "torchvision":
        module = torchvision.models.get_model(name, weights=None)
    else:
        import timm

        module = timm.create_model(name, pretrained=False)
    return module.eval(), torch.rand(shape)


class Products(TorchDispatchMode):
    """The multiply-accumulates of every product that PyTorch dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.macs = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        if name in ("convolution", "_convolution", "mkldnn_convolution"):
            weight, transposed = args[1], args[6] if name != "mkldnn_convolution" else False
            outer = args[0] if transposed else result
            self.macs += outer.numel() * math.prod(weight.shape[1:])
        elif name in ("mm", "bmm"):
            self.macs += result.numel() * args[0].shape[-1]
        elif name in ("addmm", "baddbmm"):
            self.macs += result.numel() * args[1].shape[-1]
        elif any(word in name for word in ("attention", "lstm", "gru", "rnn", "linear", "matmul", "einsum")):
            raise RuntimeError(f"{name} is not taken apart")
        return result


def of_layers(module: Any, inputs: Any) -> int:
    """The multiply-accumulates of convolutions and linear layers by the textbook."""
    total = 0

    def hook(layer: Any, args: Any, result: Any) -> None:
        nonlocal total
        if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            cells = math.prod(layer.kernel_size) * layer.in_channels // layer.groups
            total += result.shape[0] * layer.out_channels * math.prod(result.shape[2:]) * cells
        elif isinstance(layer, nn.Linear):
            total += args[0].numel() // layer.in_features * layer.in_features * layer.out_features

    handles = [layer.register_forward_hook(hook) for layer in module.modules()]
    module(inputs)
    for handle in handles:
        handle.remove()
    return total


def truth(name: str) -> tuple[int, bool]:
    """Multiply-accumulates of a model, and whether its layers by the textbook are all of them."""
    if MODELS[name][0] == "onnx":
        return of_file(MODELS[name][1]), False
    from torch.nn.attention import SDPBackend, sdpa_kernel

    module, inputs = module_of(name)
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH):
        with Products() as products:
            module(inputs)
        layers = of_layers(module, inputs)
    return products.macs, layers == products.macs


def of_file(path: Path) -> int:
    """The same of an ONNX file, by the shapes that onnx infers; what a custom operator computes is not known."""
    model = onnx.load(path)
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = SIZES[path.stem][dim.dim_param]
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        shapes.setdefault(value.name, tuple(d.dim_value for d in value.type.tensor_type.shape.dim))
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":  # the weights of the light models
            shapes[node.output[0]] = shapes.get(node.output[0]) or ()
    total = 0
    for node in model.graph.node:
        if node.op_type == "Conv":
            total += math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
        elif node.op_type == "MatMul":
            total += math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
        elif node.op_type == "Gemm":
            first = shapes[node.input[0]]
            turned = any(a.name == "transA" and a.i for a in node.attribute)
            total += math.prod(shapes[node.output[0]]) * first[0 if turned else 1]
    return total
