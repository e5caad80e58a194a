"""Parameters by name and by module, as fvcore lists them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise.compat.modules import pipes

if TYPE_CHECKING:
    from torch import nn


def above(name: str) -> Iterator[str]:
    """A name and all that it lies in, the model included."""
    yield ""
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


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


def parameter_count_table(model: nn.Module, max_depth: int = 3) -> str:
    """The parameters of a model, its modules and its parameters as a Markdown table.

    Args:
        model: the module.
        max_depth: how many levels to show.
    """
    return pipes(["name", "#elements or shape"], parameter_rows(model, max_depth))
