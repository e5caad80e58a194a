"""``summary`` of torchinfo 1.8.0: the table of a module's layers, their shapes, parameters and mult-adds.

It takes the same arguments and gives the same results and text, but the module runs on meta tensors and is afterwards
as it was. Units are written "(M)" and "(G)" under every version of Python, as torchinfo does before 3.11. Parameters
that were pruned with masks count in full.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise._arguments import checked
from flopwise.api.read import read
from flopwise.conventions import torchinfo as convention
from flopwise.conventions.torchinfo import Info
from flopwise.errors import InputError
from flopwise.graph import Graph, Program

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["ModelStatistics", "summary"]

_TITLES: dict[str, str] = {
    "kernel_size": "Kernel Shape",
    "input_size": "Input Shape",
    "output_size": "Output Shape",
    "num_params": "Param #",
    "params_percent": "Param %",
    "mult_adds": "Mult-Adds",
    "trainable": "Trainable",
}

#: Columns of what only a run shows.
_RUN = frozenset({"input_size", "output_size", "mult_adds"})

#: Characters that a column may have.
WIDEST = 10_000

_ROWS = ("depth", "var_names", "ascii_only", "hide_recursive_layers")


@dataclass(frozen=True)
class _Look:
    """The settings of the text."""

    depth: int
    verbose: int
    columns: tuple[str, ...]
    width: int
    rows: frozenset[str]


class ModelStatistics:
    """The lines and totals of a summary; its text is the table."""

    def __init__(
        self, summary_list: Sequence[Info], input_size: Sequence[list[int]], total_input: int | None, look: _Look
    ) -> None:
        """
        Args:
            summary_list: the lines.
            input_size: shapes of the inputs; empty where the model did not run.
            total_input: bytes of the inputs; None where the model did not run.
            look: what the text shows.
        """
        self.summary_list = summary_list
        self.input_size = input_size
        self.total_input = total_input
        self._look = look
        totals = convention.totals(summary_list)
        self.total_params = totals["total_params"]
        self.trainable_params = totals["trainable_params"]
        self.total_mult_adds = totals["total_mult_adds"]
        self.total_param_bytes = totals["total_param_bytes"]
        self.total_output_bytes = totals["total_output_bytes"]

    def __repr__(self) -> str:
        table = _Table(self.summary_list, self._look, self.total_params)
        bar = "=" * (len(self._look.columns) * self._look.width + table.names)
        frozen = self.total_params - self.trainable_params
        text = (
            f"{bar}\n{table.header()}{bar}\n{''.join(table.lines())}{bar}\n"
            f"Total params: {self.total_params:,}\n"
            f"Trainable params: {self.trainable_params:,}\n"
            f"Non-trainable params: {frozen:,}\n"
        )
        if self.input_size:
            parts = {
                "Input size": self.total_input or 0,
                "Forward/backward pass size": self.total_output_bytes,
                "Params size": self.total_param_bytes,
            }
            parts["Estimated Total Size"] = sum(parts.values())
            sizes = "".join(f"{name} (MB): {number / 1e6:0.2f}\n" for name, number in parts.items())
            text += f"Total mult-adds{_in_units(self.total_mult_adds)}\n{bar}\n{sizes}"
        return text + bar


def _in_units(number: int) -> str:
    power, unit = (12, "T") if number >= 1e12 else (9, "G") if number >= 1e9 else (6, "M")
    value = number / 10**power
    return f" ({unit}): {int(value):,}" if value.is_integer() else f" ({unit}): {value:,.2f}"


class _Table:
    """Writes the lines of the table."""

    def __init__(self, infos: Sequence[Info], look: _Look, params: int) -> None:
        self._infos = infos
        self._look = look
        self._params = params
        longest = max((len(self._name(info)) + info.depth * 5 + 1 for info in infos), default=0)
        #: Width of the column of names.
        self.names = math.ceil(longest / 5) * 5 if longest >= 40 else 40

    def header(self) -> str:
        """The line of titles."""
        named = " (var_name)" * ("var_names" in self._look.rows) + ":depth-idx" * ("depth" in self._look.rows)
        return self._row(f"Layer (type{named})", _TITLES)

    def lines(self) -> Iterator[str]:
        """The lines of the layers down to the depth that is shown."""
        for info in self._infos:
            hidden = info.again and "hide_recursive_layers" in self._look.rows
            if info.depth <= self._look.depth and not hidden:
                yield self._row(self._indent(info.depth) + self._name(info), self._cells(info))
                if self._look.verbose == 2:
                    yield from self._inner(info)

    def _row(self, name: str, cells: Mapping[str, str]) -> str:
        line = f"{name:<{self.names}} "
        for column in self._look.columns:
            line += f"{cells.get(column, ''):<{self._look.width}} "
        return f"{line.rstrip()}\n"

    def _indent(self, depth: int) -> str:
        plain = "ascii_only" in self._look.rows
        if depth == 0:
            return ""
        if depth == 1:
            return "+ " if plain else "├─"
        return ("|    " if plain else "│    ") * (depth - 1) + ("+ " if plain else "└─")

    def _name(self, info: Info) -> str:
        name = info.module.kind.rpartition(".")[2]
        if "var_names" in self._look.rows:
            name += f" ({info.module.path.rpartition('.')[2] or name})"
        if "depth" in self._look.rows and info.depth > 0:
            name += f": {info.depth}-{info.number}"
        return name

    def _cells(self, info: Info) -> dict[str, str]:
        closed = info.leaf or info.depth == self._look.depth  # nothing inside has a line of its own
        left = info.params if closed else info.left_over()
        count = f"{left:,}" if closed or left > 0 else "--"
        share = f"{left / self._params:>7.2%}" if self._params and left else "     --"
        macs, trainable = info.macs, "Partial" if info.trainable else "False"
        if macs > 0 and not info.leaf:
            macs = sum(child.macs for child in info.children if child.leaf)
        if closed and not info.trainable:
            count = f"({count})"
        if info.again:
            count, share = "(recursive)", "(recursive)" if self._params else share
        kernel = info.module.options.get("kernel_size")
        return {
            "kernel_size": _shown(list(kernel) if isinstance(kernel, (tuple, list)) else kernel),
            "input_size": _shown(list(info.input)),
            "output_size": _shown(list(info.output)),
            "num_params": count if info.params else "--",
            "params_percent": share,
            "mult_adds": f"{macs:,}" if info.macs > 0 and closed else "--",
            "trainable": ("True" if info.trainable == info.params else trainable) if info.params else "--",
        }

    def _inner(self, info: Info) -> Iterator[str]:
        """A line for each parameter; those of the model itself that belong to other modules are left out."""
        shown = {name: tensor for name, tensor in info.named.items() if info.parent is not None or "." not in name}
        for name, tensor in shown.items():
            shape = list(tensor.dims)
            if name == "weight" and len(shape) > 1:
                shape[0], shape[1] = shape[1], shape[0]
            corner = "└─" if name == list(shown)[-1] else "├─"
            cells = {"kernel_size": str(shape), "num_params": f"{corner}{tensor.numel:,}"}
            yield self._row(self._indent(info.depth + 1) + name, cells)


def _shown(value: object) -> str:
    return str(value) if value else "--"


@checked
def summary(
    model: nn.Module,
    input_size: object = None,
    input_data: object = None,
    batch_dim: int | None = None,
    cache_forward_pass: bool | None = None,
    col_names: Iterable[str] | None = None,
    col_width: int = 25,
    depth: int = 3,
    device: object = None,
    dtypes: list[torch.dtype] | None = None,
    mode: str | None = None,
    row_settings: Iterable[str] | None = None,
    verbose: int | None = None,
    **kwargs: object,
) -> ModelStatistics:
    """The layers of a module with shapes, parameters and mult-adds; printed unless ``verbose`` is 0.

    Args:
        model: the module.
        input_size: shape of the input, or a list of shapes; without it and ``input_data`` nothing runs.
        input_data: the input, a sequence of positional arguments, or a mapping of keyword arguments.
        batch_dim: where a batch of 1 is put into each shape of ``input_size``, and taken as 1 in what is shown.
        cache_forward_pass: without effect: a run costs little.
        col_names: columns, among input_size, output_size, num_params, params_percent, kernel_size, mult_adds and
            trainable.
        col_width: width of a column.
        depth: how many levels of modules are shown.
        device: without effect: nothing is computed on a device.
        dtypes: element types of the inputs; None: 32-bit floating point.
        mode: "eval" (default) or "train".
        row_settings: among depth, var_names, ascii_only, hide_recursive_layers.
        verbose: 0 prints nothing, 1 the table, 2 a line for each parameter as well.
        kwargs: more keyword arguments of the module.

    Raises:
        InputError: an argument is none of these, or both inputs are given.
        ModelError: the module fails.
    """
    has_input = input_size is not None or input_data is not None
    if input_size is not None and input_data is not None:
        raise InputError("give input_size or input_data, not both")
    if verbose is None:
        verbose = 0 if getattr(sys, "ps1", None) else 1
    if col_names is None:
        col_names = ("output_size", "num_params") if has_input else ("num_params",)
    rows = frozenset({"depth"} if row_settings is None else row_settings)
    look = _Look(depth, verbose, tuple(col_names), col_width, rows)
    _check_look(look, has_input)
    _check("mode", [mode or "eval"], ("train", "eval"))
    if not has_input:
        from flopwise.formats.torch.record.modules import stored_tensors, submodules

        every = submodules(model, stored_tensors(model.named_modules()))
        graph = Graph(type(model).__name__, "torch", "", (), (), (), program=Program(every))
        results = ModelStatistics(convention.lines(graph), [], None, look)
    else:
        import torch
        from torch.utils._pytree import tree_leaves

        data = _inputs(input_size, batch_dim, dtypes) if input_data is None else input_data
        args, named = _arguments(data)
        graph = read(model, (args, {**named, **kwargs}), mode="train" if mode == "train" else "eval")
        tensors = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, torch.Tensor)]
        total = sum(sys.getsizeof(tensor.untyped_storage()) for tensor in tensors)
        results = ModelStatistics(convention.lines(graph, batch_dim), [list(t.shape) for t in tensors], total, look)
    if verbose:
        print(results)
    return results


def _check_look(look: _Look, has_input: bool) -> None:
    """Raise InputError if a setting is unknown, or a column needs a run and there is no input."""
    _check("column", look.columns, _TITLES)
    _check("row setting", look.rows, _ROWS)
    _check("verbosity", [look.verbose], (0, 1, 2))
    if not 0 < look.width <= WIDEST:
        raise InputError(f"col_width must be above 0 and at most {WIDEST}, not {look.width}")
    if not has_input and _RUN & set(look.columns):
        raise InputError(f"the columns {', '.join(sorted(_RUN & set(look.columns)))} need input_size or input_data")


def _check(what: str, names: Iterable[object], choices: Iterable[object]) -> None:
    for one in names:
        if one not in choices:
            raise InputError(f"unknown {what} {one!r}; known: {', '.join(map(str, choices))}")


def _inputs(size: object, batch_dim: int | None, dtypes: Sequence[torch.dtype] | None) -> list[torch.Tensor]:
    """Inputs of the shapes."""
    import torch

    if not isinstance(size, (tuple, list)) or not size:
        raise InputError(f"input_size must be a shape or a list of shapes, not {size!r}")
    shapes = [tuple(size)] if all(isinstance(d, int) for d in size) else list(map(_shape, size))
    if any(not isinstance(d, int) or d <= 0 for shape in shapes for d in shape):
        raise InputError(f"input_size must be made of numbers above 0, not {size!r}")
    kinds = dtypes or [torch.float32] * len(shapes)
    tensors = [torch.zeros(shape, dtype=kind) for shape, kind in zip(shapes, kinds, strict=False)]
    if batch_dim is None:
        return tensors
    least = min(tensor.dim() for tensor in tensors)
    if not -least - 1 <= batch_dim <= least:
        raise InputError(f"batch_dim must be between {-least - 1} and {least}, not {batch_dim}")
    return [tensor.unsqueeze(batch_dim) for tensor in tensors]


def _shape(shape: object) -> tuple[object, ...]:
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise InputError(f"input_size must be a shape or a list of shapes; one of them is {shape!r}")
    return tuple(shape)


def _arguments(data: object) -> tuple[list[object], dict[str, object]]:
    if isinstance(data, Mapping):
        return [], dict(data)
    return (list(data), {}) if type(data) in (list, tuple) else ([data], {})  # type: ignore[call-overload] # as asked
