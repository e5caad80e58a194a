"""The state that a layer keeps between calls, and the pairs of a query and a key that its masks leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from flopwise.formats.language.parts import (
    Attention,
    CompressedAttention,
    LatentAttention,
    LinearAttention,
    Lru,
    Mixer,
    ShortConv,
    Wkv,
)
from flopwise.operators.masks import pairs_within
from flopwise.operators.size import smaller

#: Shape of a tensor of the state of one sequence, and its element type; "" for the model's own.
Stored: TypeAlias = "tuple[tuple[int, ...], str]"


def state_of(mixer: Mixer, past: int) -> Mapping[str, Stored]:
    """The state of a sequence after so many tokens: name -> shape and element type ("" for the model's)."""
    if isinstance(mixer, Attention):
        if mixer.borrowed or not mixer.causal:
            return {}
        reach = mixer.window or mixer.chunk
        tokens = past if reach is None else smaller(past, reach - 1)
        own: dict[str, Stored] = {
            "keys": ((mixer.groups, tokens, mixer.head), ""),
            "values": ((mixer.groups, tokens, mixer.value), ""),
        }
        return own if mixer.indexer is None else {**own, "indexer_keys": ((past, mixer.indexer.head), "")}
    if isinstance(mixer, LatentAttention):
        own = {"keys": ((1, past, mixer.latent), ""), "values": ((1, past, mixer.rotary), "")}
        return own if mixer.indexer is None else {**own, "indexer_keys": ((past, mixer.indexer.head), "")}
    if isinstance(mixer, CompressedAttention):
        own = {"keys": ((1, smaller(past, mixer.window - 1), mixer.head), "")}
        widths = {"compressor": mixer.head} if mixer.ratio else {}
        if mixer.ratio and mixer.indexer is not None:
            widths["indexer"] = mixer.indexer.head
        for name, width in widths.items():  # entries as they grow on average, and room for those that are not complete
            own[f"compressed_kv.{name}"] = ((past, width // mixer.ratio), "")
            wide = width * (1 + 2 * mixer.overlap)
            own.update({f"buffer_{kind}.{name}": ((mixer.ratio, wide), "") for kind in ("kv", "gate")})
        return own
    if isinstance(mixer, Lru):
        return {
            "conv_states": ((mixer.width, mixer.kernel - 1), ""),
            "recurrent_states": ((mixer.width,), "float32"),
        }
    if isinstance(mixer, Wkv):  # the last token of both parts; the sums and the greatest exponent
        own = dict.fromkeys(("attention", "network"), ((mixer.width,), ""))
        return {**own, **dict.fromkeys(("numerator", "denominator", "maximum"), ((mixer.width,), "float32"))}
    if isinstance(mixer, ShortConv):
        return {"conv_states": ((mixer.width, mixer.kernel), "")}
    if isinstance(mixer, LinearAttention):
        channels = 2 * mixer.groups * mixer.key + mixer.heads * mixer.value
        conv = {"conv_states": ((channels, mixer.kernel), "")} if mixer.kernel else {}
        return {**conv, "recurrent_states": ((mixer.heads, mixer.key, mixer.value), "float32")}
    channels = mixer.inner + (2 * mixer.groups * mixer.state if mixer.heads else 0)
    return {
        "conv_states": ((channels, mixer.kernel), ""),
        "recurrent_states": ((mixer.inner, mixer.state), mixer.state_type),
    }


def visible_pairs(mixer: Attention | LatentAttention | CompressedAttention, new: int, past: int) -> int:
    """Pairs of a query and a key that the masks of an attention leave, of one head."""
    if isinstance(mixer, LatentAttention):
        return pairs_within(new, past + new, past, None if mixer.top_k is None else mixer.top_k - 1)
    if isinstance(mixer, CompressedAttention):
        most = mixer.indexer.top_k if mixer.indexer else past + new
        entries = _stairs(past + new, mixer.ratio, most) - _stairs(past, mixer.ratio, most) if mixer.ratio else 0
        return (
            pairs_within(new, smaller(past, mixer.window - 1) + new, smaller(past, mixer.window - 1), mixer.window - 1)
            + entries
        )
    if not mixer.causal:
        sides = None if mixer.window is None else mixer.window // 2
        return pairs_within(new, new, 0, sides, sides)
    if mixer.chunk is not None:
        return _in_chunks(past + new, mixer.chunk) - _in_chunks(past, mixer.chunk)
    if mixer.indexer is not None:
        ends = [_in_blocks(past + n, mixer.block, mixer.indexer.top_k) for n in (0, new)]
        return ends[1] - ends[0]
    return pairs_within(new, past + new, past, None if mixer.window is None else mixer.window - 1)


def _in_chunks(tokens: int, chunk: int) -> int:
    """Pairs of queries with keys of their own chunk.

    >>> _in_chunks(5, 3)
    9
    """
    full, rest = divmod(tokens, chunk)
    return full * chunk * (chunk + 1) // 2 + rest * (rest + 1) // 2


def _in_blocks(tokens: int, block: int, most: int) -> int:
    """Pairs of queries with keys of no more than ``most`` blocks, their own, which they see in part, among them.

    >>> _in_blocks(5, 2, 2)
    13
    """
    near = min(tokens, block * most)
    beyond = tokens - near
    return near * (near + 1) // 2 + beyond * (most - 1) * block + _in_chunks(beyond, block)


def _stairs(count: int, step: int, most: int) -> int:
    """The sum of n // step, but no more than ``most`` each, of n from 1 to ``count``.

    >>> _stairs(9, 4, 9), _stairs(9, 4, 1)
    (8, 6)
    """
    full, rest = divmod(count, step)
    if full > most:
        return _stairs(step * most + step - 1, step, most) + (count - step * most - step + 1) * most
    return step * full * (full - 1) // 2 + full * (rest + 1) if full else 0


def lengths_of(mixer: Mixer, past: int) -> tuple[int, ...]:
    """Numbers that the cost of one token after so many follows from along straight lines."""
    if isinstance(mixer, Attention):
        reach = mixer.window or mixer.chunk
        keys = past if reach is None else smaller(past, reach - 1)
        if mixer.indexer is not None:
            return (past, past % mixer.block, min(past, mixer.block * mixer.indexer.top_k))
        return (0,) if mixer.cross else (keys, past % mixer.chunk) if mixer.chunk else (keys,)
    if isinstance(mixer, LatentAttention):
        return (past, min(past + 1, mixer.top_k or past + 1))
    if isinstance(mixer, CompressedAttention):
        made = mixer.entries(past + 1)
        few = min(made, mixer.indexer.top_k if mixer.indexer else made)
        return (smaller(past, mixer.window - 1), made, few, made - mixer.entries(past))
    return ()
