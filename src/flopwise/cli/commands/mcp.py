"""``flopwise mcp``."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn

import click

from flopwise.cli.command import Command, option
from flopwise.cli.streams import emit, say


@click.command("mcp", cls=Command, examples=["", "--trust-code", "--tools"])
@option(
    "--trust-code", is_flag=True, help="Let agents name models that are code: package.module:callable, TorchScript."
)
@option("--tools", is_flag=True, help="Print the tools with their arguments, and end.")
def command(trust_code: bool, tools: bool) -> int:
    """A server of the Model Context Protocol on standard input and output, for an agent to start.

    Its tools answer with the JSON documents of the commands of the same names. They read models and write nothing.
    """
    if tools:
        from flopwise.agents.tools import TOOLS

        for name, tool in TOOLS.items():
            emit(f"{name}: {tool.about}\n    {', '.join(tool.schema['properties'])}\n")
        return 0
    import gc

    from flopwise.agents.server import serve

    gc.enable()  # unlike other commands, it runs for long
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupted)
    serve(trust_code)
    return 0


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """End at once: the thread that waits for the next request would hold up anything else."""
    say("interrupted")
    os._exit(130)
