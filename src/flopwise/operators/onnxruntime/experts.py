"""Mixtures of experts of com.microsoft, and residual streams."""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import RMS, RMS_ROW, SIGMOID, SILU, SOFTMAX, Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.inputs import DATA, FACTOR, SCALE, Input, factor, inputs, unpacked
from flopwise.operators.onnxruntime.linear import FAST_GELU, FUSED
from flopwise.operators.onnxruntime.pointwise import limited, swiglu
from flopwise.operators.operator import Effect, Operator, by
from flopwise.operators.packed import Packed, elements, of_experts
from flopwise.operators.size import smaller

# Mixtures of experts in ``com.microsoft``: routers, and the experts that each token takes.
#
# Packed weights are unpacked in the kernel's own loop: that is not arithmetic of the model.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md


def experts(node: Node) -> Counts:
    """for each token and each of the k experts that it takes: the products with fc1, fc2 and fc3 (mac), their biases
    (add), the activation, and H mac to blend the results; numel(router_probs) × (1 cmp + 2 add + 1 exp + 1 div)
    (softmax) and × bits(k) cmp (TopK, by binary search); normalize_routing_weights: tokens × k × (1 add + 1 div).

    input is (tokens, H) or (B, S, H). All other experts rest. swiglu of g and l: 2 mul + 1 bit + 1 exp + 1 add + 1 div,
    1 mul more when activation_alpha ≠ 1, 1 add more when activation_beta ≠ 0, 3 cmp more when swiglu_limit is given,
    wherever it clamps; geglu: Gelu of g by tanh and 1 mul; other activations are multiplied with fc3's results, where
    there are any.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MoE
    """
    return _experts(node, {}, weights=(2, 4, 6), biases=(3, 5, 7))


def quantized_experts(node: Node) -> Counts:
    """as MoE; unpacking the weights is part of the kernel.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QMoE
    """
    return _experts(node, unpacked(node, _QUANTIZED_EXPERTS), weights=(2, 5, 8), biases=(4, 7, 10))


def _experts(
    node: Node, elements: dict[str, int], weights: tuple[int, int, int], biases: tuple[int, int, int]
) -> Counts:
    """The work of experts, some of whose weights hold more elements than their shape says."""
    x, router, k = node.input(0), node.input(1), integer(node, "k", 1)
    width, tokens = extent(node, x, -1), product(x.dims[:-1])
    sizes = [_expert_elements(node, place, elements) for place in weights]
    added = sum(extent(node, node.input(place), -1) for place in biases if node.has_input(place))
    inner = sizes[1] // width
    chosen = (SOFTMAX + Counts(cmp=k.bit_length())) * router.numel
    if node.attrs.get("normalize_routing_weights", 0):
        chosen += Counts(add=1, div=1) * (tokens * k)
    visits = tokens * k
    products = Counts(mac=visits * (sum(sizes) + width), add=visits * added)
    return products + _gate(node, sizes[2]) * (visits * inner) + chosen


def _expert_elements(node: Node, place: int, elements: dict[str, int]) -> int:
    """Elements of one expert's matrix; 0 when there is none at this place."""
    if not node.has_input(place):
        return 0
    tensor = node.input(place)
    return elements.get(tensor.name, tensor.numel) // extent(node, tensor, 0)


def _gate(node: Node, third: int) -> Counts:
    """One element of what lies between the products of an expert.

    Raises:
        ShapeError: there is no activation of that name.
    """
    kind = str(node.attrs.get("activation_type", "relu")).lower()
    if kind == "swiglu":
        return swiglu(node, "swiglu_limit" in node.attrs)
    if kind == "geglu":
        return FAST_GELU + Counts(mul=1)
    return _activation(node, kind) + Counts(mul=int(third > 0))


def _activation(node: Node, kind: str) -> Counts:
    """One element of an activation by its name.

    Raises:
        ShapeError: there is none of that name.
    """
    once = FAST_GELU if kind == "gelu" else FUSED.get(kind)
    if once is None:
        raise ShapeError(f"{node.op} {node.name!r}: unknown activation {kind!r}")
    return once


