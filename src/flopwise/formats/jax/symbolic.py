"""A function of JAX's traced with symbolic dimensions, for formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jax import export

from flopwise.formats.jax.arguments import open_specs
from flopwise.formats.jax.lower.lowered import SYMBOLS
from flopwise.formats.jax.program import program_of
from flopwise.formats.jax.read import read_jax
from flopwise.graph import Graph
from flopwise.readers.inputs import InputSpec
from flopwise.readers.options import JaxOptions


def open_inputs_of(model: object, inputs: object, options: JaxOptions) -> tuple[list[InputSpec], dict[str, object]]:
    """The inputs that are given by shapes, and the other arguments by name."""
    return open_specs(program_of(model, options).names, inputs)


def traced_with_symbols(
    model: object,
    specs: Sequence[InputSpec],
    sizes: Mapping[str, Sequence[int]],
    others: Mapping[str, object],
    options: JaxOptions,
) -> Graph:
    """The graph whose sizes carry expressions.

    JAX works the shapes out in symbols of its own, and each is evaluated with the sizes that stand for these.

    Args:
        model: as in ``flopwise.formats.jax.read.read_jax``.
        specs: the inputs at a point.
        sizes: their shapes with expressions.
        others: the arguments that are no shapes.
        options: as there.
    """
    by_expression = {size.identity: size for shape in sizes.values() for size in shape if hasattr(size, "identity")}
    symbols = {f"d{i}": size for i, size in enumerate(by_expression.values())}
    names = export.symbolic_shape(", ".join(symbols)) if symbols else ()
    of_jax = dict(zip(by_expression, names, strict=True))

    def shape(spec: InputSpec) -> tuple[Any, ...]:
        return tuple(of_jax.get(getattr(size, "identity", None), size) for size in sizes.get(spec.name, spec.shape))

    token = SYMBOLS.set(symbols)
    try:
        return read_jax(
            model, {**{spec.name: replace(spec, shape=shape(spec)) for spec in specs}, **others}, options=options
        )
    finally:
        SYMBOLS.reset(token)
