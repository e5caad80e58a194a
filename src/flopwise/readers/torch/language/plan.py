"""The division of a language model's weights among devices: transformers' plan, and what it leaves whole."""

from __future__ import annotations

import re

from torch import nn

from flopwise.formats.torch.kinds import Model

#: Layers of attention, and what engines do with their weights: heads are divided.
_ATTENTION = {
    "colwise": (
        "q_proj k_proj v_proj qkv_proj query_key_value Wqkv c_attn q_b_proj kv_b_proj query key value sinks "
        "q k v q_lin k_lin v_lin receptance"
    ),
    "rowwise": "o_proj out_proj c_proj dense o out_lin Wo output",
}

#: Layers of feed-forward networks, gated or not, and of experts.
_FEED_FORWARD = {
    "colwise": (
        "gate_proj up_proj gate_up_proj gate_up_proj_bias w1 w3 fc1 c_fc fc_in dense_h_to_4h linear linear_v "
        "wi wi_0 wi_1 Wi lin1"
    ),
    "rowwise": "down_proj w2 fc2 c_proj fc_out dense_4h_to_h linear_1 wo Wo lin2",
}

#: The feed-forward networks of BERT and ALBERT, which have no modules of their own, and of RWKV.
_OTHERS = {
    "layer.*.intermediate.dense": "colwise",
    "layer.*.output.dense": "rowwise",
    "albert_layers.*.ffn": "colwise",
    "albert_layers.*.ffn_output": "rowwise",
    "feed_forward.key": "colwise",
    "feed_forward.value": "rowwise",
}

_ATTENTION_WAYS, _FEED_FORWARD_WAYS = (
    {name: way for way, names in ways.items() for name in names.split()} for ways in (_ATTENTION, _FEED_FORWARD)
)

_IN_ATTENTION = re.compile(
    r"(?:^|[._])(?:self_attn|self_attention|attention|attn|attn_1|SelfAttention|EncDecAttention)(?:\.|$)"
)
_IN_FEED_FORWARD = re.compile(
    r"(?:^|[._])(?:mlp|feed_forward|ffn|(?:shared_)?experts?|block_sparse_moe|DenseReluDense)(?:\.|$)|\.layers\.\*$"
)


def engines_plan(module: nn.Module) -> dict[str, str]:
    """The division of weights by tensor parallelism: module path with ``*`` for numbers -> the way.

    The ways are those of transformers' ``tp_plan``. Where that repeats on every device what engines divide (attention
    with latents, products of queries, keys and values in one, layers that it does not name), the division of
    Megatron-LM stands, https://arxiv.org/abs/1909.08053: heads and inner features by columns, what follows by rows, the
    vocabulary by entries.
    """
    plan: dict[str, str] = dict(getattr(module, "_tp_plan", None) or {})
    for path, _ in module.named_parameters():
        pattern = re.sub(r"(?<=\.)\d+(?=\.)", "*", path.removesuffix(".weight"))
        if path.endswith(".bias"):  # which goes with the weight beside it
            continue
        way = _way(pattern)
        if way and plan.get(pattern, "").replace("packed_", "") not in ("colwise", "rowwise"):
            plan[pattern] = way
    _divide_vocabulary(module, plan)
    _divide_adapters(module, plan)
    return plan


def _divide_adapters(module: nn.Module, plan: dict[str, str]) -> None:
    """Divide the half of an adapter that lies on the divided side of its layer."""
    for path, part in module.named_modules():
        pattern = re.sub(r"(?<=\.)\d+(?=\.)", "*", path)
        way = plan.get(pattern, "").replace("packed_", "")
        half = {"colwise": "lora_B", "rowwise": "lora_A"}.get(way, "")
        if half and hasattr(part, half):
            plan[f"{pattern}.{half}"] = plan[pattern]


def _way(pattern: str) -> str:
    """The way of a layer by where it stands and what it is called; "" for another."""
    place, _, name = pattern.rpartition(".")
    if _IN_ATTENTION.search(place):
        return _ATTENTION_WAYS.get(name, "")
    if _IN_FEED_FORWARD.search(place) and name in _FEED_FORWARD_WAYS:
        return _FEED_FORWARD_WAYS[name]
    return next((way for path, way in _OTHERS.items() if pattern.endswith(path)), "")


def _divide_vocabulary(module: Model, plan: dict[str, str]) -> None:
    """Divide the table of embeddings and the scores of the vocabulary by entries."""
    paths = {id(part): path for path, part in module.named_modules()}
    for name, way in (
        ("get_input_embeddings", "embedding_rowwise"),
        ("get_output_embeddings", "colwise_gather_output"),
    ):
        try:
            part = getattr(module, name, lambda: None)()
        except NotImplementedError:  # a model without one
            continue
        if part is not None and id(part) in paths:
            plan.setdefault(paths[id(part)], way)
