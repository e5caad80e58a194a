"""flopwise says what a neural network costs, exactly, in every published counting convention.

Importing flopwise imports no framework: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flopwise._version import __version__

if TYPE_CHECKING:
    from flopwise.analyses.compare import Comparison
    from flopwise.analyses.formula.formula import Formula
    from flopwise.analyses.sparsity import Sparsity
    from flopwise.analyses.weights.result import Weights
    from flopwise.api.compare import check, compare
    from flopwise.api.profile import formula, profile, read, write_shapes
    from flopwise.api.sparsity import sparsity
    from flopwise.api.weights import weights
    from flopwise.conventions import CONVENTIONS, Convention
    from flopwise.errors import FlopwiseError, InputError, ModelError, ShapeError
    from flopwise.graph import Graph, Module, Node, Tensor
    from flopwise.operators.counts import Counts
    from flopwise.operators.tables import OPERATORS
    from flopwise.profiles.profile import Profile
    from flopwise.report import render
    from flopwise.rows import Row, Sum

__all__ = [
    "CONVENTIONS",
    "OPERATORS",
    "Comparison",
    "Convention",
    "Counts",
    "FlopwiseError",
    "Formula",
    "Graph",
    "InputError",
    "ModelError",
    "Module",
    "Node",
    "Profile",
    "Row",
    "ShapeError",
    "Sparsity",
    "Sum",
    "Tensor",
    "Weights",
    "__version__",
    "check",
    "compare",
    "formula",
    "profile",
    "read",
    "render",
    "sparsity",
    "weights",
    "write_shapes",
]

_HOMES = {
    "CONVENTIONS": "conventions",
    "OPERATORS": "operators.tables",
    "Comparison": "analyses.compare",
    "Convention": "conventions",
    "Counts": "operators.counts",
    "FlopwiseError": "errors",
    "Formula": "analyses.formula.formula",
    "Graph": "graph",
    "InputError": "errors",
    "ModelError": "errors",
    "Module": "graph",
    "Node": "graph",
    "Profile": "profiles.profile",
    "Row": "rows",
    "ShapeError": "errors",
    "Sparsity": "analyses.sparsity",
    "Sum": "rows",
    "Tensor": "graph",
    "Weights": "analyses.weights.result",
    "check": "api.compare",
    "compare": "api.compare",
    "formula": "api.profile",
    "profile": "api.profile",
    "read": "api.profile",
    "render": "report",
    "sparsity": "api.sparsity",
    "weights": "api.weights",
    "write_shapes": "api.profile",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'flopwise' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"flopwise.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
