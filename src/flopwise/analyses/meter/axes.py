"""The open sizes of a batch: which axes of its tensors may have other sizes, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

#: A name of a tensor and the number of an axis.
Axis = tuple[str, int]

#: Shapes of tensors by name.
Shapes = Mapping[str, Sequence[int]]

#: Other sizes at which an axis is tried: a model takes them or not.
_OTHER: tuple[Callable[[int], int], ...] = (lambda n: 2 * n, lambda n: n + 1, lambda n: n // 2)


@dataclass(frozen=True)
class Axes:
    """The symbol of each open axis, which is called as users know it: notes and errors speak of it."""

    symbols: Mapping[Axis, str]
    #: One batch: its sizes stand where an axis is not open.
    example: Shapes

    def point(self, shapes: Shapes) -> dict[str, int] | None:
        """The size of each symbol in a batch; None where its sizes do not fit."""
        point: dict[str, int] = {}
        for name, shape in shapes.items():
            for axis, size in enumerate(shape):
                symbol = self.symbols.get((name, axis))
                if (self.example[name][axis] if symbol is None else point.setdefault(symbol, size)) != size:
                    return None
        return point

    def shapes(self, point: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shapes of a batch at a size of each symbol."""
        return {
            name: tuple([point[self.symbols[name, i]] if (name, i) in self.symbols else n for i, n in enumerate(shape)])
            for name, shape in self.example.items()
        }


def axes_of(examples: Sequence[Shapes], takes: Callable[[Shapes], bool]) -> Axes:
    """The open axes of a model's inputs.

    Axes of one number and one size in all examples have one symbol: the first axis of each input is the batch. Of those
    that the model does not take alone at other sizes, the ones of one size are tried together.

    Args:
        examples: the shapes of batches, which differ where sizes change.
        takes: whether the model takes inputs of these shapes.
    """
    sizes: dict[Axis, tuple[int, ...]] = {
        (name, axis): tuple(shapes[name][axis] for shapes in examples)
        for name, shape in examples[0].items()
        for axis in range(len(shape))
    }
    sizes = {axis: of for axis, of in sizes.items() if max(of) > 1}
    groups: dict[tuple[object, ...], list[Axis]] = {}
    for axis, of in sizes.items():
        groups.setdefault((axis[1], *of), []).append(axis)
    open_groups, closed = _tried(groups.values(), examples[-1], takes)
    together: dict[tuple[object, ...], list[Axis]] = {}
    for group in closed:
        together.setdefault(sizes[group[0]], []).extend(group)
    merged = [group for group in together.values() if group not in closed]
    open_groups += _tried(merged, examples[-1], takes)[0]
    symbols: dict[Axis, str] = {}
    for group in open_groups:
        name, place = group[0]
        batch = place == 0 and "batch" not in symbols.values()
        symbols.update(dict.fromkeys(group, "batch" if batch else f"{name}.shape[{place}]"))
    return Axes(symbols, examples[-1])


def _tried(
    groups: Iterable[list[Axis]], example: Shapes, takes: Callable[[Shapes], bool]
) -> tuple[list[list[Axis]], list[list[Axis]]]:
    """The groups of axes that a model takes at other sizes, and the others."""
    right: list[list[Axis]] = []
    wrong: list[list[Axis]] = []
    for group in groups:
        name, axis = group[0]
        sizes = dict.fromkeys(other(example[name][axis]) for other in _OTHER)
        taken = any(size > 1 and takes(_with(example, group, size)) for size in sizes)
        (right if taken else wrong).append(group)
    return right, wrong


def _with(example: Shapes, group: Sequence[Axis], size: int) -> Shapes:
    """The shapes with another size of some axes."""
    return {
        name: tuple([size if (name, axis) in group else n for axis, n in enumerate(shape)])
        for name, shape in example.items()
    }
