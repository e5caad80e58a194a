"""One application of an operator, for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.operators.arrays import Input


@dataclass(frozen=True)
class Case:
    """One application of an operator on small random inputs."""

    op: str
    inputs: tuple[Input | None, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    outputs: int = 1
    #: Who knows the right values: onnx's "reference" implementation, "onnxruntime", or a function of the inputs.
    expected: Callable[..., list[Any]] | Literal["reference", "onnxruntime"] = "reference"
    #: What the definition needs to be told besides the attributes.
    told: dict[str, Any] = field(default_factory=dict)


def case(op: str, *inputs: Input | None, version: int = 0, outputs: int = 1, **attrs: Any) -> Case:
    return Case(op, inputs, attrs, version, outputs)


def label(one: Case) -> str:
    shapes = ",".join("x".join(map(str, x.array.shape)) if x else "-" for x in one.inputs)
    attrs = ",".join(f"{k}={v}".replace(" ", "") for k, v in one.attrs.items())
    return f"{one.op}({shapes}){attrs and ':' + attrs[:80]}{f'@{one.version}' if one.version else ''}"
