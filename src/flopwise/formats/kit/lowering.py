"""Operators of a file as operators of the house: what a rule sees, what it says, and how a table of them is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from flopwise.graph import Layout, Shape
from flopwise.operators.shape import Element, FromInput, ShapeRule, ValueRule, by, elements

#: Axes of an image in the order of the house, where the file has channels last.
CHANNELS_FIRST = (0, 3, 1, 2)
CHANNELS_FIRST_3D = (0, 4, 1, 2, 3)

#: Another shape under which the operator of the house sees the same tensor.
View: TypeAlias = Callable[[Shape], Shape]


class Typed(Protocol):
    """A tensor of the file."""

    @property
    def dtype(self) -> str | None: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """As the file states it."""


class Application(NamedTuple):
    """An operator of the file with its tensors."""

    op: str
    #: Its settings by name, as the decoder hands them over.
    options: Mapping[str, Any]
    #: None for one that is left out.
    inputs: tuple[Typed | None, ...]
    outputs: tuple[Typed | None, ...]
    #: The elements of an input that is stored and small; None for any other.
    elements: Callable[[int], tuple[Element, ...] | None]

    def shape(self, place: int) -> tuple[int, ...]:
        """The shape that the file states of an input; () where there is none."""
        tensor = self.inputs[place] if place < len(self.inputs) else None
        return () if tensor is None else tensor.shape

    def dtype(self, place: int = 0) -> str:
        """The element type of an input; "" where there is none."""
        tensor = self.inputs[place] if place < len(self.inputs) else None
        return "" if tensor is None else tensor.dtype or ""

    def option(self, name: str, default: Any) -> Any:
        """The option of this name where it is of the type of its default."""
        value = self.options.get(name)
        return value if isinstance(value, type(default)) else default

    @property
    def result(self) -> str:
        """The element type of the first result."""
        first = self.outputs[0] if self.outputs else None
        return "float32" if first is None else first.dtype or "float32"


class Lowered(NamedTuple):
    """An operator of the house; the rule of its row sees axes in the order of ``layout``, one of its own does not."""

    op: str
    #: Places among the file's inputs in the order of the house's signature, -1 for one that is left out; None: all.
    #: Where the file has names for them, these, and "" for one that is left out.
    inputs: tuple[int, ...] | tuple[str, ...] | None = None
    attrs: Mapping[str, object] = {}
    #: The rule of its results' shapes where it is not that of the house's row: settings come in another way.
    shape: ShapeRule | None = None
    #: That of their elements, where the rule for shapes is one of these.
    value: ValueRule | None = None
    #: The order of axes in which the operator of the house sees its inputs.
    layout: Layout | None = None
    #: Input -> the shape under which the operator of the house sees it.
    views: Mapping[int, View] = {}
    #: Attributes of the house that are inputs in the file, which rules see as attributes and the graph shows as such.
    settings: Mapping[str, FromInput] = {}
    #: How many of the inputs the graph shows; those behind are settings of shapes. None: all.
    shows: int | None = None
    #: Whether the rule of its own sees the inputs of the file in their order, and not those of the house.
    as_in_file: bool = False
    #: Makes of it the operator whose inputs have these shapes, where only they say its attributes or its layout.
    finish: Finish | None = None


#: See ``Lowered.finish``.
Finish: TypeAlias = "Callable[[Lowered, Sequence[Shape | None]], Lowered]"


class Part(NamedTuple):
    """An operator that runs behind another and is fused to it."""

    op: str
    #: What it is called after its operator: "RELU6".
    label: str
    attrs: Mapping[str, object] = {}
    #: Places among the file's inputs of what it takes beside the operator's result.
    takes: tuple[int, ...] = ()


#: How an operator is lowered.
Rule: TypeAlias = Callable[[Application], Lowered]

#: An attribute that follows from the application; None: it is left out.
Setting: TypeAlias = Callable[[Application], object]


def to(
    op: str,
    *inputs: int,
    layout: Layout | None = None,
    shape: ShapeRule | str | None = None,
    value: str | None = None,
    settings: Mapping[str, int | FromInput] = {},
    **attrs: object,
) -> Rule:
    """The rule for an operator that is one of the house.

    Args:
        op: of the house.
        inputs: as in `Lowered`; none stands for all.
        layout: as in `Lowered`.
        shape: as in `Lowered`, or the name of a rule of ``operators/shapes``.
        value: the name of a rule of ``operators/elements``.
        settings: attributes of the house that are the one element of an input of the file, by place; or all of them.
        attrs: attributes of the house, or a `Setting` for each that follows from the application.
    """
    rule = by(shape) if isinstance(shape, str) else shape
    worth = None if value is None else elements(value)
    computed = {name: one for name, one in attrs.items() if callable(one)}
    late = {name: FromInput(one) if isinstance(one, int) else one for name, one in settings.items()}
    fixed = Lowered(op, inputs or None, attrs, rule, worth, layout, settings=late, as_in_file=rule is not None)
    if not computed:
        return lambda application: fixed

    def lowered(application: Application) -> Lowered:
        held = {name: computed[name](application) if name in computed else one for name, one in attrs.items()}
        return fixed._replace(attrs={name: one for name, one in held.items() if one is not None})

    return lowered


def option(name: str) -> Setting:
    """The option of this name; a flag as 0 or 1."""

    def setting(application: Application) -> object:
        value = application.options[name]
        return int(value) if isinstance(value, bool) else value

    return setting


def options(*names: str) -> dict[str, Any]:
    """The options of these names as attributes of the same."""
    return {name: option(name) for name in names}


def renamed(**operators: str) -> dict[str, Rule]:
    """The rules for operators that differ from the house's in nothing but their names."""
    return {name: to(op) for name, op in operators.items()}
