"""Laws of onnxruntime's operators: batches, symbols, caches and what an attribute may not be."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.nodes import cost, node

from flopwise.errors import ShapeError
from flopwise.operators.counts import Counts
from flopwise.operators.tables import count

#: Operator, shapes of its inputs and outputs for a batch of n, attributes.
BATCHED: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("Attention", lambda n: [(n, 5, 12), (12, 48), (48,)], lambda n: [(n, 5, 16)], {"num_heads": 4}),
    ("MultiHeadAttention", lambda n: [(n, 5, 16)] * 3, lambda n: [(n, 5, 16)], {"num_heads": 4}),
    (
        "GroupQueryAttention",
        lambda n: [(n, 1, 32), (n, 1, 16), (n, 1, 16), (n, 2, 6, 8), (n, 2, 6, 8), (n,), ()],
        lambda n: [(n, 1, 32), (n, 2, 7, 8), (n, 2, 7, 8)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "smooth_softmax": 1},
    ),
    (
        "PagedAttention",
        lambda n: [(n, 32), (n, 16), (n, 16), (5, 16, 2, 8), (5, 16, 2, 8), (n,), (n,), (n, 2)],
        lambda n: [(n, 32)],
        {"num_heads": 4, "kv_num_heads": 2},
    ),
    ("SkipLayerNormalization", lambda n: [(n, 5, 8), (n, 5, 8), (8,), (8,)], lambda n: [(n, 5, 8)], {}),
    ("MatMulNBits", lambda n: [(n, 5, 32), (8, 2, 8), (16,)], lambda n: [(n, 5, 8)], {"K": 32, "N": 8}),
    ("MoE", lambda n: [(n, 8), (n, 4), (4, 16, 8), None, (4, 8, 16)], lambda n: [(n, 8)], {"k": 2}),
    ("FusedConv", lambda n: [(n, 3, 9, 9), (8, 3, 3, 3), (8,)], lambda n: [(n, 8, 7, 7)], {"activation": "Relu"}),
    ("QLinearSoftmax", lambda n: [(n, 8), (), (), (), ()], lambda n: [(n, 8)], {}),
    (
        "GatedDeltaNet",
        lambda n: [(n, 2, 8), (n, 2, 8), (n, 4, 6), (3,), (n, 4), (n, 4)],
        lambda n: [(n, 4, 6)],
        {"qk_l2_norm": 1},
    ),
    ("MatMulPacked", lambda n: [(n, 5, 64), (8, 36)], lambda n: [(n, 5, 8)], {"activation_type": "silu"}),
    (
        "MoEPacked",
        lambda n: [(n, 8), (n, 4), (4, 16, 9), (4, 16, 9), (4, 8, 18), (n, 4)],
        lambda n: [(n, 8)],
        {"k": 2, "routing_epsilon": 0.5, "routed_scaling_factor": 2.5},
    ),
    ("MoEGroupRouter", lambda n: [(n, 8), (8,)], lambda n: [(n, 8)], {"top_k": 3, "n_group": 4, "topk_group": 2}),
    ("RouterGateUpProj", lambda n: [(n, 8), (8, 14)], lambda n: [(n, 4), (n, 5)], {"router_size": 4}),
    ("RMSNormRotary", lambda n: [(n, 3, 4, 16), (8,)], lambda n: [(n, 3, 32)], {"rotary_embedding_dim": 4}),
    (
        "HyperConnectionLowRankMix",
        lambda n: [(n, 3, 20), (20,), (20, 3), (3, 20), (20, 4)],
        lambda n: [(n, 3, 5), (n, 3, 4)],
        {"num_branches": 4, "reduction_scale": 0.5},
    ),
    (
        "Mamba2Verify",
        lambda n: [(n, 30), (1, 22, 3), (1, 2, 4, 3), (22, 4), (22,), (2,), (2,), (2,), (6,), (1,)],
        lambda n: [(n, 6), (1, 22, 3), (1, 2, 4, 3)],
        {"heads": 2, "n_groups": 2, "d_state": 4},
    ),
    (
        "PackedSparseAttentionIndexerMerge",
        lambda n: [(9, 4), (9,), (n,), (n,), (n,)],
        lambda n: [(n, 6), (n,), (n,)],
        {"max_output_entries": 6},
    ),
    ("SwiGLU", lambda n: [(n, 8)], lambda n: [(n, 4)], {"limit": 2.0}),
    ("GroupNorm", lambda n: [(n, 5, 5, 8), (8,), (8,)], lambda n: [(n, 5, 5, 8)], {"groups": 2, "activation": 1}),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs"), BATCHED)
def test_doubling_the_batch_doubles_the_counts(op: str, inputs: Any, outputs: Any, attrs: dict[str, Any]) -> None:
    name = f"com.microsoft::{op}"
    assert cost(name, inputs(6), outputs(6), **attrs) == cost(name, inputs(3), outputs(3), **attrs) * 2


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs"), BATCHED)
def test_symbols_count_like_the_numbers_they_stand_for(
    op: str, inputs: Any, outputs: Any, attrs: dict[str, Any]
) -> None:
    sympy = pytest.importorskip("sympy")
    n, name = sympy.Symbol("n", positive=True, integer=True), f"com.microsoft::{op}"
    symbolic = cost(name, inputs(n), outputs(n), **attrs)
    numbers = Counts(*(int(sympy.sympify(v).subs(n, 5)) for _, v in symbolic.items()))
    assert numbers == cost(name, inputs(5), outputs(5), **attrs)


def test_one_attention_under_five_names() -> None:
    """The same queries and keys: grouped or not, in pages or not, and as ONNX's own operator."""
    flat, mask = (1, 8, 32), {"num_heads": 4, "kv_num_heads": 4}
    standard = cost("Attention", [flat] * 3, [flat], q_num_heads=4, kv_num_heads=4, is_causal=1)
    assert standard == cost("com.microsoft::MultiHeadAttention", [flat] * 3, [flat], num_heads=4, unidirectional=1)
    assert standard == cost("com.microsoft::GroupQueryAttention", [flat] * 3, [flat], **mask)
    tokens, pages = (8, 32), (1, 8, 4, 8)
    paged = [tokens, tokens, tokens, pages, pages, (2,), (1,), (1, 1)]
    assert standard == cost("com.microsoft::PagedAttention", paged, [tokens], **mask)
    chosen = [flat, flat, flat, None, None, None, None, (8, 8), (8,), (1,), ()]
    sparse = cost("com.microsoft::DynamicSparseAttention", chosen, [flat], **mask)
    # here each token has its own keys, which are scaled for it alone
    assert sparse == standard + Counts(mul=7 * 8 * 32)


