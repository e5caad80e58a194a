"""``stat`` of torchstat 0.0.7: prints the table of a module's leaf modules.

It takes the same arguments and prints the same text, but the module runs on meta tensors and is afterwards as it was,
while torchstat leaves buffers in it and replaces the ``__call__`` of its classes. Time is measured where asked for
(``timed=True``), in one real run; else the column of durations holds question marks. Nothing here needs pandas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise.compat.hooks import watched
from flopwise.conventions.emulation import modules
from flopwise.conventions.emulation.layer import Layer
from flopwise.conventions.tools import torchstat as convention
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.graph import Graph

if TYPE_CHECKING:
    from torch import nn

__all__ = ["stat"]


#: Columns of numbers; the others are texts to pandas.
_NUMERIC = frozenset({"params", "MemRead(B)", "MemWrite(B)", "MemR+W(B)"})


class _Row(NamedTuple):
    """One line of the table."""

    name: str
    input: Sequence[int]
    output: Sequence[int]
    params: float
    memory: float
    madd: float
    flops: float
    read: float
    written: float
    #: Seconds of its last call; 0 where no time was measured.
    duration: float = 0.0

    @property
    def moved(self) -> float:
        return self.read + self.written


def stat(model: nn.Module, input_size: Sequence[int], query_granularity: int = 1, timed: bool = False) -> None:
    """Prints shapes, parameters, memory, operations and bytes moved of each leaf module, and their sums.

    Args:
        model: the module, counted in eval mode.
        input_size: channels, height and width of one image.
        query_granularity: 1 for leaf modules; above it, modules that hold so many levels, each with the sums of what
            it holds (torchstat itself fails there).
        timed: whether the module also runs with its weights, on one random image, for the shares of its time.

    Raises:
        InputError: ``input_size`` has not three numbers, or no module holds so many levels.
        ModelError: the module fails, or torchstat would.
    """
    if not isinstance(input_size, (tuple, list)) or len(input_size) != 3:
        raise InputError(f"input_size must be three numbers (channels, height, width), not {input_size!r}")
    graph = watched(model, [(1, *input_size)])
    for line in _unknown(model, graph):
        print(line)
    durations = _durations(model, input_size) if timed else {}
    print(_report(_rows(graph, query_granularity, durations), timed))


def _durations(model: nn.Module, input_size: Sequence[int]) -> dict[str, float]:
    """The seconds that the last call of each module took in one run in eval mode; the module is as before."""
    import time

    import torch

    started: dict[str, float] = {}
    taken: dict[str, float] = {}
    parameter = next(model.parameters(), torch.zeros(0))
    modes = {module: module.training for module in model.modules()}
    handles: list[Any] = []
    for path, module in model.named_modules():

        def begin(module: nn.Module, inputs: Any, path: str = path) -> None:
            started[path] = time.perf_counter()

        def end(module: nn.Module, inputs: Any, output: Any, path: str = path) -> None:
            taken[path] = time.perf_counter() - started[path]

        handles += [module.register_forward_pre_hook(begin), module.register_forward_hook(end)]
    try:
        model.eval()
        with torch.no_grad():
            model(torch.rand(1, *input_size, dtype=parameter.dtype, device=parameter.device))
    except Exception as error:  # whatever the user's module raises is the user's to see, on one line
        raise ModelError(f"the module fails in a real run: {type(error).__name__}: {error}") from error
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode
    return taken


def _unknown(model: nn.Module, graph: Graph) -> Iterator[str]:
    """What the tool says of classes that it has no rule for, at each of their calls, in the order in which they end."""
    leaves = {type(module) for module in model.modules() if not list(module.children())}
    places = dict(model.named_modules())
    layers = modules.layers(graph)
    inner: dict[int | None, list[int]] = {}
    for position, call in enumerate(graph.calls):
        inner.setdefault(call.caller, []).append(position)
    for position in _ended(inner, None):
        layer = layers[position]
        if type(places[layer.path]) not in leaves:
            continue
        for title, table in (("MAdd", convention.MADD), ("Flops", convention.FLOPS), ("Memory", convention.MEMORY)):
            if not any(kind in layer.bases for kind, _ in table):
                yield f"[{title}]: {type(places[layer.path]).__name__} is not supported!"


def _ended(inner: dict[int | None, list[int]], around: int | None) -> Iterator[int]:
    for position in inner.get(around, []):
        yield from _ended(inner, position)
        yield position


def _row(path: str, layer: Layer | None, duration: float) -> _Row:
    if layer is None:
        return _Row(path, (0, 0, 0), (0, 0, 0), 0, 0, 0, 0, 0, 0)
    import numpy

    try:
        line = convention.line(layer)
        shapes: list[Any] = [layer.x.dims[1:], layer.y.dims[1:]]
    except (FlopwiseError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelError(f"torchstat fails at the module {path!r} ({layer.kind}): {error}") from error
    memory = float(numpy.float32(line.memory))
    return _Row(
        path, shapes[0], shapes[1], line.params, memory, line.madd, line.flops, line.read, line.written, duration
    )


def _rows(graph: Graph, granularity: int, durations: Mapping[str, float]) -> list[_Row]:
    called = convention.leaves(graph).items()
    leaves = {path: _row(path, layer, durations.get(path, 0.0)) for path, layer in called}
    if granularity <= 1:
        return list(leaves.values())
    held = modules.children(graph)
    depths: dict[str, int] = {}
    for module in reversed(graph.modules):
        depths[module.path] = 1 + max((depths[child.path] for child in held[module.path]), default=0)
    rows = []
    for module in graph.modules:
        beside = max(depths[m.path] for m in held[modules.parent_of(module.path)]) if module.path else 0
        depth = depths[module.path]
        if depth == granularity or depth < granularity <= beside:
            inside = [r for path, r in leaves.items() if path == module.path or path.startswith(f"{module.path}.")]
            rows.append(_together(module.path or "root", inside or list(leaves.values())))
    if not rows:
        raise InputError(f"no module holds {granularity} levels: query_granularity is at most {depths['']}")
    return rows


def _together(name: str, rows: Sequence[_Row]) -> _Row:
    params, memory, madd, flops, read, written, duration = [sum(c) for c in list(zip(*rows, strict=True))[3:]]
    return _Row(name, rows[0].input, rows[-1].output, params, memory, madd, flops, read, written, duration)


def _report(rows: Sequence[_Row], timed: bool) -> str:
    """The table and the totals."""
    sums = [sum(column) for column in list(zip(*rows, strict=True))[3:]] if rows else [0.0] * 7
    params, memory, madd, flops = sums[:4]
    moved = sum(row.moved for row in rows)
    last = rows[-1] if rows else _Row("", (), (), 0, 0, 0, 0, 0, 0)
    parts = [row.duration / (sums[6] + 1e-7) for row in rows]
    shares = [f"{part:.2%}" for part in [*parts, sum(parts)]]
    columns: list[tuple[str, list[str]]] = [
        ("module name", [*(row.name for row in rows), " "]),
        ("input shape", [*(_shape(row.input) for row in rows), " "]),
        ("output shape", [*(_shape(row.output) for row in rows), " "]),
        ("params", _numbers([*(row.params for row in rows), params])),
        ("memory(MB)", [f"{number:.2f}" for number in [*(row.memory for row in rows), memory]]),
        ("MAdd", [f"{float(number):,}" for number in [*(row.madd for row in rows), madd]]),
        ("Flops", [f"{float(number):,}" for number in [*(row.flops for row in rows), flops]]),
        ("MemRead(B)", _numbers([*(row.read for row in rows), last.read])),
        ("MemWrite(B)", _numbers([*(row.written for row in rows), last.written])),
        ("duration[%]", shares if timed else ["?"] * (len(rows) + 1)),
        ("MemR+W(B)", _numbers([*(row.moved for row in rows), moved])),
    ]
    table = _table([*map(str, range(len(rows))), "total"], columns)
    width = len(table[0])
    return "\n".join(
        [
            *table,
            "=" * width,
            f"Total params: {params:,}",
            "-" * width,
            f"Total memory: {memory:.2f}MB",
            f"Total MAdd: {_short(madd)}MAdd",
            f"Total Flops: {_short(flops)}Flops",
            f"Total MemR+W: {_short(moved, 1024.0)}B",
            "",
        ]
    )


def _shape(dims: Sequence[int]) -> str:
    return " ".join(f"{dim:>3d}" for dim in dims)


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
