"""Rules of thumb for the FLOPs of language models, and the formulas of engines and trainers.

Most state the forward and backward pass of a token together; a forward pass is a third of it. N is the number of
parameters, of a mixture of experts that of the active ones, L the layers, H the heads, Q the width of a head, T the
tokens of the context, h the width of the model and V the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from flopwise.conventions.convention import Convention, Whole
from flopwise.graph import Graph, Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.folding import constant
from flopwise.operators.masks import ABSORBED, pairs_within
from flopwise.operators.tables import row as row_of
from flopwise.storage.attention import AttentionSize, attention_sizes, unfused_attention
from flopwise.storage.experts import GROUPED, experts_of, picked_for


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


#: An attention stands at the product of its scores. Of products with stored weights there are those that route tokens
#: to experts, that score the vocabulary, and all others; embeddings are looked up. The rest multiplies nothing.
Kind: TypeAlias = Literal["attention", "router", "experts", "vocabulary", "product", "embedding", "rest"]


class Use(NamedTuple):
    """A trained weight at the first operator that uses it; views of a weight use nothing."""

    tensor: Tensor
    #: Elements that one token is multiplied with.
    active: int
    #: Whether it is a table whose rows are only looked up, and whether by token.
    table: bool
    by_token: bool


@dataclass(frozen=True, slots=True)
class Part:
    """An operator of a decoder."""

    kind: Kind
    #: Multiply-adds that it executes; of an attention those of all its products.
    macs: int
    #: Rows that it multiplies with its weights.
    rows: int
    #: Trained weights first used here.
    uses: tuple[Use, ...]
    attention: AttentionSize | None = None

    @property
    def weights(self) -> list[Tensor]:
        """The trained weights first used here."""
        return [use.tensor for use in self.uses]


@dataclass(frozen=True)
class Decoder:
    """The sizes of a language model that formulas name, and its operators in order."""

    #: Sequences, and tokens of all of them that are fed.
    batch: int
    tokens: int
    vocabulary: int
    width: int
    parts: tuple[Part, ...]

    @property
    def attentions(self) -> list[AttentionSize]:
        """The sizes of its attentions."""
        return [part.attention for part in self.parts if part.attention is not None]

    @property
    def latent(self) -> bool:
        """True where keys and values of a head differ in width, as those made of latents do."""
        return any(one.key_width != one.value_width for one in self.attentions)

    def new(self, part: Part) -> int:
        """Multiply-adds of a product for the fed tokens alone, where it is computed anew for those of the past."""
        again = part.kind == "product" and part.rows > self.tokens
        return part.macs * self.tokens // part.rows if again else part.macs


#: The multiply-adds that a formula has for a part.
Formula: TypeAlias = Callable[[Decoder, Part], int]


def decoder(graph: Graph, canonical: Sequence[Counts | None] = ()) -> Decoder | None:
    """The parts of a language model; None for a graph whose input is no tokens that are looked up in a table.

    Without canonical counts its products are not told from the rest.
    """
    name = token_ids(graph)
    ids = next((tensor for tensor in graph.inputs if tensor.name == name), None)
    if ids is None or not ids.resolved:
        return None
    reader = _Reader(graph, canonical or [None] * len(graph.nodes), {ids.name})
    parts = tuple(reader.part(place, node) for place, node in enumerate(graph.nodes))
    if not reader.tables:
        return None
    rows, columns = max(reader.tables)
    return Decoder(int(ids.dims[0]), int(ids.numel), rows, columns, parts)


class _Reader:
    """The operators of a graph as parts of a decoder."""

    def __init__(self, graph: Graph, canonical: Sequence[Counts | None], ids: Collection[str]) -> None:
        self._canonical, self._by_ids, self._folding = canonical, following(graph, ids), constant(graph)
        self._attentions = attention_sizes(graph)
        self._inside = {place for one in unfused_attention(graph) for place in one.places}
        self._routers = _routers(graph)
        self._stacks = {node.module: stack for node in graph.nodes if (stack := experts_of("", node))}
        self._scores = _before_outputs(graph)
        self._tokens = next(int(t.numel) for t in graph.inputs if t.name in ids)
        self._owned: set[str] = set()
        #: The operators that use a stored tensor, by its name.
        self._users: dict[str, set[str]] = {}
        for place, node in enumerate(graph.nodes):
            for tensor in self._stored(place, node):
                self._users.setdefault(tensor.name, set()).add(node.op)
        #: Rows and columns of the tables that tokens are looked up in.
        self.tables: list[tuple[int, int]] = []

    def _stored(self, place: int, node: Node) -> Sequence[Tensor]:
        return () if place in self._folding.positions else self._folding.stored(node)

    def _uses(self, node: Node, stored: Sequence[Tensor]) -> Iterator[Use]:
        for tensor in stored:
            if tensor.kind == "weight" and tensor.resolved and tensor.name not in self._owned:
                self._owned.add(tensor.name)
                by_token = node.op == "Gather" and node.has_input(1) and node.input(1).name in self._by_ids
                stack = experts_of("", node) or picked_for(node, tensor, self._stacks)
                table = self._users[tensor.name] == {"Gather"} and stack is None  # biases of experts are picked, too
                share = stack.active(self._tokens) if stack is not None and stack.hold(tensor) else 1
                yield Use(tensor, round(tensor.numel * share), table, by_token)

    def part(self, place: int, node: Node) -> Part:
        """The part that a node is, whose place in the graph comes after those of the parts before."""
        stored = self._stored(place, node)
        uses = tuple(self._uses(node, stored))
        counts, size = self._canonical[place], self._attentions.get(place)
        macs = 0 if counts is None else counts.mac
        if size is not None:
            return Part("attention", size.heads * size.queries * size.keys * size.products, 0, uses, size)
        table = uses[0].tensor if node.op == "Gather" and len(uses) == 1 else None
        if table is not None and len(table.dims) == 2 and picked_for(node, table, self._stacks) is None:
            if uses[0].by_token:
                self.tables.append((int(table.dims[0]), int(table.dims[1])))
            return Part("embedding", 0, 0, uses)
        if not macs or place in self._inside or not any(len(t.dims) > 1 for t in stored if t.resolved):
            return Part("rest", 0, 0, uses)
        rows = node.output().numel // int(node.output().dims[-1])
        if node.attrs.get(ABSORBED):  # by head
            rows //= int(node.output().dims[1])
        kind: Kind = "vocabulary" if place == self._scores else "product"
        if place in self._routers:
            kind = "router"
        return Part("experts" if node.op == GROUPED else kind, macs, int(rows), uses)


def _routers(graph: Graph) -> frozenset[int]:
    """Places of the products whose results reach a TopK before another product."""
    found: set[int] = set()
    reaching: set[str] = set()
    for place in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[place]
        if row_of(node.op).inputs.has_factors or node.op == GROUPED:
            if any(tensor.name in reaching for tensor in node.known_outputs):
                found.add(place)
        elif node.op == "TopK" or any(tensor.name in reaching for tensor in node.known_outputs):
            reaching.update(tensor.name for tensor in node.known_inputs[:1])
    return frozenset(found)


def _before_outputs(graph: Graph) -> int | None:
    """The place of the last product before the first output; None where there is none."""
    names = {graph.outputs[0].name} if graph.outputs else set()
    for place in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[place]
        if not any(tensor.name in names for tensor in node.known_outputs):
            continue
        if row_of(node.op).inputs.has_factors:
            return place
        names.update(tensor.name for tensor in node.known_inputs)
    return None


_NO_TOKENS = "for language models, whose inputs are tokens that are looked up in a table"


def _convention(
    name: str,
    summary: str,
    source: str,
    formula: Formula,
    notes: Sequence[str],
    no_latents: str = "",
    what: str = "the formula",
) -> Convention:
    """A formula for a forward pass of a language model as a convention.

    Args:
        name: of the convention.
        summary: what it counts, in a line.
        source: tool, commit and file.
        formula: the multiply-adds of each part.
        notes: what a reader should know.
        no_latents: why it cannot be worked out for latent attention; "" where it can.
        what: what remarks call it.
    """

    def reasons(model: Decoder | None) -> list[str]:
        if model is None:
            return [f"{what} is {_NO_TOKENS}"]
        return [no_latents] if no_latents and model.latent else []

    def counts(graph: Graph, canonical: Sequence[Counts | None]) -> Sequence[Counts | None]:
        model = decoder(graph, canonical)
        if model is None or reasons(model):
            return [None] * len(graph.nodes)
        return [Counts(mac=formula(model, part)) for part in model.parts]

    def remarks(graph: Graph) -> Sequence[str]:
        return reasons(decoder(graph))

    return Convention(
        name=name,
        unit="FLOP",
        summary=summary,
        source=source,
        weights=Counts(mac=2),
        others="zero",
        fold=False,
        whole=Whole(counts, remarks=remarks, programs=False),
        notes=tuple(notes),
    )


# Rules of thumb.


def _pairs(model: Decoder, part: Part) -> int:
    """2 H Q T multiply-adds of a token in one attention, T being all keys; 0 for an operator that is none."""
    size = part.attention
    return 0 if size is None else 2 * size.heads * size.queries * size.keys * size.key_width // model.tokens


def _kaplan(model: Decoder, part: Part) -> int:
    return model.tokens * sum(use.active for use in part.uses)


def _palm(model: Decoder, part: Part) -> int:
    return model.tokens * (sum(use.active for use in part.uses) + _pairs(model, part))


def _nanogpt(model: Decoder, part: Part) -> int:
    params = sum(use.active for use in part.uses if not use.table or use.by_token)
    return model.tokens * (params + _pairs(model, part))


def _torchtitan(model: Decoder, part: Part) -> int:
    """Of an attention H (Q + V) T multiply-adds of a token, T being at most a window, V the width of a value."""
    size = part.attention
    pairs = 0 if size is None else size.heads * size.queries * size.window * size.products // model.tokens
    return model.tokens * (sum(use.active for use in part.uses if not use.table) + pairs)


def _megatron(model: Decoder, part: Part) -> int:
    logits = model.width * model.vocabulary if any(use.by_token for use in part.uses) else 0
    size = part.attention
    layer = 0 if size is None else 12 * model.width**2 + 2 * model.width * size.keys
    return model.tokens * (logits + layer)


#: Name -> rule; "6N" is the one that all others begin with (https://arxiv.org/abs/2001.08361).
RULES: Mapping[str, Formula] = {
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
    model = decoder(graph)
    if model is None:
        return {}
    return {name: 6 * sum(rule(model, part) for part in model.parts) for name, rule in RULES.items()}


def _rule_of_thumb(name: str, summary: str, source: str, rule: Formula, differs: str) -> Convention:
    notes = (
        "a rule of thumb for language models: a forward pass, a third of what it states for training",
        f"it differs from the exact count because {differs}",
    )
    return _convention(name, summary, source, rule, notes, what="the rule")


PALM = _rule_of_thumb(
    "palm",
    "PaLM's rule: 2 N + 4 L H Q T for each token of a forward pass, N being all parameters.",
    "Chowdhery et al., PaLM, https://arxiv.org/abs/2204.02311, appendix B",
    _palm,
    "N counts embeddings that are only looked up, and everything but products is left out",
)
NANOGPT = _rule_of_thumb(
    "nanogpt",
    "nanoGPT's rule: as PaLM's, N without position embeddings.",
    "karpathy/nanoGPT, model.py, estimate_mfu",
    _nanogpt,
    "N counts token embeddings also where they are only looked up, and everything but products is left out",
)
TORCHTITAN = _rule_of_thumb(
    "torchtitan",
    "torchtitan's rule: as PaLM's, N without embeddings that are only looked up; windows and latents are followed.",
    "pytorch/torchtitan@01c01c88, torchtitan/models/utils.py",
    _torchtitan,
    "everything but products is left out, masks are not followed, and norms and biases count as products",
)
MEGATRON = _rule_of_thumb(
    "megatron",
    "Megatron-LM's rule: 24 L h² (1 + T / 6h + V / 12Lh) for each token of a forward pass.",
    "Narayanan et al., https://arxiv.org/abs/2104.04473, section 5.1",
    _megatron,
    "it has GPT's layer, as many heads of keys as of queries and an MLP of 4 h without a gate, and counts nothing else",
)


# Formulas of engines and trainers.

#: The vocabulary is filled up to a multiple of this, by default.
MULTIPLE = 128


def _megatron_bridge_macs(model: Decoder, part: Part) -> int:
    """Products without routers, the vocabulary filled up, half of all pairs, or those that a window leaves."""
    if part.attention is not None:
        size = part.attention
        pairs, past = size.queries * size.keys, size.keys - size.queries
        if size.window < size.keys:
            return size.heads * size.products * pairs_within(size.queries, size.keys, past, size.window - 1)
        return size.heads * size.products * pairs // 2
    if part.kind == "vocabulary":
        return part.macs * (-(-model.vocabulary // MULTIPLE) * MULTIPLE) // model.vocabulary
    if part.kind == "rest" and model.latent:
        return model.tokens * sum(tensor.numel for tensor in part.weights if tensor.numel < model.width)
    return model.new(part) if part.kind in ("product", "experts") else 0


MEGATRON_BRIDGE = _convention(
    "megatron-bridge",
    "Megatron-Bridge's formula, a forward pass: products, half of all pairs or a window's, a filled vocabulary.",
    "NVIDIA-NeMo/Megatron-Bridge@0494433b, src/megatron/bridge/training/utils/flop_utils.py",
    _megatron_bridge_macs,
    (
        "a forward pass, a third of what the tool states for training",
        "the vocabulary is filled up to a multiple of 128, as by default on one device; routers are left out",
        "of latent attention the norms of latents count a multiply-add for each number",
        "windows are those of the program; gpt-oss's settings in the tool state (128, 0), which it takes as 129 keys",
    ),
)


def _vllm_macs(model: Decoder, part: Part) -> int:
    """Products of the new tokens, each query with the whole context or a full window, scores of one token each."""
    if part.attention is not None:
        size = part.attention
        return size.heads * size.queries * size.window * size.products
    if part.kind == "vocabulary":
        return part.macs * model.batch // part.rows
    return model.new(part) if part.kind in ("product", "experts") else 0


VLLM = _convention(
    "vllm",
    "vLLM's estimate of a step: projections, experts, pairs without the causal mask, scores of the last position.",
    "vllm-project/vllm@00cee63e, vllm/v1/metrics/perf.py, ComponentMetrics.get_num_flops",
    _vllm_macs,
    (
        "each query counts the whole context or a full window, as if nothing were masked; routers are left out",
        "of latent attention keys and values are made of the new tokens alone; pairs are not those of absorbed latents",
        "the tool takes every feed-forward part as gated; of one without a gate it counts half as much again",
        "chunks of a prompt count one scored position each; a prompt in one piece is counted here",
    ),
)


def _sglang_macs(model: Decoder, part: Part) -> int:
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


SGLANG = _convention(
    "sglang",
    "SGLang's estimate: projections and a dense MLP, causal pairs of all new tokens as one sequence; no vocabulary.",
    "sgl-project/sglang@00eef542, python/sglang/srt/observability/scheduler_metrics_mixin.py",
    _sglang_macs,
    (
        "tokens of all sequences of a prefill are taken as one sequence without a past; windows are not followed",
        "experts count as one MLP of the configuration's intermediate_size, here as one of them, which is that size in "
        "Mixtral and gpt-oss; Qwen3's configuration states the width of eight",
    ),
    no_latents="SGLang takes latent attention for heads of 256, and experts for dense layers of a stated width",
)


def _verl_macs(model: Decoder, part: Part) -> int:
    """All products, a table of embeddings once more, and pairs without a causal mask, values as wide as keys."""
    if part.attention is not None:
        size = part.attention
        mixed = any(one.window == one.keys for one in model.attentions)
        return size.heads * size.queries * (size.window if mixed else size.keys) * 2 * size.key_width
    if part.kind == "embedding":
        own = [tensor for tensor in part.weights if int(tensor.dims[0]) == model.vocabulary]
        return model.tokens * sum(tensor.numel for tensor in own)
    return model.new(part)


VERL = _convention(
    "verl",
    "verl's estimate, a forward pass of it: products, embeddings as a product, pairs without the causal mask.",
    "volcengine/verl@02cf355f, verl/utils/flops_counter.py",
    _verl_macs,
    (
        "a forward pass, a third of what the tool states for training",
        "embeddings count as a product with the vocabulary, though they are looked up; values count as wide as keys",
        "windows are followed where layers with and without one take turns, as in Gemma 3 and gpt-oss",
        "the tool states 0 for types of models that it does not list, Mixtral, Gemma 2, OLMo 2 and Phi-3 among them",
    ),
)


def _veomni_macs(model: Decoder, part: Part) -> int:
    """All products, a table of embeddings once more, and all pairs, masked or not, values as wide as keys."""
    if part.attention is not None:
        size = part.attention
        return size.heads * size.queries * size.keys * 2 * size.key_width
    return _verl_macs(model, part)


VEOMNI = _convention(
    "veomni",
    "VeOmni's estimate, a forward pass of it: products, embeddings as a product, all pairs, masks and windows left in.",
    "ByteDance-Seed/VeOmni@6f45f07a, veomni/utils/count_flops.py",
    _veomni_macs,
    (
        "a forward pass, a third of what the tool states for training",
        "embeddings count as a product with the vocabulary, though they are looked up; values count as wide as keys",
        "neither causal masks nor windows are followed",
        "the tool states 0 for types that it does not list; it lists Llama, Qwen2, Qwen3 and its experts, DeepSeek-V3",
    ),
)


def _transformers_macs(model: Decoder, part: Part) -> int:
    """Tokens times all weights but embeddings, those of every expert among them."""
    return 0 if part.kind == "embedding" else model.tokens * sum(tensor.numel for tensor in part.weights)


TRANSFORMERS = _convention(
    "transformers",
    "transformers' total_flos, a forward pass of it: 2 for each token and parameter that is no embedding.",
    "huggingface/transformers 5.23, Trainer.floating_point_ops, PreTrainedModel.num_parameters",
    _transformers_macs,
    (
        "a forward pass, a third of what the tool states for training",
        "all experts count, though a token takes few; scores of the vocabulary do not where they share the table of "
        "embeddings; attention's pairs count nothing",
    ),
)
