"""``profile`` and ``clever_format`` of thop 0.1.1 (pytorch-OpCounter).

They take the same arguments and give the same results and texts, but the module runs on meta tensors and is afterwards
as it was, while thop leaves buffers of its own in it. Nothing here needs ``distutils``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from flopwise._arguments import checked
from flopwise.compat.hooks import Hook, children_first, class_name, graph_of_call, hook_result
from flopwise.conventions.emulation import modules
from flopwise.conventions.emulation.layer import Layer
from flopwise.conventions.tools import thop as convention
from flopwise.errors import InputError, ModelError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["clever_format", "profile"]

#: Name of a module -> MACs, parameters, and the same of what it holds.
Layers: TypeAlias = "dict[str, tuple[float, float, Layers]]"

#: What the tool calls its rule for a class where that is not ``zero_ops``.
_NAMES: dict[str, str] = {
    **{kind: "count_convNd" for kind in convention.HOOKS if kind.startswith("Conv")},
    **{kind: "count_normalization" for kind in convention.HOOKS if "Norm" in kind},
    **{kind: "count_avgpool" for kind in convention.HOOKS if kind.startswith("AvgPool")},
    **{kind: "count_adap_avgpool" for kind in convention.HOOKS if kind.startswith("AdaptiveAvgPool")},
    **{kind: "count_upsample" for kind in convention.HOOKS if kind.startswith("Upsampl")},
    "PReLU": "count_prelu",
    "LeakyReLU": "count_relu",
    "Softmax": "count_softmax",
    "Linear": "count_linear",
    **{
        f"{kind}{cell}": f"count_{kind.lower()}{'_cell' * bool(cell)}"
        for kind in ("RNN", "GRU", "LSTM")
        for cell in ("", "Cell")
    },
}


@checked
def profile(
    model: nn.Module,
    inputs: Iterable[object],
    custom_ops: Mapping[type, Hook] | None = None,
    verbose: bool = True,
    ret_layer_info: bool = False,
    report_missing: bool = False,
) -> tuple[float, float] | tuple[float, float, Layers]:
    """MACs and parameters of a module, and on demand of each module in it.

    A class without a rule has neither; a model that is a single layer has no parameters, because the tool looks at what
    a model holds.

    Args:
        model: the module, counted in eval mode.
        inputs: its positional arguments.
        custom_ops: classes of modules -> hooks that add to ``module.total_ops``. The tensors that they are given have
            no elements.
        verbose: whether to print which rule a class has.
        ret_layer_info: whether to return the figures of each module as well.
        report_missing: whether to print which classes have no rule; prints the others, too.

    Raises:
        ModelError: the module fails with these inputs, or thop would.
    """
    own = dict(custom_ops or {})
    _tell(model, own, verbose or report_missing, report_missing)
    graph = graph_of_call(model, inputs)
    places = dict(model.named_modules())
    hooks = Counter(map(id, children_first(model)))  # the tool hangs one on a module for each of its places
    ops: dict[int, float] = {}
    params: dict[int, float] = {}
    for layer in modules.layers(graph):
        module = places[layer.path]
        if _has_rule(module, own):
            ops[id(module)] = ops.get(id(module), 0.0) + hooks[id(module)] * _counted(module, layer, own)
            params[id(module)] = float(sum([p.numel() for p in module.parameters()]))
    macs, parameters, layers = _added(model, ops, params, own)
    return (macs, parameters, layers) if ret_layer_info else (macs, parameters)


def _has_rule(module: nn.Module, own: Mapping[type, Hook]) -> bool:
    return type(module) in own or class_name(type(module)) in convention.HOOKS


def _tell(model: nn.Module, own: Mapping[type, Hook], verbose: bool, missing: bool) -> None:
    """Prints which rule each class has."""
    mentioned: set[type] = set()
    for module in children_first(model):
        cls = type(module)
        if cls in mentioned:
            continue
        mentioned.add(cls)
        kind = class_name(cls)
        if cls in own:
            if verbose:
                print(f"[INFO] Customize rule {own[cls].__qualname__}() {cls}.")
        elif kind in convention.HOOKS:
            if verbose:
                print(f"[INFO] Register {_NAMES.get(kind, 'zero_ops')}() for {cls}.")
        elif missing:
            print(
                f"\033[91m[WARN] Cannot find rule for {cls}. Treat it as zero Macs and zero Params.\n\033[00m", end=""
            )


def _counted(module: nn.Module, layer: Layer, own: Mapping[type, Hook]) -> float:
    hook = own.get(type(module))
    if hook is not None:
        import torch

        return float(hook_result(hook, module, layer, "total_ops", torch.zeros(1, dtype=torch.float64)))
    counted = convention.counted(layer)
    if counted is None:
        raise ModelError(f"thop fails at the module {layer.path!r} ({layer.kind})")
    return float(counted)


def _added(
    module: nn.Module, ops: Mapping[int, float], params: Mapping[int, float], own: Mapping[type, Hook]
) -> tuple[float, float, Layers]:
    """The sums over a module: its own MACs, and both figures of what it holds."""
    from torch import nn

    macs: float = ops.get(id(module), 0.0)
    parameters: float = 0
    layers: Layers = {}
    for name, child in module.named_children():
        if _has_rule(child, own) and not isinstance(child, (nn.Sequential, nn.ModuleList)):
            layers[name] = (ops.get(id(child), 0.0), params.get(id(child), 0.0), {})
        else:
            layers[name] = _added(child, ops, params, own)
        macs += layers[name][0]
        parameters += layers[name][1]
    return macs, parameters, layers


@checked
def clever_format(nums: float | Iterable[float], format: str = "%.2f") -> str | tuple[str, ...]:
    """Numbers in T, G, M or K where they are above one of it, else in B; one number gives one text.

    >>> clever_format([4133742592, 25557032]), clever_format(355)
    (('4.13G', '25.56M'), '355.00B')
    """
    numbers = list(nums) if isinstance(nums, Iterable) else [nums]
    texts = tuple(_short(number, format) for number in numbers)
    return texts[0] if len(texts) == 1 else texts


def _short(number: float, form: str) -> str:
    try:
        form % number
    except (TypeError, ValueError):
        raise InputError(f"thop.clever_format(format=...): {form!r} takes no number") from None
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "K")):
        if number > 10**power:
            return f"{form % (number / 10**power)}{letter}"
    return f"{form % number}B"
