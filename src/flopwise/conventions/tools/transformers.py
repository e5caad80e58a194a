"""transformers' ``total_flos`` of a training step, of which a forward pass is a third."""

from __future__ import annotations

from flopwise.conventions.emulation.decoder import Decoder, Part, convention


def macs(model: Decoder, part: Part) -> int:
    """Tokens times all weights but embeddings, those of every expert among them."""
    return 0 if part.kind == "embedding" else model.tokens * sum(tensor.numel for tensor in part.weights)


CONVENTION = convention(
    "transformers",
    "transformers' total_flos, a forward pass of it: 2 for each token and parameter that is no embedding.",
    "huggingface/transformers 5.23, Trainer.floating_point_ops, PreTrainedModel.num_parameters",
    macs,
    (
        "a forward pass, a third of what the tool states for training",
        "all experts count, though a token takes few; scores of the vocabulary do not where they share the table of "
        "embeddings; attention's pairs count nothing",
    ),
)
