"""Losses; `reduction` may be a number (0 none, 1 mean, 2 sum) or a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered


def _named(reduction: Any, flags: Mapping[str, Any]) -> Any:
    """The reduction as a word; two flags that it replaced still win over it."""
    averaged, reduced = flags.get("size_average"), flags.get("reduce")
    if averaged is None and reduced is None:
        return {0: "none", 1: "mean", 2: "sum"}.get(reduction, reduction)
    return "none" if reduced is False else "sum" if averaged is False else "mean"


def _loss(op: str) -> Callable[..., Lowered]:
    """A loss of input and target whose other settings change no count."""

    def lowered(input: Tensor, target: Tensor, reduction: Any = 1, *rest: Any, **flags: Any) -> Lowered:
        return Lowered(op, (input, target), {"reduction": _named(reduction, flags)})

    return lowered


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: Any = 1, **flags: Any
) -> Lowered:
    return Lowered("aten::binary_cross_entropy", (input, target, weight), {"reduction": _named(reduction, flags)})


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: Any = 1,
    **flags: Any,
) -> Lowered:
    inputs = (input, target, weight, pos_weight)
    return Lowered("aten::binary_cross_entropy_with_logits", inputs, {"reduction": _named(reduction, flags)})


def kl_div(input: Tensor, target: Tensor, reduction: Any = 1, *, log_target: bool = False, **flags: Any) -> Lowered:
    attrs = {"reduction": _named(reduction, flags), "log_target": int(log_target)}
    return Lowered("aten::kl_div", (input, target), attrs)


def poisson_nll(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: Any = 1,
    **flags: Any,
) -> Lowered:
    attrs = {"reduction": _named(reduction, flags), "log_input": int(log_input), "full": int(full)}
    return Lowered("aten::poisson_nll_loss", (input, target), attrs)


def hinge_embedding(input: Tensor, target: Tensor, margin: float = 1.0, reduction: Any = 1, **flags: Any) -> Lowered:
    return Lowered("aten::hinge_embedding_loss", (input, target), {"reduction": _named(reduction, flags)})


def margin_ranking(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: Any = 1, **flags: Any
) -> Lowered:
    return Lowered("aten::margin_ranking_loss", (input1, input2, target), {"reduction": _named(reduction, flags)})


def multi_margin(
    input: Tensor,
    target: Tensor,
    p: Any = 1,
    margin: Any = 1.0,
    weight: Tensor | None = None,
    reduction: Any = 1,
    **flags: Any,
) -> Lowered:
    attrs = {"reduction": _named(reduction, flags), "p": int(p)}
    return Lowered("aten::multi_margin_loss", (input, target, weight), attrs)


def cosine_embedding(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: Any = 1, **flags: Any
) -> Lowered:
    return Lowered("aten::cosine_embedding_loss", (input1, input2, target), {"reduction": _named(reduction, flags)})


def triplet_margin(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Any = 1,
    **flags: Any,
) -> Lowered:
    attrs = {"reduction": _named(reduction, flags), "p": float(p), "swap": int(swap)}
    return Lowered("aten::triplet_margin_loss", (anchor, positive, negative), attrs)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: Any = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    **flags: Any,
) -> Lowered:
    labels = target.dtype in ("int64", "int32", "uint8")
    attrs = {"reduction": _named(reduction, flags)}
    if labels and not label_smoothing:
        # The loss skips labels that say so, which an attribute of ONNX's operator tells.
        return Lowered("SoftmaxCrossEntropyLoss", (input, target, weight), attrs)
    own = {"smoothed": int(bool(label_smoothing)), "labels": int(labels)}
    return Lowered("aten::cross_entropy_dense", (input, target, weight), attrs | own)


def nll(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: Any = 1,
    ignore_index: int = -100,
    **flags: Any,
) -> Lowered:
    return Lowered("NegativeLogLikelihoodLoss", (input, target, weight), {"reduction": _named(reduction, flags)})


def ctc(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any = None,
    target_lengths: Any = None,
    blank: int = 0,
    reduction: Any = 1,
    zero_infinity: bool = False,
    **flags: Any,
) -> Lowered:
    return Lowered("aten::ctc_loss", (log_probs, targets), {"reduction": _named(reduction, flags)})


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
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_with_logits": binary_cross_entropy_with_logits,
    "kl_div": kl_div,
    "poisson_nll_loss": poisson_nll,
    "hinge_embedding_loss": hinge_embedding,
    "margin_ranking_loss": margin_ranking,
    "multi_margin_loss": multi_margin,
    "cosine_embedding_loss": cosine_embedding,
    "triplet_margin_loss": triplet_margin,
    "cross_entropy_loss": cross_entropy,
    "nll_loss": nll,
    "nll_loss_nd": nll,
    "nll_loss2d": nll,
    "ctc_loss": ctc,
    "_ctc_loss": lambda log_probs, targets, *rest, **more: ctc(log_probs, targets, reduction="none"),
}
