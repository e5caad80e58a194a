"""A Caffe net from its message: the layers of one phase in their order, each with what it reads and writes.

Source: BVLC Caffe, src/caffe/net.cpp (FilterNet, StateMeetsRule, AppendTop, AppendBottom).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flopwise.errors import InputError, ModelError
from flopwise.formats.caffe.message import Field, Message
from flopwise.formats.caffe.net.upgrade import line_of, upgrade

PHASES = ("TRAIN", "TEST")

#: Shapes of the stored blobs of layers, by the layer's name.
Blobs = Mapping[str, "tuple[tuple[int, ...], ...]"]


class State(NamedTuple):
    """The state that selects layers of a file; None and () leave the choice to the file."""

    phase: str | None = None
    stages: tuple[str, ...] = ()
    level: int | None = None


class Layer(NamedTuple):
    """One layer of a net, in the newest form of the format."""

    name: str
    #: Type as V2 files spell it ("SoftmaxWithLoss").
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Message
    #: Shapes of the stored blobs; None when no weights are at hand.
    blobs: tuple[tuple[int, ...], ...] | None
    #: For each blob the name under which layers share it ("" for none).
    shared: tuple[str, ...]
    #: Where the layer begins in the text; 0 in a binary file.
    line: int
    phase: str

    def __str__(self) -> str:
        return f"layer {self.name!r} ({self.type}{f', line {self.line}' if self.line else ''})"


class Net(NamedTuple):
    """The layers of a net in the state that was chosen."""

    name: str
    layers: tuple[Layer, ...]
    warnings: tuple[str, ...]


def network(message: Message, state: State, blobs: Blobs | None = None, saved: bool = False) -> Net:
    """The net of a message in one state.

    Args:
        message: the net as in the file, in any of its three forms.
        state: which layers to take.
        blobs: the shapes of stored blobs when weights are at hand.
        saved: whether the message comes from a file with weights. Such a file holds the layers of one state already;
            blobs that none of them makes are the net's inputs.

    Raises:
        ModelError: a layer makes no sense, reads what no layer before it writes, or writes what another one has.
        InputError: there is no such phase.
    """
    newest, warnings = upgrade(message)
    complete = _complete(newest, state)
    layers: list[Layer] = []
    named: set[str] = set()
    for part in newest.messages("layer"):
        layer = _layer(part, complete, blobs)
        rules = part.messages("include") + part.messages("exclude")
        named.update(stage for rule in rules for stage in (*rule.texts("stage"), *rule.texts("not_stage")))
        if saved or _selected(part, layer, complete):
            layers.append(layer)
    if not layers:
        raise ModelError(_no_layers(message, complete))
    for stage in state.stages:
        if stage not in named:
            choices = f"those named are {', '.join(sorted(named))}" if named else "no layer names any"
            warnings.append(f"no layer names the stage {stage!r}; {choices}")
    if saved and (missing := _missing(layers)):
        layers.insert(0, _input(missing, complete))
    _check(layers)
    return Net(newest.text("name", ""), tuple(layers), tuple(warnings))


class _Complete(NamedTuple):
    """A state with nothing left open."""

    phase: str
    stages: frozenset[str]
    level: int


def _complete(net: Message, state: State) -> _Complete:
    """The state that was chosen, completed by the file's own."""
    own = net.merged("state")
    phase = _phase(state.phase, "phase") if state.phase is not None else _phase_of(own, "TEST")
    level = own.int("level", 0) if state.level is None else state.level
    return _Complete(phase, frozenset((*state.stages, *own.texts("stage"))), level)


def _phase(text: str, what: str) -> str:
    phase = PHASES[int(text)] if text in ("0", "1") else text.upper()
    if phase not in PHASES:
        raise InputError(f"unknown {what} {text!r}; choose {' or '.join(PHASES)}")
    return phase


