"""SGLang's estimate of the operations of a batch (``--enable-mfu-metrics``), on one device."""

from __future__ import annotations

from flopwise.conventions.emulation.decoder import Decoder, Part, convention


def macs(model: Decoder, part: Part) -> int:
    """Products without router and vocabulary, one expert in place of all; all new tokens as one causal sequence."""
    if part.attention is not None:
        size = part.attention
        heads = size.heads // model.batch
        context = max(one.keys for one in model.attentions)
        pairs = model.tokens * context if size.queries == 1 else model.tokens * (model.tokens + 1) // 2
        return heads * pairs * size.products
    if part.kind == "experts":
        return part.macs * model.tokens // part.rows
    return part.macs if part.kind == "product" else 0


def _is_latent(model: Decoder) -> bool:
    return model.latent


CONVENTION = convention(
    "sglang",
    "SGLang's estimate: projections and a dense MLP, causal pairs of all new tokens as one sequence; no vocabulary.",
    "sgl-project/sglang@00eef542, python/sglang/srt/observability/scheduler_metrics_mixin.py",
    macs,
    (
        "tokens of all sequences of a prefill are taken as one sequence without a past; windows are not followed",
        "experts count as one MLP of the configuration's intermediate_size, here as one of them, which is that size in "
        "Mixtral and gpt-oss; Qwen3's configuration states the width of eight",
    ),
    {_is_latent: "SGLang takes latent attention for heads of 256, and experts for dense layers of a stated width"},
)
