"""The cost of steps in the loggers of Lightning."""

from __future__ import annotations

import functools
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from flopwise.api.meter import Meter
from flopwise.api.profile import profile
from flopwise.errors import InputError
from flopwise.integrations.needs import needed
from flopwise.integrations.steps import Steps
from flopwise.profiles.profile import Profile

#: Lightning has two packages with classes of their own: the one that the program has imported counts.
_LOADED = next((name for name in ("lightning", "pytorch_lightning") if name in sys.modules), "")
_NAME = _LOADED or ("lightning" if find_spec("lightning") else "pytorch_lightning")
with needed("lightning", "pytorch_lightning"):
    _PACKAGE: Any = import_module("lightning.pytorch" if _NAME == "lightning" else _NAME)
_Callback: Any = _PACKAGE.Callback
_Summary: Any = import_module(f"{_PACKAGE.__name__}.utilities.model_summary").ModelSummary
_SummaryCallback: Any = import_module(f"{_PACKAGE.__name__}.callbacks").ModelSummary


class Summary(_Summary):  # type: ignore[misc]
    """Lightning's summary of a module with ``example_input_array``, whose FLOPs are exact.

    Lightning's own are those of PyTorch's FlopCounterMode: products alone. These have every operation.
    """

    @functools.cached_property
    def _profile(self) -> Profile | None:
        inputs = self._model.example_input_array
        return None if inputs is None else profile(self._model, inputs)

    @property
    def total_flops(self) -> int:
        """FLOPs of a forward pass; 0 without an example."""
        return 0 if self._profile is None else int(self._profile.total("flops") or 0)

    @property
    def flop_counts(self) -> dict[str, dict[str, int]]:
        """FLOPs by layer and operator."""
        counts: dict[str, dict[str, int]] = {name: {} for name in self.layer_names}
        for row in () if self._profile is None else self._profile.rows:
            for name, own in counts.items():
                if any(module.path == name for module in row.node.scope):
                    own[row.node.op] = own.get(row.node.op, 0) + (row.flops or 0)
        return counts


class FlopsSummary(_SummaryCallback):  # type: ignore[misc]
    """The summary before training, with exact FLOPs: ``Trainer(callbacks=[FlopsSummary(max_depth=2)])``."""

    def _summary(self, trainer: object, pl_module: object) -> object:
        return Summary(pl_module, max_depth=self._max_depth)


class FlopsCallback(_Callback):  # type: ignore[misc]
    """Logs the figures of steps: ``Trainer(callbacks=[FlopsCallback()])``."""

    def __init__(self, module: str | None = None, **options: Any) -> None:
        """
        Args:
            module: the path of the module whose calls are counted; None: the LightningModule where it has a
                ``forward``, else its only submodule.
            options: of ``flopwise.Meter``.
        """
        self.module = module
        self.options = options
        self.steps: Steps | None = None
        self._told = False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Watch the module.

        Raises:
            InputError: it is not clear which module is meant.
        """
        self.steps = Steps(Meter(self._counted(pl_module), **self.options), trainer.accumulate_grad_batches)
        self.steps.start()

    def _counted(self, pl_module: Any) -> object:
        if self.module is not None:
            return pl_module.get_submodule(self.module)
        if type(pl_module).forward is not _PACKAGE.LightningModule.forward:
            return pl_module
        children = [child for child in pl_module.children() if next(child.parameters(), None) is not None]
        if len(children) != 1:
            raise InputError(f"{type(pl_module).__name__} has no forward(): FlopsCallback(module=...) names its model")
        return children[0]

    def on_train_batch_start(self, *arguments: object, **named: object) -> None:
        """The batch is there."""
        if self.steps is not None:
            self.steps.goes_on()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *arguments: object, **named: object) -> None:
        """Log the figures where the trainer logs this step."""
        if self.steps is None:
            return
        if trainer._logger_connector.should_update_logs:
            figures = self.steps.figures()
            if figures:
                pl_module.log_dict(figures, on_step=True, on_epoch=False)
        if self.steps.last is None and not self._told:
            self._told = True
            paths = ", ".join(path for path, _ in pl_module.named_children())
            what = f"flopwise counts calls of {self.module or type(pl_module).__name__}, and training_step makes none"
            warnings.warn(f"{what}: FlopsCallback(module=...) names what it calls ({paths})", stacklevel=2)
        self.steps.waits()

    def on_train_end(self, trainer: object, pl_module: object) -> None:
        """Leave the module as it was."""
        if self.steps is not None:
            self.steps.stop()
