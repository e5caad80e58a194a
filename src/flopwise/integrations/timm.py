"""The cost of steps in the summaries of timm's training script."""

from __future__ import annotations

from typing import Any

import timm  # noqa: F401 # the loop is that of its script

from flopwise.api.meter import Meter
from flopwise.integrations.steps import Steps


def attach(model: object, accumulated: int = 1, **options: Any) -> Steps:
    """The steps of a model, whose ``columns()`` are the figures since the last call.

    In timm's script ``flops = attach(model)`` stands before the epochs, and ``train_metrics.update(flops.columns())``
    after each: ``timm.utils.update_summary`` writes them into ``summary.csv``, and to W&B.

    Args:
        model: the model, before or after ``torch.compile``.
        accumulated: batches of one step of the optimizer (``--grad-accum-steps``).
        options: of ``flopwise.Meter``.
    """
    steps = Steps(Meter(model, **options), accumulated)
    steps.start()
    return steps
