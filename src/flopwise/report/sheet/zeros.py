"""Zeros of the weights as columns beside counts; the weights are read only when such a column is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from flopwise.answers import part
from flopwise.rows import Row, Sum

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

Item: TypeAlias = "Row | Sum"

#: Keys of the columns that read weights.
KEYS = frozenset({"sparsity", "zero_block", "zero_block%", "effective_macs"})

#: What a note says that tells how much came over the network.
_NETWORK = " over the network in "


class _Read(NamedTuple):
    """The zeros in the weights of a profile."""

    #: The layers that have weights, by the identity of their rows.
    layers: dict[int, Any]
    #: How much came over the network by then.
    fetched: tuple[str, ...]


#: Profiles whose weights were read: several columns, and each of their cells, need one reading.
_READ: WeakKeyDictionary[Profile, _Read] = WeakKeyDictionary()


def with_zeros(profile: Profile, progress: Callable[[str], None] = lambda step: None) -> Profile:
    """The profile, its weights read and its notes saying how much came over the network for that.

    Raises:
        ModelError: a weight cannot be read.
    """
    zeros = _read(profile, progress)
    if not zeros.fetched:
        return profile
    noted = replace(profile, notes=(*(note for note in profile.notes if _NETWORK not in note), *zeros.fetched))
    _READ[noted] = zeros
    return noted


def _read(profile: Profile, progress: Callable[[str], None] = lambda step: None) -> _Read:
    if profile not in _READ:
        query = part("sparsity", "asking.SparsityQuery")()
        sparsity = part("sparsity", "model.sparsity_of")(profile, query, progress=progress)
        fetched = tuple(note for note in sparsity.notes if _NETWORK in note)
        _READ[profile] = _Read({id(layer.row): layer for layer in sparsity.layers}, fetched)
    return _READ[profile]


def share(item: Item, profile: Profile) -> float | str | None:
    """Zeros in percent of the weights; "" where there are none."""
    layers = _layers(item, profile)
    weights = {w.name: w for layer in layers for w in layer.weights}
    if any(layer.absent for layer in layers) or any(w.zeros is None for w in weights.values()):
        return None
    elements = sum(w.elements for w in weights.values())
    return 100 * sum(w.zeros or 0 for w in weights.values()) / elements if elements else ""


def block(item: Item, profile: Profile) -> str:
    """The block (outputs x inputs) in which the zeros of a layer come; "" where the search found none."""
    return "".join(str(layer.block or "") for layer in _layers(item, profile) if isinstance(item, Row))


def block_share(item: Item, profile: Profile) -> float | str:
    """Zero blocks in percent of all blocks of that shape."""
    blocks = [layer.found for layer in _layers(item, profile) if isinstance(item, Row)]
    return 100 * blocks[0].ratio if blocks and blocks[0] else ""


def effective_macs(item: Item, profile: Profile) -> int | None:
    """Multiply-accumulates without those of zero weights."""
    if isinstance(item, Sum):
        return sum(macs for row in item.rows if (macs := effective_macs(row, profile)) is not None)
    layer = _read(profile).layers.get(id(item))
    return item.macs if layer is None else layer.effective.zeros


def _layers(item: Item, profile: Profile) -> list[Any]:
    layers = _read(profile).layers
    rows = (item,) if isinstance(item, Row) else item.rows
    return [layers[id(row)] for row in rows if id(row) in layers]
