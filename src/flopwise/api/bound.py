"""``flopwise.bound`` and ``flopwise.devices``: the least time of a model on a device, and the devices there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise.analyses.timing.bound import Bound, physical_bound
from flopwise.analyses.timing.device import Device
from flopwise.api.profile import profile
from flopwise.errors import InputError
from flopwise.graph.dtypes import BITS, canonical
from flopwise.profiles.profile import Profile

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.readers.options import Keywords


def bound(
    model: object,
    inputs: Any = None,
    *,
    device: str | Device | None = None,
    threads: int | None = None,
    winograd: bool = False,
    dtype: str | None = None,
    progress: Callable[[str], None] = lambda step: None,
    batch_size: int | None = None,
    **keywords: Unpack[Keywords],
) -> Bound:
    """How long a model takes at least on a device, row by row and in all; nothing runs.

    Args:
        model: as in :func:`flopwise.profile`, or a Profile.
        inputs: as in :func:`flopwise.read`.
        device: a device of ``flopwise devices``, by name; None for this machine's CPU.
        threads: cores of a CPU that are used; None means all.
        winograd: whether 3x3 convolutions of stride 1 may take 2.25 times fewer multiplications.
        dtype: element type in which products of floating-point numbers are computed, such as "tfloat32"; None: the
            model's own.
        progress: as in :func:`flopwise.read`.
        batch_size: as in :func:`flopwise.read`.
        keywords: as in :func:`flopwise.read`.

    Raises:
        ModelError: the model cannot be read.
        InputError: the device or the element type is unknown.
    """
    from flopwise.analyses.timing import machine

    chosen = device if isinstance(device, Device) else machine.named(device)
    if threads is not None and (threads < 1 or (chosen.cores is not None and threads > chosen.cores)):
        raise InputError(f"{threads} threads: {chosen.name} has {chosen.cores or 'no known number of'} cores")
    counted = model
    if not isinstance(counted, Profile):
        counted = profile(model, inputs, batch_size=batch_size, progress=progress, **keywords)
    progress("comparing with the device")
    found = physical_bound(counted, chosen, threads, winograd, _dtype(dtype))
    return replace(found, renderer=_as_text)


def devices(name: str | None = None) -> tuple[Device, ...]:
    """This machine's devices and those of the tables; with a name, the one device of that name.

    Raises:
        InputError: no device goes by that name.
    """
    from flopwise.analyses.timing import catalog, machine

    if name is not None:
        return (machine.named(name),)
    return (*machine.present(), *catalog.devices())


def _dtype(name: str | None) -> str | None:
    """The canonical name of an element type; TF32 is one of arithmetic alone.

    Raises:
        InputError: there is no such type.
    """
    if name is None or name.lower() in ("tf32", "tfloat32"):
        return name and "tfloat32"
    if name.lower() in ("fp8", "float8"):
        return "float8e4m3fn"
    if name.lower() in ("fp4", "float4"):
        return "float4e2m1"
    found = canonical(name)
    if BITS[found] == 0:
        raise InputError(f"nothing computes in {found}")
    return found


def _as_text(found: Bound) -> str:
    from flopwise.report.commands.bound import bound_report
    from flopwise.report.report import as_text

    return as_text(bound_report(found))
