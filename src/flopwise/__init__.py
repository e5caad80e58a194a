"""flopwise says what a neural network costs, exactly, in every published counting convention.

Importing flopwise imports no framework: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from flopwise.api import formula, profile, read, write_shapes
    from flopwise.changes import check, compare
    from flopwise.comparing import Comparison
    from flopwise.conventions import CONVENTIONS, Convention
    from flopwise.counts import Counts
    from flopwise.distributions import Weights, weights
    from flopwise.errors import FlopwiseError, InputError, ModelError, ShapeError
    from flopwise.formulas.formula import Formula
    from flopwise.graph import Graph, Module, Node, Tensor
    from flopwise.ops import OPERATORS
    from flopwise.profiles import Profile
    from flopwise.pruned import sparsity
    from flopwise.report import render
    from flopwise.rows import Row, Sum
    from flopwise.sparse import Sparsity

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
    "OPERATORS": "ops",
    "Comparison": "comparing",
    "Convention": "conventions",
    "Counts": "counts",
    "FlopwiseError": "errors",
    "Formula": "formulas.formula",
    "Graph": "graph",
    "InputError": "errors",
    "ModelError": "errors",
    "Module": "graph",
    "Node": "graph",
    "Profile": "profiles",
    "Row": "rows",
    "ShapeError": "errors",
    "Sparsity": "sparse",
    "Sum": "rows",
    "Tensor": "graph",
    "Weights": "distributions",
    "check": "changes",
    "compare": "changes",
    "formula": "api",
    "profile": "api",
    "read": "api",
    "render": "report",
    "sparsity": "pruned",
    "weights": "distributions",
    "write_shapes": "api",
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
