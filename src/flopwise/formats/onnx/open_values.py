"""The inputs whose values decide shapes that nobody knows."""

from __future__ import annotations

from flopwise.formats.onnx.file.model import Graph, Node
from flopwise.readers.limits import elements
from flopwise.sizes.scope import Scope

#: Elements up to which an input may be a setting rather than data.
_SETTING = 16

#: Operators whose inputs are all settings; others take data first.
_SETTINGS_ALONE = frozenset({"ConstantOfShape", "Range"})

#: How element types are written.
_SHORT = {"int64": "i64", "int32": "i32", "float32": "f32"}


def remark(graph: Graph, shapes: Scope) -> str:
    """The values of inputs that the first unresolved shape depends on, and how to give them; "" if on none."""
    lost = next((node for node in graph.nodes if node.inputs and not shapes.sized(node.first_output)), None)
    if lost is None or lost.domain or lost.first_output in shapes.faults:
        return ""
    if not all(shapes.sized(name) for name in lost.inputs if name):
        return ""
    if any(warning.startswith(f"no shape for {lost}") for warning in shapes.warnings):
        return ""
    behind = _behind(lost, graph, shapes)
    names = [value.name for value in graph.inputs if value.name in behind and _is_setting(value.name, shapes)]
    if not names:
        return ""
    return (
        f"the shape of {lost.first_output!r} depends on the value of {', '.join(map(repr, names))}: "
        f"give the value: {' '.join('-i ' + _example(name, shapes) for name in names)}"
    )


def _is_setting(name: str, shapes: Scope) -> bool:
    shape = shapes.shape(name)
    return shape is not None and len(shape) < 2 and elements(shape) <= _SETTING and shapes.of(name).elements is None


def _behind(node: Node, graph: Graph, shapes: Scope) -> set[str]:
    """The values that the settings of a node follow from."""
    makers = {name: maker for maker in graph.nodes for name in maker.outputs if name}
    waiting = list(node.inputs if node.op in _SETTINGS_ALONE else node.inputs[1:])
    behind: set[str] = set()
    while waiting:
        name = waiting.pop()
        known = shapes.of(name).elements
        if name and name not in behind and (known is None or None in known):
            behind.add(name)
            waiting.extend(makers[name].inputs if name in makers else ())
    return behind


def _example(name: str, shapes: Scope) -> str:
    shape, dtype = shapes.shape(name) or (), shapes.of(name).dtype or ""
    data = ",".join(["5"] * elements(shape))
    return f"{name}:{_SHORT.get(dtype, dtype)}:{'x'.join(map(str, shape))}:{data}"
