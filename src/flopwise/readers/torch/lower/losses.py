"""Losses; `reduction` may be a number (0 none, 1 mean, 2 sum) or a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered


def _reduction(reduction: Any, flags: Mapping[str, object]) -> object:
    """The reduction as a word; two flags that it replaced still win over it."""
    averaged, reduced = flags.get("size_average"), flags.get("reduce")
    if averaged is None and reduced is None:
        return {0: "none", 1: "mean", 2: "sum"}.get(reduction, reduction)
    return "none" if reduced is False else "sum" if averaged is False else "mean"


def _reduced(
    op: str, inputs: tuple[Tensor | None, ...], reduction: object, flags: Mapping[str, object], **attrs: object
) -> Lowered:
    """A loss with its reduction among its attributes."""
    return Lowered(op, inputs, {"reduction": _reduction(reduction, flags), **attrs})


def _loss(op: str) -> Callable[..., Lowered]:
    """A loss of input and target whose other settings change no count."""

    def lowered(input: Tensor, target: Tensor, reduction: object = 1, *settings: object, **flags: object) -> Lowered:
        return _reduced(op, (input, target), reduction, flags)

    return lowered


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: object = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    **flags: object,
) -> Lowered:
    labels = target.dtype in ("int64", "int32", "uint8")
    if labels and not label_smoothing:
        # The loss skips labels that say so, which an attribute of ONNX's operator tells.
        return _reduced("SoftmaxCrossEntropyLoss", (input, target, weight), reduction, flags)
    own = {"smoothed": int(bool(label_smoothing)), "labels": int(labels)}
    return _reduced("aten::cross_entropy_dense", (input, target, weight), reduction, flags, **own)


def triplet_margin(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: object = 1,
    **flags: object,
) -> Lowered:
    inputs = (anchor, positive, negative)
    return _reduced("aten::triplet_margin_loss", inputs, reduction, flags, p=float(p), swap=int(swap))


def ctc(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: object = None,
    target_lengths: object = None,
    blank: int = 0,
    reduction: object = 1,
    zero_infinity: bool = False,
    **flags: object,
) -> Lowered:
    return _reduced("aten::ctc_loss", (log_probs, targets), reduction, flags)


LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **{
        name: _loss(f"aten::{name}")
        for name in (
            "mse_loss",
            "l1_loss",
            "smooth_l1_loss",
            "huber_loss",
            "soft_margin_loss",
            "multilabel_margin_loss",
        )
    },
    "binary_cross_entropy": lambda input, target, weight=None, reduction=1, **flags: _reduced(
        "aten::binary_cross_entropy", (input, target, weight), reduction, flags
    ),
    "binary_cross_entropy_with_logits": lambda input, target, weight=None, pos_weight=None, reduction=1, **flags: (
        _reduced("aten::binary_cross_entropy_with_logits", (input, target, weight, pos_weight), reduction, flags)
    ),
    "kl_div": lambda input, target, reduction=1, *, log_target=False, **flags: _reduced(
        "aten::kl_div", (input, target), reduction, flags, log_target=int(log_target)
    ),
    "poisson_nll_loss": lambda input, target, log_input=True, full=False, eps=1e-8, reduction=1, **flags: _reduced(
        "aten::poisson_nll_loss", (input, target), reduction, flags, log_input=int(log_input), full=int(full)
    ),
    "hinge_embedding_loss": lambda input, target, margin=1.0, reduction=1, **flags: _reduced(
        "aten::hinge_embedding_loss", (input, target), reduction, flags
    ),
    "margin_ranking_loss": lambda input1, input2, target, margin=0.0, reduction=1, **flags: _reduced(
        "aten::margin_ranking_loss", (input1, input2, target), reduction, flags
    ),
    "multi_margin_loss": lambda input, target, p=1, margin=1.0, weight=None, reduction=1, **flags: _reduced(
        "aten::multi_margin_loss", (input, target, weight), reduction, flags, p=int(p)
    ),
    "cosine_embedding_loss": lambda input1, input2, target, margin=0.0, reduction=1, **flags: _reduced(
        "aten::cosine_embedding_loss", (input1, input2, target), reduction, flags
    ),
    "triplet_margin_loss": triplet_margin,
    "cross_entropy_loss": cross_entropy,
    **{
        name: lambda input, target, weight=None, reduction=1, ignore_index=-100, **flags: _reduced(
            "NegativeLogLikelihoodLoss", (input, target, weight), reduction, flags
        )
        for name in ("nll_loss", "nll_loss_nd", "nll_loss2d")
    },
    "ctc_loss": ctc,
    "_ctc_loss": lambda log_probs, targets, *settings, **options: ctc(log_probs, targets, reduction="none"),
}
