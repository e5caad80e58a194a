"""The tabs of the page: the command behind each, the files that it takes, and the options that may be asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from flopwise._results import Json
from flopwise.cli.completion import CONVENTION, DEVICE
from flopwise.errors import InputError

#: Characters of a value at most.
LONGEST = 2000


class Field(NamedTuple):
    """An option of a tab, as the page asks for it."""

    key: str
    #: As the command line calls it.
    option: str
    title: str
    #: "number", "text", "texts" (several, with ";" between them), "choice" or "flag".
    kind: str
    choices: tuple[str, ...] = ()
    #: What the command takes by itself, and what the page begins with where that is not the same.
    default: str = ""
    initial: str = ""
    #: An example, or a few words.
    hint: str = ""

    def words(self, value: str) -> list[str]:
        """The words of the command line for a value of the page; none for an empty one and for the default.

        Raises:
            InputError: the value is none of the choices, names a file, or is too long.
        """
        if value in ("", self.default):
            return []
        if self.kind == "flag":
            return [self.option]
        if self.choices and value not in self.choices:
            raise InputError(f"{self.title}: no {value[:LONGEST]!r}")
        if "@" in value or len(value) > LONGEST:
            raise InputError(f"{self.title}: neither names of files nor more than {LONGEST:,} characters")
        values = value.split(";") if self.kind == "texts" else [value]
        return [f"{self.option}={text.strip()}" for text in values if text.strip()]


class Tab(NamedTuple):
    """A tab of the page; its key is the command behind it."""

    title: str
    #: Kinds of files that it is about (see ``answers.kind``), and of a second one beside it.
    takes: tuple[str, ...]
    fields: tuple[Field, ...]
    beside: tuple[str, ...] = ()
    #: Kinds of the first file that need no second one.
    alone: tuple[str, ...] = ()
    #: Packages without which the command cannot do anything.
    needs: tuple[str, ...] = ()
    #: The sections of its page that are tabs of their own: id -> title.
    sections: Mapping[str, str] = {}

    def words(self, options: Json) -> list[str]:
        """The words of the command line for the values of the fields, by their keys.

        Raises:
            InputError: there is no such field, or a value is refused.
        """
        keys = [field.key for field in self.fields]
        if strangers := [key for key, value in options.items() if key not in keys or not isinstance(value, str)]:
            raise InputError(f"no option {strangers[0][:LONGEST]!r}")
        return [word for field in self.fields for word in field.words(options.get(field.key, ""))]


def _names(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


_CONVENTIONS = _names([name for name, _ in CONVENTION.names()])
_DEVICES = _names([name for name, _ in DEVICE.names()])

_INPUTS = Field("inputs", "--input", "Inputs", "texts", hint="x:f32:1x3x224x224")
_SIZES = (
    _INPUTS,
    Field("batch", "--batch-size", "Batch", "number"),
    Field("dims", "--dim", "Dimensions", "texts", hint="seq=128; past=0"),
)
_CONVENTION = Field("convention", "--convention", "Convention", "choice", _CONVENTIONS, "flops")
_DEVICE = Field("device", "--device", "Device", "choice", _DEVICES)
_TRAIN = Field("train", "--train", "Training step", "flag")
_GRAPHS = ("model", "language")

#: Command -> its tab; "report" is what flopwise has written, which no command reads.
TABS: dict[str, Tab] = {
    "profile": Tab(
        "Profile",
        (*_GRAPHS, "weights"),
        (*_SIZES, _CONVENTION, _TRAIN),
        alone=(*_GRAPHS, "weights"),
        sections={"graph": "Graph"},
    ),
    "memory": Tab(
        "Memory",
        _GRAPHS,
        (*_SIZES, _TRAIN, Field("inplace", "--inplace", "In place", "flag")),
        alone=_GRAPHS,
    ),
    "bound": Tab(
        "Bound",
        _GRAPHS,
        (
            _DEVICE._replace(initial="h100-sxm"),
            Field("dtype", "--dtype", "Type", "text", hint="bf16"),
            *_SIZES,
        ),
        alone=_GRAPHS,
    ),
    "formula": Tab(
        "Formula",
        _GRAPHS,
        (
            _INPUTS._replace(hint="x:f32:N,3,H,W"),
            Field("by", "--by", "By", "choice", ("op", "layer", "module", "block", "formula"), "op"),
            Field("at", "--at", "At", "text", hint="N=1,8 H=224 W=224"),
            Field("solve", "--solve", "Solve", "text", hint="macs <= 1G for N"),
        ),
        alone=_GRAPHS,
        needs=("sympy",),
    ),
    "weights": Tab(
        "Weights",
        (*_GRAPHS, "weights"),
        (Field("by", "--by", "By", "choice", ("layer", "tensor"), "layer"),),
        alone=(*_GRAPHS, "weights"),
        needs=("numpy",),
    ),
    "advise": Tab(
        "Advice",
        _GRAPHS,
        (_DEVICE, *_SIZES, Field("same", "--keep-network", "Same result only", "flag")),
        alone=_GRAPHS,
    ),
    "llm": Tab(
        "Language model",
        ("language",),
        (
            Field("prompt", "--prompt", "Prompt", "number", hint="4096"),
            Field("generate", "--generate", "Generate", "number", hint="256"),
            Field("batch", "--batch-size", "Sequences", "number"),
            _DEVICE,
            Field("tp", "--tp", "Tensor parallel", "number"),
            Field("weights", "--weights", "Weights", "text", hint="int4"),
            Field("cache", "--kv-dtype", "Cache", "text", hint="fp8"),
        ),
        alone=("language",),
    ),
    "trace": Tab(
        "Trace",
        (*_GRAPHS, "trace"),
        (
            Field("by", "--by", "By", "choice", ("layer", "op", "module", "kernel", "step"), "layer"),
            Field("phase", "--phase", "Phase", "choice", ("forward", "backward")),
            _DEVICE,
            *_SIZES,
        ),
        beside=("trace",),
        alone=("trace",),
    ),
    "compare": Tab("Compare", _GRAPHS, (*_SIZES, _CONVENTION), beside=_GRAPHS),
    "report": Tab("Report", ("report",), (), alone=("report",)),
}


def described(without: Collection[str] = ()) -> list[Json]:
    """The tabs for the page.

    Args:
        without: packages that will never be there, nor the tabs that need them.
    """
    return [
        {"command": command, **tab._asdict(), "fields": [field._asdict() for field in tab.fields]}
        for command, tab in TABS.items()
        if not set(tab.needs).intersection(without)
    ]
