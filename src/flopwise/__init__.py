"""flopwise says what a neural network costs, exactly, in every published counting convention.

Importing flopwise imports no framework: each name is loaded when it is first used. Nothing of Python's own library is
imported either, because ``python -m flopwise`` still has the current folder on its path here.
"""

from flopwise._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flopwise._limits import limits
    from flopwise.analyses.advice.advice import Advice
    from flopwise.analyses.compare.comparison import Comparison
    from flopwise.analyses.formula.formula import Formula
    from flopwise.analyses.timing.bound import Bound
    from flopwise.analyses.timing.device import Device
    from flopwise.analyses.traces.trace import Trace
    from flopwise.analyses.weights.result import Weights
    from flopwise.answers.memory.memory import Memory, memory
    from flopwise.answers.sparsity.model import Sparsity
    from flopwise.answers.sparsity.sparsity import sparsity
    from flopwise.api import zoo
    from flopwise.api.advise import advise
    from flopwise.api.annotate import annotate
    from flopwise.api.bench import bench
    from flopwise.api.bound import bound, devices
    from flopwise.api.check import check
    from flopwise.api.compare import compare
    from flopwise.api.formula import formula
    from flopwise.api.language.diffusion import diffusion
    from flopwise.api.llm import llm
    from flopwise.api.llm_log import llm_log
    from flopwise.api.meter import Meter
    from flopwise.api.profile import profile
    from flopwise.api.read import read
    from flopwise.api.schema import schema
    from flopwise.api.shapes import write_shapes
    from flopwise.api.trace import compare_traces, trace
    from flopwise.api.weights import weights
    from flopwise.conventions import CONVENTIONS, Convention
    from flopwise.errors import FlopwiseError, InputError, ModelError, ShapeError
    from flopwise.formats.inputs import Value
    from flopwise.formats.options import CaffeOptions, JaxOptions, OnnxOptions, TorchOptions
    from flopwise.graph import Graph, Module, Node, Tensor
    from flopwise.operators.counts import Counts
    from flopwise.operators.gradient import Gradient
    from flopwise.operators.operator import Operator
    from flopwise.operators.tables import OPERATORS
    from flopwise.profiles.profile import Profile
    from flopwise.report.commands.profile import render
    from flopwise.rows import Row, Sum

__all__ = [
    "CONVENTIONS",
    "OPERATORS",
    "Advice",
    "Bound",
    "CaffeOptions",
    "Comparison",
    "Convention",
    "Counts",
    "Device",
    "FlopwiseError",
    "Formula",
    "Gradient",
    "Graph",
    "InputError",
    "JaxOptions",
    "Memory",
    "Meter",
    "ModelError",
    "Module",
    "Node",
    "OnnxOptions",
    "Operator",
    "Profile",
    "Row",
    "ShapeError",
    "Sparsity",
    "Sum",
    "Tensor",
    "TorchOptions",
    "Trace",
    "Value",
    "Weights",
    "__version__",
    "advise",
    "annotate",
    "bench",
    "bound",
    "check",
    "compare",
    "compare_traces",
    "devices",
    "diffusion",
    "formula",
    "limits",
    "llm",
    "llm_log",
    "memory",
    "profile",
    "read",
    "render",
    "schema",
    "sparsity",
    "trace",
    "weights",
    "write_shapes",
    "zoo",
]

#: Name -> the file that holds it; ``answers`` names those of the others.
_HOMES = {
    **dict.fromkeys(("CONVENTIONS", "Convention"), "conventions"),
    **dict.fromkeys(("CaffeOptions", "JaxOptions", "OnnxOptions", "TorchOptions"), "formats.options"),
    **dict.fromkeys(("FlopwiseError", "InputError", "ModelError", "ShapeError"), "errors"),
    **dict.fromkeys(("Graph", "Module", "Node", "Tensor"), "graph"),
    **dict.fromkeys(("Row", "Sum"), "rows"),
    "Counts": "operators.counts",
    "Gradient": "operators.gradient",
    "OPERATORS": "operators.tables",
    "Operator": "operators.operator",
    "Profile": "profiles.profile",
    "Value": "formats.inputs",
    "limits": "_limits",
}


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    value: Any
    if name in _HOMES:
        value = getattr(import_module(f"flopwise.{_HOMES[name]}"), name)
    elif name in __all__:
        value = import_module("flopwise.answers").public(name)
    else:
        raise AttributeError(f"module 'flopwise' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
