"""The devices that a language model is run on, and how they share it."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device

#: More than the largest clusters have.
MOST_DEVICES = 1_000_000


def shares_of(ways: Mapping[str, int | None]) -> dict[str, int]:
    """The ways of dividing that were given."""
    return {way: operator.index(ranks) for way, ranks in ways.items() if ranks is not None}


def devices_of(device: str | None, gpus: int | None) -> tuple[int | None, Device | None]:
    """The number of devices that were asked for, and the device: ``2xh100``, or a name with the number beside it.

    Raises:
        InputError: no device goes by that name, or numbers are less than 1, differ or lack a device.
    """
    from flopwise.analyses.timing.machine import named

    if device is None:
        if gpus is not None:
            raise InputError(f"gpus {gpus}: give the device as well")
        return None, None
    several = re.fullmatch(r"(\d{1,9})\s*[x×]\s*(\S.*)", device.strip())
    where = named(several[2] if several else device)
    count = int(several[1]) if several else gpus
    if several and gpus not in (None, count):
        raise InputError(f"{device}: these are {count} devices, not {gpus}")
    if count is not None and not 1 <= count <= MOST_DEVICES:
        raise InputError(f"{count} devices: must be at least 1 and at most {MOST_DEVICES}")
    return count, where
