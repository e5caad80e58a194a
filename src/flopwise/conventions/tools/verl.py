"""verl's count of a training step, of which a forward pass is a third."""

from __future__ import annotations

from flopwise.conventions.emulation.decoder import Decoder, Part, convention


def macs(model: Decoder, part: Part) -> int:
    """All products, a table of embeddings once more, and pairs without a causal mask, values as wide as keys."""
    if part.attention is not None:
        size = part.attention
        mixed = any(one.window == one.keys for one in model.attentions)
        return size.heads * size.queries * (size.window if mixed else size.keys) * 2 * size.key_width
    if part.kind == "embedding":
        own = [tensor for tensor in part.weights if int(tensor.dims[0]) == model.vocabulary]
        return model.tokens * sum(tensor.numel for tensor in own)
    return model.new(part)


CONVENTION = convention(
    "verl",
    "verl's estimate, a forward pass of it: products, embeddings as a product, pairs without the causal mask.",
    "volcengine/verl@02cf355f, verl/utils/flops_counter.py",
    macs,
    (
        "a forward pass, a third of what the tool states for training",
        "embeddings count as a product with the vocabulary, though they are looked up; values count as wide as keys",
        "windows are followed where layers with and without one take turns, as in Gemma 3 and gpt-oss",
        "the tool states 0 for types of models that it does not list, Mixtral, Gemma 2, OLMo 2 and Phi-3 among them",
    ),
)
