"""Core ML models of our own, made by coremltools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest


def coremltools() -> Any:
    """coremltools; a test skips without it."""
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    return pytest.importorskip("coremltools")


def _program(build: Callable[..., Any], shapes: Sequence[tuple[Any, ...]], dtypes: Sequence[str], target: str) -> Any:
    ct = coremltools()
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.mil import types

    kinds = {"": types.fp32, "int32": types.int32, "bool": types.bool}
    specs = [
        Builder.TensorSpec(shape=shape, dtype=kinds[kind])
        for shape, kind in zip(shapes, [*dtypes, *[""] * (len(shapes) - len(dtypes))], strict=True)
    ]
    return Builder.program(input_specs=specs, opset_version=getattr(ct.target, target))(build)


def saved(
    build: Callable[..., Any],
    shapes: Sequence[tuple[Any, ...]],
    path: Path,
    dtypes: Sequence[str] = (),
    plain: bool = True,
    target: str = "iOS18",
) -> Any:
    """The model of a function that builds operations, saved at a path."""
    ct = coremltools()
    program = _program(build, shapes, dtypes, target)
    model = ct.convert(
        program,
        convert_to="mlprogram",
        minimum_deployment_target=getattr(ct.target, target),
        compute_precision=ct.precision.FLOAT32,
        pass_pipeline=ct.PassPipeline.EMPTY if plain else None,
    )
    model.save(str(path))
    return model


def shapes_of(model: Any) -> dict[str, tuple[int, ...]]:
    """The shape that coremltools says of each tensor of a model whose extents are all known."""
    found: dict[str, tuple[int, ...]] = {}

    def walk(block: Any) -> None:
        for operation in block.operations:
            for inner in operation.blocks:
                walk(inner)
            for variable in operation.outputs:
                shape = getattr(variable, "shape", None)
                if operation.op_type != "const" and shape is not None and all(_known(n) for n in shape):
                    found[variable.name] = tuple(int(n) for n in shape)

    walk(model._mil_program.functions["main"])
    return found


def _known(extent: object) -> bool:
    return isinstance(extent, (int, numpy.integer, float)) and not isinstance(extent, bool)
