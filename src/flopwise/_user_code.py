"""The user's own code while it runs: what it prints, how it ends, and where it failed."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from flopwise.errors import ModelError


class EndedError(ModelError):
    """The user's code ended the program: running it again would end it again."""


class _Printing:
    """Settings for what the user's code prints: on the command line standard output belongs to the report."""

    def __init__(self) -> None:
        self.report_on_stdout = False
        self.lock = threading.Lock()
        #: Blocks of the user's code that are being run.
        self.depth = 0


_PRINTING = _Printing()


@contextlib.contextmanager
def command_line() -> Iterator[None]:
    """In the block, what the user's code prints goes to stderr, and its command line is empty."""
    before, _PRINTING.report_on_stdout = _PRINTING.report_on_stdout, True
    try:
        yield
    finally:
        _PRINTING.report_on_stdout = before


def on_command_line() -> bool:
    """True where flopwise was started from the command line and not called from Python."""
    return _PRINTING.report_on_stdout


@contextlib.contextmanager
def user_code(name: str, doing: str) -> Iterator[None]:
    """The user's code runs in the block.

    Args:
        name: the file or module that it is in, for messages.
        doing: what it does, as in "it was imported".

    Raises:
        EndedError: it called ``sys.exit``.
    """
    with _stdout_on_stderr(name):
        try:
            yield
        except SystemExit as error:
            code = "" if error.code is None else " ".join(repr(error.code).split())[:100]
            raise EndedError(f"{name}: ended itself with SystemExit({code}) while {doing}{place_of(error)}") from error


@contextlib.contextmanager
def _stdout_on_stderr(name: str) -> Iterator[None]:
    """On the command line, what is written to stdout in the block goes to stderr; ``sys.argv`` is the name alone."""
    if not _PRINTING.report_on_stdout:
        yield
        return
    with _PRINTING.lock:
        _PRINTING.depth += 1
        first = _PRINTING.depth == 1
    if not first:
        try:
            yield
        finally:
            with _PRINTING.lock:
                _PRINTING.depth -= 1
        return
    stream, argv, saved = sys.stdout, sys.argv, None
    with contextlib.suppress(AttributeError, OSError, ValueError):
        if stream.fileno() == 1:
            stream.flush()
            saved = os.dup(1)
            os.dup2(2, 1)
    sys.stdout, sys.argv = sys.stderr, [name]
    try:
        yield
    finally:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()  # what was written to sys.__stdout__
        sys.stdout, sys.argv = stream, argv
        if saved is not None:
            _flush_c()
            os.dup2(saved, 1)
            os.close(saved)
        with _PRINTING.lock:
            _PRINTING.depth -= 1


def _flush_c() -> None:
    """Write out what code in C has printed; only a process that has loaded such code pays for it."""
    if "ctypes" in sys.modules and os.name == "posix":
        import ctypes

        ctypes.CDLL(None).fflush(None)


#: Where flopwise itself lies.
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def is_own(file: str) -> bool:
    """True where a file of code is one of flopwise's."""
    return os.path.abspath(file).startswith(_OWN)


def place_of(error: BaseException) -> str:
    """File and line of the innermost frame of the user's code, as `` (net.py:12)``; "" where there is none.

    Packages that are installed count as the user's code where nothing nearer does; PyTorch, Python's own library and
    flopwise never do.
    """
    import sysconfig
    import traceback

    nearest = installed = ""
    library = sysconfig.get_path("stdlib") + os.sep
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        path = os.path.abspath(file)
        if file.startswith("<") or path.startswith(_OWN):
            continue
        place = f" ({os.path.basename(file)}:{line})"
        folders = path.split(os.sep)
        if not {"site-packages", "dist-packages"}.isdisjoint(folders):
            if f"-packages{os.sep}torch{os.sep}" not in path:
                installed = place
        elif not path.startswith(library):
            nearest = place
    return nearest or installed
