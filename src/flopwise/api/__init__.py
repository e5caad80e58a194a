"""The public functions, and the reports by which ``print`` and notebooks show what they return."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from flopwise.report.report import Report

Result = TypeVar("Result")

#: Class of a result -> the file in ``flopwise.report.commands`` and its function that makes the report.
REPORTS: dict[str, tuple[str, str]] = {
    "Profile": ("profile", "default_report"),
    "Formula": ("formula", "formula_report"),
    "Comparison": ("compare", "comparison_report"),
    "Bound": ("bound", "bound_report"),
    "Advice": ("advise", "advise_report"),
    "Trace": ("trace", "trace_report"),
    "TraceComparison": ("trace", "trace_comparison_report"),
    "Sparsity": ("sparsity", "sparsity_report"),
    "Weights": ("weights", "weights_report"),
    "Inference": ("llm.report", "llm_report"),
    "TrainingStep": ("llm.report", "training_report"),
    "Achieved": ("llm.log", "log_report"),
    "Diffusion": ("llm.diffusion", "diffusion_report"),
}

#: Class of a result -> the function of ``flopwise.report.viewers.notebook`` that shows it in a notebook.
NOTEBOOK: dict[str, str] = {
    "Profile": "profile_html",
    "Comparison": "comparison_html",
    "Trace": "trace_html",
    "TraceComparison": "traces_html",
}


def printable(result: Result) -> Result:
    """The result with the functions that write it for ``print`` and for notebooks."""
    html = {"html_renderer": as_html} if type(result).__name__ in NOTEBOOK else {}
    changed: Result = replace(result, renderer=as_text, **html)  # type: ignore[type-var] # results are dataclasses
    return changed


def report_of(result: object) -> Report:
    """The report of a result, as its command shows it without options."""
    module, function = REPORTS[type(result).__name__]
    report: Report = getattr(import_module(f"flopwise.report.commands.{module}"), function)(result)
    return report


def as_text(result: object) -> str:
    """A result as a table for a terminal; it ends with a line end."""
    from flopwise.report.report import as_text as written

    return written(report_of(result))


def as_html(result: object) -> str:
    """A result as a small table of HTML."""
    from flopwise.report.viewers import notebook

    html: str = getattr(notebook, NOTEBOOK[type(result).__name__])(result)
    return html