def _phase_of(message: Message, default: str) -> str:
    """The phase in a message.

    Raises:
        ModelError: it is none.
    """
    try:
        return _phase(message.text("phase", default), "the phase")
    except InputError as error:
        raise ModelError(f"{line_of(message.line)}{error}") from None


def _layer(part: Message, state: _Complete, blobs: Blobs | None) -> Layer:
    name = part.text("name", "")
    type_ = part.text("type", "")
    if not type_:
        raise ModelError(f"{line_of(part.line)}layer {name!r} has no type")
    return Layer(
        name=name,
        type=type_,
        bottoms=tuple(part.texts("bottom")),
        tops=tuple(part.texts("top")),
        message=part,
        blobs=blobs.get(name) if blobs else None,
        shared=tuple(spec.text("name", "") for spec in part.messages("param")),
        line=part.line,
        phase=_phase_of(part, state.phase) if part.has("phase") else state.phase,
    )


def _selected(part: Message, layer: Layer, state: _Complete) -> bool:
    """True where the state includes a layer.

    Raises:
        ModelError: it has rules of both kinds.
    """
    include, exclude = part.messages("include"), part.messages("exclude")
    if include and exclude:
        raise ModelError(f"{layer}: has rules to include and to exclude it; only one kind is allowed")
    if include:
        return any(_met(rule, state) for rule in include)
    return not any(_met(rule, state) for rule in exclude)


def _met(rule: Message, state: _Complete) -> bool:
    """True where a state satisfies every condition of a rule."""
    return (
        (not rule.has("phase") or _phase_of(rule, "") == state.phase)
        and rule.int("min_level", state.level) <= state.level <= rule.int("max_level", state.level)
        and state.stages.issuperset(rule.texts("stage"))
        and state.stages.isdisjoint(rule.texts("not_stage"))
    )


def _no_layers(message: Message, state: _Complete) -> str:
    if message.has("layer") or message.has("layers"):
        with_stages = f" with the stages {', '.join(sorted(state.stages))}" if state.stages else ""
        return f"there are no layers in phase {state.phase}{with_stages}; choose with --phase, --stage and --level"
    names = ", ".join(message.names()[:5])
    return f"it has no layers{f'; its fields are {names}' if names else ''}"


def _missing(layers: Iterable[Layer]) -> list[str]:
    """Blobs that layers read and no layer before them writes."""
    tops: set[str] = set()
    missing: dict[str, None] = {}
    for layer in layers:
        missing.update((bottom, None) for bottom in layer.bottoms if bottom not in tops)
        tops.update(layer.bottoms, layer.tops)
    return list(missing)


def _input(tops: Sequence[str], state: _Complete) -> Layer:
    """A layer that brings blobs of shapes that the file does not give."""
    message = Message([Field("name", "input", 0), Field("type", "Input", 0)])
    return Layer("input", "Input", (), tuple(tops), message, None, (), 0, state.phase)


def _check(layers: Sequence[Layer]) -> None:
    """Refuse a layer that reads what no layer before it writes, or writes what another one has written."""
    writers: dict[str, Layer] = {}
    for layer in layers:
        for bottom in layer.bottoms:
            if bottom not in writers:
                raise ModelError(f"{layer}: {_why_missing(bottom, layer, layers)}")
        for i, top in enumerate(layer.tops):
            in_place = i < len(layer.bottoms) and layer.bottoms[i] == top
            if top in writers and not in_place:
                raise ModelError(f"{layer}: produces the blob {top!r}, which {writers[top]} produces already")
            writers[top] = layer


def _why_missing(bottom: str, layer: Layer, layers: Sequence[Layer]) -> str:
    """The reason why a bottom is not there when its layer runs."""
    later = [other for other in layers if bottom in other.tops]
    if not later:
        return f"reads the blob {bottom!r}, which no layer produces in phase {layer.phase}"
    if later[0] is layer:
        return f"reads the blob {bottom!r}, which it produces itself"
    return f"reads the blob {bottom!r}, which {later[0]} produces after it; layers run in the order of the file"
