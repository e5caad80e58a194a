"""``stat`` of torchstat 0.0.7: prints the table of a module's leaf modules.

It takes the same arguments and prints the same text, but the module runs on meta tensors and is afterwards as it was,
while torchstat leaves buffers in it and replaces the ``__call__`` of its classes. Time is measured where asked for
(``timed=True``), in one real run, or taken from a trace; else the column of durations holds question marks. Nothing
here needs pandas.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from flopwise._arguments import checked
from flopwise.compat.modules import forward_seconds, graph_of_call
from flopwise.conventions import torchstat as convention
from flopwise.conventions.calls import Layer, layers
from flopwise.conventions.torchstat import Line
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.graph import Graph

if TYPE_CHECKING:
    from torch import nn

    from flopwise.analyses.traces.trace import Trace

__all__ = ["stat"]

#: Columns of numbers; the others are texts to pandas.
_NUMERIC = frozenset({"params", "MemRead(B)", "MemWrite(B)", "MemR+W(B)"})


@checked
def stat(
    model: nn.Module,
    input_size: Sequence[int],
    query_granularity: int = 1,
    timed: bool = False,
    trace: Trace | None = None,
) -> None:
    """Prints shapes, parameters, memory, operations and bytes moved of each leaf module, and their sums.

    Args:
        model: the module, counted in eval mode.
        input_size: channels, height and width of one image.
        query_granularity: 1, for leaf modules; torchstat fails above it.
        timed: whether the module also runs with its weights, on one random image, for the shares of its time.
        trace: a trace of the same module (``flopwise.trace``), for the shares of its time in place of a run.

    Raises:
        InputError: ``input_size`` has not three numbers, ``query_granularity`` is above 1, times are asked for in both
            ways, or the trace is of another module.
        ModelError: the module fails, or torchstat would.
    """
    if not isinstance(input_size, (tuple, list)) or len(input_size) != 3:
        raise InputError(f"input_size must be three numbers (channels, height, width), not {input_size!r}")
    if query_granularity > 1:
        raise InputError(f"torchstat fails for a query_granularity above 1, as {query_granularity} is")
    if timed and trace is not None:
        raise InputError("times are measured (timed=True) or taken from a trace: give one of the two")
    graph = graph_of_call(model, [(1, *input_size)])
    for warning in _unsupported(model, graph):
        print(warning)
    durations = _durations(model, input_size) if timed else None if trace is None else forward_seconds(model, trace)
    print(_report([_line(path, layer) for path, layer in convention.leaves(graph).items()], durations))


def _durations(model: nn.Module, input_size: Sequence[int]) -> dict[str, float]:
    """The seconds that the last call of each module took in one run in eval mode; the module is as before."""
    import torch

    starts: dict[str, float] = {}
    durations: dict[str, float] = {}

    def begin(path: str, module: nn.Module, inputs: object) -> None:
        starts[path] = time.perf_counter()

    def end(path: str, module: nn.Module, inputs: object, output: object) -> None:
        durations[path] = time.perf_counter() - starts[path]

    parameter = next(model.parameters(), torch.zeros(0))
    with contextlib.ExitStack() as stack, torch.no_grad():
        for path, module in model.named_modules():
            stack.callback(setattr, module, "training", module.training)
            stack.callback(module.register_forward_pre_hook(partial(begin, path)).remove)
            stack.callback(module.register_forward_hook(partial(end, path)).remove)
        try:
            model.eval()(torch.rand(1, *input_size, dtype=parameter.dtype, device=parameter.device))
        except Exception as error:  # whatever the user's module raises is the user's to see, on one line
            raise ModelError(f"the module fails in a real run: {type(error).__name__}: {error}") from error
    return durations


def _unsupported(model: nn.Module, graph: Graph) -> Iterator[str]:
    """torchstat's warnings about classes without a rule, at each of their calls, in the order in which they end."""
    leaves = {type(module) for module in model.modules() if not list(module.children())}
    places = dict(model.named_modules())
    calls = layers(graph)
    lasts = list(range(len(calls)))  # of all calls inside each
    for position, call in reversed(list(enumerate(graph.program.calls))):
        if call.caller is not None:
            lasts[call.caller] = max(lasts[call.caller], lasts[position])
    for position in sorted(range(len(calls)), key=lambda place: (lasts[place], -place)):
        layer = calls[position]
        if type(places[layer.path]) not in leaves:
            continue
        for title, table in (("MAdd", convention.MADD), ("Flops", convention.FLOPS), ("Memory", convention.MEMORY)):
            if not any(kind in layer.bases for kind, _ in table):
                yield f"[{title}]: {type(places[layer.path]).__name__} is not supported!"


