"""A case -> the ONNX file, and what PyTorch itself says about the module."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tests.exports.cases import Case
from tests.exports.models import MODELS, Called
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import flopwise


@dataclass
class Exported:
    """A file, and what holds for the module that it came from."""

    case: Case
    path: Path
    #: Multiply-accumulates of convolutions and matrix products, for the sizes in ``case.dims``.
    macs: int
    params: int
    #: Elements of the mean and variance of all batch norms.
    statistics: int
    #: Path of each module -> its class.
    modules: dict[str, str] = field(repr=False)

    @functools.cached_property
    def profile(self) -> flopwise.Profile:
        """What flopwise says about the file."""
        return flopwise.profile(self.path, dims=self.case.dims)


def export(case: Case, folder: Path) -> Exported:
    """The exported file and the facts about its module."""
    module = _module(case)
    arguments = MODELS[case.model].arguments()
    path = folder / f"{case}.onnx"
    with _quiet():
        _export(case, module, arguments, path)
        macs = _macs(module, [_resized(t, case.dims) for t in arguments.values()])
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    return Exported(
        case=case,
        path=path,
        macs=macs,
        params=sum(p.numel() for p in module.parameters()),
        statistics=2 * sum(n.num_features for n in norms),
        modules={name: type(m).__name__ for name, m in module.named_modules()},
    )


def _module(case: Case) -> nn.Module:
    """The module in inference mode. All its weights differ, so that no exporter merges equal ones."""
    torch.manual_seed(0)
    module = MODELS[case.model].build().eval()
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -0.1, 0.1)
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.running_mean, -0.1, 0.1)
            nn.init.uniform_(norm.running_var, 0.5, 1.5)
    if case.attention != "eager":
        module.model.set_attn_implementation(case.attention)
    return module


def _export(case: Case, module: nn.Module, arguments: dict[str, Tensor], path: Path) -> None:
    options: dict[str, Any] = {"input_names": list(arguments), "opset_version": case.opset, "verbose": False}
    if case.exporter == "torchscript":
        axes = {name: dict(enumerate(case.dims)) for name in arguments}
        options |= {"dynamo": False, "dynamic_axes": axes if case.dims else None}
    else:
        options |= {"dynamo": True, "optimize": case.optimize, "external_data": False}
        if case.dims:
            symbols = dict(enumerate(torch.export.Dim(name) for name in case.dims))
            shapes = tuple(symbols for _ in arguments)
            options["dynamic_shapes"] = (shapes,) if isinstance(module, Called) else shapes  # Called takes *inputs
    with torch.no_grad():
        torch.onnx.export(module, tuple(arguments.values()), path, **options)


def _resized(tensor: Tensor, dims: dict[str, int]) -> Tensor:
    """Any values of the input, with the first axes of the given sizes."""
    shape = [*dims.values(), *tensor.shape[len(dims) :]]
    return torch.ones(shape, dtype=tensor.dtype)


def _macs(module: nn.Module, arguments: list[Tensor]) -> int:
    """FlopCounterMode's count of the module, halved; the fused kernels that would hide products from it are off."""
    fused_lstm = any(isinstance(m, nn.RNNBase) for m in module.modules())  # that of mkldnn, which is one operator
    with (
        torch.no_grad(),
        torch.backends.mkldnn.flags(enabled=not fused_lstm),
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False) as counter,
    ):
        module(*arguments)
    macs, rest = divmod(counter.get_total_flops(), 2)
    assert not rest
    return macs


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without PyTorch's warnings, and with attention spelled out: nobody sees into a fused encoder layer."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
