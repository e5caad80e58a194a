"""Attention over latents: what a step costs after a rewrite that engines do and the model's own program does not.

Multi-head latent attention keeps one latent of R elements for each token and expands it to the keys and values of H
heads, for the whole context and anew in each step. Engines multiply the queries with the expansion's key part (N
elements for each head) and the result with its value part (V) instead: for each of T new tokens and C tokens of
context, H × (T N R + T C (R + P) + T C R + T R V), P being the rotated part that all heads share.

Source: DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flopwise.graph import Node
from flopwise.operators.masks import ABSORBED
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: The names of the rewrites.
ABSORB_MLA = "absorb-mla"
REWRITES = (ABSORB_MLA,)


@dataclass(frozen=True)
class Latent:
    """An attention over latents: the product that expands them for every token of the context, and the attention."""

    expansion: Row
    attention: Row

    def absorbed(self, pairs_left: bool) -> tuple[int, int]:
        """Multiply-accumulates with the expansion absorbed: of products with its weight, and of attention over latents.

        Args:
            pairs_left: whether only the pairs count that the masks leave.
        """
        query, value = self.attention.node.input(0).dims, self.attention.node.input(2).dims
        batch, heads, new, width = (int(n) for n in query)
        context, of_value = int(value[2]), int(value[3])
        latent = int(self.expansion.node.input(0).dims[-1])
        of_key = int(self.expansion.node.output().dims[-1]) // heads - of_value
        pairs = batch * heads * new * context
        if pairs_left:
            pairs = pairs * (self.attention.needed_macs or 0) // max(self.attention.macs or 0, 1)
        return batch * heads * new * latent * (of_key + of_value), pairs * (2 * latent + width - of_key)


def absorbed_mla(profile: Profile) -> int | None:
    """Multiply-accumulates of a step with the expansion of its latents absorbed, if it does not absorb it itself; None
    where there are no latents."""
    pairs = list(latents(profile))
    if not pairs:
        absorbed = any(row.node.attrs.get(ABSORBED) for row in profile.rows)
        return profile.total("macs") if absorbed else None
    executed = sum((pair.expansion.macs or 0) + (pair.attention.macs or 0) for pair in pairs)
    return (
        profile.total("macs")
        - executed
        + sum(pair.attention.node.copies * sum(pair.absorbed(pairs_left=False)) for pair in pairs)
    )


def latents(profile: Profile) -> Iterator[Latent]:
    """The attentions whose keys and values a product makes anew from latents of the whole context."""
    products: list[Row] = []
    for row in profile.rows:
        if row.node.op in ("Gemm", "MatMul"):
            products.append(row)
        elif row.node.op == "Attention":
            match = next((p for p in reversed(products) if _expands(p.node, row.node)), None)
            if match is not None:
                yield Latent(match, row)
            products.clear()


def _expands(product: Node, attention: Node) -> bool:
    """True where a product makes keys without their rotated part, and values, for more tokens than the step feeds."""
    query, value = attention.input(0).shape, attention.input(2).shape
    latents, expanded = product.input(0).shape, product.output().shape
    if None in (query, value, latents, expanded) or len(query or ()) != 4 or len(expanded or ()) < 2:
        return False
    assert query is not None
    assert value is not None
    assert latents is not None
    assert expanded is not None
    batch, heads, new, width = query
    context, of_value = value[2], value[3]
    tokens = 1
    for size in expanded[:-1]:
        tokens = tokens * size
    of_key = expanded[-1] // heads - of_value
    return (
        context > new
        and tokens == batch * context
        and expanded[-1] % heads == 0
        and 0 < of_key < width
        and latents[-1] < heads * of_key
    )
