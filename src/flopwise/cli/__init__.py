"""The command line: parse, call, print. ``answers`` names the commands, each loaded when it is asked for."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import FrameType
from typing import Any

import click

from flopwise import _extensions, _limits
from flopwise._user_code import command_line
from flopwise._version import __version__
from flopwise.answers import ANSWERS
from flopwise.cli import elsewhere
from flopwise.cli.streams import emit, open_closed, say, silence
from flopwise.errors import TRACEBACK, FlopwiseError, InputError, did_you_mean, one_line

#: Exit codes: the answer is "no", and bad usage or unreadable input.
NO, BAD = 1, 2

#: Command -> one line about it.
COMMANDS: dict[str, str] = {name: about for answer in ANSWERS.values() for name, (_, about) in answer.commands.items()}


#: What ``flopwise`` alone prints.
TOUR = f"""\
flopwise {__version__}: what a neural network costs, in every published convention.

  flopwise profile model.onnx                 MACs, FLOPs, params of each layer
  flopwise profile torchvision.models:resnet50 -i 1x3x224x224 --top 10
  flopwise profile model.onnx -o page.html    charts, the graph and a table
  flopwise profile models/                    a line for each model
  flopwise memory model.onnx -b 1,8           weights, activations, their peak
  flopwise table a.onnx b.onnx -f latex       models side by side, for a paper
  flopwise explain MODEL -c fvcore -c thop    why two tools give two numbers
  flopwise compare old.onnx new.onnx          what changed, layer by layer
  flopwise check model.onnx --budget b.toml   a budget in CI
  flopwise bound model.onnx --device h100     the least time on a device
  flopwise llm config.json --device h100      a language model, without weights
  flopwise formula model.onnx                 costs as formulas of the sizes
  flopwise weights model.safetensors          ranges, zeros, histograms

MODEL is .onnx, .pt2, .prototxt, .gguf, config.json, a directory, a URL, or
package.module:callable that makes a PyTorch module, also timm:resnet50,
torchvision:vit_b_16, transformers:bert.

flopwise --help lists all commands; flopwise COMMAND --help ends with examples;
flopwise completion bash completes names.
"""


#: Form of a MODEL -> a line about it, for help; a test holds the endings against the table of formats.
MODELS: dict[str, str] = {
    "model.onnx": "a file or its URL: .onnx, .gguf, .tflite, .lite, .task, .xml, .mlpackage, .mlmodel, .keras, .h5, "
    ".hdf5, .pb, .pt2, .ts, .torchscript, .pte, .etrecord, .mlir, .mlirbc, .mlir.bc, .stablehlo, .prototxt, "
    ".caffemodel, .caffemodel.h5",
    "models/": "a directory: every model in it",
    "timm:resnet50": "a model of timm, torchvision or transformers by its name",
    "my_net.py:make_model": "a callable that makes a PyTorch module; package.module:callable too",
    "net.py:forward": "a function of JAX's, in a file that imports JAX; jax:net.py:forward too",
    "keras.applications:ResNet50": "a callable that makes a Keras model; keras:file.py:callable too",
    "config.json": "a language model: its configuration, its folder, or hf:org/name",
    "model.safetensors": "a file with weights alone: .safetensors, .safetensors.index.json, .bin, .bin.index.json, "
    ".gguf, .npz, .npy, .pt, .pth, .ckpt",
}


#: The limits with their defaults, for help.
_DEFAULTS = ", ".join(f"{name}={default:.15g}" for name, default in _limits.Limits._field_defaults.items())


def module_of(command: str) -> str:
    """The module that holds a command.

    >>> module_of("memory")
    'flopwise.answers.memory.command'
    """
    return next(f"flopwise.{a.commands[command][0]}" for a in ANSWERS.values() if command in a.commands)


@contextlib.contextmanager
def _until_closed() -> Iterator[None]:
    """The reader of a pipe that has seen enough ends the program quietly; click makes of it a SystemExit(1)."""
    try:
        yield
    except BrokenPipeError:
        silence(sys.stdout)
        raise click.exceptions.Exit(0) from None


class _Commands(click.Group):
    """A group that imports a command only when it is used, so that ``--help`` costs nothing."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _until_closed():  # --help and --version print here
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _until_closed():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_installed_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = elsewhere.COMMANDS.get(elsewhere.hyphens(cmd_name), cmd_name)
        if cmd_name not in COMMANDS:
            return _extensions.load("commands", cmd_name, click.Command) if cmd_name in _installed_commands() else None
        try:
            command: click.Command = import_module(module_of(cmd_name)).command
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("flopwise.formats."):
                raise
            raise InputError(f"{cmd_name}: needs {error.name}, which this installation of flopwise lacks") from None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        with formatter.section("MODEL is one of"):
            formatter.write_dl([*MODELS.items(), *_installed_forms()])
        if installed := _installed_commands():
            with formatter.section("Commands of other packages"):
                formatter.write_dl([(name, _about(name)) for name in installed])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        meant = elsewhere.command_line(args)
        if meant[1:3] == ["-c", "benanza"] and meant[0] != args[0]:
            say(f"note: {args[0]} is {' '.join(meant[:3])}")
        return super().parse_args(ctx, meant)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[:1] == ["help"]:
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            return self.resolve_command(ctx, [*elsewhere.command_line([args[1]])[:1], "--help"])
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and args[0] not in _installed_commands():
            if meant := elsewhere.MEANT.get(args[0].lower()):
                hint = f"; did you mean {meant!r}?"
            elif hint := did_you_mean(args[0], COMMANDS):
                pass
            elif os.path.exists(args[0]):
                hint = f"; to profile the model: flopwise profile {args[0]}"
            else:
                hint = f"; commands: {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


