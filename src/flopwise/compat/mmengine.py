"""The functions of ``mmengine.analysis``: what a model costs, as numbers, as a table and as a tree.

They take the same arguments and give the same results and texts as mmengine 0.10.7, which counts as fvcore does; see
``flopwise.compat.fvcore``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flopwise._arguments import checked
from flopwise.compat.fvcore import (
    ActivationCountAnalysis,
    FlopCountAnalysis,
    activation_count,
    flop_count,
    flop_count_str,
    table_of,
)
from flopwise.compat.modules import parameter_count, parameter_rows
from flopwise.conventions.fvcore import size

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "ActivationAnalyzer",
    "FlopAnalyzer",
    "activation_count",
    "complexity_stats_str",
    "complexity_stats_table",
    "flop_count",
    "get_model_complexity_info",
    "parameter_count",
    "parameter_count_table",
]


class FlopAnalyzer(FlopCountAnalysis):
    """Multiply-adds of a module, and what else mmengine counts as a flop."""


class ActivationAnalyzer(ActivationCountAnalysis):
    """Elements of the results of a module's convolutions, linear layers and matrix products."""


@checked
def complexity_stats_table(
    flops: FlopAnalyzer,
    max_depth: int = 3,
    activations: ActivationAnalyzer | None = None,
    show_param_shapes: bool = True,
) -> str:
    """Parameters, flops and activations of the modules as a table in a frame, as wide as the terminal allows.

    Args:
        flops: what counted the flops.
        max_depth: how many levels of modules to show.
        activations: what counted the activations; None: no such column.
        show_param_shapes: whether parameters have lines of their own.
    """
    return _framed(*table_of(flops, activations, max_depth, show_param_shapes))


#: The printed form of the model with parameters, flops and activations of each module, as fvcore has it.
complexity_stats_str = flop_count_str


@checked
def parameter_count_table(model: nn.Module, max_depth: int = 3) -> str:
    """The parameters of a model, its modules and its parameters as a table in a frame.

    Args:
        model: the module.
        max_depth: how many levels to show.
    """
    lines = parameter_rows(model, max_depth)
    return _framed(["name", "#elements or shape"], lines, f"parameter count of {type(model).__name__}")


def _framed(titles: Sequence[str], lines: Sequence[Sequence[str]], title: str | None = None) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*titles, title=title, box=box.ASCII2)
    for line in lines:
        table.add_row(*line)
    console = Console()
    with console.capture() as capture:
        console.print(table, end="")
    return capture.get()


@checked
def get_model_complexity_info(
    model: nn.Module,
    input_shape: object = None,
    inputs: object = None,
    show_table: bool = True,
    show_arch: bool = True,
) -> dict[str, int | str]:
    """Flops, activations and params of a model as numbers and as short texts, the table and the tree.

    Args:
        model: the module, counted in the mode that it is in: batch normalisation costs more in training.
        input_shape: shape of the input without the batch, or a tuple of such shapes; the batch is 1.
        inputs: the tuple of positional arguments, or the only one: a tensor, a list, a dict.
        show_table: whether to make "out_table"; else it is empty.
        show_arch: whether to make "out_arch"; else it is empty.

    Raises:
        ValueError: neither or both of ``input_shape`` and ``inputs`` are given, or the shape is none.
    """
    if input_shape is None and inputs is None:
        raise ValueError('One of "input_shape" and "inputs" should be set.')
    if input_shape is not None and inputs is not None:
        raise ValueError('"input_shape" and "inputs" cannot be both set.')
    flops = FlopAnalyzer(model, _shaped(input_shape) if inputs is None else inputs)
    activations = ActivationAnalyzer(model, flops._inputs)
    activations._graph = flops._taken()
    figures: dict[str, Any] = {
        "flops": flops.total(),
        "activations": activations.total(),
        "params": parameter_count(model)[""],
    }
    result = {
        key: value for name, number in figures.items() for key, value in ((name, number), (f"{name}_str", size(number)))
    }
    table = complexity_stats_table(flops, activations=activations) if show_table else None
    arch = complexity_stats_str(flops, activations) if show_arch else None
    return {
        **result,
        "out_table": "" if table is None else f"\n{table}",
        "out_arch": "" if arch is None else f"\n{arch}",
    }


def _shaped(shape: object) -> tuple[tuple[int, ...], ...]:
    """One shape with a batch of 1, or several."""
    if isinstance(shape, tuple) and all(isinstance(d, int) for d in shape):
        return ((1, *shape),)
    if isinstance(shape, tuple) and all(isinstance(s, tuple) and all(isinstance(d, int) for d in s) for s in shape):
        return tuple((1, *one) for one in shape)
    raise ValueError(
        '"input_shape" should be either a `tuple of int` (to construct'
        "one input tensor) or a `tuple of tuple of int` (to construct"
        "multiple input tensors)."
    )
