"""A sheet as a LaTeX table with booktabs rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from flopwise.report.sheet.sheet import Look, Sheet, is_gap

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

#: Between the titles and the lines, and above the total.
MIDRULE = "    \\midrule"

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
    rows = [row(map(escape, sheet.texts(line, look))) for line in sheet.lines]
    if sheet.total:
        rows += [MIDRULE, row(map(escape, sheet.texts(sheet.total, look)))]
    return environment(
        ["needs \\usepackage{booktabs}", *(note for note in sheet.notes if note not in gaps)],
        "; ".join((*sheet.about, *gaps)),
        "".join("r" if head.right else "l" for head in sheet.heads),
        [escape(head.title) for head in sheet.heads] if look.header else [],
        rows,
    )


def environment(comments: Iterable[str], caption: str, columns: str, titles: Sequence[str], rows: Iterable[str]) -> str:
    """A table environment with booktabs rules; comments and caption are text, titles (if any) and rows LaTeX."""
    lines = [
        *(f"% {comment}" for comment in comments),
        "\\begin{table}",
        "  \\centering",
        f"  \\caption{{{escape(caption)}.}}",
        f"  \\begin{{tabular}}{{{columns}}}",
        "    \\toprule",
        *([row(titles), MIDRULE] if titles else []),
        *rows,
        "    \\bottomrule",
        "  \\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def row(cells: Iterable[str]) -> str:
    """A line of a tabular, its cells in LaTeX."""
    return f"    {' & '.join(cells)} \\\\"
