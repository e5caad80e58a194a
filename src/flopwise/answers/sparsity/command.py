"""``flopwise sparsity``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise.answers.sparsity.asking import sparsity_query
from flopwise.answers.sparsity.report import sparsity_report
from flopwise.answers.sparsity.sparsity import sparsity
from flopwise.cli import models, options
from flopwise.cli.answer import ASK, Ask, answer
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.answers.sparsity.model import Sparsity


def _ranks(value: str) -> tuple[int, ...] | None:
    if value == "all":
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 3 for part in parts):
        raise InputError(f"--ranks: {value!r} is neither a list of ranks, such as 2,4, nor all")
    return tuple(map(int, parts))


def _exact(result: Sparsity) -> bool:
    """the zeros of a weight or the MACs of a layer are unknown"""
    return result.exact


def _check(settings: options.Values) -> None:
    if settings["tensors"] and settings["by"] == "layer":
        raise InputError("--tensor reads single weights, and --by layer needs all of them")
    thresholds = ("blocks", "patterns", "min_size", "min_ratio", "tolerance", "ranks", "order")
    sparsity_query(**{key: settings[key] for key in thresholds})  # before anything is read


command = answer(
    "sparsity",
    sparsity,
    sparsity_report,
    examples=["model.onnx", "model.onnx --block 1x4,4x1 --pattern 2:4", "model.onnx --by layer --top 10"],
    options=[
        options.model,
        options.by("tensor", "layer", help="One line for each weight or layer."),
        options.top("Show the N weights or layers with the most zeros."),
        options.units,
    ],
    asks={
        "blocks": Ask("--block", "RxC,...", several=True, help="Count zero blocks of R rows and C columns."),
        "patterns": Ask(
            "--pattern", "N:M,...", several=True, help="Test N:M patterns along the reduction, such as 2:4."
        ),
        "order": ASK,
        "tensors": Ask("--tensor", several=True, help="Read this weight only. Repeatable."),
        "min_size": ASK,
        "min_ratio": ASK,
        "tolerance": ASK,
        "ranks": Ask(metavar="N,...", read=_ranks),
    },
    find=models.find_stored,
    exact=_exact,
    check=_check,
)
