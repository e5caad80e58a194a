"""The cost of steps in the summaries of timm's training script."""

from __future__ import annotations

from typing import Any

from flopwise.api.meter import Meter
from flopwise.integrations.needs import needed
from flopwise.integrations.steps import Steps

with needed("timm"):
    from timm import utils

#: What timm's script calls its functions by.
_script: Any = utils


def attach(model: object, accumulated: int = 1, **options: Any) -> Steps:
    """The steps of a model, whose figures stand in every line that timm's training script writes.

    In the script ``attach(model)`` stands before the epochs. ``timm.utils.update_summary``, which writes the metrics of
    an epoch into ``summary.csv`` and to W&B, then adds the figures of its steps to them, until ``stop()``.

    Args:
        model: the model, before or after ``torch.compile``.
        accumulated: batches of one step of the optimizer (``--grad-accum-steps``).
        options: of ``flopwise.Meter``.
    """
    steps = _Summary(Meter(model, **options), accumulated)
    steps.start()
    return steps


class _Summary(Steps):
    """Steps whose figures timm writes."""

    def start(self) -> None:
        """Watch the model, and put the figures into summaries."""
        super().start()
        self._write: Any = _script.update_summary
        _script.update_summary = self._update

    def stop(self) -> None:
        """Leave the model and timm as they were."""
        super().stop()
        if _script.update_summary == self._update:
            _script.update_summary = self._write

    def _update(self, epoch: int, train_metrics: dict[str, float], *rest: object, **named: Any) -> None:
        self._write(epoch, {**train_metrics, **self.columns()}, *rest, **named)
