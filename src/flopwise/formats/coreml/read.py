"""A Core ML model -> Graph: opened from a package or a specification, and from there on as an ONNX model."""

from __future__ import annotations

from collections.abc import Callable

from flopwise.errors import ModelError
from flopwise.formats.coreml.decode import OTHERS, Weights, specification
from flopwise.formats.coreml.decode import opened as opened_source
from flopwise.formats.coreml.program import Program, modules
from flopwise.formats.onnx.file.model import Graph as Operations
from flopwise.formats.onnx.file.model import Model
from flopwise.formats.onnx.foreign import opened_as, refuse_large
from flopwise.formats.onnx.normalize.names import named
from flopwise.formats.onnx.normalize.sorting import in_execution_order
from flopwise.formats.onnx.read import Dialect, Opened, in_one_line
from flopwise.formats.sources.schema import Message, Messages
from flopwise.readers.options import OnnxOptions

_COREML = Dialect("coreml", modules, states=False)

#: The operator sets of ONNX whose definitions the lowered operators follow.
_OPSETS = {"": 21, "coreml": 1}

#: The function that a program without another word runs.
_MAIN = "main"


def opened_coreml(
    model: object, options: OnnxOptions | None = None, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    """A Core ML model before any size is chosen.

    Args:
        model: a package, or the path, the bytes or an open binary file of a specification.
        options: how large its graph may be.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
    """
    progress("reading the model")
    with in_one_line():
        source, name = opened_source(model)
    weights = Weights(source)
    try:
        with in_one_line(name):
            refuse_large(source, options)
            graph, warnings = _graph(specification(source), weights)
            graph = named(in_execution_order(graph))
    finally:
        weights.close()
        source.close()
    remarks = [f"{file} is not there; numbers in it decide no size" for file in weights.missing]
    return opened_as(Model(9, dict(_OPSETS), {}, graph), name, source, _COREML, warnings, remarks)


def _graph(messages: Messages, weights: Weights) -> tuple[Operations, list[str]]:
    """The graph of the program in a specification, and what to warn of.

    Raises:
        ModelError: it is no program, or damaged.
    """
    kinds = [OTHERS[number] for number in sorted(messages.numbers((0, messages.size))) if number in OTHERS]
    if kinds:
        raise ModelError(
            f"{kinds[0]}, not an ML program; convert the network it was made from with coremltools 7 or newer, or give "
            "that network"
        )
    whole = messages.message("Model", (0, messages.size))
    functions = {one.get("key", ""): one.get("value", {}) for one in whole.get("mlProgram", {}).get("functions", [])}
    description = whole.get("description", {})
    chosen = description.get("defaultFunctionName") or _MAIN
    chosen = chosen if chosen in functions else next(iter(functions), "")
    if not chosen:
        raise ModelError("not a Core ML model, or one without a program")
    described = next((one for one in description.get("functions", []) if one.get("name") == chosen), description)
    shapes = {one.get("name", ""): _default(one) for one in described.get("input", [])}
    graph = Program(messages, weights).graph(functions[chosen], shapes)
    others = [name for name in functions if name != chosen]
    return graph, [f"function {chosen!r} is counted; others are {', '.join(others)}"] if others else []


def _default(feature: Message) -> tuple[int | None, ...]:
    """The extents of an input where nobody chooses others."""
    kind = feature.get("type", {})
    if "imageType" in kind:
        image = kind["imageType"]
        channels = 1 if image.get("colorSpace") in _GREY else 3
        return (1, channels, image.get("height"), image.get("width"))
    return tuple(kind.get("multiArrayType", {}).get("shape", ()))


#: Codes of images of one channel.
_GREY = (10, 40)
