"""Published language models, each worked out by hand from its paper or card."""

from __future__ import annotations

from tests.formats.language.hand import (
    FULL,
    Cost,
    Hand,
    Pair,
    attention,
    best,
    blocks,
    chunk,
    convolution,
    delta_rule,
    experts,
    gated,
    index,
    latent,
    linear,
    mamba,
    mamba2,
    model,
    plain,
    vectors,
    window,
)


def llama_3_1_8b() -> Hand:
    """The Llama 3 Herd of Models, https://arxiv.org/abs/2407.21783, table 3."""
    layer = vectors(2 * 4096) + attention(4096, 32, 8, 128) + gated(4096, 14336)
    return model(128256, 4096, 32 * layer)


def qwen2_5_14b() -> Hand:
    """Qwen2.5, https://arxiv.org/abs/2412.15115: biases of queries, keys and values."""
    layer = vectors(2 * 5120) + attention(5120, 40, 8, 128, bias=True) + gated(5120, 13824)
    return model(152064, 5120, 48 * layer)


def qwen3_8b() -> Hand:
    """Qwen3, https://arxiv.org/abs/2505.09388: norms of queries and keys, one each for all heads."""
    layer = vectors(2 * 4096 + 2 * 128) + attention(4096, 32, 8, 128) + gated(4096, 12288)
    return model(151936, 4096, 36 * layer)


def gemma_2_9b() -> Hand:
    """Gemma 2, https://arxiv.org/abs/2408.00118, table 1: each second layer sees 4,096 tokens; four norms."""
    kinds = [
        vectors(4 * 3584) + attention(3584, 16, 8, 256, sight) + gated(3584, 14336) for sight in (window(4096), FULL)
    ]
    return model(256000, 3584, 21 * kinds[0], 21 * kinds[1], tied=True)


def gemma_3_12b() -> Hand:
    """Gemma 3, https://arxiv.org/abs/2503.19786: five layers of 1,024 tokens to one of all tokens."""
    kinds = [
        vectors(4 * 3840 + 2 * 256) + attention(3840, 16, 8, 256, sight) + gated(3840, 15360)
        for sight in (window(1024), FULL)
    ]
    return model(262208, 3840, 40 * kinds[0], 8 * kinds[1], tied=True)


def phi_4() -> Hand:
    """Phi-4, https://arxiv.org/abs/2412.08905: queries, keys and values are one product, and gate and up are."""
    layer = vectors(2 * 5120) + attention(5120, 40, 10, 128) + gated(5120, 17920)
    return model(100352, 5120, 40 * layer)


def phi_2() -> Hand:
    """Phi-2: one norm, attention and network side by side, biases everywhere, of the scores too."""
    layer = vectors(2 * 2560) + attention(2560, 32, 32, 80, bias=True, out_bias=True) + plain(2560, 10240, bias=True)
    return model(51200, 2560, 32 * layer, norm=2, bias=True)


def olmo_2_13b() -> Hand:
    """2 OLMo 2 Furious, https://arxiv.org/abs/2501.00656: norms after each part, and of whole queries and keys."""
    layer = vectors(2 * 5120 + 2 * 5120) + attention(5120, 40, 40, 128) + gated(5120, 13824)
    return model(100352, 5120, 40 * layer)


def mistral_7b() -> Hand:
    """Mistral 7B, https://arxiv.org/abs/2310.06825, table 1: a window of 4,096 tokens."""
    layer = vectors(2 * 4096) + attention(4096, 32, 8, 128, window(4096)) + gated(4096, 14336)
    return model(32000, 4096, 32 * layer)


def command_r7b() -> Hand:
    """Command R7B: one norm without bias, both parts side by side, three layers of 4,096 tokens to one of all."""
    kinds = [vectors(4096) + attention(4096, 32, 8, 128, sight) + gated(4096, 14336) for sight in (window(4096), FULL)]
    return model(256000, 4096, 24 * kinds[0], 8 * kinds[1], tied=True)


def mixtral_8x7b() -> Hand:
    """Mixtral of Experts, https://arxiv.org/abs/2401.04088, table 1."""
    layer = vectors(2 * 4096) + attention(4096, 32, 8, 128) + experts(4096, gated(4096, 14336), 8, 2)
    return model(32000, 4096, 32 * layer)


