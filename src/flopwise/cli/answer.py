"""Commands that follow from functions: a keyword of the function is an option, its docstring the help.

    command = answer("widest", widest, widest_report, examples=[...], asks={"share": ASK}, options=[options.model])

What an argument may be, its default and what it means stand in the function. ``asks`` says which of them are options,
and how those are spelled that are not simply called as they are.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from flopwise._arguments import annotated, documented
from flopwise.cli import models
from flopwise.cli.command import Choice, Command, Group, option
from flopwise.cli.options import Values, all_of, also
from flopwise.cli.output import Output, write, writes
from flopwise.cli.run import arguments_of, run_each
from flopwise.cli.streams import Progress
from flopwise.errors import InputError
from flopwise.report.formats.format import Kind

if TYPE_CHECKING:
    from flopwise.report.report import Report

#: What an option is made with besides what its argument says: a decorator of ``cli/options``, or one of click's.
Decorator = Callable[[Any], Any]


class Ask(NamedTuple):
    """The spelling of an option, and all else that the signature and docstring of its argument leave open."""

    #: The option; "" for the argument's own name.
    name: str = ""
    metavar: str = ""
    #: From what is typed to the argument; raises InputError.
    read: Callable[[Any], object] | None = None
    #: Whether it may be given several times.
    several: bool = False
    #: A type of click's: bounds of a number, names that the shell completes, files that are read or written.
    type: Any = None
    #: The help, where the command line says more than the docstring.
    help: str = ""
    #: The group of the help text.
    group: Group = option


#: An argument that is spelled as it is called.
ASK = Ask()


def options_of(function: Callable[..., Any], asks: Mapping[str, Ask]) -> Decorator:
    """The options that arguments of a function are on the command line.

    Args:
        function: a public function.
        asks: argument -> how it is asked for, in the order of the help.
    """
    parameters, about = inspect.signature(function).parameters, documented(function)[1]
    return all_of(*(_option(n, a, annotated(function, n), parameters[n].default, about[n]) for n, a in asks.items()))


def _option(name: str, ask: Ask, hint: Any, default: Any, about: str) -> Decorator:
    members = [member for member in typing.get_args(hint) if member is not type(None)]
    if hint is bool:
        kind: dict[str, Any] = {"is_flag": True}
    elif ask.type is not None:
        kind = {"type": ask.type}
    elif typing.get_origin(hint) is typing.Literal:
        kind = {"type": Choice(members)}
    else:
        kind = {"type": next((plain for plain in (int, float) if plain in (hint, *members)), str)}
    if ask.several:
        kind["multiple"] = True
    elif default is not None and hint is not bool:
        kind |= {"default": default, "show_default": True}
    if ask.read is not None:
        kind["callback"] = _reading(name, ask.read)
    spelling, help = ask.name or f"--{name.replace('_', '-')}", ask.help or about
    return ask.group(
        *(spelling, name), metavar=ask.metavar or None, help=f"{help[0].upper()}{help[1:].rstrip('.')}.", **kind
    )


def _reading(name: str, read: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], object]:
    def value_of(context: click.Context, param: click.Parameter, value: Any) -> object:
        typed = value is not None and context.get_parameter_source(name) != click.core.ParameterSource.DEFAULT
        return read(value) if typed else value

    return value_of


def answer(
    name: str,
    function: Callable[..., Any],
    report: Callable[..., Report],
    *,
    examples: Sequence[str],
    options: Sequence[Decorator],
    asks: Mapping[str, Ask] | None = None,
    kinds: Sequence[Kind] = ("sheet", "content"),
    find: Callable[[str], list[str]] = models.find,
    arguments: Callable[[Values], Values] = arguments_of,
    exact: Callable[[Any], bool] | None = None,
    check: Callable[[Values], None] = lambda settings: None,
    files: Mapping[str, tuple[str, Callable[[Any], str]]] | None = None,
    batches: Callable[[Sequence[Any], Sequence[int]], Report] | None = None,
) -> click.Command:
    """The command of a function: MODEL, or every model in it, and a report of each.

    Args:
        name: the command.
        function: model, arguments and ``progress`` -> result.
        report: result, and the options of its own -> report.
        examples: command lines that the help ends with.
        options: the options that several commands share.
        asks: the arguments that are options of this command, and how they are spelled.
        kinds: what the report can be written as.
        find: the models that MODEL names.
        arguments: the arguments that the shared options are; ``arguments_of`` or ``reading_of``.
        exact: result -> whether --strict is content, its docstring when not; None without --strict.
        check: refuses options that do not go together, before anything is read.
        files: option that writes one more file -> its help, and the text of the file for a result.
        batches: the report of one model in several batch sizes; None where there is one size.
    """
    keywords = [key for key in inspect.signature(function).parameters if key not in ("model", "inputs", "progress")]
    shown = list(inspect.signature(report).parameters)[1:]
    files = files or {}

    def call(model: str, output: Output, strict: bool = False, **settings: Any) -> int:
        check(settings)
        sizes: tuple[int, ...] = settings.pop("batch_sizes", None) or ()
        settings["batch_size"] = sizes[0] if len(sizes) == 1 else settings.get("batch_size")
        wanted = {file: settings[file] for file in files if settings[file] is not None}
        for file in wanted:
            models.refuse_directory(model, f"--{file} takes one model")
            if len(sizes) > 1:
                raise InputError(f"--{file} takes one batch size")
        own = {key: settings[key] for key in keywords if settings.get(key) not in (None, ())}
        passed = {**arguments(settings), **own}
        if batches is not None and len(sizes) > 1:
            models.refuse_directory(model, "several batch sizes take one model")
            with Progress() as progress:
                results = [function(model, progress=progress, **{**passed, "batch_size": size}) for size in sizes]
            output.write(batches(results, sizes))
            return 0
        texts: list[tuple[str, str]] = []

        def work(path: str, step: models.Step, dims: Mapping[str, int]) -> tuple[Report, bool]:
            result = function(path, progress=step, **{**passed, "dims": dims})
            texts.extend((files[file][1](result), place) for file, place in wanted.items())
            return report(result, **{key: settings[key] for key in shown}), exact is None or exact(result)

        code = run_each(model, work, output, strict, passed["dims"], find(model))
        for text, place in texts:
            write(text, place)
        return code

    strictly = [] if exact is None else [option("--strict", is_flag=True, help=f"Exit with 1 when {exact.__doc__}.")]
    more = [also(f"--{file}", help) for file, (help, _) in files.items()]
    decorated = all_of(*options, options_of(function, asks or {}), *strictly, writes(*kinds), *more)(call)
    return click.command(name, cls=Command, examples=examples, help=documented(function)[0])(decorated)
