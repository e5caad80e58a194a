"""VeOmni's count of a training step, of which a forward pass is a third."""

from __future__ import annotations

from flopwise.conventions.emulation.decoder import Decoder, Part, convention
from flopwise.conventions.tools import verl


def macs(model: Decoder, part: Part) -> int:
    """All products, a table of embeddings once more, and all pairs, masked or not, values as wide as keys."""
    if part.attention is not None:
        size = part.attention
        return size.heads * size.queries * size.keys * 2 * size.key_width
    return verl.macs(model, part)


CONVENTION = convention(
    "veomni",
    "VeOmni's estimate, a forward pass of it: products, embeddings as a product, all pairs, masks and windows left in.",
    "ByteDance-Seed/VeOmni@6f45f07a, veomni/utils/count_flops.py",
    macs,
    (
        "a forward pass, a third of what the tool states for training",
        "embeddings count as a product with the vocabulary, though they are looked up; values count as wide as keys",
        "neither causal masks nor windows are followed",
        "the tool states 0 for types that it does not list; it lists Llama, Qwen2, Qwen3 and its experts, DeepSeek-V3",
    ),
)
