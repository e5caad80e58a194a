"""A net as the file holds it: layers, their ports, and the edges between them.

https://docs.openvino.ai/2025/documentation/openvino-ir-format.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Port:
    """An input or output of a layer."""

    id: str
    #: Element type; None where the file states none.
    dtype: str | None
    #: Names of the tensor, separated by commas; "" for none.
    names: str = ""
    #: Extents, None for one that is open.
    dims: list[int | None] = field(default_factory=list)


@dataclass(slots=True)
class Mapped:
    """A connection between a port of a layer with a body and the body."""

    #: "input" or "output".
    side: str
    #: The port of the layer; "-1" for none.
    port: str
    #: The Parameter or Result in the body.
    layer: str
    #: What it is for: "current_iteration", "execution_condition", or "" for data.
    purpose: str = ""
    #: The axis that is sliced, or along which results are joined; None: the whole tensor.
    axis: int | None = None
    start: int = 0
    end: int = -1
    stride: int = 1
    part: int = 1


@dataclass(slots=True)
class Layer:
    """A layer."""

    id: str
    name: str
    #: "Convolution".
    type: str
    #: The operator set: "opset1", "extension".
    version: str = ""
    #: Its attributes as texts.
    data: Mapping[str, str] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    #: "body", "then_body" and "else_body" -> the net.
    bodies: dict[str, Net] = field(default_factory=dict)
    #: "port_map", "then_port_map" and "else_port_map" -> how ports and bodies are connected.
    maps: dict[str, list[Mapped]] = field(default_factory=dict)
    #: Results of the body -> the Parameter that is handed them in the next iteration.
    back: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The layer as a message names it."""
        return f"{self.type} {self.name or self.id!r}"


@dataclass(slots=True)
class Net:
    """A net, or a body of control flow."""

    name: str = ""
    layers: list[Layer] = field(default_factory=list)
    #: (layer, input port) -> (layer, output port) that feeds it.
    edges: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
