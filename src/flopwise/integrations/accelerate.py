"""The cost of steps in the trackers of Accelerate."""

from __future__ import annotations

from typing import Any

from flopwise.api.meter import Meter
from flopwise.integrations.steps import Steps

#: The element types of Accelerate's mixed precisions.
_ROUNDED = {"bf16": "bfloat16", "fp16": "float16", "fp8": "float8e4m3fn"}


def rounded(accelerator: Any) -> str | None:
    """The element type that an accelerator rounds products to, in a context inside of the model; None: as it is."""
    return _ROUNDED.get(accelerator.mixed_precision)


def attach(accelerator: Any, model: object, **options: Any) -> Meter:
    """The meter of a model, whose figures stand in everything that ``accelerator.log`` sends to trackers.

    Args:
        accelerator: an ``accelerate.Accelerator``.
        model: what ``accelerator.prepare`` gave.
        options: of ``flopwise.Meter``.
    """
    meter = Meter(model, **{"dtype": rounded(accelerator), **options})
    steps = Steps(meter, accelerator.gradient_accumulation_steps)
    log, end = accelerator.log, accelerator.end_training

    def logged(values: dict[str, Any], *rest: object, **named: Any) -> None:
        log({**values, **steps.figures()}, *rest, **named)

    def ended(*arguments: object, **named: Any) -> None:
        steps.stop()
        end(*arguments, **named)

    accelerator.log, accelerator.end_training = logged, ended
    steps.start()
    return meter