def qwen3_30b_a3b() -> Hand:
    """Qwen3, table 2: 128 experts of 768, 8 for a token, no shared one."""
    layer = vectors(2 * 2048 + 2 * 128) + attention(2048, 32, 4, 128) + experts(2048, gated(2048, 768), 128, 8)
    return model(151936, 2048, 48 * layer)


def gpt_oss_20b() -> Hand:
    """gpt-oss, https://arxiv.org/abs/2508.10925: sinks, biases everywhere, every other layer sees 128 tokens."""
    network = experts(2880, gated(2880, 2880, bias=True), 32, 4, router_bias=True)
    kinds = [
        vectors(2 * 2880 + 64) + attention(2880, 64, 8, 64, sight, bias=True, out_bias=True) + network
        for sight in (window(128), FULL)
    ]
    return model(201088, 2880, 12 * kinds[0], 12 * kinds[1])


def llama_4_maverick() -> Hand:
    """Llama 4: chunks of 8,192 tokens in three of four layers; every other layer has 128 experts and a shared one."""
    dense, shared = gated(5120, 16384), gated(5120, 8192)
    mixed = experts(5120, gated(5120, 8192), 128, 1) + shared
    layers = []
    for number in range(1, 49):
        own = attention(5120, 40, 8, 128, FULL if number % 4 == 0 else chunk(8192))
        layers.append(vectors(2 * 5120) + own + (mixed if number % 2 == 0 else dense))
    return model(202048, 5120, *layers)


def deepseek(layers: int, dense: int, heads: int, count: int, vocabulary: int, sparse: bool = False) -> Hand:
    """DeepSeek-V3, https://arxiv.org/abs/2412.19437, section 4.2, and what follows it; the choice is not corrected by
    a parameter that is counted."""
    own = latent(7168, heads, 1536, 512, 128, 64, 128, best(2048) if sparse else FULL)
    if sparse:
        own += index(7168, 1536, 64, 128)
    first = vectors(2 * 7168) + own + gated(7168, 18432)
    others = vectors(2 * 7168) + own + experts(7168, gated(7168, 2048), count, 8) + gated(7168, 2048)
    return model(vocabulary, 7168, dense * first, (layers - dense) * others)


def deepseek_v3() -> Hand:
    return deepseek(61, 3, 128, 256, 129280)


def deepseek_v3_2() -> Hand:
    """DeepSeek-V3.2: an index of 64 heads chooses 2,048 keys."""
    return deepseek(61, 3, 128, 256, 129280, sparse=True)


def kimi_k2() -> Hand:
    """Kimi K2, https://arxiv.org/abs/2507.20534, table 2: 384 experts, 64 heads, one dense layer."""
    return deepseek(61, 1, 64, 384, 163840)


def minimax_m3() -> Hand:
    """MiniMax-M3: three dense layers, then an index of four heads that chooses 16 blocks of 128 keys; 128 experts and a
    shared one. The best score of a block decides, so that nothing is weighed or added up."""
    first = vectors(2 * 6144 + 2 * 128) + attention(6144, 64, 4, 128) + gated(6144, 12288)
    chosen = attention(6144, 64, 4, 128, blocks(128, 16))
    scores = linear(6144, 4 * 128) + linear(6144, 128) + vectors(2 * 128)
    scores += Cost(attended=((4 * 128, FULL),), cached=((2 * 128, FULL),))
    mixed = experts(6144, gated(6144, 3072), 128, 4) + gated(6144, 3072)
    layer = vectors(2 * 6144 + 2 * 128) + chosen + scores + mixed
    return model(200064, 6144, 3 * first, 57 * layer)


def glm_4_5_air() -> Hand:
    """GLM-4.5, https://arxiv.org/abs/2508.06471, table 1: 128 experts of 1,408 and a shared one; the first is dense."""
    own = vectors(2 * 4096) + attention(4096, 96, 8, 128, bias=True)
    mixed = experts(4096, gated(4096, 1408), 128, 8) + gated(4096, 1408)
    return model(151552, 4096, own + gated(4096, 10944), 45 * (own + mixed))


def jamba() -> Hand:
    """Jamba, https://arxiv.org/abs/2403.19887: one layer of attention in eight, experts in every other layer."""
    layers = []
    for number in range(32):
        own = attention(4096, 32, 8, 128) if number % 8 == 4 else mamba(4096, 8192, 16, 256, 4, norms=True)
        network = gated(4096, 14336)
        layers.append(vectors(2 * 4096) + own + (experts(4096, network, 16, 2) if number % 2 else network))
    return model(65536, 4096, *layers)