def stored_experts(node: Node) -> Counts:
    """for each token and each of the k experts that it takes: 3 × inter × H mac (gate, up and down), inter elements of
    swiglu, 2 mul + 1 bit + 1 exp + 1 add + 1 div, and H mac to blend the results; relu2: 2 × inter × H mac, inter × (1
    cmp + 1 mul). numel(router_probs) × bits(k) cmp (TopK, by binary search) and, without router_weights, × (1 cmp + 2
    add + 1 exp + 1 div) (softmax). normalize_routing_weights: tokens × k × (1 add + 1 div), or with router_weights and
    no routing_epsilon tokens × (k add + 1 cmp + 1 div + k mul), with one tokens × (k add + 1 add + 1 cmp + k div);
    routed_scaling_factor ≠ 1: tokens × k mul.

    input is (..., H), gate_experts_weights (experts, inter, bytes). Unpacking the weights is part of the kernel.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MoEPacked
    """
    x, k = node.input(0), integer(node, "k", 1)
    width, tokens, inner = extent(node, x, -1), product(x.dims[:-1]), extent(node, node.input(2), 1)
    kind = str(node.attrs.get("activation_type", "swiglu")).lower()
    gated = kind == "swiglu"
    gate = swiglu(node, clamped=False) if gated else _activation(node, kind)
    visit = Counts(mac=(3 if gated else 2) * inner * width + width) + gate * inner
    full = node.has_input(5)
    chosen = (Counts(cmp=k.bit_length()) + (Counts() if full else SOFTMAX)) * node.input(1).numel
    token = visit * k
    if node.attrs.get("normalize_routing_weights", 1):
        token += _normalized(k, full, node.attrs.get("routing_epsilon", 0.0) != 0.0)
    if node.attrs.get("routed_scaling_factor", 1.0) != 1.0:
        token += Counts(mul=k)
    return token * tokens + chosen


def _normalized(k: int, full: bool, epsilon: bool) -> Counts:
    """Counts of dividing the weights of a token's experts by their sum; full scores look for a sum of zero."""
    if not full:
        return Counts(add=1, div=1) * k
    return Counts(add=k, cmp=1) + (Counts(add=1, div=k) if epsilon else Counts(div=1, mul=k))


def group_router(node: Node) -> Counts:
    """s × (1 bit + 1 exp + 1 add + 1 div) (sigmoid) and s add (expert_bias), s = tokens × E; projection_weight: s ×
    width mac. router_probs: s × bits(g) cmp and tokens × n_group × g add (the g = group_topk best of each group and
    their sum), tokens × n_group × bits(topk_group) cmp (groups), tokens × topk_group × E / n_group × bits(top_k) cmp
    (experts), each by binary search, and tokens × top_k × (1 cmp + 1 log).

    expert_bias is (E). selection_scores and router_weights select nothing.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MoEGroupRouter
    """
    x, experts = node.input(0), extent(node, node.input(1), 0)
    tokens = product(x.dims[:-1])
    token = (SIGMOID + Counts(add=1)) * experts
    if node.has_input(2):
        token += Counts(mac=experts * extent(node, x, -1))
    if node.outputs and node.outputs[0] is not None:
        token += _selected(node, experts)
    return token * tokens


def _selected(node: Node, experts: int) -> Counts:
    """The choice of groups for one token, and of experts among them."""
    groups, k, best = max(integer(node, "n_group", 1), 1), integer(node, "top_k"), integer(node, "group_topk", 2)
    best_groups, size = integer(node, "topk_group", 1), experts // groups
    best = smaller(best, size)
    counts = Counts(cmp=experts * best.bit_length() + groups * best_groups.bit_length(), add=groups * best)
    return counts + Counts(cmp=best_groups * size * k.bit_length()) + Counts(cmp=1, log=1) * k


