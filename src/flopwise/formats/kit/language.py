"""The inputs of an exported language model for so many tokens in its state and so many that are fed now.

An input's part is known by its name, as exporters give them: tokens (``input_ids``, ``position_ids``), masks over the
whole context (``attention_mask``), the state (``past_key_values.0.key``, ``past_0``), and the numbers by which
onnxruntime's attentions are told lengths. Open dimensions are known by their own names first (``sequence_length``,
``past_sequence_length``, ``total_sequence_length``, ``past_sequence_length + sequence_length``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from flopwise.errors import InputError
from flopwise.formats.inputs import Declared, InputSpec

#: Names of inputs by what they hold.
_STATE = re.compile(
    r"^past(?!.*(length|len)$)|(^|[._/])(kv_)?cache([._]|$)|(^|[._])(conv|recurrent|ssm)_state", re.IGNORECASE
)
_TOKENS = re.compile(r"(input_ids|inputs_embeds|position_ids|token_type_ids|cache_position)$", re.IGNORECASE)
_MASK = re.compile(r"mask$", re.IGNORECASE)
_OF_ENCODER = re.compile(r"encoder|cross", re.IGNORECASE)

#: Names of open dimensions by what they count, tried in this order.
_DIMS = (
    ("total", re.compile(r"total|\+|^(all|full|max)_(seq|len)|max_(sequence|seq)", re.IGNORECASE)),
    ("past", re.compile(r"past|^kv_|cache|history", re.IGNORECASE)),
    ("batch", re.compile(r"batch|^b$|^n$", re.IGNORECASE)),
    ("new", re.compile(r"seq|^len(gth)?$|^s$|^t$|tokens?", re.IGNORECASE)),
)

#: Inputs without a dimension for tokens that say lengths as numbers: name -> what they count, and what is added.
_NUMBERS = {
    "total_sequence_length": ("total", 0),
    "seqlens_k": ("total", -1),
    "past_sequence_length": ("past", 0),
    "past_seq_len": ("past", 0),
    "sequence_length": ("new", 0),
}


def states(inputs: Iterable[Declared]) -> list[str]:
    """The names of the inputs that are the model's state."""
    return [
        value.name for value in inputs if _STATE.search(value.name) and value.dims is not None and len(value.dims) > 1
    ]


def step_specs(inputs: Iterable[Declared], past: int, new: int, batch: int | None) -> list[InputSpec]:
    """The shapes of a call with ``past`` tokens in the state; what follows from none of the names stays open.

    Args:
        inputs: as the file declares them.
        past: tokens in the state.
        new: tokens that are fed now.
        batch: sequences; None: as the file says, else one.

    Raises:
        InputError: the model takes no state though there are tokens in it, or a number is out of range.
    """
    declared = list(inputs)
    if past < 0 or new < 1:
        raise InputError(
            f"{f'past {past}' if past < 0 else f'new {new}'}: past tokens are at least 0, new ones at least 1"
        )
    held = states(declared)
    if past and not held:
        listed = ", ".join(value.name for value in declared[:6])
        raise InputError(f"takes no state, so there are no past tokens; its inputs are {listed}")
    sizes = {"past": past, "new": new, "total": past + new, "batch": batch}
    specs = []
    for value in declared:
        if value.dims is None:
            continue
        shape = tuple(
            _size(value.name, place, value.dims, sizes, value.name in held) for place in range(len(value.dims))
        )
        number = _number(value, sizes)
        if None not in shape and (number is not None or shape != value.dims):
            specs.append(InputSpec(value.name, shape, value=number))  # type: ignore[arg-type] # no None is in it
    return specs


def _size(
    name: str, place: int, dims: tuple[int | str | None, ...], sizes: Mapping[str, int | None], state: bool
) -> int | None:
    """The size of a dimension; None where nothing says it.

    A number in the file stays, but for the dimension of tokens: an export may have been made for other lengths.
    """
    dim, part = dims[place], _part(name, place, dims, state)
    if part == "batch" and isinstance(dim, int):
        return dim if sizes["batch"] is None else sizes["batch"]
    if part is None:
        return dim if isinstance(dim, int) else None
    return 1 if part == "batch" and sizes["batch"] is None else sizes[part]


def _part(name: str, place: int, dims: tuple[int | str | None, ...], state: bool) -> str | None:
    """The quantity that a dimension counts: "batch", "past", "new" or "total"; None: something else."""
    dim = dims[place]
    if isinstance(dim, str):
        if _OF_ENCODER.search(dim) and not dim.lower().startswith(("decoder", "past_decoder")):
            return None
        named = next((part for part, pattern in _DIMS if pattern.search(dim)), None)
        if named is not None:
            return named
    return _layout(name, dims, state).get(place)


def _layout(name: str, dims: tuple[int | str | None, ...], state: bool) -> dict[int, str]:
    """Places of the dimensions of an input -> what they count, as its own name says."""
    rank, batch = len(dims), {} if isinstance(dims[0], int) else {0: "batch"}
    if _OF_ENCODER.search(name) and not name.lower().startswith("decoder_input"):
        return batch
    if state and rank > 2:
        lengths = [i for i, d in enumerate(dims) if not isinstance(d, int) and i > 0 and (rank < 5 or i > 1)]
        return {1 if rank == 5 and dims[0] == 2 else 0: "batch", lengths[0] if len(lengths) == 1 else rank - 2: "past"}
    if _TOKENS.search(name):
        return {0: "batch", min(1, rank - 1): "new"}
    if _MASK.search(name):
        queries = {2: "new"} if rank == 4 else {}
        return {0: "batch", rank - 1: "total", **queries} if rank > 1 else {}
    return batch if name in _NUMBERS and rank == 1 else {}


def _number(value: Declared, sizes: Mapping[str, int | None]) -> object:
    """The elements of an input that says a length as a number; None for any other."""
    if value.name not in _NUMBERS or value.dims is None or len(value.dims) > 2:
        return None
    part, more = _NUMBERS[value.name]
    size = (sizes[part] or 0) + more
    shape = tuple(d if isinstance(d, int) else sizes["batch"] or 1 for d in value.dims)
    import numpy

    return numpy.full(shape, size, value.dtype or "int64")