def _line(path: str, layer: Layer | None) -> Line:
    """The figures of a leaf module, zeros for one that is never called.

    Raises:
        ModelError: torchstat would fail.
    """
    if layer is None:
        return Line(path, None)
    try:
        return convention.line(layer)
    except (FlopwiseError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelError(f"torchstat fails at the module {path!r} ({layer.kind}): {error}") from error


def _report(lines: Sequence[Line], durations: Mapping[str, float] | None) -> str:
    """The table and the totals; without durations, question marks."""
    import numpy

    params, madd, flops, read = ([getattr(line, n) for line in lines] for n in ("params", "madd", "flops", "read"))
    written, moved = [line.written for line in lines], [line.read + line.written for line in lines]
    memory = [float(numpy.float32(line.memory)) for line in lines]
    shares = ["?"] * (len(lines) + 1)
    if durations is not None:
        seconds = [durations.get(line.path, 0.0) for line in lines]
        parts = [second / (sum(seconds) + 1e-7) for second in seconds]
        shares = [f"{part:.2%}" for part in [*parts, sum(parts)]]
    columns: list[tuple[str, list[str]]] = [
        ("module name", [*(line.path for line in lines), " "]),
        ("input shape", [*(_shape(line.layer and line.layer.x.dims[1:]) for line in lines), " "]),
        ("output shape", [*(_shape(line.layer and line.layer.y.dims[1:]) for line in lines), " "]),
        ("params", _numbers([*params, sum(params)])),
        ("memory(MB)", [f"{number:.2f}" for number in [*memory, sum(memory)]]),
        ("MAdd", [f"{float(number):,}" for number in [*madd, sum(madd)]]),
        ("Flops", [f"{float(number):,}" for number in [*flops, sum(flops)]]),
        ("MemRead(B)", _numbers([*read, *(read or [0])[-1:]])),
        ("MemWrite(B)", _numbers([*written, *(written or [0])[-1:]])),
        ("duration[%]", shares),
        ("MemR+W(B)", _numbers([*moved, sum(moved)])),
    ]
    table = _table([*map(str, range(len(lines))), "total"], columns)
    width = len(table[0])
    return "\n".join(
        [
            *table,
            "=" * width,
            f"Total params: {sum(params):,}",
            "-" * width,
            f"Total memory: {sum(memory):.2f}MB",
            f"Total MAdd: {_short(sum(madd))}MAdd",
            f"Total Flops: {_short(sum(flops))}Flops",
            f"Total MemR+W: {_short(sum(moved), 1024.0)}B",
            "",
        ]
    )


def _shape(dims: Sequence[int] | None) -> str:
    """A shape without its batch; that of a module that is never called is three zeros."""
    return " ".join(f"{dim:>3d}" for dim in ((0, 0, 0) if dims is None else dims))


def _numbers(values: Sequence[float]) -> list[str]:
    """As pandas prints a column of floating-point numbers: with a point, in powers of ten from 1e9 on."""
    if any(abs(value) >= 1e9 for value in values):
        return [f"{value:.6e}" for value in values]
    return [f"{float(value):.1f}" for value in values]


def _table(names: Sequence[str], columns: Sequence[tuple[str, list[str]]]) -> list[str]:
    """Lines of a table as pandas prints it: names on the left, columns of texts and numbers on the right of theirs.

    Two spaces are left between cells, and one before the title of a column of texts.
    """
    room = max(map(len, names))
    lines = [" " * room, *(name.ljust(room) for name in names)]
    for title, cells in columns:
        width = max(len(title) + (title in _NUMERIC), *(len(cell) + 1 for cell in cells))
        lines = [f"{line} {cell.rjust(width)}" for line, cell in zip(lines, [title, *cells], strict=True)]
    return lines


def _short(value: float, step: float = 1000.0) -> str:
    for power, letter in ((4, "T"), (3, "G"), (2, "M"), (1, "K")):
        if value // step**power > 0:
            return f"{round(value / step**power, 2)}{letter}"
    return str(value)
