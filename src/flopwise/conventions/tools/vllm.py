"""vLLM's estimate of the operations of a step (``--enable-mfu-metrics``), on one device."""

from __future__ import annotations

from flopwise.conventions.emulation.decoder import Decoder, Part, convention


def macs(model: Decoder, part: Part) -> int:
    """Products of the new tokens, each query with the whole context or a full window, scores of one token each."""
    if part.attention is not None:
        size = part.attention
        return size.heads * size.queries * size.window * size.products
    if part.kind == "vocabulary":
        return part.macs * model.batch // part.rows
    return model.new(part) if part.kind in ("product", "experts") else 0


CONVENTION = convention(
    "vllm",
    "vLLM's estimate of a step: projections, experts, pairs without the causal mask, scores of the last position.",
    "vllm-project/vllm@00cee63e, vllm/v1/metrics/perf.py, ComponentMetrics.get_num_flops",
    macs,
    (
        "each query counts the whole context or a full window, as if nothing were masked; routers are left out",
        "of latent attention keys and values are made of the new tokens alone; pairs are not those of absorbed latents",
        "the tool takes every feed-forward part as gated; of one without a gate it counts half as much again",
        "chunks of a prompt count one scored position each; a prompt in one piece is counted here",
    ),
)
