"""Bytes that a device sends in a call, by the way in which a request is divided, and the time that links take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from flopwise.analyses.llm.division import part_of
from flopwise.analyses.llm.serving.ways import Split

if TYPE_CHECKING:
    from flopwise.analyses.llm.serving.pieces import Piece
    from flopwise.analyses.timing.device import Device


class Shares(NamedTuple):
    """A device's part of what was run: of the tokens, and of the sequences."""

    tokens: Fraction
    sequences: Fraction


def prompt_bytes(split: Split, piece: Piece, shares: Shares, cached_bytes: int, last: bool) -> dict[str, int]:
    """Bytes that a device sends while it goes through a prompt, by way.

    Args:
        split: how the request is divided.
        piece: the layers of a stage.
        shares: the device's part.
        cached_bytes: keys and values of the prompt, of all devices of a ring.
        last: whether it is the last stage.
    """
    ring = part_of(cached_bytes, _others(split.cp))
    return _nonzero({**_in_layers(split, piece, shares), "cp": ring, "pp": _handed(piece, shares, last)})


def step_bytes(split: Split, piece: Piece, shares: Shares, last: bool) -> dict[str, int]:
    """Bytes that a device sends in a step, by way; see ``prompt_bytes``."""
    reduced = part_of(piece.attended, 2 * _others(split.cp) * shares.tokens)
    return _nonzero({**_in_layers(split, piece, shares), "cp": reduced, "pp": _handed(piece, shares, last)})


def seconds(split: Split, sent: Mapping[str, int], device: Device) -> float | None:
    """The least time in which links and network take what a device sends; None where there is no figure.

    Ranks of tp are neighbours, then those of cp, dp and pp. What leaves the devices that a link connects goes over the
    network, of a sum what is left after these have added their parts. Without a figure of the network the link counts.
    """
    link, network = device.link("link"), device.link("network")
    if link is None:
        return None if sent else 0.0
    reach = link.devices if network is not None else None
    ends = {"tp": split.tp, "cp": split.tp * split.cp, "ep": split.sharers * split.cp, "pp": split.devices}
    near = far = 0.0
    for way, nbytes in sent.items():
        inside, outside = _routes(way, ends[way], reach)
        near, far = near + nbytes * inside, far + nbytes * outside
    return max(near / link.value, far / network.value if network is not None else 0.0)


def _routes(way: str, ranks: int, reach: int | None) -> tuple[float, float]:
    """The parts of what ranks send that go over links, which reach so many devices, and over the network."""
    if reach is None or ranks <= reach:
        return 1.0, 0.0
    if way == "tp":  # a sum within each node, one of a part of it among nodes
        nodes, whole = ranks / reach, (ranks - 1) / ranks
        return (reach - 1) / reach / whole, (nodes - 1) / nodes / reach / whole
    if way == "ep":
        return (reach - 1) / (ranks - 1), (ranks - reach) / (ranks - 1)
    return 1.0, 1.0  # of a ring or a chain, some devices send to the next node


def _others(ranks: int) -> Fraction:
    """The part of a whole that the other ranks have."""
    return Fraction(ranks - 1, ranks)


def _in_layers(split: Split, piece: Piece, shares: Shares) -> dict[str, int]:
    """Bytes for tp and ep: a ring all-reduce of each sum, and scores of the vocabulary from those that made them."""
    sums = piece.reduced + (0 if split.exchanges else piece.reduced_experts)
    reduced = sums * shares.tokens * 2 * _others(split.tp)
    scores = piece.scores * shares.sequences * Fraction(1, split.tp) if split.tp > 1 else Fraction(0)
    routed = piece.dispatched * shares.tokens / split.tp * _others(split.ep) if split.exchanges else Fraction(0)
    return {"tp": math.ceil(reduced + scores), "ep": math.ceil(routed)}


def _handed(piece: Piece, shares: Shares, last: bool) -> int:
    return 0 if last else part_of(piece.handed_on, shares.tokens)


def _nonzero(sent: Mapping[str, int]) -> dict[str, int]:
    return {way: nbytes for way, nbytes in sent.items() if nbytes}


def assumptions_of_links(device: Device) -> list[str]:
    """In a line, what the times of several devices assume."""
    link, network = device.link("link"), device.link("network")
    if link is None:
        return [f"link bandwidth of {device.name} is not known: times on several devices leave communication out"]
    reach = f" among {link.devices}" if link.devices and network is not None else ""
    beyond = f", {network.via} between nodes, {network.value / 1e9:g} GB/s" if network is not None else ""
    return [
        f"communication over {link.via}{reach}, {link.value / 1e9:g} GB/s each way{beyond}, overlapped with compute: "
        "ring all-reduce, 2 (n - 1) / n of each sum; experts with balanced routing"
    ]
