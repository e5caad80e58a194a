"""The command line in this process, for the commands of answers."""

from __future__ import annotations

from tests.cli.conftest import run, tiny

__all__ = ["run", "tiny"]
