"""Rates of a step: its figures by seconds, beside the peak of the device that ran it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from flopwise.analyses.meter.cost import Cost
from flopwise.analyses.timing.catalog import find, nearest_gpu
from flopwise.analyses.timing.device import Device, Peak
from flopwise.analyses.timing.machine import this_cpu
from flopwise.formats.torch.record.values import DTYPES


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates that a step reached."""

    seconds: float
    #: FLOP/s of the forward and backward pass, without what runs twice; of all devices together.
    flops_per_s: float
    #: Share of the peak that they are, and the share of all that is executed; None where there is no peak.
    mfu: float | None
    hfu: float | None
    tokens_per_s: float | None
    samples_per_s: float

    def to_dict(self) -> dict[str, float]:
        """The rates under the names that loggers get; what is not known is left out."""
        named = {
            "tflops_per_s": self.flops_per_s / 1e12,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "tokens_per_s": self.tokens_per_s,
            "samples_per_s": self.samples_per_s,
        }
        return {name: rate for name, rate in named.items() if rate is not None}


def rates_of(cost: Cost, seconds: float, peak: Peak | None, devices: int) -> Rates:
    """The rates of a cost.

    Args:
        cost: of what ran.
        seconds: that it took.
        peak: of one device; None: not known.
        devices: that ran it together.
    """
    most = None if peak is None else seconds * peak.value * devices
    return Rates(
        seconds=seconds,
        flops_per_s=cost.flops / seconds,
        mfu=None if most is None else cost.flops / most,
        hfu=None if most is None else cost.hardware_flops / most,
        tokens_per_s=None if cost.tokens is None else cost.tokens / seconds,
        samples_per_s=cost.samples / seconds,
    )


def running_on(model: nn.Module) -> Device:
    """The device that holds a model, with the figures of the tables; without figures where it is not listed."""
    place = next((p.device for p in model.parameters()), torch.device("cpu"))
    return _device(place.type, place.index or 0)


@functools.cache
def _device(kind: str, index: int) -> Device:
    if kind != "cuda":
        return this_cpu() if kind in ("cpu", "meta") else Device(kind, kind, "gpu", "", 0, ())
    about = torch.cuda.get_device_properties(index)
    listed = nearest_gpu(about.name, about.total_memory)
    if listed is None:
        return Device(kind, about.name, "gpu", "", about.total_memory, ())
    return replace(listed, name=about.name, note=f"figures of {listed.name}")


def device_named(name: str) -> Device:
    """A device of the tables, or this machine's CPU.

    Raises:
        InputError: no device goes by that name.
    """
    return this_cpu() if name.lower() == "cpu" else find(name)


def autocast_dtype(model: nn.Module) -> str | None:
    """The element type that autocast rounds the products of a model to now; None where it rounds none."""
    kind = next((p.device.type for p in model.parameters()), "cpu")
    return DTYPES[torch.get_autocast_dtype(kind)] if kind != "meta" and torch.is_autocast_enabled(kind) else None


def first_products(model: nn.Module) -> nn.Module | None:
    """The first module of a model with a matrix of weights, before which the model has turned autocast on, if it does.

    None where it is compiled: its hooks would be compiled with it.
    """
    for path, module in model.named_modules():
        weight = vars(module)["_parameters"].get("weight")
        if weight is None or nn.parameter.is_lazy(weight) or weight.dim() < 2 or isinstance(module, nn.Embedding):
            continue
        parts = path.split(".")
        around = [vars(model.get_submodule(".".join(parts[:number]))) for number in range(len(parts) + 1)]
        compiled = any(own.get("_compiled_call_impl") is not None or "_orig_mod" in own["_modules"] for own in around)
        return None if compiled else module
    return None


def arithmetic_of(model: nn.Module) -> str:
    """The element type of the products that a model computes now: autocast's, else that of most of its weights."""
    kind = next((p.device.type for p in model.parameters()), "cpu")
    autocast = autocast_dtype(model)
    if autocast is not None:
        return autocast
    elements: dict[Any, int] = {}
    for parameter in model.parameters():
        if parameter.is_floating_point():
            elements[parameter.dtype] = elements.get(parameter.dtype, 0) + parameter.numel()
    dtype = DTYPES[max(elements, key=lambda one: elements[one])] if elements else "float32"
    return "tfloat32" if kind == "cuda" and dtype == "float32" and _rounds(model) else dtype


def _rounds(model: nn.Module) -> bool:
    """True if PyTorch may round float32 to TF32 in a product of a model.

    In products of matrices where a program asks for it, in convolutions and recurrent layers, which are cuDNN's, unless
    it forbids it.
    """
    kinds = {type(module) for module in model.modules()}
    convolves = any(issubclass(kind, nn.modules.conv._ConvNd) for kind in kinds)
    recurs = any(issubclass(kind, nn.RNNBase) for kind in kinds)
    backends: Any = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):  # before PyTorch 2.9
        own = (convolves or recurs) and backends.cudnn.allow_tf32
        return bool(own or torch.get_float32_matmul_precision() != "highest")
    settings = [backends.cuda.matmul, *([backends.cudnn.conv] * convolves), *([backends.cudnn.rnn] * recurs)]
    return any(setting.fp32_precision == "tf32" for setting in settings)
