"""The cost of steps in the log of MMEngine's runner, and in its visualisation backends."""

from __future__ import annotations

from typing import Any

from flopwise.api.meter import Meter
from flopwise.integrations.needs import needed
from flopwise.integrations.steps import Steps

with needed("mmengine"):
    from mmengine.hooks import Hook  # type: ignore[import-untyped]


class FlopsHook(Hook):  # type: ignore[misc] # MMEngine is not typed
    """Logs the figures of steps: ``Runner(custom_hooks=[FlopsHook()])``."""

    priority = "NORMAL"  # before the LoggerHook, which sends what the message hub holds

    def __init__(self, interval: int = 10, **options: Any) -> None:
        """
        Args:
            interval: iterations between two figures, as of the LoggerHook.
            options: of ``flopwise.Meter``.
        """
        self.interval = interval
        self.options = options
        self.steps: Steps | None = None

    def before_train(self, runner: Any) -> None:
        """Watch the model."""
        accumulated = getattr(runner.optim_wrapper, "_accumulative_counts", 1)
        self.steps = Steps(Meter(runner.model, **self.options), accumulated)
        self.steps.start()

    def before_train_iter(self, *arguments: object, **named: object) -> None:
        """The batch is there."""
        if self.steps is not None:
            self.steps.goes_on()

    def after_train_iter(self, runner: Any, batch_idx: int, *arguments: object, **named: object) -> None:
        """Hand the figures to the log."""
        if self.steps is None:
            return
        if self.every_n_train_iters(runner, self.interval):
            for name, figure in self.steps.figures().items():
                runner.message_hub.update_scalar(f"train/{name}", figure)
        self.steps.waits()

    def after_train(self, runner: object) -> None:
        """Leave the model as it was."""
        if self.steps is not None:
            self.steps.stop()