def gated_delta_net(hidden: int, keys: int, values: int, key: int, value: int, kernel: int) -> Cost:
    """Gated DeltaNet, https://arxiv.org/abs/2412.06464, as in Qwen3-Next: z, a, b beside queries, keys, values."""
    wide = 2 * keys * key + values * value
    products = linear(hidden, wide) + linear(hidden, values * value) + 2 * linear(hidden, values)
    products += convolution(wide, kernel) + linear(values * value, hidden)
    return products + vectors(2 * values + value) + delta_rule(values, key, value)


def gated_attention(hidden: int, heads: int, groups: int, head: int) -> Cost:
    """Attention whose result is multiplied by a gate of its own size, with norms of queries and keys."""
    return attention(hidden, heads, groups, head) + linear(hidden, heads * head) + vectors(2 * head)


def qwen3_next_80b() -> Hand:
    """Qwen3-Next: three layers of Gated DeltaNet to one of gated attention; a shared expert with a gate."""
    network = experts(2048, gated(2048, 512), 512, 10) + gated(2048, 512) + linear(2048, 1)
    mixers = gated_delta_net(2048, 16, 32, 128, 128, 4), gated_attention(2048, 16, 2, 256)
    kinds = [vectors(2 * 2048) + mixer + network for mixer in mixers]
    return model(151936, 2048, 36 * kinds[0], 12 * kinds[1])


def qwen3_5_27b() -> Hand:
    """Qwen3.5-27B: the same layers with one dense network."""
    mixers = gated_delta_net(5120, 16, 48, 128, 128, 4), gated_attention(5120, 24, 4, 256)
    kinds = [vectors(2 * 5120) + mixer + gated(5120, 17408) for mixer in mixers]
    return model(248320, 5120, 48 * kinds[0], 16 * kinds[1])


def granite_4_h_tiny() -> Hand:
    """Granite 4.0: 36 layers of Mamba-2 and 4 of attention; 64 experts and a network for every token."""
    network = experts(1536, gated(1536, 512), 64, 6) + gated(1536, 1024)
    kinds = [
        vectors(2 * 1536) + mixer + network for mixer in (mamba2(1536, 48, 64, 128, 1, 4), attention(1536, 12, 4, 128))
    ]
    return model(100352, 1536, 36 * kinds[0], 4 * kinds[1], tied=True)


def falcon_h1_0_5b() -> Hand:
    """Falcon-H1, https://arxiv.org/abs/2507.22448: attention and Mamba-2 side by side in each layer."""
    mixers = attention(1024, 8, 2, 64) + mamba2(1024, 24, 64, 128, 1, 4, norm=False)
    return model(32784, 1024, 36 * (vectors(2 * 1024) + mixers + gated(1024, 2048)))


def mamba_2_8b() -> Hand:
    """Mamba, https://arxiv.org/abs/2312.00752, as state-spaces/mamba-2.8b: no attention, no networks."""
    return model(50280, 2560, 64 * (vectors(2560) + mamba(2560, 5120, 16, 160, 4, width=4)), tied=True)


def mamba2_2_7b() -> Hand:
    """Mamba-2, https://arxiv.org/abs/2405.21060, as state-spaces/mamba2-2.7b."""
    return model(50288, 2560, 64 * (vectors(2560) + mamba2(2560, 80, 64, 128, 1, 4)), tied=True)


def nemotron_h_56b() -> Hand:
    """Nemotron-H, https://arxiv.org/abs/2504.03624, table 2: 54 layers of Mamba-2, 10 of attention, 54 networks."""
    parts = mamba2(8192, 256, 64, 256, 8, 4), attention(8192, 64, 8, 128), plain(8192, 32768)
    kinds = [vectors(8192) + part for part in parts]
    return model(131072, 8192, 54 * kinds[0], 10 * kinds[1], 54 * kinds[2])


