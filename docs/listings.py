"""Pages of the reference with one command, function or class each; the site takes what they say from the source."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pages import GENERATED

import flopwise
from flopwise.cli import COMMANDS, module_of

#: Part of the reference for Python -> the folder of its pages, and the names in it.
PYTHON: dict[str, tuple[str, tuple[str, ...]]] = {
    "Functions": (
        "api",
        (
            *("profile", "read", "compare", "check", "formula", "bound", "bench", "llm", "diffusion", "llm_log"),
            *(
                "Meter",
                "weights",
                "sparsity",
                "memory",
                "trace",
                "compare_traces",
                "advise",
                "devices",
                "schema",
                "limits",
                "render",
            ),
            *("write_shapes", "annotate"),
        ),
    ),
    "Results": (
        "classes",
        (
            "Profile",
            "Row",
            "Sum",
            "Counts",
            "Comparison",
            "Formula",
            "Weights",
            "Sparsity",
            "Memory",
            "Bound",
            "Device",
            "Trace",
            "Advice",
        ),
    ),
    "Graphs": ("classes", ("Graph", "Node", "Tensor", "Module")),
    "Your own": ("classes", ("Operator", "Gradient", "Convention")),
    "Options": ("classes", ("OnnxOptions", "TorchOptions", "JaxOptions", "CaffeOptions", "Value")),
    "Errors": ("classes", ("FlopwiseError", "ModelError", "InputError", "ShapeError")),
}


def listings() -> dict[str, Callable[[], str]]:
    """Path in ``reference`` -> the page."""
    commands = {f"cli/{name}.md": partial(_command, name) for name in COMMANDS}
    names = {f"{folder}/{name}.md": partial(_name, name) for folder, group in PYTHON.values() for name in group}
    return {"cli.md": _commands, **commands, "api.md": _names, **names}


def _commands() -> str:
    rows = [f"| [`{name}`](cli/{name}.md) | {about} |" for name, about in COMMANDS.items()]
    return _page(
        "Commands",
        "A page each, as `flopwise COMMAND --help` has it. [At a glance](command_line.md) has examples of most; "
        "[questions](../guides/questions.md) has the command for what you want to know.\n",
        "| command | |",
        "|---|---|",
        *rows,
    )


def _command(name: str) -> str:
    made = (f":module: {module_of(name)}", ":command: command", f":prog_name: flopwise {name}", ":depth: 0")
    return _page("", "::: mkdocs-click", *(f"    {line}" for line in (*made, ":style: table")))


def _names() -> str:
    lines = ["Everything here is a name of `flopwise` itself; importing it imports no framework."]
    for title, (folder, names) in PYTHON.items():
        rows = [f"| [`{name}`]({folder}/{name}.md) | {_about(name)} |" for name in names]
        lines += ["", f"## {title}", "", "| name | |", "|---|---|", *rows]
    return _page("Python", *lines)


def _name(name: str) -> str:
    return _page(name, f"::: flopwise.{name}")


def _about(name: str) -> str:
    """The first line of a docstring."""
    return (
        (getattr(flopwise, name).__doc__ or "")
        .partition("\n\n")[0]
        .replace("\n", " ")
        .replace("``", "`")
        .replace("|", "\\|")
    )


def _page(title: str, *lines: str) -> str:
    head = (f"# {title}", "") if title else ()
    return "\n".join((GENERATED, *head, *lines)) + "\n"
