"""``flopwise`` and ``python -m flopwise``: a process that runs one command and ends."""

import os  # Python has both already
import sys

if __name__ == "__main__":
    try:
        if sys.path[0] == os.getcwd():  # put there by python -m: all that follows would be imported from it
            del sys.path[0]
    except OSError:  # it is gone
        pass

import gc
import signal
from types import FrameType
from typing import NoReturn


def main() -> int:
    """Run the command line; the exit code."""
    own = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell's background jobs ignore it
    try:
        if own:
            signal.signal(signal.SIGINT, _interrupted)
        os.environ.setdefault("PYTHONSAFEPATH", "1")  # nor does what libraries start import from the current folder
        gc.disable()  # so short a process makes little garbage, and the search for it takes a tenth of the time
        from flopwise import cli

        if own:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = cli.main()
        if own:
            signal.signal(signal.SIGINT, _interrupted)
    except KeyboardInterrupt:  # between two of these lines
        _interrupted()
    if "duckdb" in sys.modules:
        gc.enable()  # it lists on stderr what the last search, as the interpreter ends, has not found
    else:
        gc.freeze()  # that search would find what the system takes back anyway
    return code


def _interrupted(number: int = 0, frame: FrameType | None = None) -> NoReturn:
    """End at once: before a command has begun and after it has ended, there is nothing to put in order."""
    os.write(2, b"flopwise: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    raise SystemExit(main())