def test_a_quantised_cache_adds_its_scales() -> None:
    shapes = [(1, 1, 32), (1, 1, 16), (1, 1, 16), (1, 2, 6, 8), (1, 2, 6, 8), (1,), ()]
    made, heads = [(1, 1, 32), (1, 2, 7, 8), (1, 2, 7, 8)], {"num_heads": 4, "kv_num_heads": 2}
    plain = cost("com.microsoft::GroupQueryAttention", shapes, made, **heads)
    both = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
    stored = cost("com.microsoft::GroupQueryAttention", shapes, made, **heads, **both)
    assert stored == plain + Counts(mul=2 * 2 * 7 * 8) + Counts(mul=1, cmp=3) * (2 * 2 * 8)


def test_a_local_window_bounds_sparse_attention() -> None:
    tokens = [(6, 32), (6, 16), (6, 16), (5, 16, 2, 8), (5, 16, 2, 8), (2,), (1,), (1, 4), None, (6, 3), (6,)]
    heads = {"num_heads": 4, "kv_num_heads": 2}
    selected = cost("com.microsoft::SparsePagedAttention", tokens, [(6, 32)], **heads)
    both = {"attention_mode": "local_plus_selected", "local_window_size": 9}
    wider = cost("com.microsoft::SparsePagedAttention", tokens, [(6, 32)], **heads, **both)
    assert selected.mac == 6 * 4 * 3 * 16
    assert wider.mac == selected.mac * 4


def test_a_longformer_attends_to_its_window_and_everywhere() -> None:
    shapes = [(1, 8, 6), (6, 18), (18,), (1, 8), (6, 18), (18,), (1, 8)]
    counts = cost("com.microsoft::LongformerAttention", shapes, [(1, 8, 6)], num_heads=2, window=2)
    assert counts.mac == 2 * 8 * 6 * 18 + 8 * (2 * 2 + 1 + 8) * 6 * 2


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Attention", {"num_heads": [2]}),
        ("GroupQueryAttention", {"num_heads": "many", "kv_num_heads": 2}),
        ("MoE", {"k": [1]}),
        ("NGramRepeatBlock", {"ngram_size": 2.5}),
        ("NhwcMaxPool", {"kernel_shape": "xy"}),
        ("GatedDeltaNet", {"update_rule": "sometimes"}),
        ("CDist", {"metric": "cosine"}),
        ("GatedDeltaNet", {"gate_activation": "sometimes"}),
        ("RouterGateUpProj", {"router_size": 4, "activation": "relu"}),
        ("GatherPacked", {"packed_type": 999}),
        ("MoEPacked", {"activation_type": "wobble"}),
        ("MoEGroupRouter", {"top_k": "many"}),
        ("MatMulPacked", {"activation_type": "wobble"}),
    ],
)
def test_an_attribute_without_sense_is_refused_in_one_line(op: str, attrs: dict[str, Any]) -> None:
    shapes: list[Any] = [(2, 4, 8), (8, 24), (24, 2, 4), (2, 2, 2, 2), (2, 2, 2, 2), (2,), ()]
    with pytest.raises(ShapeError) as caught:
        count(node(f"com.microsoft::{op}", shapes, [(2, 4, 8)] * 3, attrs))
    assert op in str(caught.value)
    assert "\n" not in str(caught.value)
