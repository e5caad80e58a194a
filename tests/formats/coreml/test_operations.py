"""Every operation of MIL has the shapes that coremltools says, at the file's sizes and at others."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.coreml_models import coremltools, saved, shapes_of
from tests.formats.coreml.operations import CASES

import flopwise
from flopwise.formats.coreml.lower import TABLE

#: Operations without a case: what other tests have, and what a network does not compute.
_ELSEWHERE = {
    "classify",
    "reshape_like",
    "constexpr_affine_dequantize",
    "constexpr_blockwise_shift_scale",
    "constexpr_cast",
    "constexpr_lut_to_dense",
    "constexpr_lut_to_sparse",
    "constexpr_sparse_blockwise_shift_scale",
    "constexpr_sparse_to_dense",
}


def _split(shapes: list[Any]) -> tuple[list[Any], list[str]]:
    """Shapes and element types of the inputs of a case."""
    typed = [one if len(one) == 2 and isinstance(one[1], str) else (one, "") for one in shapes]
    return [shape for shape, _ in typed], [dtype for _, dtype in typed]


@pytest.mark.parametrize("case", CASES)
def test_shapes(case: str, tmp_path: Path) -> None:
    coremltools()
    build, at = CASES[case]
    (two, dtypes), (three, _) = _split(at(2)), _split(at(3))
    path = tmp_path / "net.mlpackage"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stated = shapes_of(saved(build, two, path, dtypes))
        other = shapes_of(saved(build, three, tmp_path / "other.mlpackage", dtypes))
    others = dict(zip(stated, other.values(), strict=True))  # names are numbered anew
    graph = flopwise.read(path)
    names = [tensor.name for tensor in graph.inputs]
    assert _differ(graph, stated) == {}
    assert _differ(flopwise.read(path, dict(zip(names, three, strict=False))), others) == {}
    coverage = flopwise.profile(path).to_dict()["coverage"]
    assert (coverage["unknown"], coverage["unresolved"]) == ({}, [])


def _differ(graph: flopwise.Graph, expected: dict[str, Any]) -> dict[str, Any]:
    """The tensors whose shape is another than coremltools says."""
    found = {t.name.rpartition("/")[2]: t.shape for node in graph.nodes for t in node.outputs if t}
    return {name: (found.get(name), shape) for name, shape in expected.items() if found.get(name) != shape}


def test_every_operation_has_a_case_or_a_reason() -> None:
    coremltools()
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    from flopwise.operators.coreml import OPERATORS

    own = {name.removeprefix("coreml::") for name in OPERATORS}
    control = {"cond", "while_loop", "const", "_const_symbolic"}
    missing = set(SSAOpRegistry.core_ops) - set(TABLE) - own - control
    assert missing == {"conv_quantized"}  # of no converter of today: its row is unknown