def _installed_commands() -> list[str]:
    """The commands that other packages add."""
    return [name for name in _extensions.names("commands") if name not in COMMANDS]


def _installed_forms() -> list[tuple[str, str]]:
    """The endings of models that other packages read, with a line about each package's format."""
    forms = []
    for name in _extensions.names("formats"):
        from flopwise.formats.format import Format

        try:
            format = _extensions.load("formats", name, Format)
            forms += [(f"model{ending}", format.models) for ending in format.endings]
        except InputError as error:
            forms.append((name, str(error)))
    return forms


def _about(name: str) -> str:
    """One line about a command of another package; what is wrong with it, where it does not load."""
    try:
        return _extensions.load("commands", name, click.Command).get_short_help_str(80)
    except InputError as error:
        return str(error)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 120,
        "token_normalize_func": elsewhere.hyphens,
    },
    epilog="Exit codes: 0 done, 1 the answer is no (--strict, --fail-on, check), 2 bad usage or unreadable input.",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=VALUE",
    multiple=True,
    help=f"What a model may cost to read before it is refused: {_DEFAULTS}. Repeatable.",
)
@click.version_option(__version__, "-V", "--version", message="flopwise %(version)s")
@click.pass_context
def cli(context: click.Context, limits: tuple[str, ...]) -> None:
    """The cost of a neural network, exactly, in every published counting convention."""
    if limits:
        context.with_resource(_limits.limits(**dict(text.partition("=")[::2] for text in limits)))
    if context.invoked_subcommand is None:
        emit(TOUR)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. An error is one line on stderr, never a traceback."""
    open_closed()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")  # it warns of speed and of training, on stderr
    try:
        with command_line(), _interrupts():
            result = cli.main(args=argv, prog_name="flopwise", standalone_mode=False)
    except (FlopwiseError, SystemExit, MemoryError, RecursionError) as error:
        return _refuse(one_line(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return BAD
    except click.NoSuchOption as error:
        where = error.ctx.command_path if error.ctx else "flopwise"
        near = did_you_mean(error.option_name, error.possibilities or ())
        return _refuse(f"{error.message.rstrip('.')}{near} (see {where} --help)")
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "flopwise"
        return _refuse(f"{error.format_message().rstrip('.')} (see {where} --help)")
    except click.ClickException as error:
        return _refuse(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return _refuse("interrupted", 130)
    except Exception as error:  # 1 is an answer, and no crash may look like one
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF):
            silence(sys.stdout)
            return _refuse(f"standard output cannot be written ({error.strerror})")
        if os.environ.get(TRACEBACK):
            raise
        return _refuse(one_line(error))
    return result if isinstance(result, int) else 0


@contextlib.contextmanager
def _interrupts() -> Iterator[None]:
    """Ctrl-C is itself, whatever error Python or a library that is cut off makes of it; so is an end that the system
    asks for, before which folders for a while are removed and children ended."""
    happened = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal happened
        happened = True
        raise KeyboardInterrupt

    before: dict[signal.Signals, object] = {}
    if threading.current_thread() is threading.main_thread():
        ends = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
        usual = (signal.default_int_handler, signal.SIG_DFL)
        before = {end: handler for end in ends if (handler := signal.getsignal(end)) in usual}
    for end in before:
        signal.signal(end, interrupt)
    try:
        yield
    except BaseException as error:
        if happened:
            raise KeyboardInterrupt from error
        raise
    finally:
        for end, own in before.items():
            signal.signal(end, own)  # type: ignore[arg-type] # as it was


def _refuse(message: str, code: int = BAD) -> int:
    say(message)
    return code
