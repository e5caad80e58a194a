"""What an operator costs, as metadata of the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: A figure of a row, or why there is none.
_Figure = Callable[[Row], "int | str"]


def _bytes(row: Row) -> int | str:
    """Those of the weights that are first used here, and of all outputs."""
    if row.output_bytes is not None:
        return row.weight_bytes + row.output_bytes
    return row.note if row.times is None else "a shape is missing"


_FIGURES: dict[str, _Figure] = {
    "flopwise.params": lambda row: row.params,
    "flopwise.macs": lambda row: row.note if row.macs is None else row.macs,
    "flopwise.flops": lambda row: row.note if row.flops is None else row.flops,
    "flopwise.bytes": _bytes,
}


def noting(profile: Profile) -> Callable[[Sequence[int]], dict[str, str]]:
    """What gives the metadata of an operator from the positions in ``Graph.nodes`` of what it stands for.

    The figures of several are added up. There is none for what a profile does not list: operators on weights, constants
    and shapes alone, and the branches that do not count.
    """
    position = {id(node): place for place, node in enumerate(profile.graph.nodes)}
    rows: dict[int, list[Row]] = {}
    for row in profile.rows:
        if row.times != 0:
            rows.setdefault(position[id(row.node)], []).append(row)

    def note(positions: Sequence[int]) -> dict[str, str]:
        listed = [row for place in positions for row in rows.get(place, ())]
        return {key: _sum(listed, figure) for key, figure in _FIGURES.items()} if listed else {}

    return note


def _sum(rows: Iterable[Row], figure: _Figure) -> str:
    total = 0
    for row in rows:
        value = figure(row)
        if isinstance(value, str):
            return f"unknown ({value})"
        total += value
    return str(total)
