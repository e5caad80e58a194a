"""The cost of steps in the logs of Keras, on its PyTorch backend."""

from __future__ import annotations

import inspect
from typing import Any

from flopwise.api.meter import Meter
from flopwise.errors import InputError
from flopwise.integrations.needs import needed
from flopwise.integrations.steps import Steps

with needed("keras"):
    import keras


class FlopsCallback(keras.callbacks.Callback):  # type: ignore[misc] # Keras is not typed
    """Adds the figures of steps to the logs of each epoch: ``model.fit(callbacks=[FlopsCallback()])``.

    The history has them, and callbacks that come after this one (``CSVLogger``, ``TensorBoard`` ...).
    """

    def __init__(self, **options: Any) -> None:
        """
        Args:
            options: of ``flopwise.Meter``.

        Raises:
            InputError: Keras has another backend than PyTorch.
        """
        super().__init__()
        if keras.backend.backend() != "torch":
            raise InputError(
                f"Keras runs on {keras.backend.backend()}; the meter counts with KERAS_BACKEND=torch alone"
            )
        self.options = options
        self.steps: Steps | None = None
        self._step: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Count each batch before its step runs: Keras calls a model past the hooks of PyTorch."""
        self.steps = Steps(Meter(self.model, **self.options))
        training = "training" in inspect.signature(self.model.call).parameters
        self._step, named = self.model.train_function, {"training": True} if training else {}

        def step(data: Any) -> Any:
            assert self.steps is not None
            inputs, _, _ = keras.utils.unpack_x_y_sample_weight(data[0])
            self.steps.called(self.steps.meter.step(([inputs], named)))
            return self._step(data)

        self.model.train_function = step

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        """The batch is there."""
        if self.steps is not None:
            self.steps.goes_on()

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """The next batch is being waited for."""
        if self.steps is not None:
            self.steps.waits()

    def on_test_begin(self, logs: object = None) -> None:
        """An evaluation begins, whose time does not count."""
        if self.steps is not None:
            self.steps.called(None)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Put the figures into the logs."""
        if self.steps is not None and logs is not None:
            logs.update(self.steps.figures())

    def on_train_end(self, logs: object = None) -> None:
        """Leave the model as it was."""
        self.model.train_function = self._step
        self.steps = None
