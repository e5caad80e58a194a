"""Names that people bring from other tools: Benanza's commands and options, onnx-tool's whole command lines.

They work and are not in the help: ``flopsinfo -p model.onnx`` is ``flops model.onnx -c benanza``, and ``-i model.onnx
-o shapes.onnx`` is ``shapes model.onnx -o shapes.onnx``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from flopwise.errors import InputError

#: Command of another tool -> ours.
COMMANDS: dict[str, str] = {
    "flopsinfo": "flops",
    "weightsinfo": "weights",
    **dict.fromkeys(("layersinfo", "layerstats"), "layers"),
    "benchinfo": "bound",
}

#: Commands of Benanza whose figures or names are those of its convention unless another is asked for.
OF_BENANZA = ("flopsinfo", "weightsinfo", "layersinfo", "layerstats")

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
MODEL = ("-p", "--model-path", "--model-dir", "--in")

#: Options of other tools -> ours, where a command has that.
OPTIONS: dict[str, str] = {
    **dict.fromkeys(("-d", "--dynamic-shapes", "--dynamic-inputs"), "--input"),
    **dict.fromkeys(("--output-file", "--output-path"), "--output"),
    "--out": "--output",
    "--num-buckets": "--bins",
    "--names": "--tensors",
}

#: Flags of other tools -> ours.
FLAGS: dict[str, str] = {"-n": "--no-header"}

#: The format of other tools that is chosen by the file, as ours is without ``-f``.
AUTOMATIC = "automatic"

#: An input as onnx-tool takes several after one option: name:dtype:shape.
_INPUT = re.compile(r"[^:]+:\w+:-?[\dx]+(:.*)?", re.DOTALL)

#: The options with which a command line of onnx-tool begins.
_ONNX_TOOL = ("-i", "--in", "-m", "--mode", "-o", "--out")


def hyphens(name: str) -> str:
    """The name of an option or a command with hyphens where other tools have underscores."""
    return name.replace("_", "-") if len(name) > 2 else name


def command_line(arguments: Sequence[str]) -> list[str]:
    """The arguments of the program, with ours in place of the commands of other tools.

    >>> command_line(["flopsinfo", "-p", "m.onnx"])
    ['flops', '-c', 'benanza', '-p', 'm.onnx']
    >>> command_line(["-i", "m.onnx", "--names", "a", "b", "-o", "s.onnx"])
    ['shapes', '--in', 'm.onnx', '--names', 'a', 'b', '-o', 's.onnx']
    """
    if not arguments:
        return []
    first, *rest = arguments
    name = hyphens(first)
    if name in COMMANDS:
        named = any(text in ("-c", "--convention") or text.startswith(("-c", "--convention=")) for text in rest)
        return [COMMANDS[name], *(["-c", "benanza"] if name in OF_BENANZA and not named else []), *rest]
    if first.partition("=")[0] in _ONNX_TOOL and not {"-i", "--in"}.isdisjoint(arguments):
        return _onnx_tool(arguments)
    return list(arguments)


def _onnx_tool(arguments: Sequence[str]) -> list[str]:
    """A command line of onnx-tool: ``shapes`` where it writes a model or makes tensors outputs, else ``profile``."""
    texts: list[str] = []
    mode = ""
    pending = iter(arguments)
    for text in pending:
        option, equals, value = text.partition("=")
        if option in ("-m", "--mode"):
            mode = value if equals else next(pending, "")
        else:
            texts.append("--in" if text == "-i" else text)
    if mode not in ("", "profile", "shape_infer"):
        raise InputError(f"--mode {mode}: is not done here; known: profile, shape_infer")
    places = [at + 1 for at, text in enumerate(texts) if text in ("-o", "--out", "--output")]
    written = any(texts[at : at + 1] and texts[at].lower().endswith(".onnx") for at in places)
    if mode != "profile" and (written or mode == "shape_infer" or "--names" in texts):
        return ["shapes", *texts]
    return ["profile", "-c", "onnx-tool", *texts]


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


def _without_automatic(arguments: Sequence[str]) -> list[str]:
    """The arguments without the format that is chosen by the file."""
    texts: list[str] = []
    for text in arguments:
        if text in (f"-f{AUTOMATIC}", f"--format={AUTOMATIC}"):
            continue
        if text == AUTOMATIC and texts[-1:] in (["-f"], ["--format"]):
            texts.pop()
            continue
        texts.append(text)
    return texts


def _translated(arguments: Sequence[str], own: Sequence[str], model: bool) -> Iterator[str]:
    several = ""
    pending = iter(_without_automatic(arguments))
    for text in pending:
        if text == "--":
            yield from (text, *pending)
            return
        if (several == "--input" and _INPUT.fullmatch(text)) or (several == "--tensors" and text[:1] != "-"):
            yield from (several, text)
            continue
        option, equals, value = text.partition("=") if text.startswith("--") else (text, "", "")
        option = hyphens(option) if option.startswith("-") else option
        meaning, several = _meaning(option, own, model), ""
        if meaning is None or meaning in FLAGS.values():
            yield meaning or text
            continue
        given = value if equals else next(pending, None)
        directory = option == "-d" and model and given is not None and not _INPUT.fullmatch(given)
        if meaning and not directory:  # Benanza's -d is a directory of models, onnx-tool's takes inputs
            several = meaning
            yield meaning
        if given is not None:
            yield given
        elif not meaning:
            yield text


def _meaning(option: str, own: Sequence[str], model: bool) -> str | None:
    """Our option for one of another tool; "" where its value is the model, None where there is nothing to translate."""
    if option in own:
        return None
    if FLAGS.get(option) in own:
        return FLAGS[option]
    if option in MODEL and model:
        return ""
    return OPTIONS[option] if OPTIONS.get(option) in own else None