def kimi_linear_48b() -> Hand:
    """Kimi Linear, https://arxiv.org/abs/2510.26692: three layers of KDA to one of latent attention without positions.

    KDA: queries, keys and values of 32 heads of 128 behind a convolution each; a decay for each element of a key and
    a gate of the result, both of low rank; a strength of writing for each head.
    """
    wide = 32 * 128
    low = linear(2304, 128) + linear(128, wide)
    kda = 3 * linear(2304, wide) + convolution(3 * wide, 4) + 2 * low + linear(2304, 32) + linear(wide, 2304)
    kda += vectors(32 + wide + 128) + delta_rule(32, 128, 128)
    mla = latent(2304, 32, 0, 512, 128, 64, 128)
    mixed = experts(2304, gated(2304, 1024), 256, 8) + gated(2304, 1024)
    layers = []
    for number in range(1, 28):
        own = mla if number % 4 == 0 or number == 27 else kda
        layers.append(vectors(2 * 2304) + own + (gated(2304, 9216) if number == 1 else mixed))
    return model(163840, 2304, *layers)


def lfm2_1_2b() -> Hand:
    """LFM2, https://arxiv.org/abs/2511.23404: ten gated short convolutions and six layers of attention.

    The network's width is two thirds of the stated one, rounded up to 256.
    """
    conv = linear(2048, 3 * 2048) + convolution(2048, 3) + linear(2048, 2048)
    own = attention(2048, 32, 8, 64) + vectors(2 * 64)
    kinds = [vectors(2 * 2048) + mixer + gated(2048, 8192) for mixer in (conv, own)]
    return model(65536, 2048, 10 * kinds[0], 6 * kinds[1], tied=True)


def minimax_text_01() -> Hand:
    """MiniMax-01, https://arxiv.org/abs/2501.08313: seven layers of lightning attention to one of attention.

    Lightning attention: S = a S + k v', y = S'q; a norm of the result, and a gate of its size.
    """
    wide = 64 * 128
    lightning = 3 * linear(6144, wide) + linear(6144, wide) + linear(wide, 6144) + vectors(wide)
    lightning += Cost(macs=2 * 64 * 128 * 128, state=4 * 64 * 128 * 128)
    network = experts(6144, gated(6144, 9216), 32, 2)
    kinds = [vectors(2 * 6144) + mixer + network for mixer in (lightning, attention(6144, 64, 8, 128))]
    return model(200064, 6144, 70 * kinds[0], 10 * kinds[1])


def rwkv_4_169m() -> Hand:
    """RWKV, https://arxiv.org/abs/2305.13048, section 3: values weighed by exponents of keys, channel by channel; three
    mixes, a decay and a bonus; the network's result times a gate. The state is two tokens and three sums in float32."""
    time = 3 * linear(768, 768) + linear(768, 768) + vectors(5 * 768)
    channel = linear(768, 3072) + linear(3072, 768) + linear(768, 768) + vectors(2 * 768)
    layer = vectors(4 * 768) + time + channel + Cost(state=2 * 2 * 768 + 3 * 4 * 768)
    return model(50277, 768, vectors(2 * 768), 12 * layer, norm=2)


# An encoder with a decoder.


def pair(
    hidden: int,
    heads: int,
    head: int,
    network: Cost,
    layers: int,
    *,
    norms: int,
    bias: bool,
    vocabulary: int,
    keys_bias: bool | None = None,
    encoder_vectors: int = 0,
    decoder_vectors: int = 0,
    front: int = 0,
    width: int = 4,
) -> Pair:
    """A transformer (https://arxiv.org/abs/1706.03762): ``norms`` are the parameters of one norm."""
    own = attention(hidden, heads, heads, head, bias=bias, out_bias=bias, keys_bias=keys_bias, width=width)
    queries = linear(hidden, heads * head, bias) + linear(heads * head, hidden, bias) + vectors(norms)
    keys = linear(hidden, heads * head, bias if keys_bias is None else keys_bias) + linear(hidden, heads * head, bias)
    memory = layers * (keys + Cost(cached=((2 * width * heads * head, FULL),)))
    encoder = layers * (vectors(2 * norms) + own + network) + vectors(encoder_vectors)
    decoder = layers * (vectors(2 * norms) + own + network) + vectors(decoder_vectors)
    scores = vocabulary * hidden
    return Pair(encoder, decoder, layers * queries, memory, layers * heads * 2 * head, scores, scores, front)


def t5_base() -> Pair:
    """T5, https://arxiv.org/abs/1910.10683: 32 buckets of relative positions for each head, norms without bias."""
    last, positions = 768, 32 * 12
    return pair(
        768, 12, 64, plain(768, 3072), 12,
        norms=768, bias=False, vocabulary=32128, encoder_vectors=last + positions, decoder_vectors=last + positions,
    )  # fmt: skip


