"""The number of pairs of a query and a key that the masks of an attention leave.

A kernel that computes every score and masks some of them executes all pairs; the pairs that are left are needed.
"""

from __future__ import annotations

from flopwise.graph import Node

#: The attribute under which a reader that knows the elements of a mask hands over how many pairs it leaves, over all
#: heads of all members of the batch.
PAIRS = "needed_pairs"

#: The attribute under which a reader hands over which kernel computes an attention: "math" keeps the weights after the
#: softmax for the gradient; "flash" and "efficient" keep one number for each query, and compute the scores once more.
KERNEL = "kernel"

#: The attribute under which a reader says of an attention that its keys and values are latents, and of the products
#: before and behind it that they stand in for their expansion: the widths that keys and values of a head would have.
ABSORBED = "absorbed"


def pairs_within(queries: int, keys: int, offset: int = 0, left: int | None = None, right: int | None = 0) -> int:
    """Pairs of a query i and a key j with i + offset - left <= j <= i + offset + right.

    Args:
        queries: how many there are.
        keys: how many there are.
        offset: position of the first query among the keys: the length of the past.
        left: how far back a query looks; None: to the first key.
        right: how far ahead; 0 is causal, None: to the last key.

    >>> pairs_within(4, 4)
    10
    >>> pairs_within(4, 6, offset=2, left=1)
    8
    """
    above = queries * keys if right is None else _below(queries, keys, offset + right)
    return above - (0 if left is None else _below(queries, keys, offset - left - 1))


def _below(queries: int, keys: int, shift: int) -> int:
    """Pairs with j <= i + shift: the sum over i of i + shift + 1, held between 0 and the number of keys."""
    first = min(max(-shift, 0), queries)  # the first query that sees a key
    full = min(max(keys - shift - 1, first), queries)  # the first that sees all of them
    rising = full - first
    return rising * (first + shift + 1) + rising * (rising - 1) // 2 + (queries - full) * keys


def pairs_left(node: Node, batch: int, heads: int, queries: int, keys: int) -> int:
    """Pairs that the masks of an ``Attention`` leave; all pairs where nothing is known of its masks.

    Args:
        node: the attention: what a reader knows of the mask's elements, is_causal and the window sizes.
        batch: members of the batch.
        heads: heads of the queries.
        queries: queries of one head.
        keys: keys of one head, the past among them.
    """
    pairs = node.attrs.get(PAIRS)
    if isinstance(pairs, int):
        return pairs
    every = batch * heads * queries * keys
    if not all(isinstance(n, int) for n in (batch, heads, queries, keys)) or node.has_input(6):  # lengths are data
        return every
    left, right = (int(node.attrs.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    ahead = 0 if node.attrs.get("is_causal", 0) else None if right < 0 else right
    if ahead is None and left < 0:
        return every
    past = node.input(4).dims[-2] if node.has_input(4) else 0
    return batch * heads * pairs_within(queries, keys, past, None if left < 0 else left, ahead)
