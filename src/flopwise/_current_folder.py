"""The current folder, which may be anybody's: what Python and libraries would take from it unasked."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


def import_path() -> list[str]:
    """The folders that this process imports from, without the current one.

    Python itself puts that first for ``-c``, ``-m`` and scripts in it. Whoever wants it in all processes names it in
    PYTHONPATH.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it is gone
        here = ""
    named = [] if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named_here = [os.path.join(here, folder) for folder in named if folder]
    folders = [os.path.join(here, folder) for folder in sys.path if isinstance(folder, str) and folder]
    return [folder for folder in folders if folder in named_here or os.path.realpath(folder) != here]


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """In the block, the current folder is one without such a file; it changes only where there is one."""
    if not os.path.lexists(name):
        yield
        return
    here = os.getcwd()
    os.chdir(os.path.dirname(sys.executable) or os.sep)
    try:
        yield
    finally:
        os.chdir(here)
