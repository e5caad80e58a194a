"""How devices share the operators of a program of transformers: by its plan, and by what that leaves whole."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from flopwise.graph import Graph, Node, Share, Tensor, Way
from flopwise.operators.folding import constant

if TYPE_CHECKING:
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


def shared(graph: Graph, module: nn.Module) -> Graph:
    """The graph of a program, whose operators say how devices share them."""
    return with_ways(graph, engines_plan(module))


def with_ways(graph: Graph, plan: dict[str, str]) -> Graph:
    """A graph whose operators say how devices share them.

    Args:
        graph: a program.
        plan: module path with ``*`` for numbers -> how its weight is divided ("colwise", "rowwise" ...).
    """
    nodes = list(graph.nodes)
    for place, way in _Ways(graph, plan).ways():
        nodes[place] = replace(nodes[place], way=way)
    return replace(graph, nodes=tuple(nodes))


class _Ways:
    """The ways of a graph's operators, by the plan and by where products become heads."""

    def __init__(self, graph: Graph, plan: dict[str, str]) -> None:
        self.graph, self.folding = graph, constant(graph)
        self._plan = [(re.compile(re.escape(k).replace(r"\*", r"\d+") + r"$"), v) for k, v in plan.items()]
        self._stacks = {node.module: int(node.input(1).dims[0]) for node in graph.nodes if _is_stack(node)}
        #: The places of products by columns, by what they make and by the pieces of it.
        self._columns: dict[str, int] = {}
        #: Where a piece of so many features becomes so many heads: by the place, with that of its product.
        self._heads: dict[int, tuple[int, int, int]] = {}

    def ways(self) -> Iterator[tuple[int, Way]]:
        """The place of each operator that has a way of its own, and the way."""
        products: dict[int, Way] = {}
        for place, node in enumerate(self.graph.nodes):
            stored = [t for t in self.folding.stored(node) if t.kind == "weight"]
            kinds = {t: kind for t in stored if (kind := self._kind(t))} if node.known_outputs else {}
            kind, experts = next(iter(kinds.values()), ""), self._experts(node, stored)
            if kind:
                sizes, made = next(iter(kinds)).dims, (node.output().dims or (0,))[-1]
                features = int(made if made in sizes else sizes[0])  # of vectors a number for each head
                units = features if kind == "columns" and not experts else 0
                products[place] = Way(kind, (Share(features, units),), experts)  # type: ignore[arg-type] # one of them
                if kind == "columns":
                    self._columns.update((t.name, place) for t in node.known_outputs)
            elif experts:
                yield place, Way("whole", experts=experts)
            else:
                self._cut(place, node)
        pieces: dict[int, list[Share]] = {}
        most: dict[str, int] = {}
        for place, (_, _, heads) in self._heads.items():
            module = self.graph.nodes[place].module
            most[module] = max(most.get(module, 0), heads)
        for place, (product, features, heads) in self._heads.items():
            share = Share(features, heads, heads < most[self.graph.nodes[place].module])
            pieces.setdefault(product, []).append(share)
            yield place, Way("columns", (share,))
        for place, way in products.items():
            yield place, way._replace(shares=tuple(pieces.get(place, way.shares)))

    def _kind(self, tensor: Tensor) -> str:
        """The plan's way of a stored tensor; "" where it has none."""
        paths = (tensor.name, tensor.name.rpartition(".")[0])
        ways = [way for path in paths for pattern, way in self._plan if pattern.match(path)]
        way = next((way for way in ways if "colwise" in way or "rowwise" in way), "")
        if "embedding" in way or "gather" in way or way.endswith("_rep"):
            return "vocabulary"
        return "columns" if "colwise" in way else "rows" if way else ""

    def _experts(self, node: Node, stored: list[Tensor]) -> int:
        """Experts of what a node multiplies with, or picks for the rows of each, such as biases; 0 for none."""
        experts = self._stacks.get(node.module, 0)
        own = _is_stack(node) or any(t.dims[:1] == (experts,) for t in stored)
        return experts if experts and stored and own else 0

    def _cut(self, place: int, node: Node) -> None:
        """Follow the pieces of a product by columns to where they become heads, which are divided whole."""
        product = next((self._columns[t.name] for t in node.known_inputs if t.name in self._columns), None)
        if product is None:
            return
        if node.op in ("Slice", "Split", "Add"):
            self._columns.update((t.name, product) for t in node.known_outputs)
        if node.op != "Reshape" or node.input(0).name not in self._columns:
            return
        features, sizes = int(node.input(0).dims[-1]), [int(size) for size in node.output().dims]
        if len(sizes) <= len(node.input(0).dims):
            return
        if sizes[-1] == features and node.module == self.graph.nodes[product].module:  # the layer's tokens, not heads
            self._columns.update((t.name, product) for t in node.known_outputs)
            return
        for axis in range(len(sizes) - 2, -1, -1):
            if math.prod(sizes[axis:]) == features:
                kinds = sizes[axis] == 3 and axis + 2 < len(sizes)  # queries, keys and values before heads
                self._heads[place] = product, features, sizes[axis + kinds]
                return


def _is_stack(node: Node) -> bool:
    """True for the product of rows with the matrices of their experts."""
    return node.op == "aten::_grouped_mm" and node.has_input(1) and len(node.input(1).shape or ()) == 3


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
