"""``flopwise`` and ``python -m flopwise``: a process that runs one command and ends."""

from __future__ import annotations

import gc
import sys

gc.disable()  # so short a process makes little garbage, and the search for it takes a tenth of the time

from flopwise import cli  # noqa: E402 - what is imported is not searched either


def main() -> int:
    """Run the command line; the exit code."""
    code = cli.main()
    if "duckdb" in sys.modules:
        gc.enable()  # it lists on stderr what the last search, as the interpreter ends, has not found
    else:
        gc.freeze()  # that search would find what the system takes back anyway
    return code


if __name__ == "__main__":
    raise SystemExit(main())
