"""The rules of advice, a file each: the table is read from top to bottom.

A rule's file holds its ``RULE``. The user's own rules are given beside these.
"""

from __future__ import annotations

from importlib import import_module

from flopwise.analyses.advice.rule import Rule

#: The files of the rules, in the order in which they are listed.
NAMES = (
    "same.dead_work",
    "same.repeated_work",
    "same.constant_work",
    "same.recomputed_rows",
    "same.cast_pairs",
    "same.quantized_moves",
    "same.layout",
    "same.normalization",
    "same.batch_norm",
    "same.one_hot",
    "same.upsampling",
    "same.all_logits",
    "same.unrolled",
    "same.masked_attention",
    "same.oversized_gather",
    "same.padding_tokens",
    "other.two_kernels",
    "other.asymmetric_kernels",
    "other.separable",
    "other.reduction",
    "other.global_pooling",
    "other.equal_channels",
    "other.groups",
    "other.element_wise",
    "other.channel_unit",
    "other.waves",
)


def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the table."""
    return tuple(import_module(f"{__name__}.{name}").RULE for name in NAMES)
