"""A sheet as a LaTeX table with booktabs rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flopwise.report.sheet.sheet import Look, Sheet, is_gap, show

_SPECIAL = {
    **{c: f"\\{c}" for c in "{}_#&%$"},
    **{c: f"{{{c}}}" for c in "[]*"},  # after \\ they would be taken as its options
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "…": r"\ldots{}",
    "·": r"$\cdot$",
}

_LIGATURE = re.compile("(?<=-)-")


def escape(text: str) -> str:
    r"""The text with TeX's special characters escaped.

    >>> print(escape("50% of a_b"))
    50\% of a\_b
    """
    return _LIGATURE.sub("{}-", "".join(_SPECIAL.get(c, c) for c in text))


def render_sheet(sheet: Sheet, look: Look) -> str:
    """A table environment; the caption names the model, its inputs, the convention and what is not known."""
    look = look._replace(width=None)
    gaps = [note for note in sheet.notes if is_gap(note)]
    body = [[show(v, h, look) for v, h in zip(line.values, sheet.heads, strict=True)] for line in sheet.lines]
    lines = [
        "% needs \\usepackage{booktabs}",
        *(f"% {note}" for note in sheet.notes if note not in gaps),
        "\\begin{table}",
        "  \\centering",
        f"  \\caption{{{escape('; '.join((*sheet.about, *gaps)))}.}}",
        f"  \\begin{{tabular}}{{{''.join('r' if h.right else 'l' for h in sheet.heads)}}}",
        "    \\toprule",
        *([_row([h.title for h in sheet.heads]), "    \\midrule"] if look.header else []),
        *map(_row, body),
    ]
    if sheet.total:
        total = [show(v, h, look) for v, h in zip(sheet.total.values, sheet.heads, strict=True)]
        lines += ["    \\midrule", _row(total)]
    return "\n".join([*lines, "    \\bottomrule", "  \\end{tabular}", "\\end{table}"]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"    {' & '.join(map(escape, cells))} \\\\"