def shared_expert(node: Node) -> Counts:
    """rows × K × N mac (router logits, gate and up of the shared expert), N = router_size + 2 × inter; rows × inter
    elements of swiglu, 2 mul + 1 bit + 1 exp + 1 add + 1 div each, 1 mul more when activation_alpha ≠ 1, 1 add more
    when activation_beta ≠ 0, 3 cmp more when limit > 0.

    X is (..., K), W is (K, N).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RouterGateUpProj
    """
    x, columns = node.input(0), extent(node, node.input(1), 1)
    kind = str(node.attrs.get("activation", "swiglu")).lower()
    if kind != "swiglu":
        raise ShapeError(f"{node.op} {node.name!r}: unknown activation {kind!r}")
    activated = product(x.dims[:-1]) * ((columns - integer(node, "router_size")) // 2)
    return Counts(mac=x.numel * columns) + swiglu(node, limited(node)) * activated


_QUANTIZED_EXPERTS = inputs(
    *(FACTOR, DATA, Input(factor=True, packed=of_experts(1)), SCALE, DATA),
    *(Input(packed=of_experts(2)), SCALE, DATA, Input(packed=of_experts(3)), SCALE, DATA),
    *(Input("zero point", packed=of_experts(layer)) for layer in (1, 2, 3)),
    *(DATA, *[SCALE] * 6),
)

#: The packed weights of MoEPacked: extents of the experts' matrices, and the attribute with their type.
_GATE, _UP, _DOWN = (
    Packed(elements((place, 0), (place, 1), width), format=f"{name}_type")
    for place, width, name in ((2, (0, -1), "gate"), (3, (0, -1), "up"), (4, (2, 1), "down"))
)

_ROUTED: frozenset[Effect] = frozenset({"experts"})

OPERATORS: dict[str, Operator] = {
    "com.microsoft::MoE": by(experts, inputs=inputs(FACTOR, DATA, FACTOR), shape=shape.alike, effects=_ROUTED),
    "com.microsoft::QMoE": by(quantized_experts, inputs=_QUANTIZED_EXPERTS, shape=shape.alike, effects=_ROUTED),
    "com.microsoft::MoEPacked": by(
        stored_experts,
        inputs=inputs(FACTOR, DATA, Input(factor=True, packed=_GATE), Input(packed=_UP), Input(packed=_DOWN)),
        shape=shape.alike,
        effects=_ROUTED,
    ),
    "com.microsoft::MoEGroupRouter": by(
        group_router, inputs=inputs(FACTOR, DATA, FACTOR), types="products:group_router"
    ),
    "com.microsoft::RouterGateUpProj": by(
        shared_expert, inputs=inputs(FACTOR, factor("right")), types="products:router_and_expert"
    ),
}


# Hyper-connections of ``com.microsoft``: residual streams in several branches, their norms, gates and mixtures.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

#: One element of RMSNormalization without a scale.
_UNSCALED = Counts(mul=1, add=1, div=1)


def branchwise_rms_normalization(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add + 1 div), and 1 mul more when scale is given, + rows × (1 div + 1 add + 1 sqrt), rows =
    numel(X) / H.

    X is (..., C, H), or (..., C × H) with C = num_branches.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BranchwiseRMSNorm
    """
    x = node.input(0)
    rows = product(x.dims[:-1]) * (integer(node, "num_branches", 0) or 1)
    return (RMS if node.has_input(1) else _UNSCALED) * x.numel + RMS_ROW * rows


def mix_before(node: Node) -> Counts:
    """numel(X) mac; reduction_scale ≠ 1: numel(Y) mul.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.HyperConnectionPreMix
    """
    scaled = node.attrs.get("reduction_scale", 1.0) != 1.0
    return Counts(mac=node.input(0).numel, mul=node.output().numel if scaled else 0)


def mix_after(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 add) (the gated output of the block), and numel(Y) × C mac when stream_mix is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.HyperConnectionPostMix
    """
    outputs = node.output().numel
    mixed = outputs * extent(node, node.input(3), -1) if node.has_input(3) else 0
    return Counts(mac=mixed, mul=outputs, add=outputs)


def mix_by_rank(node: Node) -> Counts:
    """n × (2 mul + 1 add + 1 div) + rows × C × (1 div + 1 add + 1 sqrt) (RMSNormalization of the n = numel(streams)
    elements); n × R mac (down), rows × R × (1 mul + 1 bit + 1 exp + 1 add + 1 div) (silu, 1 mul more when silu_alpha ≠
    1), n × R mac (up), n × (1 bit + 1 exp + 1 add + 1 div) (sigmoid); n mac (sum over branches), numel(Y) mul when
    reduction_scale ≠ 1; n × C mac (inject), rows × C × (1 bit + 1 exp + 1 add + 1 div), 1 div more when gate_div ≠ 1, 1
    mul more when gate_mul ≠ 1; prev_block_output: n × (1 mul + 1 add).

    streams is (..., C × H), down_weight (C × H, R), C = num_branches.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.HyperConnectionLowRankMix
    """
    x, branches, rank = node.input(0), integer(node, "num_branches"), extent(node, node.input(2), 1)
    rows, n = product(x.dims[:-1]), x.numel
    scaled, divided, multiplied, reduced = (
        int(node.attrs.get(name, 1.0) != 1.0) for name in ("silu_alpha", "gate_div", "gate_mul", "reduction_scale")
    )
    before = Counts(mul=n, add=n) if node.has_input(5) else Counts()
    normed = RMS * n + RMS_ROW * (rows * branches)
    gates = Counts(mac=2 * n * rank) + (SILU + Counts(mul=scaled)) * (rows * rank) + SIGMOID * n
    after = Counts(mac=n * branches) + (SIGMOID + Counts(div=divided, mul=multiplied)) * (rows * branches)
    return before + normed + gates + after + Counts(mac=n, mul=reduced * node.output().numel)


STREAMS: dict[str, Operator] = {
    "com.microsoft::BranchwiseRMSNorm": by(branchwise_rms_normalization, shape=shape.alike),
    "com.microsoft::HyperConnectionPreMix": by(mix_before, types="language:mixed"),
    "com.microsoft::HyperConnectionPostMix": by(mix_after, shape=shape.alike),
    "com.microsoft::HyperConnectionLowRankMix": by(
        mix_by_rank, inputs=inputs(FACTOR, DATA, *[factor("right")] * 3), types="language:mixed_by_rank"
    ),
}
