"""The questions that flopwise answers, a folder each: its function, its command, its result and its report.

``ANSWERS`` names the folders. The names of ``flopwise``, the commands, and the reports by which ``print`` and notebooks
show a result follow from it. It imports none of them, so that each costs nothing until it is used; and without a folder
whose line is taken out all others work.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """Commands, names and reports that a folder adds. Places are "module" or "module.name", from ``flopwise`` on."""

    #: Command -> the module that has it as ``command``, and one line about it.
    commands: Mapping[str, tuple[str, str]] = {}
    #: Name of ``flopwise`` -> the module that holds it; a module itself where the name is its last part.
    names: Mapping[str, str] = {}
    #: Class of a result -> the function that makes its report.
    reports: Mapping[str, str] = {}
    #: Class of a result -> the function that shows it in a notebook.
    notebooks: Mapping[str, str] = {}


#: Folder -> what it adds, in the order of ``flopwise --help``.
ANSWERS: dict[str, Answer] = {
    "profile": Answer(
        commands={
            "profile": (
                "cli.commands.profile",
                "Operations, parameters, activations and memory, per layer and in total.",
            ),
            "flops": (
                "cli.commands.flops",
                "Operations by class (multiply-adds, additions, ...), in total or per layer.",
            ),
            "layers": (
                "cli.commands.layers",
                "Layers with their input and output names and shapes; also as a Graphviz graph.",
            ),
            "shapes": (
                "cli.commands.shapes",
                "Shape and element type of every tensor; with -o FILE.onnx, the model with all shapes written into it.",
            ),
            "table": (
                "cli.commands.table",
                "Several models as one table for a paper (LaTeX, Markdown), one line each.",
            ),
        },
        names={
            "profile": "api.profile",
            "read": "api.read",
            "write_shapes": "api.shapes",
            "render": "report.commands.profile",
        },
        reports={"Profile": "report.commands.profile.default_report"},
        notebooks={"Profile": "report.viewers.notebook.profile_html"},
    ),
    "compare": Answer(
        commands={
            "compare": (
                "cli.commands.compare",
                "Models, conventions, batch sizes or input sizes side by side; exit code 1 on growth.",
            ),
            "explain": (
                "cli.commands.explain",
                "The formula of an operator, or where two conventions differ on a model.",
            ),
        },
        names={"compare": "api.compare", "Comparison": "analyses.compare.comparison"},
        reports={"Comparison": "report.commands.compare.comparison_report"},
        notebooks={"Comparison": "report.viewers.notebook.comparison_html"},
    ),
    "check": Answer(
        commands={
            "check": (
                "cli.commands.check",
                "Check models against a budget; exit code 1 and a table of the limits that are exceeded.",
            )
        },
        names={"check": "api.check"},
    ),
    "memory": Answer(
        commands={
            "memory": (
                "answers.memory.command",
                "Weights, activations and their peak, an allocation plan, and what training adds.",
            )
        },
        names={"memory": "answers.memory.memory", "Memory": "answers.memory.memory"},
        reports={"Memory": "answers.memory.report.memory_report"},
    ),
    "bound": Answer(
        commands={
            "bound": (
                "cli.commands.bound",
                "The least time a model can take on a device, by arithmetic and memory, layer by layer.",
            ),
            "bench": (
                "cli.commands.bench",
                "Measure a model with an engine on this machine, the whole and node by node, and keep the figures.",
            ),
        },
        names={
            "bound": "api.bound",
            "devices": "api.bound",
            "bench": "api.bench",
            "Bound": "analyses.timing.bound",
            "Device": "analyses.timing.device",
        },
        reports={"Bound": "report.commands.bound.bound_report"},
    ),
    "trace": Answer(
        commands={
            "trace": (
                "cli.commands.trace",
                "Recorded time on the layers of a model: traces of PyTorch, onnxruntime and TensorRT.",
            )
        },
        names={
            "trace": "api.trace",
            "compare_traces": "api.trace",
            "annotate": "api.annotate",
            "Trace": "analyses.traces.trace",
        },
        reports={
            "Trace": "report.commands.trace.trace_report",
            "TraceComparison": "report.commands.trace.trace_comparison_report",
        },
        notebooks={
            "Trace": "report.viewers.notebook.trace_html",
            "TraceComparison": "report.viewers.notebook.traces_html",
        },
    ),
    "advise": Answer(
        commands={
            "advise": (
                "cli.commands.advise",
                "What to change in a model, and what each change saves: MACs, bytes, time.",
            )
        },
        names={"advise": "api.advise", "Advice": "analyses.advice.advice"},
        reports={"Advice": "report.commands.advise.advise_report"},
    ),
    "llm": Answer(
        commands={
            "llm": (
                "cli.commands.llm",
                "Language models: prefill, decoding, cache and memory, from a configuration alone.",
            )
        },
        names={"llm": "api.llm", "llm_log": "api.llm_log", "diffusion": "api.language.diffusion"},
        reports={
            "Inference": "report.commands.llm.report.llm_report",
            "TrainingStep": "report.commands.llm.report.training_report",
            "Achieved": "report.commands.llm.log.log_report",
            "Diffusion": "report.commands.llm.diffusion.diffusion_report",
        },
    ),
    "formula": Answer(
        commands={
            "formula": (
                "cli.commands.formula",
                "Costs as closed formulas in the open dimensions of a model (batch, sequence ...).",
            )
        },
        names={"formula": "api.formula", "Formula": "analyses.formula.formula"},
        reports={"Formula": "report.commands.formula.formula_report"},
    ),
    "sparsity": Answer(
        commands={
            "sparsity": (
                "answers.sparsity.command",
                "Zeros in the weights: single zeros, blocks, N:M patterns, channels, and the MACs they save.",
            )
        },
        names={
            "sparsity": "answers.sparsity.sparsity",
            "Sparsity": "answers.sparsity.model",
        },
        reports={"Sparsity": "answers.sparsity.report.sparsity_report"},
    ),
    "weights": Answer(
        commands={
            "weights": (
                "cli.commands.weights",
                "Range, standard deviation, zeros and histograms of the weights, per layer or tensor; also as figures.",
            )
        },
        names={"weights": "api.weights", "Weights": "analyses.weights.result"},
        reports={"Weights": "report.commands.weights.weights_report"},
    ),
    "zoo": Answer(
        commands={
            "zoo": (
                "cli.commands.zoo",
                "Many models as one data set: build it from directories and catalogues, query it in SQL.",
            )
        },
        names={"zoo": "api.zoo"},
    ),
    "meter": Answer(names={"Meter": "api.meter"}),
    "view": Answer(
        commands={
            "view": (
                "cli.commands.view",
                "A page in the browser on which files are dropped: every report of a model, in tabs.",
            )
        }
    ),
    "agents": Answer(
        commands={
            "mcp": (
                "cli.commands.mcp",
                "A server of the Model Context Protocol: agents ask for costs themselves, and nothing is written.",
            )
        }
    ),
    "reference": Answer(
        commands={
            "devices": (
                "cli.commands.reference.devices",
                "The devices that flopwise knows: what they compute and move per second, with sources.",
            ),
            "conventions": (
                "cli.commands.reference.conventions",
                "The counting conventions and where they come from.",
            ),
            "operators": (
                "cli.commands.reference.operators",
                "The operators that flopwise can count, and their formulas.",
            ),
            "schema": ("cli.commands.reference.schema", "The JSON Schema of each document that -f json writes."),
            "completion": (
                "cli.commands.reference.completion",
                "The script that lets bash, zsh or fish complete commands, options, conventions and columns.",
            ),
        },
        names={"schema": "api.schema"},
    ),
}


def public(name: str) -> Any:
    """The object that an answer adds to ``flopwise`` under this name.

    Raises:
        InputError: no answer has such a name, as its folder is left out.
    """
    for answer in ANSWERS.values():
        if name in answer.names:
            module = import_module(f"flopwise.{answer.names[name]}")
            return getattr(module, name, module)
    from flopwise.errors import InputError

    raise InputError(f"flopwise.{name} is left out of this installation")


def part(folder: str, place: str) -> Any:
    """The object at a place in a folder, "module.name", for a caller that works without the folder too.

    Raises:
        InputError: the folder is left out.
    """
    if folder not in ANSWERS:
        from flopwise.errors import InputError

        raise InputError(f"flopwise {folder} is left out of this installation")
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"flopwise.answers.{folder}.{module}"), name)


def report_of(result: object) -> Any:
    """The report of a result, as its command shows it without options."""
    return _at("reports", result)(result)


def as_text(result: object) -> str:
    """A result as a table for a terminal; it ends with a line end."""
    text: str = import_module("flopwise.report.report").as_text(report_of(result))
    return text


def as_html(result: object) -> str | None:
    """A result as a small table of HTML for a notebook; None where it has none."""
    show = _at("notebooks", result)
    return None if show is None else show(result)


def _at(kind: str, result: object) -> Any:
    for answer in ANSWERS.values():
        if place := getattr(answer, kind).get(type(result).__name__):
            module, _, name = place.rpartition(".")
            return getattr(import_module(f"flopwise.{module}"), name)
    return None
