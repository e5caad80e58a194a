"""Modules of PyTorch as the drop-ins take them: the graph of a call, hooks, printed figures, tables and trees.

Figures of the table and the tree that fvcore and mmengine show come as columns: title -> {dotted name of a module or
parameter: number}. A name that a column lacks has an empty cell.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from flopwise._arguments import checked
from flopwise.api.read import read
from flopwise.conventions.calls import bare, layers
from flopwise.conventions.emulation import Tool
from flopwise.conventions.fvcore import size
from flopwise.errors import InputError, ModelError
from flopwise.graph import Graph, Tensor

if TYPE_CHECKING:
    import torch
    from torch import nn

    from flopwise.analyses.traces.trace import Trace

#: A user's rule: module, positional arguments, result; it adds to an attribute of the module.
Hook: TypeAlias = Callable[[Any, Any, Any], object]


def graph_of_call(model: nn.Module, args: Iterable[object] = (), kwargs: Mapping[str, object] | None = None) -> Graph:
    """The graph of a module in eval mode, called with tensors, shapes (tuples of integers) or plain values.

    Raises:
        ModelError: the module fails.
    """
    return read(model, (list(args), dict(kwargs or {})))


def forward_seconds(model: nn.Module, trace: Trace) -> dict[str, float]:
    """Seconds of the forward pass in each module of a trace, those within it included, by dotted path; "" is the model.

    Raises:
        InputError: the trace has no time in a module of this model.
    """
    from flopwise.analyses.traces.comparison import module_times

    times = {path: time / 1e9 for path, time in module_times(trace).items()}
    if not any(times.get(path) for path, _ in model.named_modules() if path):
        raise InputError(
            f"the trace is of {trace.model or 'no model'}: no module of {type(model).__name__} has time in it"
        )
    return times


def class_name(cls: type) -> str:
    """The name that conventions use for a class: "Linear" for PyTorch's own, "package.module.Class" for others."""
    return bare(f"{cls.__module__}.{cls.__qualname__}")


def trainable_elements(module: nn.Module) -> int:
    """Number of elements in a module's parameters that require a gradient."""
    return sum([p.numel() for p in module.parameters() if p.requires_grad])


def children_first(model: nn.Module) -> Iterator[nn.Module]:
    """A module and all within it, children before their parent, in the order of ``nn.Module.apply``."""
    for child in model.children():
        yield from children_first(child)
    yield model


def classes(model: nn.Module) -> list[type[nn.Module]]:
    """The classes of a module and all within it, each once, in the order of ``children_first``."""
    return list(dict.fromkeys(type(module) for module in children_first(model)))


class Hooks(NamedTuple):
    """The hooks of a tool and those of a user, which add to an attribute of their module."""

    tool: Tool
    own: Mapping[Any, Hook]
    #: Name of the attribute ("total_ops"), and its value at first.
    attribute: str
    start: Callable[[], object]

    def serve(self, cls: type) -> bool:
        """True if there is a hook for the very class."""
        return cls in self.own or class_name(cls) in self.tool.hooks

    def amounts(
        self, model: nn.Module, graph: Graph, ignored: Collection[object] = ()
    ) -> Iterator[tuple[nn.Module, float]]:
        """A module and what its hook counts, for each call of one that has a hook and whose class is not ignored.

        A user's hook gets a copy of the module and meta tensors.

        Raises:
            ModelError: the tool fails at a call.
        """
        modules = dict(model.named_modules())
        for layer in layers(graph):
            module = modules[layer.path]
            if type(module) in ignored:
                continue
            if type(module) in self.own:
                stand_in = copy.copy(module)
                vars(stand_in)[self.attribute] = self.start()
                results = tuple(map(meta_tensor, layer.outputs))
                inputs = tuple(map(meta_tensor, layer.inputs[: layer.positional]))
                self.own[type(module)](stand_in, inputs, results[0] if len(results) == 1 else results)
                yield module, float(getattr(stand_in, self.attribute))
            elif class_name(type(module)) in self.tool.hooks:
                counts = self.tool.of_call(layer)
                if counts is None:
                    raise ModelError(f"{self.tool.title} fails at the module {layer.path!r} ({layer.kind})")
                yield module, float(counts.mac)


def meta_tensor(tensor: Tensor) -> torch.Tensor:
    """A tensor on the meta device (no memory) of the same shape and type; float32 where the type is unknown."""
    import torch

    dtype = getattr(torch, tensor.dtype or "float32", torch.float32)
    return torch.empty(tuple(map(int, tensor.dims)), dtype=dtype, device="meta")


