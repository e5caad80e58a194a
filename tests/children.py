"""What the children of tests/test_child.py do: importable in another process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time

from flopwise._child import Parent


def echo(*arguments: str) -> None:
    """Every request, with the arguments."""
    parent = Parent()
    for request in parent.requests():
        parent.tell({"request": request, "arguments": list(arguments)})


def end() -> None:
    """A message, then the end."""
    Parent().tell("last")
    sys.exit("no\n\nmemory\n\n")


def print_much() -> None:
    """Much on both standard streams, then a message."""
    parent = Parent()
    for number in range(20_000):
        print('{"no": "message"}', "x" * 100, number)
        os.write(1, b"nor this\n")
    parent.tell("done")
    time.sleep(600)


def write_noise() -> None:
    """Something else than a message, in the place of one."""
    os.write(1, b'{"cut\n')
    time.sleep(600)


def hang() -> None:
    """One message, and no other."""
    Parent().tell("hanging")
    time.sleep(600)


def hold_everything() -> None:
    """Keep the interpreter to itself."""
    for _ in Parent().requests():
        ctypes.PyDLL(None).sleep(600)


def start() -> None:
    """Another process, which outlives whoever does not end it."""
    parent = Parent()
    parent.tell(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
    time.sleep(600)


def crash() -> None:
    """End by a signal that leaves a core where the system is set so."""
    Parent()
    ctypes.string_at(0)


def tell_home() -> None:
    """Where the package was found."""
    import flopwise

    Parent().tell(flopwise.__file__)
    time.sleep(600)
