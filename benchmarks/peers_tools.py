"""The tools of ``peers.py``: each imports what it needs and returns the function that counts a model."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import torch
from peers_models import MODELS, SIZES, module_of


def flopwise(name: str) -> Callable[[], int]:
    from flopwise import profile

    kind, place = MODELS[name]
    if kind == "onnx":
        return lambda: profile(place, dims=SIZES.get(place.stem)).total("macs")
    module, inputs = module_of(name)
    return lambda: profile(module, (inputs,)).total("macs")


def fvcore(name: str) -> Callable[[], int]:
    from fvcore.nn import FlopCountAnalysis

    module, inputs = module_of(name)
    return lambda: FlopCountAnalysis(module, inputs).unsupported_ops_warnings(False).total()


def mmengine(name: str) -> Callable[[], int]:
    from mmengine.analysis import get_model_complexity_info

    module, inputs = module_of(name)
    return lambda: get_model_complexity_info(module, inputs=(inputs,), show_table=False, show_arch=False)["flops"]


def mmcv(name: str) -> Callable[[], int]:
    from mmcv.cnn import get_model_complexity_info

    module, inputs = module_of(name)
    shape = tuple(inputs.shape[1:])
    return lambda: get_model_complexity_info(module, shape, print_per_layer_stat=False, as_strings=False)[0]


def _ptflops(name: str, backend: str) -> Callable[[], int]:
    from ptflops import get_model_complexity_info

    module, inputs = module_of(name)
    shape = tuple(inputs.shape[1:])
    return lambda: get_model_complexity_info(
        module, shape, as_strings=False, print_per_layer_stat=False, verbose=False, backend=backend
    )[0]


def ptflops(name: str) -> Callable[[], int]:
    return _ptflops(name, "pytorch")


def ptflops_aten(name: str) -> Callable[[], int]:
    return _ptflops(name, "aten")


def thop(name: str) -> Callable[[], int]:
    from thop import profile

    module, inputs = module_of(name)
    return lambda: profile(module, inputs=(inputs,), verbose=False)[0]


def torchinfo(name: str) -> Callable[[], int]:
    from torchinfo import summary

    module, inputs = module_of(name)
    return lambda: summary(module, input_data=inputs, verbose=0).total_mult_adds


def torchstat(name: str) -> Callable[[], int]:
    from tests.torch_tools import torchstat as text
    from tests.torch_tools import totals_of_torchstat

    module, inputs = module_of(name)
    return lambda: totals_of_torchstat(text(module, tuple(inputs.shape[1:])))["madd"] // 2


def calflops(name: str) -> Callable[[], int]:
    from calflops import calculate_flops

    module, inputs = module_of(name)
    return lambda: calculate_flops(module, args=[inputs], print_results=False, output_as_string=False)[1]


def torchprofile(name: str) -> Callable[[], int]:
    from torchprofile import profile_macs

    module, inputs = module_of(name)
    return lambda: profile_macs(module, inputs)


def torchscan(name: str) -> Callable[[], int]:
    from torchscan import crawl_module

    module, inputs = module_of(name)
    return lambda: crawl_module(module, tuple(inputs.shape[1:]))["totals"]["macs"]["value"]


def flopth(name: str) -> Callable[[], int]:
    from flopth import flopth

    module, inputs = module_of(name)
    return lambda: flopth(module, inputs=(inputs,), bare_number=True, show_detail=False)[0]


def _counter(name: str, device: str) -> Callable[[], int]:
    from torch.utils.flop_counter import FlopCounterMode

    module, inputs = module_of(name)
    module, inputs = module.to(device), inputs.to(device)

    def count() -> int:
        with torch.no_grad(), FlopCounterMode(display=False) as mode:
            module(inputs)
        return mode.get_total_flops() // 2

    return count


def flop_counter(name: str) -> Callable[[], int]:
    return _counter(name, "cpu")


def flop_counter_meta(name: str) -> Callable[[], int]:
    return _counter(name, "meta")


def onnx_tool(name: str) -> Callable[[], int]:
    import numpy
    from onnx_tool import Model

    path = MODELS[name][1]

    def count() -> int:
        model = Model(str(path))
        shapes = SIZES.get(path.stem)
        fed = {"hidden_states": numpy.zeros((shapes["batch"], shapes["sequence"], 40), "float32")} if shapes else None
        model.graph.shape_infer(fed)
        model.graph.profile()
        return int(model.graph.macs[0])

    return count


def onnx_opcounter(name: str) -> Callable[[], int]:
    from onnx_opcounter import calculate_macs

    path = MODELS[name][1]
    return lambda: calculate_macs(onnx.load(path))


#: Title -> the tool, its package, and what it takes.
TOOLS: dict[str, tuple[Callable[[str], Callable[[], int]], str, str]] = {
    "flopwise": (flopwise, "flopwise", "both"),
    "fvcore": (fvcore, "fvcore", "torch"),
    "mmengine": (mmengine, "mmengine", "torch"),
    "mmcv": (mmcv, "mmcv-lite", "torch"),
    "ptflops": (ptflops, "ptflops", "torch"),
    "ptflops, aten": (ptflops_aten, "ptflops", "torch"),
    "thop": (thop, "thop", "torch"),
    "torchinfo": (torchinfo, "torchinfo", "torch"),
    "torchstat": (torchstat, "torchstat", "torch"),
    "calflops": (calflops, "calflops", "torch"),
    "torchprofile": (torchprofile, "torchprofile", "torch"),
    "torchscan": (torchscan, "torchscan", "torch"),
    "flopth": (flopth, "flopth", "torch"),
    "FlopCounterMode": (flop_counter, "torch", "torch"),
    "FlopCounterMode, meta": (flop_counter_meta, "torch", "torch"),
    "onnx-tool": (onnx_tool, "onnx-tool", "onnx"),
    "onnx-opcounter": (onnx_opcounter, "onnx-opcounter", "onnx"),
}
