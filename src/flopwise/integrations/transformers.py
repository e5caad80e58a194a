"""The cost of steps in the logs of a ``transformers.Trainer``, and its ``total_flos`` as they are."""

from __future__ import annotations

from typing import Any

from flopwise.api.meter import Meter
from flopwise.integrations.accelerate import rounded
from flopwise.integrations.needs import needed
from flopwise.integrations.steps import Steps

with needed("transformers"):
    from transformers import TrainerCallback


def attach(trainer: Any, **options: Any) -> Meter:
    """The meter of a trainer's model, whose figures stand in every line of its log with a loss.

    They are in ``state.log_history`` and wherever the trainer reports to (TensorBoard, W&B, MLflow ...).
    ``state.total_flos`` becomes the sum of what forward and backward passes cost.

    Args:
        trainer: a ``transformers.Trainer``, before ``train()``.
        options: of ``flopwise.Meter``.
    """
    meter = Meter(trainer.model, **{"dtype": rounded(trainer.accelerator), **options})
    steps = Steps(meter, trainer.args.gradient_accumulation_steps)
    log = trainer.log

    def logged(logs: dict[str, float], *rest: object, **named: Any) -> None:
        log({**logs, **steps.figures()} if "loss" in logs else logs, *rest, **named)

    trainer.log = logged
    trainer.floating_point_ops = lambda inputs: 0 if steps.last is None else steps.last.flops
    trainer.add_callback(_Callback(trainer, steps))
    return meter


class _Callback(TrainerCallback):
    def __init__(self, trainer: Any, steps: Steps) -> None:
        self.trainer = trainer
        self.steps = steps

    def on_train_begin(self, *arguments: object, **named: object) -> None:
        self.steps.meter.model = self.trainer.model_wrapped  # torch.compile's, past which the model's hooks are
        self.steps.start()

    def on_prediction_step(self, *arguments: object, **named: object) -> None:
        self.steps.called(None)

    def on_train_end(self, *arguments: object, **named: object) -> None:
        self.steps.stop()

    def on_step_begin(self, *arguments: object, **named: object) -> None:
        self.steps.goes_on()

    def on_step_end(self, *arguments: object, **named: object) -> None:
        self.steps.waits()
