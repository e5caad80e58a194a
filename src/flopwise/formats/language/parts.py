"""The parts that layers of language models are made of, by their sizes alone."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Indexer(NamedTuple):
    """The scores by which a sparse attention picks keys (DeepSeek sparse attention)."""

    heads: int
    head: int
    top_k: int


class Relative(NamedTuple):
    """Scores of distances beside those of tokens: of a query with each, and of each with a key (DeBERTa)."""

    #: Rows of the table of distances.
    rows: int
    #: Whether a query is multiplied with distances, and a distance with keys.
    of_query: bool
    of_key: bool
    #: Whether distances go through the products of queries and keys, not through their own.
    shared: bool


class Attention(NamedTuple):
    """Attention of queries with keys and values of their own."""

    heads: int
    groups: int
    head: int
    #: Elements of a value of one head.
    value: int
    #: Keys that a query sees: so many, of its own chunk of so many, or all.
    window: int | None = None
    chunk: int | None = None
    #: Biases of queries, keys and values, and of the result.
    bias: bool = False
    out_bias: bool = False
    #: Norms of queries and keys: "" for none, "head" and "wide" with weights for one head or all; and of values.
    norms: str = ""
    #: A score that no key has, for each head.
    sinks: bool = False
    #: Elements of a head that are rotary by positions; 0: none.
    rotary: int = 0
    #: Elements of the gate of the result: of all heads, of one for each, or none.
    gate: int = 0
    #: Whether the gate is part of the product of queries, not a product of its own.
    gate_in_queries: bool = False
    #: Whether values are the keys, and whether both are those of an earlier layer.
    keys_alone: bool = False
    borrowed: bool = False
    causal: bool = True
    #: Elements of further vectors of weights, and of a norm before the last product.
    vectors: int = 0
    out_norm: int = 0
    softcap: bool = False
    #: Whether keys and values are those of what an encoder read; whether keys have no bias beside queries that have.
    cross: bool = False
    plain_keys: bool = False
    #: Whether the results of every other head are taken off those before, over values of both (Differential).
    differential: bool = False
    #: Scores of queries with positions, and of positions with keys (DeBERTa).
    relative: Relative | None = None
    #: The scores that choose blocks of keys, and the keys of a block (MiniMax-M3); as many blocks as it says.
    indexer: Indexer | None = None
    block: int = 0
    #: Rank of products of a layer's own beside those of queries, keys and values that it shares with others (Zamba 2).
    rank: int = 0


class LatentAttention(NamedTuple):
    """Attention over latents (MLA)."""

    heads: int
    #: Elements of the latents of queries (0: none), and of keys and values.
    queries: int
    latent: int
    nope: int
    rotary: int
    value: int
    bias: bool = False
    #: The scores that choose keys, which may be those of an earlier layer; and how many keys are chosen.
    indexer: Indexer | None = None
    top_k: int | None = None
    #: Elements of the gate of the result.
    gate: int = 0
    sinks: bool = False


class CompressedAttention(NamedTuple):
    """Attention with one head of keys, of the last tokens and of entries that stand for many each (DeepSeek-V4)."""

    heads: int
    head: int
    rotary: int
    #: Elements of the latents of queries; groups of heads whose results are projected apart, and elements of each.
    queries: int
    groups: int
    out: int
    window: int
    #: Tokens of an entry (0: there are none), and whether entries overlap.
    ratio: int = 0
    overlap: bool = False
    indexer: Indexer | None = None

    def entries(self, tokens: int) -> int:
        """Entries after so many tokens."""
        return tokens // self.ratio if self.ratio else 0


class LinearAttention(NamedTuple):
    """Linear attention with a state of keys by values for each head, and a short convolution before it."""

    heads: int
    groups: int
    key: int
    value: int
    kernel: int
    #: How the state is updated: "linear", "gated", "delta", "gated_delta".
    rule: str
    #: The products of the inputs beside queries, keys and values: output widths, and pairs of a low rank.
    products: tuple[int, ...] = ()
    low_rank: tuple[tuple[int, int], ...] = ()
    #: Elements of vectors of weights, and of the norm of the result.
    vectors: int = 0
    norm: int = 0
    #: Whether the convolution has three tables, one each for queries, keys and values.
    biases: int = 0


class Mamba(NamedTuple):
    """A selective state-space layer of version 1 or 2."""

    inner: int
    #: Heads; 0 for version 1, which has a state for each feature.
    heads: int
    state: int
    groups: int
    kernel: int
    #: Rank of the time step, of version 1.
    rank: int = 0
    conv_bias: bool = True
    bias: bool = False
    norm: bool = True
    #: Norms of the time step, B and C (Jamba).
    inner_norms: bool = False
    state_type: str = "float32"


class ShortConv(NamedTuple):
    """A gated convolution of a few tokens (LFM2)."""

    width: int
    kernel: int
    bias: bool = False


class Lru(NamedTuple):
    """A linear recurrence channel by channel, with gates of blocks of channels, beside a gate (RecurrentGemma)."""

    width: int
    #: Blocks of the products of the gates.
    blocks: int
    kernel: int


class Wkv(NamedTuple):
    """Values weighed by keys and by how long ago they were, channel by channel (RWKV-4)."""

    width: int


class MLP(NamedTuple):
    """A feed-forward network."""

    inner: int
    gated: bool = True
    bias: bool = False
    #: Elements of further vectors of weights, and whether there is a norm before the last product.
    vectors: int = 0
    norm: bool = False
    #: Whether the result is multiplied by a gate of the token's own (RWKV).
    receptance: bool = False
    #: The operator between its products, as ONNX names it; "Relu2" for the square of Relu.
    activation: str = "Swish"
    #: Rank of a product of a layer's own beside the first, which it shares with others (Zamba 2).
    rank: int = 0


class MoE(NamedTuple):
    """A mixture of experts."""

    experts: int
    top_k: int
    inner: int
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    #: Parameters of the router beside its product, such as biases that correct the choice.
    vectors: int = 0
    #: Whether a buffer of biases corrects the choice (DeepSeek-V3).
    correction: bool = False
    #: The network that every token goes through beside the experts, and whether a gate scales its result.
    shared: MLP | None = None
    shared_gate: bool = False
    #: Elements of the latents that the experts work on; 0: hidden states.
    latent: int = 0
    #: Choices beside the experts that do nothing.
    idle: int = 0
    activation: str = "Swish"


Mixer: TypeAlias = "Attention | LatentAttention | CompressedAttention | LinearAttention | Mamba | ShortConv | Wkv | Lru"


class Layer(NamedTuple):
    """One layer: what mixes tokens, side by side if there are several, and what works on each of them."""

    mixers: tuple[Mixer, ...]
    networks: tuple[MLP | MoE, ...]
    #: Norms around them: "pre", "post", "both", "shared" (one, both side by side), "beside" (two, side by side),
    #: "single" (one of the two parts alone), "along" (attention over hidden states and embeddings and a network, whose
    #: result is added to what another mixer reads).
    place: str = "pre"
    #: Elements of further vectors of weights.
    vectors: int = 0
    #: Elements of an embedding of its own that a layer adds (Gemma 3n, Gemma 4).
    per_layer: int = 0
    #: Rank of the product that goes along attention (LAuReL of Gemma 3n).
    laurel: int = 0
    #: Attention to what an encoder read.
    cross: Attention | None = None
    #: The weights that it shares with other layers: those of this number, of all parts or, "along", of two.
    shared: int | None = None
    #: What tells its storage from that of layers like it.
    storage: int = 0


class Decoder(NamedTuple):
    """A language model by its sizes."""

    name: str
    source: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    #: "rms", "layer", "bare" (without bias), "plain" (without weights).
    norm: str
    tied: bool
    dtype: str
    longest: int | None
    head_bias: bool = False
    #: Rows of learned positions, of token types; whether embeddings are normed; width of embeddings where it is other.
    positions: int = 0
    types: int = 0
    embedding_norm: bool = False
    embedding: int = 0
    #: Whether positions are added behind the product that widens narrow embeddings (OPT).
    positions_late: bool = False
    #: Whether that product has a bias; whether a product of the first token follows the layers.
    project_bias: bool = False
    pooler: bool = False
    #: Whether the vocabulary is scored.
    scored: bool = True
    #: Weights that tokens alone do not go through, such as those of a tower: name and shape.
    beside: tuple[tuple[str, tuple[int, ...]], ...] = ()
    #: Layers that attend to what a tower made of images, and that tokens alone skip: number and layer (Llama 3.2).
    crossing: tuple[tuple[int, Layer], ...] = ()
    final_norm: bool = True
    predicts: bool = True
    #: The transform before the scores of an encoder (BERT).
    transform: bool = False
    transform_bias: bool = True
    #: Its width where it is neither that of embeddings nor that of hidden states (RemBERT).
    transform_width: int = 0
    #: Whether it is a head that predicts a token more, which takes a result of its model beside the embedding (MTP).
    joined: bool = False
    #: How many such heads the model has beside.
    heads: int = 0
    notes: tuple[str, ...] = ()
    #: Keys of the configuration that nothing was read from and that may matter.
    unread: tuple[str, ...] = ()
    #: Elements of embeddings by layer, and rows of their table.
    per_layer: tuple[int, int] = (0, 0)
    #: Streams of hidden states that layers mix (hyper-connections); 1: none. How: "mixed" with each other
    #: (DeepSeek-V4), each "apart" (HY-V4), or "predicted" and corrected (AltUp of Gemma 3n).
    streams: int = 1
    streaming: str = "mixed"
    #: Rows of a table of distances, and whether they are normed (DeBERTa).
    distances: int = 0
    distance_norm: bool = False
    #: The encoder whose results layers attend to; elements of vectors of weights of the whole, such as biases of
    #: relative positions; whether there is a table of embeddings beside the other's; features of a moment of sound.
    encoder: Decoder | None = None
    vectors: int = 0
    own_table: bool = True
    sound: int = 0