def bart_large() -> Pair:
    """BART, https://arxiv.org/abs/1910.13461: learned positions (two rows more), a norm of the embeddings."""
    own = 1026 * 1024 + 2 * 1024
    return pair(
        1024, 16, 64, plain(1024, 4096, bias=True), 12,
        norms=2 * 1024, bias=True, vocabulary=50265, encoder_vectors=own, decoder_vectors=own,
    )  # fmt: skip


def whisper_large_v3() -> Pair:
    """Whisper, https://arxiv.org/abs/2212.04356: two convolutions of 3,000 moments of 128 features, 1,500 tokens."""
    convolutions = (128 * 3 + 1) * 1280 + (1280 * 3 + 1) * 1280
    return pair(
        1280, 20, 64, plain(1280, 5120, bias=True), 32,
        norms=2 * 1280, bias=True, keys_bias=False, vocabulary=51866, width=2,
        encoder_vectors=convolutions + 1500 * 1280 + 2 * 1280, decoder_vectors=448 * 1280 + 2 * 1280,
        front=3000 * 128 * 3 * 1280 + 1500 * 1280 * 3 * 1280,
    )  # fmt: skip


# An encoder alone.


def bert_base() -> Hand:
    """BERT, https://arxiv.org/abs/1810.04805: positions, types, a transform before the scores, which have a bias."""
    layer = attention(768, 12, 12, 64, bias=True, out_bias=True) + plain(768, 3072, bias=True) + vectors(4 * 768)
    tables = vectors((512 + 2) * 768 + 2 * 768)
    transform = linear(768, 768, bias=True) + vectors(2 * 768)
    return model(30522, 768, tables, 12 * layer, transform, tied=True, norm=0, bias=True)


# Towers that make tokens of images: parameters beside the language model, and multiply-adds of an image.


def tower(hidden: int, heads: int, network: Cost, layers: int, patches: int, norms: int, out_bias: bool = True) -> Cost:
    """Layers of an encoder over an image's patches, all of which see each other."""
    own = attention(hidden, heads, heads, hidden // heads, bias=True, out_bias=out_bias)
    layer = own + network + vectors(2 * norms)
    return Cost(layers * layer.params, macs=layers * (patches * layer.macs + 2 * hidden * patches**2))


def over(tokens: int, product: Cost) -> Cost:
    """A product of so many tokens."""
    return Cost(product.params, macs=tokens * product.macs)


def llava_1_5_7b() -> Cost:
    """LLaVA-1.5, https://arxiv.org/abs/2310.03744: CLIP's ViT-L/14 at 336 pixels and two products."""
    patches = (336 // 14) ** 2
    embeddings = over(patches, linear(3 * 14**2, 1024)) + vectors(1024 + (patches + 1) * 1024)
    layers = tower(1024, 16, plain(1024, 4096, bias=True), 24, patches + 1, norms=2 * 1024)
    norms = vectors(2 * 2 * 1024)
    projector = over(patches, linear(1024, 4096, bias=True) + linear(4096, 4096, bias=True))
    return embeddings + layers + norms + projector


def gemma_3_12b_vision() -> Cost:
    """Gemma 3: SigLIP's So400m/14 at 896 pixels, pooled to 256 tokens, a norm and one product."""
    patches = (896 // 14) ** 2
    embeddings = over(patches, linear(3 * 14**2, 1152, bias=True)) + vectors(patches * 1152)
    layers = tower(1152, 16, plain(1152, 4304, bias=True), 27, patches, norms=2 * 1152)
    return embeddings + layers + vectors(2 * 1152 + 1152) + over(256, linear(1152, 3840))


def qwen3_vl_8b_vision() -> Cost:
    """Qwen3-VL, https://arxiv.org/abs/2511.21631: 48 x 48 learned positions, two frames to a patch, 2 x 2 patches to a
    token; three mergers more for the language model's first layers."""
    patches = 4096
    embeddings = over(patches, linear(3 * 2 * 16**2, 1152, bias=True)) + vectors(48**2 * 1152)
    layers = tower(1152, 16, plain(1152, 4304, bias=True), 27, patches, norms=2 * 1152)
    joined = 4 * 1152
    merger = over(patches // 4, linear(joined, joined, bias=True) + linear(joined, 4096, bias=True))
    return embeddings + layers + 4 * merger + vectors(2 * 1152 + 3 * 2 * joined)
