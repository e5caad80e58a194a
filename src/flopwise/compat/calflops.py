"""``calculate_flops`` of calflops 0.3.2: FLOPs, MACs and parameters of a module, and its printed form with them.

It takes the same arguments and gives the same results and figures, but the module runs on meta tensors and is
afterwards as it was, while calflops leaves it in eval mode and, after an exception, functions of PyTorch replaced. A
module without parameters and a model of transformers without its tokenizer are fine here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from flopwise._arguments import checked
from flopwise.compat.modules import class_name, forward_seconds, graph_of_call, trainable_elements, with_extra_repr
from flopwise.conventions.calls import layers
from flopwise.conventions.deepspeed import CALFLOPS_TOOL, FLOPS
from flopwise.errors import InputError, ModelError
from flopwise.graph import Graph, Node
from flopwise.operators.counts import Counts

if TYPE_CHECKING:
    import torch
    from torch import nn

    from flopwise.analyses.traces.trace import Trace

__all__ = ["calculate_flops", "flops_to_string", "macs_to_string", "params_to_string"]

#: Text -> the names of the inputs of a model of transformers.
Tokenizer: TypeAlias = Callable[..., Iterable[str]]

_UNITS: dict[str, float] = {"T": 1e12, "G": 1e9, "M": 1e6, "K": 1e3, "": 1, "m": 1e-3, "u": 1e-6}


def _number_to_string(number: float, units: str | None, precision: int) -> str:
    if units is None:
        units = "" if number == 0 else next((unit for unit, size in _UNITS.items() if number >= size), "u")
    return f"{round(number / _UNITS.get(units, 1), precision):g} {units}"


@checked
def flops_to_string(flops: float, units: str | None = None, precision: int = 2) -> str:
    """FLOPs in T, G, M or K.

    >>> flops_to_string(8211108352), flops_to_string(640)
    ('8.21 GFLOPS', '640 FLOPS')
    """
    return f"{_number_to_string(flops, units, precision)}FLOPS"


@checked
def macs_to_string(macs: float, units: str | None = None, precision: int = 2) -> str:
    """MACs in T, G, M or K.

    >>> macs_to_string(4089184256)
    '4.09 GMACs'
    """
    return f"{_number_to_string(macs, units, precision)}MACs"


@checked
def params_to_string(params_num: float, units: str | None = None, precision: int = 2) -> str:
    """Parameters in B, M or K.

    >>> params_to_string(25557032), params_to_string(6738415616), params_to_string(361)
    ('25.56 M', '6.74 B', '361')
    """
    unit = units.replace("B", "G") if units else units
    return _number_to_string(params_num, unit, precision).replace("G", "B").strip()


@checked
def calculate_flops(
    model: nn.Module,
    input_shape: tuple[int, ...] | None = None,
    transformer_tokenizer: Tokenizer | None = None,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    forward_mode: str = "forward",
    include_backPropagation: bool = False,  # noqa: N803 - the tool's own name
    compute_bp_factor: float = 2.0,
    print_results: bool = True,
    print_detailed: bool = True,
    output_as_string: bool = True,
    output_precision: int = 2,
    output_unit: str | None = None,
    ignore_modules: Sequence[type] | None = None,
    trace: Trace | None = None,
) -> tuple[str | float, str | float, str | float]:
    """FLOPs, MACs and trained parameters of a module.

    Args:
        model: the module, counted in eval mode.
        input_shape: shape of the input with its batch; for a model of transformers batch and length.
        transformer_tokenizer: decides which inputs a model of transformers is given.
        args: positional arguments.
        kwargs: keyword arguments.
        forward_mode: only "forward".
        include_backPropagation: whether to add what going backwards is taken to cost.
        compute_bp_factor: that cost, as a multiple of going forwards.
        print_results: whether to print the figures.
        print_detailed: whether to print the module with the figures of each layer as well.
        output_as_string: whether to return texts ("8.21 GFLOPS", "4.09 GMACs", "25.56 M") and not numbers.
        output_precision: digits behind the point in texts.
        output_unit: unit in texts: "T", "G", "M", "K".
        ignore_modules: classes whose own functions count for the module around them.
        trace: a trace of the same module (``flopwise.trace``): the printed module then has the time of each module and
            the FLOP/s that it reached as well, as DeepSpeed's profiler prints them.

    Raises:
        InputError: no input is given, or both a shape and arguments are, another mode is asked for, or the trace is of
            another module.
        ModelError: the module fails.
    """
    if forward_mode != "forward":
        raise InputError(
            f"forward_mode {forward_mode!r} is not supported; count one call of forward with its arguments"
        )
    named = dict(kwargs or {})
    if input_shape is None and not args and not named and transformer_tokenizer is None:
        raise InputError("give input_shape, args or kwargs")
    if input_shape is not None and (args or named):
        raise InputError("give input_shape or arguments, not both")
    if input_shape is not None and (not isinstance(input_shape, tuple) or not input_shape):
        raise InputError(f"input_shape must be a tuple with at least one number, not {input_shape!r}")
    if transformer_tokenizer is not None:
        named |= _tokens(transformer_tokenizer, input_shape or (1, 128))
        input_shape = None
    graph = graph_of_call(model, args if input_shape is None else [input_shape], named)
    figures = _Figures(model, graph, frozenset(ignore_modules or ()))
    flops, macs = figures.of(model).dot(FLOPS), figures.of(model).mac
    params = trainable_elements(model)
    if print_results:
        times = None if trace is None else forward_seconds(model, trace)
        for line in _lines(model, figures, compute_bp_factor, print_detailed, output_unit, output_precision, times):
            print(line)
    factor = 1 + compute_bp_factor if include_backPropagation else 1
    numbers = flops * factor, macs * factor, params
    if not output_as_string:
        return numbers
    return (
        flops_to_string(numbers[0], output_unit, output_precision),
        macs_to_string(numbers[1], output_unit, output_precision),
        params_to_string(params, output_unit, output_precision),
    )


def _tokens(tokenizer: Tokenizer, shape: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """The inputs that a tokenizer makes, of batch and length."""
    import torch

    if len(shape) != 2:
        raise InputError(f"input_shape of a model of transformers must be batch and length, not {shape!r}")
    names = tokenizer("")
    if not isinstance(names, Iterable):
        raise InputError(f"transformer_tokenizer returns {type(names).__name__} and no inputs by name")
    tensors = {name: torch.zeros(shape, dtype=torch.int64) for name in names}
    return {name: torch.ones_like(t) if name.endswith("mask") else t for name, t in tensors.items()}


class _Figures:
    """The cost of each module: the functions that are called in it, and what it holds."""

    def __init__(self, model: nn.Module, graph: Graph, ignored: frozenset[type]) -> None:
        places = dict(model.named_modules())
        self._own: dict[int, Counts] = {}
        for layer in layers(graph):
            if layer.kind in CALFLOPS_TOOL.hooks and type(places[layer.path]) not in ignored:
                self._add(places[layer.path], CALFLOPS_TOOL.of_call(layer), layer.path)
        for node in graph.nodes:
            at = self._innermost(node, places, ignored)
            if at is not None:
                self._add(at, CALFLOPS_TOOL.of_functions(node), node.name)

    def _add(self, module: nn.Module, counts: Counts | None, name: str) -> None:
        if counts is None:
            raise ModelError(f"calflops fails at {name!r}")
        self._own[id(module)] = self._own.get(id(module), Counts()) + counts

    def _innermost(self, node: Node, places: Mapping[str, nn.Module], ignored: frozenset[type]) -> nn.Module | None:
        """The module that a function counts for: the innermost one that is neither ignored nor recurrent."""
        for step in reversed(node.scope):
            module = places[step.path]
            if type(module) not in ignored and class_name(type(module)) not in CALFLOPS_TOOL.hooks:
                return module
        return None

    def of(self, module: nn.Module) -> Counts:
        """The cost of a module with all that it holds."""
        total = self._own.get(id(module), Counts())
        for child in module.children():
            total += self.of(child)
        return total


def _lines(
    model: nn.Module,
    figures: _Figures,
    factor: float,
    detailed: bool,
    unit: str | None,
    precision: int,
    times: Mapping[str, float] | None,
) -> Iterator[str]:
    """The printed lines; ``times``: the seconds of each module by its path."""
    total = figures.of(model)
    flops, macs, params = total.dot(FLOPS), total.mac, trainable_elements(model)
    yield f"\n{' Calculate Flops Results ':-^99}"
    yield f"fwd: one call of the model; bwd: the backward pass, taken as {factor:.2f} times that\n"
    for title, text in (
        ("Total Training Params: ", params_to_string(params)),
        ("fwd MACs: ", macs_to_string(macs, unit, precision)),
        ("fwd FLOPs: ", flops_to_string(flops, unit, precision)),
        ("fwd+bwd MACs: ", macs_to_string(macs * (1 + factor), unit, precision)),
        ("fwd+bwd FLOPs: ", flops_to_string(flops * (1 + factor), unit, precision)),
    ):
        yield f"{title:<70}  {text:<8}"
    if detailed:
        yield f"\n{' Detailed Calculated FLOPs Results ':-^98}"
        yield "of each module: params, MACs and FLOPs with their part of the whole\n"

        paths = {module: path for path, module in model.named_modules()}

        def words(module: nn.Module, own: str) -> str:
            counts = figures.of(module)
            parts = (
                (trainable_elements(module), params, "Params", params_to_string),
                (counts.mac, macs, "MACs", macs_to_string),
                (counts.dot(FLOPS), flops, "FLOPs", flops_to_string),
            )
            texts = [
                f"{shown(part)} = {_share(part, whole, precision):g}% {what}" for part, whole, what, shown in parts
            ]
            if times is not None:
                time, whole_time = (times.get(path, 0.0) for path in (paths[module], ""))
                texts.append(
                    f"{_number_to_string(time, None, precision)}s = {_share(time, whole_time, precision):g}% latency"
                )
                rate = counts.dot(FLOPS) / time if time else 0.0
                texts.append(flops_to_string(rate, None, precision))
            return ", ".join([*texts, own] if own else texts)

        with with_extra_repr(model, words):
            yield str(model)
    yield "-" * 99


def _share(part: float, whole: float, precision: int) -> float:
    return round(100 * part / whole, precision) if whole else 0
