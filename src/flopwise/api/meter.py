"""``flopwise.Meter``: the exact cost of each batch of a training loop."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flopwise._arguments import checked
from flopwise._kinds import described
from flopwise.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from flopwise.analyses.meter.cost import Cost
    from flopwise.analyses.meter.rates import Rates
    from flopwise.analyses.meter.watch import Batch, Watch
    from flopwise.analyses.timing.device import Device

#: Costs of calls that stand apart before they are added up.
_APART = 1 << 10


class Meter:
    """The exact cost of the batches of a PyTorch model, from their shapes.

    The first batch derives the model's formula, which takes seconds and is kept on disk; each further one costs
    microseconds. Where no formula holds, a batch is profiled, once for each new shape; ``Cost.how`` and ``notes`` say
    so. ``with meter:`` counts each call of the model, and adds them up.
    """

    @checked
    def __init__(
        self,
        model: object,
        example_inputs: object = None,
        *,
        train: bool = True,
        device: str | None = None,
        dtype: str | None = None,
        devices: int = 1,
        keep: bool = True,
        ignore: Sequence[str] = (),
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """
        Args:
            model: the module, perhaps compiled or spread over devices. Weights may be frozen and thawed between
                batches; after modules were put in place of others, make a new meter.
            example_inputs: a batch as the model is called with it: a tensor, a sequence of arguments, a mapping, or a
                pair of both; None: the first batch is the example.
            train: whether a batch costs a forward and a backward pass, as in ``flopwise.profile(train=True)``.
            device: the device whose peak rates are shares of, by a name of ``flopwise devices``; None: the one that
                holds the model.
            dtype: the element type of its products, such as "bfloat16"; None: autocast's, else the weights'.
            devices: how many devices work on one batch together (tensor and pipeline parallelism). Ranks that have
                batches of their own (DDP, FSDP) count these.
            keep: whether formulas are kept in the user's data folder, and taken from there.
            ignore: names of arguments whose numbers change nothing in what is executed, such as that of a step.
            progress: called with each step of a derivation, and with each note; None: lines on a terminal.

        Raises:
            InputError: the model is no module, the device or the element type is unknown, or devices is below 1.
            ModelError: the model fails with the example.
        """
        from flopwise.formats.torch.kinds import is_module

        if not is_module(model):
            raise InputError(f"Meter(model=...): expected a module of PyTorch, not {described(model)}")
        from flopwise.analyses.meter.batch import called_with
        from flopwise.analyses.meter.costs import Costs
        from flopwise.analyses.meter.program import Program
        from flopwise.analyses.meter.rates import device_named
        from flopwise.api.bound import products_dtype

        self.model: nn.Module = model  # type: ignore[assignment]
        if devices < 1:
            raise InputError(f"Meter(devices={devices}): give at least 1")
        self.devices = devices
        self._dtype = products_dtype(dtype)
        self._device = None if device is None else device_named(device)
        shown = _shown if progress is None else progress
        self._program = Program(_written(self.model), train, keep, frozenset(ignore), shown)
        self._costs, self._called_with = Costs(self._program), called_with
        self._restore: Callable[[], None] | None = None
        self._watch: Watch | None = None
        self._cost: Cost | None = None
        #: Costs of calls in a ``with`` block that are to be added.
        self._added: list[Cost] = []
        #: The element type that autocast rounds products to, where it does; of the first call since rates were read.
        self._seen_dtype: str | None = None
        self._looks_for_autocast = self._dtype is None
        self._end_look: Callable[[], None] = lambda: None
        if example_inputs is not None:
            self.step(example_inputs)
            self._cost = None

    @property
    def cost(self) -> Cost | None:
        """The cost of the last ``step``, or of all calls in the last ``with`` block; None before the first."""
        from flopwise.analyses.meter.cost import total

        if self._added:
            added, self._added = self._added, []
            self._cost = total([*([] if self._cost is None else [self._cost]), *added])
        return self._cost

    @property
    def seconds(self) -> float:
        """Seconds that formulas and profiles have taken so far."""
        return self._costs.seconds

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks: for which batches no formula holds and why, and what is not known of the device."""
        return tuple(self._program.notes)

    def step(self, batch: object) -> Cost:
        """The cost of a batch.

        Args:
            batch: as the model is called with it. Its shapes are read, and on the CPU the elements of masks,
                ``position_ids`` and ``cu_seqlens``.

        Raises:
            ModelError: the model fails with it.
            InputError: it is no batch.
        """
        args, kwargs = self._called_with(batch)
        self._added = []
        self._cost = cost = self._costs.of(args, kwargs)
        return cost

    def __enter__(self) -> Meter:
        """Begin to count the calls of the model; calls without gradients (evaluation) are left out where it trains."""
        if self._restore is not None:
            raise InputError("the meter counts already: its with block is open")
        self._cost, self._added = None, []
        self._restore = self.watch(self._add)
        return self

    def __exit__(self, *error: object) -> None:
        """Stop counting; ``cost`` is that of all calls, and not exact where one could not be counted."""
        if self._restore is None or self._watch is None:
            return
        self._restore()
        self._restore = None
        if self.cost is not None and not self._watch.complete:
            self._cost = dataclasses.replace(self.cost, exact=False)
        if not self._watch.calls:
            self._program.remark("no call of the model was seen: give the meter what torch.compile returned, if it did")

    def watch(
        self,
        called: Callable[[Cost | None], None],
        batch: Batch | None = None,
    ) -> Callable[[], None]:
        """Have each call of the model told with its cost, before it runs; returns what ends that.

        A call that cannot be counted goes on, and a note says so.

        Args:
            called: is called with None for a call without gradients where the model trains, and for one that cannot be
                counted.
            batch: what is counted of the arguments of a call; None: the arguments.
        """
        from flopwise.analyses.meter.watch import Watch

        self._watch = Watch(self.model, self._program, self._costs, called, batch, self._look_for_autocast)
        if self._looks_for_autocast:
            self._watch.look()
        end = self._watch.start()

        def ended() -> None:
            end()
            self._end_look()

        return ended

    def _look_for_autocast(self) -> None:
        """Look which type autocast rounds to around a call, or inside, where the model itself turns it on."""
        from flopwise.analyses.meter.rates import first_products
        from flopwise.analyses.meter.watch import Look

        self._look()
        self._looks_for_autocast = False
        self._end_look()
        inside = None if self._seen_dtype else first_products(self.model)
        if inside is not None:
            self._end_look = Look(inside, self._look).end

    def _look(self) -> None:
        from flopwise.analyses.meter.rates import autocast_dtype

        self._seen_dtype = autocast_dtype(self.model)

    def _add(self, cost: Cost | None) -> None:
        if cost is not None:
            self._added.append(cost)
            if len(self._added) >= _APART:
                self._cost = self.cost

    @property
    def device(self) -> Device:
        """The device whose peak rates are shares of."""
        from flopwise.analyses.meter.rates import running_on

        if self._device is None:
            self._device = running_on(self.model)
        return self._device

    @property
    def dtype(self) -> str:
        """The element type of the model's products."""
        from flopwise.analyses.meter.rates import arithmetic_of

        if self._dtype is not None:
            return self._dtype
        return self._seen_dtype or arithmetic_of(self.model)

    def rates(self, seconds: float, cost: Cost | None = None) -> Rates:
        """The rates that were reached: FLOP/s, shares of the device's rated dense peak (MFU, HFU), tokens per second.

        Args:
            seconds: that it took.
            cost: of what ran; None: that of the last step or ``with`` block.

        Raises:
            InputError: nothing was counted, or it took no time.
        """
        from flopwise.analyses.meter.rates import rates_of

        cost = cost or self.cost
        if cost is None:
            raise InputError("nothing was counted yet")
        if not seconds > 0:
            raise InputError(f"rates(seconds={seconds}): give the seconds that it took")
        self._looks_for_autocast = self._dtype is None
        if self._watch is not None and self._looks_for_autocast:
            self._watch.look()
        peak = self.device.rated(self.dtype)
        if peak is None:
            self._program.remark(f"no peak for {self.dtype} on {self.device.name!r}: no MFU; give device= or dtype=")
        elif cost.hardware_flops > seconds * peak.value * self.devices:
            self._program.remark(
                f"more than the peak of {self.device.name!r} for {self.dtype}: no MFU; products are of another type, "
                "or the device has not ended: give device= or dtype=, or wait for it"
            )
            peak = None
        return rates_of(cost, seconds, peak, self.devices)


def _shown(step: str) -> None:
    """A line on the terminal; nothing where standard error is none."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"flopwise: {step}", file=sys.stderr)


def _written(model: Any) -> Any:
    """A module as it was written, without what ``torch.compile`` puts around it."""
    while "_orig_mod" in vars(model).get("_modules", {}):
        model = model._orig_mod
    return model
