"""The cost of steps in the results of Ultralytics' trainers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flopwise.api.meter import Meter
from flopwise.api.profile import profile
from flopwise.formats.options import TorchOptions
from flopwise.integrations.needs import needed
from flopwise.integrations.steps import Steps

with needed("ultralytics"):
    from ultralytics.engine.model import Model
    from ultralytics.utils import LOGGER
    from ultralytics.utils import torch_utils as tool


def attach(model: Any, **options: object) -> None:
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


def model_info(
    model: Any, detailed: bool = False, verbose: bool = True, imgsz: int | Sequence[int] = 640
) -> tuple[int, int, int, float] | None:
    """Layers, parameters, gradients, and exact GFLOPs of an image, below the text of ``model.info()``.

    Ultralytics' own GFLOPs are twice the MACs of the modules that its fork of thop has a rule for.

    Args:
        model: a module, or a ``YOLO`` with one.
        detailed: whether each layer is printed.
        verbose: whether anything is printed; else the result is None, as there.
        imgsz: height and width of the image, or both in one.

    Raises:
        ModelError: the model fails with such an image.
    """
    import torch

    net = model.model if isinstance(model, Model) else model
    printed = tool.model_info(net, detailed, verbose, imgsz)
    if printed is None:
        return None
    weight = next(net.parameters())
    sides = [imgsz, imgsz] if isinstance(imgsz, int) else list(imgsz)
    image = torch.empty(1, weight.shape[1], *sides, dtype=weight.dtype, device=weight.device)
    counted = profile(net, image, options=TorchOptions(mode="eval"))
    flops = counted.total("flops") / 1e9
    LOGGER.info(f"exact: {flops:,.2f} GFLOPs, {counted.total('macs') / 1e9:,.2f} GMACs of products (flopwise)")
    return printed[0], printed[1], printed[2], flops


class _Log:
    """The steps of a trainer."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.steps: Steps | None = None

    def train_start(self, trainer: Any) -> None:
        """Watch the model."""
        self.steps = Steps(Meter(trainer.model, **self.options), batch=_images)
        self.steps.start()

    def train_batch_start(self, trainer: object) -> None:
        """The batch is there."""
        if self.steps is not None:
            self.steps.goes_on()

    def train_batch_end(self, trainer: object) -> None:
        """The next batch is being waited for."""
        if self.steps is not None:
            self.steps.waits()

    def train_epoch_end(self, trainer: Any) -> None:
        """Put the figures where the trainer logs this epoch."""
        if self.steps is not None:
            trainer.lr.update(self.steps.columns())

    def train_end(self, trainer: object) -> None:
        """Leave the model as it was."""
        if self.steps is not None:
            self.steps.stop()


def _images(args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """The images of a batch, with which the network inside computes."""
    return args[0]["img"] if args and isinstance(args[0], dict) else (args, kwargs)
