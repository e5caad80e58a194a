"""Figures by matplotlib, the extra ``figures``: formats, style, the same bytes each time, files."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from flopwise._current_folder import without
from flopwise.errors import InputError
from flopwise.report.formats.format import FIGURES
from flopwise.writers.atomic import write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Settings of matplotlib while figures are drawn.
STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "flopwise",
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
    "text.parse_math": False,
}

#: What makes the same figure the same file.
_REPEATABLE: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def require_matplotlib() -> None:
    """Check that figures can be drawn.

    Raises:
        InputError: matplotlib is missing.
    """
    try:
        with without("matplotlibrc"):  # versions before 3.11 evaluate what it says
            import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'flopwise[figures]'") from None


@contextlib.contextmanager
def styled(style: Mapping[str, object] = STYLE) -> Iterator[None]:
    """matplotlib with these settings and its own defaults, so that the same figure is the same file everywhere.

    Raises:
        InputError: matplotlib is missing.
    """
    require_matplotlib()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style)  # type: ignore[arg-type] # only some names are typed
        yield


def prepare(directory: str) -> None:
    """Make the directory, and check that figures can be drawn, before anything is computed.

    Raises:
        InputError: matplotlib is missing, or the directory cannot be made or written to.
    """
    require_matplotlib()
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory}: the directory cannot be made ({error.strerror})") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise InputError(f"{directory}: is not writable")


def as_bytes(figure: Figure, format: str) -> bytes:
    """The figure as a file of that format."""
    file = io.BytesIO()
    figure.savefig(file, format=format, metadata=_REPEATABLE.get(format))
    return file.getvalue()


def write_all(
    figures: Iterable[tuple[str, Figure]], directory: str, format: str, style: Mapping[str, object] = STYLE
) -> list[str]:
    """Write figures into a directory, one at a time; the paths of the files.

    Args:
        figures: name of the file without its ending, and figure; drawn when it is that one's turn.
        directory: where to; made where it is not there.
        format: one of FIGURES.
        style: settings of matplotlib.

    Raises:
        InputError: the format is unknown, matplotlib is missing, or a file cannot be written.
    """
    if format not in FIGURES:
        raise InputError(f"unknown format of figures {format!r}; known: {', '.join(FIGURES)}")
    prepare(directory)
    paths: list[str] = []
    with styled(style):
        for name, figure in figures:
            paths.append(os.path.join(directory, f"{name}.{format}"))
            write(as_bytes(figure, format), paths[-1])
    return paths
