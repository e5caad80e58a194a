"""The rules of thumb for the FLOPs of language models, spread over the operators that they stand for.

They state the forward and backward pass of a token together; a forward pass is a third of it. N is the number of
parameters, of a mixture of experts that of the active ones, L the layers, H the heads, Q the width of a head, T the
tokens of the context, h the width of the model and V the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from flopwise.conventions.convention import Convention, Whole
from flopwise.graph import Graph, Node, Tensor
from flopwise.memory.attention import AttentionSize, attention_sizes
from flopwise.memory.experts import experts_of, picked_for
from flopwise.operators.counts import Counts
from flopwise.operators.folding import constant


def following(graph: Graph, names: Collection[str]) -> set[str]:
    """Names of the tensors that are computed from any of the named ones, these among them."""
    reached = set(names)
    for node in graph.nodes:
        if any(tensor.name in reached for tensor in node.known_inputs):
            reached.update(tensor.name for tensor in node.known_outputs)
    return reached


def token_ids(graph: Graph) -> str | None:
    """Name of the input that holds token ids: the first of whole numbers that is not a mask; None without one."""
    for tensor in graph.inputs:
        if tensor.kind == "input" and tensor.dtype in ("int64", "int32") and tensor.shape and "mask" not in tensor.name:
            return tensor.name
    return None


class _Model(NamedTuple):
    """The facts about a model that the rules need."""

    tokens: int
    #: The table of token embeddings: rows and columns.
    vocabulary: int
    width: int
    #: Its attentions, by the identity of the operator that stands for each.
    attentions: Mapping[int, AttentionSize]


class _Use(NamedTuple):
    """A stored weight at the first operator that uses it."""

    tensor: Tensor
    #: Elements that one token is multiplied with.
    active: int
    #: Whether it is a table whose rows are only looked up, and whether by token.
    table: bool
    by_token: bool


#: The model, an operator, and the weights first used there -> multiply-adds; None where the operator has no part in it.
Rule = Callable[[_Model, Node, Sequence[_Use]], int]


def _graph_counts(rule: Rule) -> Whole:
    """A rule of thumb as counts of a whole graph."""

    def counts(graph: Graph, canonical: Sequence[Counts | None]) -> Sequence[Counts | None]:
        uses = _uses(graph)
        model = _model(graph, uses)
        if model is None:
            return [None] * len(graph.nodes)
        return [Counts(mac=rule(model, node, used)) for node, used in zip(graph.nodes, uses, strict=True)]

    def remarks(graph: Graph) -> Sequence[str]:
        if _model(graph, _uses(graph)) is None:
            return ("the rule is for language models, whose inputs are tokens that are looked up in a table",)
        return ()

    return Whole(counts, remarks=remarks, programs=False)


def _model(graph: Graph, uses: Sequence[Sequence[_Use]]) -> _Model | None:
    """The facts about a language model; None for any other model."""
    name = token_ids(graph)
    ids = next((t for t in graph.inputs if t.name == name), None)
    tables = [use.tensor for used in uses for use in used if use.by_token and len(use.tensor.dims) == 2]
    if ids is None or not tables:
        return None
    rows, columns = max((int(t.dims[0]), int(t.dims[1])) for t in tables)
    sizes = {id(graph.nodes[place]): size for place, size in attention_sizes(graph).items()}
    return _Model(int(ids.numel), rows, columns, sizes)


def _uses(graph: Graph) -> list[list[_Use]]:
    """The weights first used at each operator; views of a weight use nothing."""
    folding = constant(graph)
    ids = token_ids(graph)
    by_ids = following(graph, {ids} if ids else ())
    others: dict[str, set[str]] = {}
    for position, node in enumerate(graph.nodes):
        if position not in folding.positions:
            for tensor in folding.stored(node):
                others.setdefault(tensor.name, set()).add(node.op)
    tokens = next((int(t.numel) for t in graph.inputs if t.name == ids), 1)
    stacks = {node.module: stack for node in graph.nodes if (stack := experts_of("", node))}
    owned: set[str] = set()
    uses: list[list[_Use]] = []
    for position, node in enumerate(graph.nodes):
        used: list[_Use] = []
        for tensor in folding.stored(node) if position not in folding.positions else ():
            if tensor.kind != "weight" or tensor.name in owned or not tensor.resolved:
                continue
            owned.add(tensor.name)
            by_token = node.op == "Gather" and node.has_input(1) and node.input(1).name in by_ids
            stack = experts_of("", node) or picked_for(node, tensor, stacks)
            table = others[tensor.name] == {"Gather"} and stack is None  # biases of experts are picked, too
            share = stack.active(tokens) if stack is not None and stack.hold(tensor) else 1
            used.append(_Use(tensor, round(tensor.numel * share), table, by_token))
        uses.append(used)
    return uses


def _pairs(model: _Model, node: Node) -> int:
    """2 H Q T multiply-adds of a token in one attention, T being all keys; 0 for an operator that is none."""
    size = model.attentions.get(id(node))
    return 0 if size is None else 2 * size.heads * size.queries * size.keys * size.key_width // model.tokens


def _seen(model: _Model, node: Node) -> int:
    """H (Q + V) T multiply-adds of a token in one attention, T being at most a window, V the width of a value."""
    size = model.attentions.get(id(node))
    return 0 if size is None else size.heads * size.queries * size.window * size.products // model.tokens


def _kaplan(model: _Model, node: Node, used: Sequence[_Use]) -> int:
    return model.tokens * sum(use.active for use in used)


def _palm(model: _Model, node: Node, used: Sequence[_Use]) -> int:
    return model.tokens * (sum(use.active for use in used) + _pairs(model, node))


def _nanogpt(model: _Model, node: Node, used: Sequence[_Use]) -> int:
    params = sum(use.active for use in used if not use.table or use.by_token)
    return model.tokens * (params + _pairs(model, node))


def _torchtitan(model: _Model, node: Node, used: Sequence[_Use]) -> int:
    return model.tokens * (sum(use.active for use in used if not use.table) + _seen(model, node))


def _megatron(model: _Model, node: Node, used: Sequence[_Use]) -> int:
    logits = model.width * model.vocabulary if any(use.by_token for use in used) else 0
    size = model.attentions.get(id(node))
    layer = 0 if size is None else 12 * model.width**2 + 2 * model.width * size.keys
    return model.tokens * (logits + layer)


#: Name -> rule; "6N" is the one that all others begin with (https://arxiv.org/abs/2001.08361).
RULES: Mapping[str, Rule] = {
    "6N": _kaplan,
    "palm": _palm,
    "nanogpt": _nanogpt,
    "torchtitan": _torchtitan,
    "megatron": _megatron,
}


def training_flops(graph: Graph) -> dict[str, int]:
    """FLOPs of a training step as the rules state them, by name: six for each multiply-add of the forward pass.

    Empty for a graph whose inputs are not tokens that are looked up in a table.
    """
    uses = _uses(graph)
    model = _model(graph, uses)
    if model is None:
        return {}
    return {
        name: 6 * sum(rule(model, node, used) for node, used in zip(graph.nodes, uses, strict=True))
        for name, rule in RULES.items()
    }


def _convention(name: str, summary: str, source: str, rule: Rule, differs: str) -> Convention:
    return Convention(
        name=name,
        unit="FLOP",
        summary=summary,
        source=source,
        weights=Counts(mac=2),
        others="zero",
        fold=False,
        whole=_graph_counts(rule),
        notes=(
            "a rule of thumb for language models: a forward pass, a third of what it states for training",
            f"it differs from the exact count because {differs}",
        ),
    )


PALM = _convention(
    "palm",
    "PaLM's rule: 2 N + 4 L H Q T for each token of a forward pass, N being all parameters.",
    "Chowdhery et al., PaLM, https://arxiv.org/abs/2204.02311, appendix B",
    _palm,
    "N counts embeddings that are only looked up, and everything but products is left out",
)
NANOGPT = _convention(
    "nanogpt",
    "nanoGPT's rule: as PaLM's, N without position embeddings.",
    "karpathy/nanoGPT, model.py, estimate_mfu",
    _nanogpt,
    "N counts token embeddings also where they are only looked up, and everything but products is left out",
)
TORCHTITAN = _convention(
    "torchtitan",
    "torchtitan's rule: as PaLM's, N without embeddings that are only looked up; windows and latents are followed.",
    "pytorch/torchtitan@01c01c88, torchtitan/models/utils.py",
    _torchtitan,
    "everything but products is left out, masks are not followed, and norms and biases count as products",
)
MEGATRON = _convention(
    "megatron",
    "Megatron-LM's rule: 24 L h² (1 + T / 6h + V / 12Lh) for each token of a forward pass.",
    "Narayanan et al., https://arxiv.org/abs/2104.04473, section 5.1",
    _megatron,
    "it has GPT's layer, as many heads of keys as of queries and an MLP of 4 h without a gate, and counts nothing else",
)
