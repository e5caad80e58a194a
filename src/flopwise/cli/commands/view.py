"""``flopwise view``."""

from __future__ import annotations

import sys
import webbrowser

import click

from flopwise.cli.command import Command, option
from flopwise.cli.places import Model
from flopwise.cli.streams import emit, say


@click.command("view", cls=Command, examples=["", "model.onnx", "old.onnx new.onnx --port 8000 --no-browser"])
@click.argument("models", metavar="[MODEL]...", nargs=-1, type=Model())
@option("--port", type=click.IntRange(0, 65535), default=0, help="Port; default: any that is free.")
@option("--no-browser", is_flag=True, help="Print the address of the page and open nothing.")
def command(models: tuple[str, ...], port: int, no_browser: bool) -> int:
    """A page in the browser on which files are dropped: profile, memory, bound, formula, weights, trace, advice.

    Files stay on this machine: the page is served on the loopback address, and only to those who have its token.
    What is dropped is copied to a temporary folder; a MODEL on the command line is read where it lies. Ctrl-C ends it.
    """
    import gc

    from flopwise.cli.view.server import Server, Viewer

    gc.enable()  # unlike other commands, it runs for long
    viewer = Viewer(models)
    try:
        with Server(viewer, port) as server:
            emit(f"{server.url}\n")
            if sys.stderr.isatty():
                say("files stay on this machine; Ctrl-C ends the page", prefix="")
            if not no_browser:
                webbrowser.open(server.entrance)
            server.serve_forever()
    finally:
        viewer.close()
    return 0
