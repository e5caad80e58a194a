"""``get_model_complexity_info`` of ptflops 0.7.5: MACs and parameters of a module, and its printed form with both.

It takes the same arguments and gives the same results and texts, but the module runs on meta tensors and is afterwards
as it was, while ptflops leaves it in eval mode with methods or hooks of its own on it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TextIO

from flopwise._arguments import checked
from flopwise.compat.modules import Hook, Hooks, classes, graph_of_call, trainable_elements, with_extra_repr
from flopwise.conventions.calls import trained
from flopwise.conventions.emulation import batch
from flopwise.conventions.ptflops import COUNTED, TOOL
from flopwise.conventions.torch import kernels
from flopwise.errors import InputError, ModelError
from flopwise.graph import Graph
from flopwise.operators.tables import on_elements

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FLOPS_BACKEND", "flops_to_string", "get_model_complexity_info", "params_to_string"]


class FLOPS_BACKEND(Enum):  # noqa: N801 - the name that programs import
    """The way in which MACs are found: by hooks on modules and functions, or where PyTorch dispatches its operators."""

    PYTORCH = "pytorch"
    ATEN = "aten"


_MACS = ((9, "GMac"), (6, "MMac"), (3, "KMac"))
_PARAMS = ((6, "M"), (3, "k"))


@checked
def flops_to_string(flops: float, units: str | None = None, precision: int = 2) -> str:
    """MACs in GMac, MMac or KMac, whichever leaves something before the point; plain below 1,000.

    >>> flops_to_string(4132436968), flops_to_string(640), flops_to_string(640, "KMac")
    ('4.13 GMac', '640 Mac', '0.64 KMac')
    """
    for power, unit in _MACS:
        if unit == units or (units is None and flops // 10**power > 0):
            return f"{round(flops / 10.0**power, precision)} {unit}"
    return f"{flops} Mac"


@checked
def params_to_string(params_num: float, units: str | None = None, precision: int = 2) -> str:
    """Parameters in M or k, whichever leaves something before the point; plain below 1,000. Units to ask for: M, K, B.

    >>> params_to_string(25557032), params_to_string(361), params_to_string(361, "K")
    ('25.56 M', '361', '0.36 K')
    """
    if units is None:
        for power, unit in _PARAMS:
            if params_num // 10**power:
                return f"{round(params_num / 10**power, precision)} {unit}"
        return str(params_num)
    exponent = {"M": 6, "K": 3, "B": 9}.get(units)
    return str(params_num) if exponent is None else f"{round(params_num / 10.0**exponent, precision)} {units}"


@checked
def get_model_complexity_info(
    model: nn.Module,
    input_res: tuple[int, ...],
    print_per_layer_stat: bool = True,
    as_strings: bool = True,
    input_constructor: Callable[[tuple[int, ...]], object] | None = None,
    ost: TextIO | None = None,
    verbose: bool = False,
    ignore_modules: Sequence[object] = (),
    custom_modules_hooks: Mapping[object, Hook] | None = None,
    backend: str | FLOPS_BACKEND = FLOPS_BACKEND.PYTORCH,
    flops_units: str | None = None,
    param_units: str | None = None,
    output_precision: int = 2,
    backend_specific_config: Mapping[str, object] | None = None,
) -> tuple[str | int | None, str | int | None]:
    """MACs and trained parameters of a module; both None, after a printed traceback, where the module fails.

    Args:
        model: the module, counted in eval mode.
        input_res: shape of the input without the batch; the batch is 1.
        print_per_layer_stat: whether to print the module with the figures of each layer.
        as_strings: whether to return texts ("4.13 GMac", "25.56 M") and not numbers.
        input_constructor: takes ``input_res`` and returns the input, or a dictionary of keyword arguments.
        ost: where to print; None: the standard output.
        verbose: whether to print which classes of modules count nothing.
        ignore_modules: classes of modules that count nothing; with the backend "aten" operators, as
            ``torch.ops.aten.mm``.
        custom_modules_hooks: classes of modules -> hooks that add to ``module.__flops__``. The tensors that they are
            given have no elements.
        backend: "pytorch" or "aten".
        flops_units: unit of MACs in texts: "GMac", "MMac", "KMac".
        param_units: unit of parameters in texts: "M", "K", "B".
        output_precision: digits behind the point in texts.
        backend_specific_config: {"count_functional": False} leaves out functions (backend "pytorch").

    Raises:
        InputError: ``input_res`` is no tuple, or rules for operators of the backend "aten" are given.
        ValueError: there is no such backend.
    """

    if not isinstance(input_res, tuple) or not input_res:
        raise InputError(f"input_res must be a tuple with at least one number, not {input_res!r}")
    if backend not in [one for known in FLOPS_BACKEND for one in (known, known.value)]:
        raise ValueError(f"{backend!r} is not a valid FLOPS_BACKEND")
    aten = FLOPS_BACKEND(backend) is FLOPS_BACKEND.ATEN
    if aten and custom_modules_hooks:
        raise InputError("custom rules are not supported by the backend aten; use the backend pytorch")
    out = sys.stdout if ost is None else ost
    texts = _Texts(
        partial(flops_to_string, units=flops_units, precision=output_precision),
        partial(params_to_string, units=param_units, precision=output_precision),
    )
    macs: float
    try:
        inputs: object = (1, *input_res) if input_constructor is None else input_constructor(input_res)
        graph = graph_of_call(model, (), inputs) if isinstance(inputs, dict) else graph_of_call(model, [inputs])
        if aten:
            macs, params = _by_operator(graph, ignore_modules, print_per_layer_stat, out, texts)
        else:
            run = _Run(model, graph, frozenset(ignore_modules), dict(custom_modules_hooks or {}))
            if verbose:
                run.warn_of_unknown(out)
            macs, params = run.totals(bool((backend_specific_config or {}).get("count_functional", True)))
            if print_per_layer_stat:
                run.show(macs, params, out, texts)
    except Exception as error:  # the tool's own rule: whatever fails is printed, and there is no result
        print(
            "Flops estimation was not finished successfully because of the following exception: "
            f"\n{type(error)}: {error}"
        )
        traceback.print_exc()
        return None, None
    return (texts.macs(int(macs)), texts.params(params)) if as_strings else (int(macs), params)


class _Texts(NamedTuple):
    """The texts of MACs and of parameters."""

    macs: Callable[[float], str]
    params: Callable[[float], str]


class _Run:
    """The findings of the backend "pytorch" in one run."""

    def __init__(self, model: nn.Module, graph: Graph, ignored: frozenset[object], own: Mapping[object, Hook]) -> None:
        """
        Args:
            model: the module.
            graph: of one call of it.
            ignored: classes of modules that count nothing.
            own: the user's hooks.
        """
        if not graph.program.calls[0].positional:
            print("Warning! No positional inputs found for a module, assuming batch size is 1.")
        self.model, self.graph, self.ignored = model, graph, ignored
        self.hooks, self.batch = Hooks(TOOL, own, "__flops__", int), batch(graph)
        #: MACs of all calls of a module for the whole batch, and its parameters, by the id of a module with a rule.
        self.macs: dict[int, float] = {}
        self.params: dict[int, int] = {}
        for module in model.modules():
            if self.hooks.serve(type(module)):
                self.macs[id(module)] = 0
                self.params[id(module)] = 0 if type(module) in ignored else trainable_elements(module)
        for module, amount in self.hooks.amounts(model, graph, ignored):
            self.macs[id(module)] += amount

    def warn_of_unknown(self, out: TextIO) -> None:
        """Names the classes that count nothing."""
        from torch import nn

        for cls in classes(self.model):
            if not self.hooks.serve(cls) and cls not in {nn.Sequential, nn.ModuleList, *self.ignored}:
                print(f"Warning: module {cls.__name__} is treated as a zero-op.", file=out)

    def within(self, module: nn.Module, figures: Mapping[int, float]) -> float:
        """The figure of a module with a rule, else the sum over what the module holds."""
        if id(module) in figures:
            return figures[id(module)]
        return sum(self.within(child, figures) for child in module.children())

    def totals(self, functional: bool) -> tuple[float, int]:
        """MACs of one image, and parameters."""
        total: float = self.within(self.model, self.macs) / self.batch
        if functional:
            for node in self.graph.nodes:
                counts = TOOL.of_functions(node)
                if counts is None:
                    raise ModelError(f"ptflops fails at {node.origin} of {node.module!r}")
                total += float(counts.mac)
        return total, trainable_elements(self.model)

    def show(self, macs: float, params: int, out: TextIO, texts: _Texts) -> None:
        """Prints the module with the figures of each layer."""
        all_macs, all_params = max(macs, 1), max(params, 1)

        def words(module: nn.Module, own: str) -> str:
            part = int(self.within(module, self.params))
            cost = self.within(module, self.macs) / self.batch
            if part > all_params:
                print(
                    "Warning: parameters of some of the modules were counted twice because of multiple links to the"
                    " same modules. Extended per layer parameters num statistic could be unreliable."
                )
            shares = f"{part / all_params:.3%} Params", f"{cost / all_macs:.3%} MACs"
            return ", ".join([texts.params(part), shares[0], texts.macs(cost), shares[1], own])

        with with_extra_repr(self.model, words):
            print(repr(self.model), file=out)


def _by_operator(graph: Graph, ignored: Sequence[object], show: bool, out: TextIO, texts: _Texts) -> tuple[int, int]:
    """MACs and parameters by the backend "aten": those of operators, in the model and in the modules right in it."""
    without = {str(operator) for operator in ignored}
    sums: dict[str, dict[str, int]] = {}
    for node in graph.nodes:
        for kernel in kernels(node, on_elements(node), fused=True) or ():
            name = f"aten.{kernel.name}"
            if name in without:
                print(f"Warning: {name} operation is ignored", file=out)
            elif kernel.name in COUNTED:
                macs = kernel.mac + (kernel.results if kernel.biased else 0)
                inner = [step.path for step in node.scope if step.path and "." not in step.path]
                for place in ("Global", *inner):
                    held = sums.setdefault(place, {})
                    held[name] = held.get(name, 0) + macs
    total = sum(sums.get("Global", {}).values())
    if show:
        print(f"Total:{texts.macs(total)}", file=out)
        for place, operators in sums.items():
            print("Module: ", place, file=out)
            for name, macs in operators.items():
                print(f"{name}: {texts.macs(macs)}", file=out)
            print(file=out)
    return total, trained(graph)
