"""The page of all gradients, made from the tables that count them."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.operators.tables import TABLES
from flopwise.profiles.training import OPTIMIZERS
from flopwise.report.reference.tables import GENERATED


def gradients_page() -> str:
    """docs/reference/gradients.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    families = {
        family: {name: row.gradient.formula for name, row in sorted(table.items()) if row.gradient}
        for family, table in TABLES.items()
    }
    yield GENERATED
    yield "# Gradients"
    yield ""
    yield (
        f"The backward pass of {sum(map(len, families.values()))} operators, by family; "
        "[training.md](../guides/training.md) has the principles. X, Y, W ... are the inputs and outputs as the ONNX "
        "specification names them, G is the gradient of Y, dX that of X; numel is the number of elements. Only the "
        "gradients that are asked for are made. The gradient of an operator that is not listed is *unknown*."
    )
    for family, formulas in families.items():
        if formulas:
            yield from _section(family.capitalize(), formulas, "backward pass")
    yield from _section("Optimizers", {name: o.formula for name, o in OPTIMIZERS.items()}, "one step")


def _section(title: str, rows: dict[str, str], what: str) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield f"| name | {what} |"
    yield "|---|---|"
    for name, formula in rows.items():
        escaped = formula.replace("|", "\\|")
        yield f"| {name} | {escaped} |"
