"""``profile`` and ``clever_format`` of thop 0.1.1 (pytorch-OpCounter).

They take the same arguments and give the same results and texts, but the module runs on meta tensors and is afterwards
as it was, while thop leaves buffers of its own in it. Nothing here needs ``distutils``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from flopwise._arguments import checked
from flopwise.compat.modules import Hook, Hooks, children_first, class_name, classes, graph_of_call
from flopwise.conventions import thop as convention
from flopwise.conventions.emulation import RECURRENT
from flopwise.errors import InputError

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
    **{kind: f"count_{kind.lower().replace('cell', '_cell')}" for kind in RECURRENT},
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
    from torch import nn

    hooks = Hooks(convention.TOOL, dict(custom_ops or {}), "total_ops", _zero)
    for cls in classes(model) if verbose or report_missing else ():
        if cls in hooks.own:
            print(f"[INFO] Customize rule {hooks.own[cls].__qualname__}() {cls}.")
        elif hooks.serve(cls):
            print(f"[INFO] Register {_NAMES.get(class_name(cls), 'zero_ops')}() for {cls}.")
        elif report_missing:
            print(
                f"\033[91m[WARN] Cannot find rule for {cls}. Treat it as zero Macs and zero Params.\n\033[00m", end=""
            )
    times = Counter(map(id, children_first(model)))  # the tool hangs a hook on a module for each of its places
    ops: dict[int, float] = {}
    params: dict[int, float] = {}
    for module, amount in hooks.amounts(model, graph_of_call(model, inputs)):
        ops[id(module)] = ops.get(id(module), 0.0) + times[id(module)] * amount
        params[id(module)] = float(sum([p.numel() for p in module.parameters()]))

    def added(module: nn.Module) -> tuple[float, float, Layers]:
        """The sums over a module: its own MACs, and both figures of what it holds."""
        layers: Layers = {}
        for name, child in module.named_children():
            if hooks.serve(type(child)) and not isinstance(child, (nn.Sequential, nn.ModuleList)):
                layers[name] = (ops.get(id(child), 0.0), params.get(id(child), 0.0), {})
            else:
                layers[name] = added(child)
        own = ops.get(id(module), 0.0)
        return sum([own, *(m for m, _, _ in layers.values())]), sum([p for _, p, _ in layers.values()]), layers

    macs, parameters, layers = added(model)
    return (macs, parameters, layers) if ret_layer_info else (macs, parameters)


def _zero() -> object:
    import torch

    return torch.zeros(1, dtype=torch.float64)


@checked
def clever_format(nums: float | Iterable[float], format: str = "%.2f") -> str | tuple[str, ...]:
    """Numbers in T, G, M or K where they are above one of it, else in B; one number gives one text.

    >>> clever_format([4133742592, 25557032]), clever_format(355)
    (('4.13G', '25.56M'), '355.00B')
    """
    try:
        format % 0
    except (TypeError, ValueError):
        raise InputError(f"thop.clever_format(format=...): {format!r} takes no number") from None
    texts = []
    for number in nums if isinstance(nums, Iterable) else [nums]:
        steps = ((power, letter) for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "K")) if number > 10**power)
        power, letter = next(steps, (0, "B"))
        texts.append(f"{format % (number / 10**power if power else number)}{letter}")
    return texts[0] if len(texts) == 1 else tuple(texts)
