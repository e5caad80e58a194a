"""``flopwise completion``."""

from __future__ import annotations

import click

from flopwise.cli.command import Choice, Command
from flopwise.cli.streams import emit

#: Shell -> the line that turns completion on, and the file that it belongs in.
LINES = {
    "bash": ('eval "$(flopwise completion bash)"', "~/.bashrc"),
    "zsh": ('eval "$(flopwise completion zsh)"', "~/.zshrc, after compinit"),
    "fish": ("flopwise completion fish | source", "~/.config/fish/config.fish"),
}


@click.command("completion", cls=Command, examples=["bash", "zsh", "fish"])
@click.argument("shell", metavar="SHELL", type=Choice(list(LINES)))
def command(shell: str) -> int:
    """The script that lets a SHELL (bash, zsh or fish) complete commands, options and names.

    \b
    bash (4.4 or newer), in ~/.bashrc:  eval "$(flopwise completion bash)"
    zsh, in ~/.zshrc after compinit:    eval "$(flopwise completion zsh)"
    fish, in config.fish:               flopwise completion fish | source
    """
    from click.shell_completion import get_completion_class

    from flopwise.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    emit(kind(cli, {}, "flopwise", "_FLOPWISE_COMPLETE").source() + "\n")
    return 0