@contextlib.contextmanager
def with_extra_repr(model: nn.Module, words: Callable[[nn.Module, str], str]) -> Iterator[None]:
    """In the block, each module's ``extra_repr`` (the text in the brackets when it is printed) is replaced.

    Args:
        model: the module; afterwards it is as it was.
        words: the module and its own ``extra_repr`` -> the text in its place.
    """
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            attributes, own = vars(module), module.extra_repr
            if "extra_repr" in attributes:
                stack.callback(attributes.update, extra_repr=own)
            else:
                stack.callback(attributes.pop, "extra_repr")
            attributes["extra_repr"] = functools.partial(lambda module, own: words(module, own()), module, own)
        yield


# Tables and trees.

Columns: TypeAlias = "Mapping[str, Mapping[str, int | float]]"


def by_name(columns: Columns) -> dict[str, dict[str, int | float]]:
    """The same figures: name -> {title: number}."""
    figures: dict[str, dict[str, int | float]] = {}
    for title, numbers in columns.items():
        for name, number in numbers.items():
            figures.setdefault(name, {})[title] = number
    return figures


def rows(
    columns: Columns, shapes: Mapping[str, str], uncalled: Mapping[str, set[str]], depth: int, show_shapes: bool
) -> list[list[str]]:
    """The lines of the table: name, then one cell for each column, indented by the depth of the module.

    Names with nothing but zeros, also below, are left out, and chains of only children are one line.

    Args:
        columns: the figures; parameters of the first one.
        shapes: name of a parameter -> its shape in words, which takes the place of its size.
        uncalled: title -> modules that were not called, whose cell stays empty.
        depth: how many levels of modules to show.
        show_shapes: whether parameters have lines of their own.
    """
    figures = by_name(columns)
    first = next(iter(columns))
    names_listed = {"", *(place for name, numbers in figures.items() if any(numbers.values()) for place in above(name))}
    texts = {name: {title: size(n) for title, n in of.items()} for name, of in figures.items() if name in names_listed}
    for title, names in uncalled.items():
        for name in names & texts.keys():
            texts[name][title] = ""
    for name in [name for name in texts if name in shapes]:
        if show_shapes:
            texts[name][first] = shapes[name]
        else:
            del texts[name]
    children: dict[str, list[str]] = defaultdict(list)
    for name in texts:
        if name:
            children[name.rpartition(".")[0]].append(name)

    def merged(name: str) -> str:
        """The last of a chain of only children whose texts do not contradict; its texts become those of the chain."""
        while len(children[name]) == 1:
            (child,) = children[name]
            ours, theirs = texts[name], texts[child]
            if ours.keys() != theirs.keys() or any(ours[k] and theirs[k] and ours[k] != theirs[k] for k in ours):
                break
            texts[child] = {column: ours[column] or theirs[column] for column in ours}
            name = child
        return name

    def lines(name: str, level: int) -> Iterator[list[str]]:
        last, space = merged(name), " " * level
        shown = last if name == "" or not root else last.removeprefix(f"{root}.")
        cells = (space + texts[last][title] if title in texts[last] else "" for title in columns)
        yield [space + (shown or "model"), *cells]
        for child in children[last] if level < depth else ():
            yield from lines(child, level + 1)

    root = merged("")
    return list(lines("", 0))


