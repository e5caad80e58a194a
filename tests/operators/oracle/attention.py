"""Attention and rotary embedding step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.linear import matmul, zeros
from tests.operators.oracle.normalization import softmax
from tests.operators.oracle.number import Number, exp, pointwise, select, tanh
from tests.operators.oracle.reduction import maximum


def split_heads(x: Any, heads: int) -> Any:
    """(B, S, heads × d) -> (B, heads, S, d)."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_k: Any = None,
    past_v: Any = None,
    *,
    q_num_heads: int = 0,
    kv_num_heads: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    is_causal: int = 0,
) -> Any:
    flat = q.ndim == 3
    if flat:
        q, k, v = split_heads(q, q_num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    past = 0
    if past_k is not None:
        past = past_k.shape[2]
        k, v = np.concatenate([past_k, k], axis=2), np.concatenate([past_v, v], axis=2)
    present = (k, v)
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    root = math.sqrt(1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = matmul(q * root, (k * root).transpose(0, 1, 3, 2))
    if softcap:
        scores = softcap * pointwise(tanh, scores / softcap)
    bias = mask
    if bias is not None and bias.dtype == bool:
        one = q.flat[0]
        bias = pointwise(lambda keep: Number(0.0 if keep else -math.inf, one.tally), bias)
    if is_causal:
        frontier = np.where(np.tril(np.ones(scores.shape[-2:]), past) > 0, 0.0, -math.inf)
        bias = frontier if bias is None else bias + frontier
    if bias is not None:
        scores = scores + bias
    weights = softmax(scores)
    if mask is not None:
        nothing = pointwise(lambda best: best.equals(-math.inf), maximum(bias, [-1]))
        weights = pointwise(lambda flag, w: select(flag, 0.0, w), nothing, weights)
    y = matmul(weights, v)
    if flat:
        y = y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)
    return y if past_k is None else (y, *present)


def linear_attention(
    q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None, *,
    q_num_heads: int, kv_num_heads: int, update_rule: str = "gated_delta", scale: float = 0.0,
) -> Any:  # fmt: skip
    """One state for each key head, step by step."""
    q, k, v = split_heads(q, q_num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    batch, heads, steps, size = k.shape
    scale = scale or 1.0 / math.sqrt(size)
    state = zeros((batch, heads, size, v.shape[-1]), q) if past is None else past
    outputs = []
    for t in range(steps):
        key, value = k[:, :, t], v[:, :, t]
        if "gated" in update_rule:
            gate = pointwise(exp, decay[:, t].reshape(batch, heads, -1))
            state = state * gate[..., np.newaxis]
        if "delta" in update_rule:
            found = matmul(key[:, :, np.newaxis], state)[:, :, 0]
            value = (value - found) * beta[:, t].reshape(batch, -1, 1)
        state = state + matmul(key[..., np.newaxis], value[:, :, np.newaxis])
        read = np.repeat(state, q_num_heads // heads, axis=1)
        outputs.append(matmul(q[:, :, t][:, :, np.newaxis], read)[:, :, 0] * scale)
    return np.stack(outputs, axis=1).reshape(batch, steps, -1), state


def rotary_embedding(
    x: Any,
    cos: Any,
    sin: Any,
    positions: Any = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Any:
    heads = x if x.ndim == 4 else split_heads(x, num_heads)
    size = rotary_embedding_dim or heads.shape[-1]
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = cos[:, np.newaxis], sin[:, np.newaxis]
    turned = heads[..., :size]
    a, b = (
        (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., : size // 2], turned[..., size // 2 :])
    )
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if interleaved:
        turned = np.stack([real, imaginary], axis=-1).reshape(turned.shape)
    else:
        turned = np.concatenate([real, imaginary], axis=-1)
    y = np.concatenate([turned, heads[..., size:]], axis=-1)
    return y if x.ndim == 4 else y.transpose(0, 2, 1, 3).reshape(x.shape)


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "Attention": attention,
    "LinearAttention": linear_attention,
    "ai.onnx.preview::FlexAttention": attention,
    "RotaryEmbedding": rotary_embedding,
}
