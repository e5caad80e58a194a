"""Shapes that flopwise gives for onnx's tests, beside those of the expected outputs."""

from __future__ import annotations

from typing import Any, Literal

import numpy
from tests.onnx_suite.cases import Case

from flopwise.api.profile import profile
from flopwise.errors import FlopwiseError
from flopwise.graph import Tensor

#: What came out: the shapes that the test expects; upper bounds of them; no shape, because values decide it; another
#: shape; a refusal; an operator that nobody knows.
Verdict = Literal["right", "bound", "unresolved", "wrong", "error", "unknown"]

#: From the best to the worst.
VERDICTS: tuple[Verdict, ...] = ("right", "bound", "unresolved", "unknown", "error", "wrong")


def judge(case: Case, with_inputs: bool) -> tuple[Verdict, str]:
    """The worst that can be said of a test, and why.

    Args:
        case: the test.
        with_inputs: whether the values of the inputs are known, or only what the file says of them.
    """
    given = {n: v for n, v in case.inputs.items() if not isinstance(v, dict)} if with_inputs else None
    try:
        counted = profile(case.model, given)
    except FlopwiseError as error:
        return "error", str(error)
    found: list[tuple[Verdict, str]] = [("right", "")]
    for tensor in counted.graph.outputs:
        if tensor.name in case.outputs and not isinstance(case.outputs[tensor.name], dict):
            found.append((_verdict(tensor, case.outputs[tensor.name]), f"{tensor.name}: {_shapes(tensor)}"))
    if counted.unknown:
        found.append(("unknown", ", ".join(counted.unknown)))
    return max(found, key=lambda f: VERDICTS.index(f[0]))


def _shapes(tensor: Tensor) -> Any:
    return tensor.shape if tensor.items is None else [t.shape for t in tensor.items]


def _verdict(tensor: Tensor, expected: Any) -> Verdict:
    if not tensor.resolved:
        return "unresolved"
    given = _shapes(tensor)
    if expected is None or (isinstance(expected, list) and not all(isinstance(e, numpy.ndarray) for e in expected)):
        return "right" if not given else "bound"  # an optional that may be empty
    wanted = [e.shape for e in expected] if isinstance(expected, list) else expected.shape
    if isinstance(given, list) and not isinstance(wanted, list):
        given = given[0] if len(given) == 1 else given
    if tensor.bound:
        fits = len(given) == len(wanted) and all(a >= b for a, b in zip(given, wanted, strict=True))
        return "bound" if fits else "wrong"
    return "right" if given == wanted else "wrong"
