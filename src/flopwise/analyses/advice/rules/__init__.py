"""The rules of advice: the table is read from top to bottom. The user's own rules are given beside these."""

from __future__ import annotations

from flopwise.analyses.advice.rule import Rule
from flopwise.analyses.advice.rules import networks, operators, work

RULES: tuple[Rule, ...] = (
    work.DEAD_WORK,
    work.REPEATED_WORK,
    work.CONSTANT_WORK,
    work.RECOMPUTED_ROWS,
    work.CAST_PAIRS,
    work.QUANTIZED_MOVES,
    work.LAYOUT,
    operators.NORMALIZATION,
    operators.BATCH_NORM,
    operators.ONE_HOT,
    operators.UPSAMPLING,
    operators.ALL_LOGITS,
    work.UNROLLED,
    operators.MASKED_ATTENTION,
    operators.OVERSIZED_GATHER,
    operators.PADDING_TOKENS,
    networks.TWO_KERNELS,
    networks.ASYMMETRIC_KERNELS,
    networks.SEPARABLE,
    networks.REDUCTION,
    networks.GLOBAL_POOLING,
    networks.EQUAL_CHANNELS,
    networks.GROUPS,
    networks.ELEMENT_WISE,
    networks.CHANNEL_UNIT,
    networks.WHOLE_WAVES,
)
