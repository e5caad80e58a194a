"""Runs of layers that could be one: which layer alone uses a layer's result, and what fusing them would save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flopwise._results import Json
from flopwise.graph import Node
from flopwise.profiles.profile import Profile
from flopwise.rows import Row
from flopwise.storage.traffic import shared

#: Layers in the longest chain of the view ``chains``; the macro ``chains_of(n)`` follows longer ones.
LONGEST = 5


def followers(profile: Profile) -> list[int | None]:
    """For each layer the position of the only one that uses its first result.

    None where several layers or none use it, or where it is a result of the model.
    """
    users: dict[str, list[int]] = {}
    for position, row in enumerate(profile.rows):
        for tensor in row.node.known_inputs:
            users.setdefault(tensor.name, []).append(position)
    ends = {tensor.name for tensor in profile.graph.outputs}
    firsts = [row.node.outputs[0] if row.node.outputs else None for row in profile.rows]
    after = [users.get(t.name, []) if t is not None and t.name not in ends else [] for t in firsts]
    return [layers[0] if len(layers) == 1 else None for layers in after]


def written(row: Row) -> int:
    """Bytes of a layer's first result that it writes to memory; 0 where that is a view of what is there."""
    result = row.node.outputs[0] if row.node.outputs else None
    if result is None or not result.sized or is_view(row.node) or not isinstance(result.nbytes, int):
        return 0
    return result.nbytes * (row.times or 0)


def is_view(node: Node) -> bool:
    """True where the first result is a view, and nothing is moved; what works in place writes what it has read."""
    return 0 in shared(node) and not node.origin.endswith("_")


def add_chains(layers: Sequence[Json]) -> None:
    """Add to the rows of a model's layers what the views count by.

    ``chain`` has the operators of the longest run that begins at the layer, with spaces between them, and ``saved_2``
    to ``saved_5`` the bytes that fusing the first 2 to 5 of them saves: those of each tensor that one of them writes
    and another reads, twice. ``firsts`` has a bit for each thing that the layer is the first of in its model: its
    operator (bit 0), its signature (bit 1), and its chains of 2 to 5 (bits 2 to 5), so that models can be counted
    without telling them apart.
    """
    earlier: set[tuple[int, object]] = set()
    for layer in layers:
        words, total, at = [_word(layer)], 0, layer
        between = 2 * (layer["written"] or 0)
        marks: list[tuple[int, object]] = [(0, layer["op"]), (1, layer["signature"])]
        for length in range(2, LONGEST + 1):
            follower = at["follower"] if len(words) == length - 1 else None
            layer[f"saved_{length}"] = None
            if follower is not None:
                at = layers[follower]
                if not at["view"]:  # a view hands on what it was given
                    total += between
                    between = 2 * (at["written"] or 0)
                words.append(_word(at))
                layer[f"saved_{length}"] = total
                marks.append((length, tuple(words)))
        layer["chain"] = " ".join(words)
        layer["firsts"] = sum(1 << bit for bit, what in marks if (bit, what) not in earlier)
        earlier.update(marks)


def columns() -> Mapping[str, str]:
    """Column -> its type in Arrow, of what ``add_chains`` adds."""
    return {"chain": "string", **{f"saved_{n}": "int64" for n in range(2, LONGEST + 1)}, "firsts": "int16"}


def _word(layer: Mapping[str, object]) -> str:
    """The operator of a layer, without the spaces that part the operators of a chain."""
    return "_".join(str(layer["op"]).split()) or "?"
