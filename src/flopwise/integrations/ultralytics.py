"""The cost of steps in the results of Ultralytics' trainers."""

from __future__ import annotations

from typing import Any

import ultralytics  # noqa: F401 # the callbacks are those of its trainers

from flopwise.api.meter import Meter
from flopwise.integrations.steps import Steps


def attach(model: Any, **options: Any) -> None:
    """Figures of the batches of each epoch in ``results.csv`` and in the loggers of a trainer.

    They stand beside the learning rates. The network is counted, forward and backward; its loss is not, whose work
    hangs on how many boxes the images of a batch have.

    Args:
        model: a ``YOLO`` or another model of Ultralytics', or a trainer, before ``train()``.
        options: of ``flopwise.Meter``.
    """
    log = _Log(options)
    for event in ("train_start", "train_batch_start", "train_batch_end", "train_epoch_end", "train_end"):
        model.add_callback(f"on_{event}", getattr(log, event))


class _Log:
    """The steps of a trainer."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.steps: Steps | None = None

    def train_start(self, trainer: Any) -> None:
        """Watch the model."""
        self.steps = Steps(Meter(trainer.model, **self.options), batch=_images)
        self.steps.start()

    def train_batch_start(self, trainer: Any) -> None:
        """The batch is there."""
        if self.steps is not None:
            self.steps.goes_on()

    def train_batch_end(self, trainer: Any) -> None:
        """The next batch is being waited for."""
        if self.steps is not None:
            self.steps.waits()

    def train_epoch_end(self, trainer: Any) -> None:
        """Put the figures where the trainer logs this epoch."""
        if self.steps is not None:
            trainer.lr.update(self.steps.columns())

    def train_end(self, trainer: Any) -> None:
        """Leave the model as it was."""
        if self.steps is not None:
            self.steps.stop()


def _images(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The images of a batch, with which the network inside computes."""
    return args[0]["img"] if args and isinstance(args[0], dict) else (args, kwargs)
