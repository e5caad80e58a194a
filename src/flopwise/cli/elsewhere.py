"""Names that people bring from other tools: Benanza's commands and options, onnx-tool's inputs.

They work and are not in the help: ``flopsinfo -p model.onnx`` is ``flops model.onnx``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

#: Command of another tool -> ours.
COMMANDS: dict[str, str] = {
    "flopsinfo": "flops",
    "weightsinfo": "weights",
    **dict.fromkeys(("layersinfo", "layerstats"), "layers"),
    "benchinfo": "bound",
}

#: What people call a command that goes by another name: only for the question whether they meant it.
MEANT: dict[str, str] = {
    **dict.fromkeys(("count", "macs"), "flops"),
    **dict.fromkeys(("summary", "info", "stats"), "profile"),
    "diff": "compare",
    "peak": "memory",
    **dict.fromkeys(("time", "benchmark"), "bench"),
    **dict.fromkeys(("latency", "roofline", "energy", "power", "mfu"), "bound"),
    "budget": "check",
    "params": "weights",
    "graph": "layers",
    "ops": "operators",
    "why": "explain",
}

#: Options of another tool that name the model.
MODEL = ("-p", "--model-path")

#: Options of other tools -> ours, where a command has that.
OPTIONS: dict[str, str] = {
    **dict.fromkeys(("-d", "--dynamic-shapes"), "--input"),
    **dict.fromkeys(("--output-file", "--output-path"), "--output"),
    "--num-buckets": "--bins",
}

#: An input as onnx-tool takes several after one option: name:dtype:shape.
_INPUT = re.compile(r"[^:]+:\w+:[\dx]+(:.*)?", re.DOTALL)


def hyphens(name: str) -> str:
    """The name of an option or a command with hyphens where other tools have underscores."""
    return name.replace("_", "-") if len(name) > 2 else name


def translated(arguments: Sequence[str], own: Sequence[str], model: bool) -> list[str]:
    """The arguments of a command with ours in place of the names that other tools use.

    Args:
        arguments: what was typed after the command.
        own: the options that the command has, which win.
        model: whether the command takes a model.

    >>> translated(["-p", "m.onnx", "-d", "x:f32:1x3", "y:f32:2", "--top", "3"], ["--input", "--top"], True)
    ['m.onnx', '--input', 'x:f32:1x3', '--input', 'y:f32:2', '--top', '3']
    """
    return list(_translated(arguments, own, model))


def _translated(arguments: Sequence[str], own: Sequence[str], model: bool) -> Iterator[str]:
    several = False
    pending = iter(arguments)
    for text in pending:
        if text == "--":
            yield from (text, *pending)
            return
        option, equals, value = text.partition("=") if text.startswith("--") else (text, "", "")
        option = hyphens(option) if option.startswith("-") else option
        meant = OPTIONS.get(option, "")
        if option in MODEL and model and option not in own:
            several = False
            yield value if equals else next(pending, text)
        elif meant in own and option not in own:
            several = meant == "--input"
            yield meant
            if equals:
                yield value
            elif (following := next(pending, None)) is not None:
                yield following
        elif several and _INPUT.fullmatch(text):
            yield from ("--input", text)
        else:
            several = False
            yield text