def pipes(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns of nothing but numbers stand on the right, and indentation is lost.

    So does tabulate 0.10, with which fvcore writes its tables.
    """
    numeric = [_numeric(column) for column in zip(*lines, strict=True)]
    cells = [[cell.strip() for cell in column] for column in zip(titles, *lines, strict=True)]
    for place, kind in enumerate(numeric):
        if kind is float:
            cells[place] = [titles[place], *_at_points(cells[place][1:])]
    least = [len(column[0]) + 2 for column in cells]  # the library leaves that much room below a title
    widths = [max(room, *map(len, column[1:])) if lines else room for room, column in zip(least, cells, strict=True)]

    def row(values: Sequence[str]) -> str:
        padded = [v.rjust(w) if k else v.ljust(w) for v, w, k in zip(values, widths, numeric, strict=True)]
        return "| " + " | ".join(padded) + " |"

    rule = "|".join("-" * (w + 1) + ":" if k else ":" + "-" * (w + 1) for w, k in zip(widths, numeric, strict=True))
    return "\n".join(
        [row(list(titles)), f"|{rule}|", *(row(list(values)) for values in zip(*[c[1:] for c in cells], strict=True))]
    )


def _numeric(column: Sequence[str]) -> type | None:
    """int or float where each cell that holds something is one; else None."""
    kinds = set()
    for text in filter(None, column):
        try:
            kinds.add(float if float(text) is not None and not text.strip().lstrip("+-").isdecimal() else int)
        except ValueError:
            return None
    return (float if float in kinds else int) if kinds else None


def _at_points(column: Sequence[str]) -> list[str]:
    """Numbers with room on the right, so that their points stand in one line."""
    plain = [f"{float(text):g}" if text else "" for text in column]
    behind = [len(text.partition(".")[2]) + 1 if "." in text else 0 for text in plain]
    return [text + " " * (max(behind) - after) for text, after in zip(plain, behind, strict=True)]


def tree(model: nn.Module, columns: Columns, uncalled: Mapping[str, set[str]]) -> str:
    """The printed form of the model with the figures of each module.

    Args:
        model: the module.
        columns: the figures; a module that one lacks has 0.
        uncalled: title -> modules that were not called: their figure is "N/A".
    """
    full = {title: {**dict(numbers)} for title, numbers in columns.items()}
    for name, _ in model.named_modules():
        for numbers in full.values():
            numbers.setdefault(name, 0)
    missing = set().union(*uncalled.values())
    texts = {
        name: {title: size(number, 2) for title, number in figures.items()}
        for name, figures in by_name(full).items()
        if any(figures.values()) or name in missing or (not name and not missing)
    }
    for title, names in uncalled.items():
        for name in names:
            texts.setdefault(name, {})[title] = "N/A"
    lead = (
        "N/A indicates a possibly missing statistic due to how the module was called. Missing values are still "
        "included in the parent's total.\n"
    )
    return (lead if missing else "") + _printed(model, "", texts)


def _printed(module: nn.Module, name: str, texts: Mapping[str, Mapping[str, str]]) -> str:
    extra = module.extra_repr()
    own = extra.split("\n") if extra else []
    if name in texts:
        own.append(", ".join(f"{title}: {text}" for title, text in texts[name].items()))
    below = [
        f"({key}): {_printed(child, f'{name}.{key}' if name else key, texts)}".replace("\n", "\n  ")
        for key, child in module._modules.items()
        if child is not None
    ]
    kind = module._get_name()  # type: ignore[no-untyped-call]
    if len(own) == 1 and not below:
        return f"{kind}({own[0]})"
    inside = "".join(f"\n  {line}" for line in (*own, *below))
    return f"{kind}({inside}\n)" if inside else f"{kind}()"


def above(name: str) -> Iterator[str]:
    """A name and all names above it, the model included."""
    yield ""
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


@checked
def parameter_count(model: nn.Module) -> defaultdict[str, int]:
    """Elements by name of a parameter, and of a module with all below it; "" is the model."""
    counts: defaultdict[str, int] = defaultdict(int)
    for name, parameter in model.named_parameters():
        for around in above(name):
            counts[around] += parameter.numel()
    return counts


def shapes(model: nn.Module) -> dict[str, str]:
    """The shape of each parameter, in words."""
    return {name: str(tuple(parameter.shape)) for name, parameter in model.named_parameters()}


def parameter_rows(model: nn.Module, max_depth: int) -> list[tuple[str, str]]:
    """Lines of the table of parameters: name and size or shape, indented by depth."""
    count, shape = parameter_count(model), shapes(model)

    def below(level: int, prefix: str) -> Iterator[tuple[str, str]]:
        for name, number in count.items() if level < max_depth else ():
            if name and name.count(".") == level and name.startswith(prefix):
                indent = " " * (level + 1)
                yield indent + name, indent + (shape.get(name) or _short(number))
                if name not in shape:
                    yield from below(level + 1, f"{name}.")

    return [("model", _short(count[""])), *below(0, "")]


def _short(number: int) -> str:
    for power, letter in ((9, "G"), (6, "M"), (3, "K")):
        if number > 10 ** (power - 1):
            return f"{number / 10**power:.1f}{letter}"
    return str(number)


@checked
def parameter_count_table(model: nn.Module, max_depth: int = 3) -> str:
    """The parameters of a model, its modules and its parameters as a Markdown table.

    Args:
        model: the module.
        max_depth: how many levels to show.
    """
    return pipes(["name", "#elements or shape"], parameter_rows(model, max_depth))
