"""Megatron-Bridge's count of a training step, of which a forward pass is a third."""

from __future__ import annotations

from flopwise.conventions.emulation.decoder import Decoder, Part, convention
from flopwise.operators.masks import pairs_within

#: The vocabulary is filled up to a multiple of this, by default.
MULTIPLE = 128


def macs(model: Decoder, part: Part) -> int:
    """Products without routers, the vocabulary filled up, half of all pairs, or those that a window leaves."""
    if part.attention is not None:
        size = part.attention
        pairs, past = size.queries * size.keys, size.keys - size.queries
        if size.window < size.keys:
            return size.heads * size.products * pairs_within(size.queries, size.keys, past, size.window - 1)
        return size.heads * size.products * pairs // 2
    if part.kind == "vocabulary":
        return part.macs * (-(-model.vocabulary // MULTIPLE) * MULTIPLE) // model.vocabulary
    if part.kind == "rest" and model.latent:
        return model.tokens * sum(tensor.numel for tensor in part.weights if tensor.numel < model.width)
    return model.new(part) if part.kind in ("product", "experts") else 0


CONVENTION = convention(
    "megatron-bridge",
    "Megatron-Bridge's formula, a forward pass: products, half of all pairs or a window's, a filled vocabulary.",
    "NVIDIA-NeMo/Megatron-Bridge@0494433b, src/megatron/bridge/training/utils/flop_utils.py",
    macs,
    (
        "a forward pass, a third of what the tool states for training",
        "the vocabulary is filled up to a multiple of 128, as by default on one device; routers are left out",
        "of latent attention the norms of latents count a multiply-add for each number",
        "windows are those of the program; gpt-oss's settings in the tool state (128, 0), which it takes as 129 keys",
    ),
)
