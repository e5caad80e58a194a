"""The table of architectures: what a configuration of each means, beside what it says itself.

Source: the definitions in https://github.com/huggingface/transformers, ``src/transformers/models``, 5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Family(NamedTuple):
    """An architecture: what is not said, or not by the same keys, in every configuration."""

    #: How its classes begin: "Llama" for LlamaForCausalLM.
    title: str
    #: Where norms stand: "pre", "post", "both", "after" (behind the sum), "shared" and "beside" (side by side).
    place: str = "pre"
    #: "rms", "layer", "bare" (without bias), "plain" (without weights).
    norm: str = "rms"
    #: Flags, or the keys that say them: biases of queries, keys and values, of attention's result, of networks.
    bias: bool | str = "attention_bias"
    out: bool | str = "attention_bias"
    mlp: bool | str = "mlp_bias"
    #: Whether networks have a gate; whether queries and keys have norms ("head", "wide", "heads", "unit", "all").
    gated: bool = True
    norms: str = ""
    #: Whether scores use the table of embeddings where nobody says, and have a bias.
    tied: bool = False
    head_bias: bool = False
    #: How attention is meant: "gqa", "mla".
    attention: str = "gqa"
    #: What mixes tokens in layers that are no attention: "gated_delta", "kda", "lightning", "mamba", "mamba1", "conv".
    linear: str = ""
    #: The kind of all layers but every so manieth: the kind, the key that says how many, and that number.
    pattern: tuple[str, str, int] | None = None
    #: Keys that count as the configuration's own where it lacks them.
    defaults: Mapping[str, Any] = {}
    #: Learned positions: rows beside those of the longest context; None for none.
    positions: int | None = None
    #: Further flags of parts: "sinks", "softcap", "gate_in_queries", "gate", "expert_bias", "router_bias",
    #: "router_vectors" (a bias that corrects the choice is a parameter), "shared_gate", "embedding_norm", "types",
    #: "transform", "encoder", "four_times" (width of networks where nobody says),
    #: "both_parts" (two mixers side by side), "single" (one part to a layer), "experts" (never without),
    #: "groups" and "along" (layers that share weights: ALBERT, Zamba 2).
    flags: frozenset[str] = frozenset()


def _family(title: str, flags: str = "", **settings: Any) -> Family:
    return Family(title, flags=frozenset(flags.split()), **settings)


_OLMO3 = {"sliding_window": 4096}
_GEMMA = {"head_dim": 256}
_LAYERED: dict[str, Any] = {"norm": "layer", "gated": False}
_BIASED: dict[str, Any] = {**_LAYERED, "bias": True, "out": True, "mlp": True}
_BERT: dict[str, Any] = {**_BIASED, "place": "after", "tied": True, "head_bias": True, "positions": 0}
_MLA: dict[str, Any] = {"attention": "mla"}
_EVERY_4: dict[str, Any] = {"linear": "gated_delta", "pattern": ("linear_attention", "full_attention_interval", 4)}
_QWEN3_NEXT: dict[str, Any] = {**_EVERY_4, "norms": "head"}

#: ``model_type`` -> its architecture.
FAMILIES: dict[str, Family] = {
    # Llama and what differs from it by a flag.
    "llama": _family("Llama", out="attention_bias"),
    "mllama_text_model": _family("Mllama", bias=False, out=False, mlp=False),
    "nemotron-nas": _family("DeciLM"),
    "mistral": _family(
        "Mistral",
        bias=False,
        out=False,
        mlp=False,
        pattern=("sliding_attention", "", 0),
        defaults={"num_key_value_heads": 8},
    ),
    "ministral": _family("Ministral", bias=False, out=False, mlp=False),
    "ministral3": _family("Ministral3", bias=False, out=False, mlp=False, pattern=("sliding_attention", "", 0)),
    "qwen": _family("QWen", "half_inner", bias=True, out=False, mlp=False),
    "qwen2": _family("Qwen2", bias=True, out=False, mlp=False, pattern=("sliding_attention", "max_window_layers", 0)),
    "mimo": _family("MiMo", bias=True, out=False, mlp=False),
    "qwen3": _family(
        "Qwen3",
        norms="head",
        mlp=False,
        pattern=("sliding_attention", "max_window_layers", 0),
        defaults={"head_dim": 128},
    ),
    "seed_oss": _family(
        "SeedOss", bias="attention_bias+", out="attention_out_bias", mlp="mlp_bias", defaults={"head_dim": 128}
    ),
    "smollm3": _family("SmolLM3", tied=True),
    "arcee": _family("Arcee", gated=False),
    "cwm": _family("Cwm", pattern=("sliding_attention", "", 4), bias=False, out=False),
    "iquestcoder": _family("IQuestCoder"),
    "granite": _family("Granite"),
    "granite_swa": _family("GraniteSWA", "sinks", tied=True, pattern=("sliding_attention", "", 0)),
    "helium": _family("Helium", out=False),
    "internlm2": _family("InternLM2", bias="bias", out="bias", mlp=False),
    "internlm3": _family("InternLM3", bias="qkv_bias", out="bias", mlp="bias"),
    "ernie4_5": _family("Ernie4_5", bias="use_bias", out="use_bias", mlp="use_bias", tied=True),
    "exaone4": _family(
        "Exaone4",
        place="post",
        norms="head",
        bias=False,
        out=False,
        mlp=False,
        pattern=("sliding_attention", "sliding_window_pattern", 0),
    ),
    "olmo": _family("Olmo", norm="plain"),
    "olmo2": _family("Olmo2", place="post", norms="wide"),
    "olmo3": _family("Olmo3", place="post", norms="wide", pattern=("sliding_attention", "", 4), defaults=_OLMO3),
    "stablelm": _family("StableLm", norm="layer", bias="use_qkv_bias", out=False, mlp=False),
    "hyperclovax": _family("HyperCLOVAX", place="both"),
    "hunyuan_v1_dense": _family("HunYuanDenseV1", norms="head", mlp=False),
    "nanochat": _family("NanoChat", norm="unit", norms="unit", gated=False),
    "youtu": _family("Youtu", tied=True, **_MLA),
    "minicpm3": _family("MiniCPM3", tied=True, **_MLA),
    "glm": _family("Glm", bias="attention_bias+", out=False, mlp=False, defaults={"head_dim": 128}),
    "glm4": _family("Glm4", place="both", bias="attention_bias+", out=False, mlp=False, defaults={"head_dim": 128}),
    "phi3": _family("Phi3", bias=False, out=False, mlp=False, pattern=("sliding_attention", "", 0)),
    "phi4_multimodal": _family("Phi4Multimodal", bias=False, out=False, mlp=False),
    "phi": _family("Phi", place="shared", head_bias=True, **_BIASED),
    "cohere": _family("Cohere", place="shared", norm="bare", tied=True),
    "cohere2": _family(
        "Cohere2", place="shared", norm="bare", tied=True, pattern=("sliding_attention", "sliding_window_pattern", 4)
    ),
    "gemma": _family("Gemma", tied=True, defaults=_GEMMA),
    "gemma2": _family(
        "Gemma2", "softcap", place="both", tied=True, pattern=("sliding_attention", "", 2), defaults=_GEMMA
    ),
    "gemma3_text": _family(
        "Gemma3",
        place="both",
        norms="head",
        tied=True,
        pattern=("sliding_attention", "sliding_window_pattern", 6),
        defaults={
            **_GEMMA,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "vocab_size": 262208,
            "sliding_window": 4096,
        },
    ),
    "vaultgemma": _family("VaultGemma", tied=True, pattern=("sliding_attention", "", 2), defaults=_GEMMA),
    "gemma4_text": _family(
        "Gemma4",
        "gemma4 per_layer",
        place="both",
        norms="all",
        tied=True,
        pattern=("sliding_attention", "", 6),
        defaults={**_GEMMA, "global_head_dim": 512},
    ),
    "gemma3n_text": _family(
        "Gemma3n",
        "altup per_layer",
        place="both",
        norms="all",
        tied=True,
        pattern=("sliding_attention", "", 5),
        defaults=_GEMMA,
    ),
    "apertus": _family("Apertus", "act_vectors", gated=False, norms="head"),
    "bitnet": _family("BitNet", "sub_norms"),
    "starcoder2": _family(
        "Starcoder2",
        norm="layer",
        gated=False,
        bias="use_bias+",
        out="use_bias+",
        mlp="use_bias+",
        tied=True,
        pattern=("sliding_attention", "", 0),
    ),
    "jais2": _family(
        "Jais2", norm="layer", gated=False, bias="attention_bias+", out="attention_bias+", mlp="mlp_bias+"
    ),
    "nemotron": _family("Nemotron", norm="layer", gated=False),
    # Before Llama.
    "gpt2": _family("GPT2", "four_times", tied=True, positions=0, **_BIASED),
    "gpt_bigcode": _family("GPTBigCode", "multi_query four_times", tied=True, positions=0, **_BIASED),
    "gpt_neox": _family("GPTNeoX", place="beside", **{**_BIASED, "bias": "attention_bias+", "out": "attention_bias+"}),
    "gpt_neox_japanese": _family(
        "GPTNeoXJapanese", "four_times last_bias", **_LAYERED, bias=False, out=False, mlp=False
    ),
    "gpt_neo": _family(
        "GPTNeo", "four_times", tied=True, positions=0, pattern=("full_attention", "", 1), **{**_BIASED, "bias": False}
    ),
    "openai-gpt": _family("OpenAIGPT", "four_times", place="after", tied=True, positions=0, **_BIASED),
    "gptj": _family("GPTJ", "four_times", place="shared", head_bias=True, **{**_BIASED, "bias": False, "out": False}),
    "codegen": _family(
        "CodeGen", "four_times", place="shared", head_bias=True, **{**_BIASED, "bias": False, "out": False}
    ),
    "opt": _family(
        "OPT",
        "before",
        tied=True,
        positions=2,
        **{**_BIASED, "mlp": "enable_bias+", "bias": "enable_bias+", "out": "enable_bias+"},
    ),
    "biogpt": _family("BioGpt", tied=True, positions=2, **_BIASED),
    "ctrl": _family("CTRL", tied=True, head_bias=True, **_BIASED),
    "git": _family("Git", "embedding_norm", place="after", head_bias=True, positions=0, **_BIASED),
    "xglm": _family("XGLM", tied=True, **_BIASED),
    "bloom": _family("Bloom", "embedding_norm four_times", tied=True, **_BIASED),
    "mpt": _family("Mpt", "four_times", norm="bare", gated=False, bias=False, out=False, mlp=False, tied=True),
    "falcon": _family(
        "Falcon",
        "falcon four_times",
        place="shared",
        tied=True,
        **{**_LAYERED, "bias": "bias", "out": "bias", "mlp": "bias"},
    ),
    "persimmon": _family("Persimmon", norms="head", **_BIASED),
    "diffllama": _family("DiffLlama", "differential"),
    # Mixtures of experts.
    "dbrx": _family("Dbrx", "experts", norm="bare", bias=False, out=False),
    "beam": _family("Beam", "experts gate gate_bias", place="both", norms="head"),
    "mixtral": _family("Mixtral", "experts", pattern=("sliding_attention", "", 0)),
    "qwen2_moe": _family("Qwen2Moe", "experts shared_gate", bias="qkv_bias+", out=False),
    "qwen3_moe": _family("Qwen3Moe", "experts", norms="head"),
    "olmoe": _family("Olmoe", "experts", norms="wide"),
    "flex_olmo": _family("FlexOlmo", "experts", place="post", norms="wide"),
    "phimoe": _family("Phimoe", "experts", norm="layer", head_bias=False),
    "dots1": _family("Dots1", "experts", norms="head"),
    "glm4_moe": _family("Glm4Moe", "experts", norms="?use_qk_norm", out=False),
    "ernie4_5_moe": _family(
        "Ernie4_5_Moe", "experts router_vectors", bias="use_bias", out="use_bias", mlp="use_bias", tied=True
    ),
    "hunyuan_v1_moe": _family("HunYuanMoEV1", "experts shared_as_inner", norms="head", mlp=False, tied=False),
    "minimax_m2": _family("MiniMaxM2", "experts", norms="wide", bias=False, out=False),
    "gpt_oss": _family(
        "GptOss",
        "experts sinks expert_bias router_bias",
        bias="attention_bias+",
        out="attention_bias+",
        pattern=("sliding_attention", "", 2),
    ),
    "granitemoe": _family("GraniteMoe", "experts"),
    "granitemoe_swa": _family("GraniteMoeSWA", "experts sinks"),
    "granitemoeshared": _family("GraniteMoeShared", "experts"),
    "step3p7": _family("Step3p7", "experts head_gate", norms="head"),
    "mellum": _family("Mellum", "experts", norms="head", pattern=("sliding_attention", "", 0)),
    "laguna": _family("Laguna", "experts head_gate router_vectors", norms="head"),
    "solar_open": _family("SolarOpen", "experts"),
    "hy_v3": _family("HYV3", "experts", norms="head"),
    "exaone_moe": _family("ExaoneMoe", "experts", norms="head", bias=False, out=False, mlp=False),
    "afmoe": _family(
        "Afmoe",
        "experts gate router_vectors",
        place="both",
        norms="head",
        bias=False,
        out=False,
        pattern=("sliding_attention", "global_attn_every_n_layers", 4),
    ),
    "kolibri1": _family("Kolibri1", "experts", place="both", norms="head"),
    "flint": _family("Flint", "experts sinks", norms="head"),
    "cohere2_moe": _family(
        "Cohere2Moe",
        "experts",
        place="shared",
        norm="bare",
        tied=True,
        pattern=("sliding_attention", "sliding_window_pattern", 4),
    ),
    "aria_text": _family("AriaText", "experts"),
    "llama4_text": _family(
        "Llama4",
        "experts shared_as_inner",
        pattern=("chunked_attention", "", 4),
        defaults={"attention_chunk_size": 8192, "num_shared_experts": 1},
    ),
    "mimo_v2_flash": _family(
        "MiMoV2Flash", "experts mimo", bias=False, out=False, defaults={"swa_num_key_value_heads": 8}
    ),
    "minimax_m3_vl_text": _family("MiniMaxM3", "experts block_index", norms="head", bias=False, out=False),
    "nemotron_h": _family("NemotronH", "single", linear="mamba", gated=False, bias=False, out=False),
    # Latents.
    "deepseek_v2": _family("DeepseekV2", "experts", **_MLA),
    "deepseek_v3": _family("DeepseekV3", "experts", **_MLA),
    "kimi_k2": _family("DeepseekV3", "experts", **_MLA),
    "deepseek_v32": _family("DeepseekV32", "experts", **_MLA),
    "glm_moe_dsa": _family("GlmMoeDsa", "experts", **_MLA),
    "glm4_moe_lite": _family("Glm4MoeLite", "experts", **_MLA),
    "hy_v4": _family("HYV4", "experts sinks mla_gate apart", **_MLA),
    "axk1": _family("AXK1", "experts expert_norm", **_MLA),
    "deepseek_v4": _family("DeepseekV4", "experts", attention="compressed"),
    "longcat_flash": _family("LongcatFlash", "experts double", **_MLA),
    # States beside attention, or in its place.
    "qwen3_next": _family("Qwen3Next", "experts gate_in_queries shared_gate", bias="attention_bias", **_QWEN3_NEXT),
    "qwen3_5_text": _family("Qwen3_5", "gate_in_queries", **_QWEN3_NEXT),
    "qwen3_5_moe_text": _family("Qwen3_5Moe", "experts gate_in_queries shared_gate", **_QWEN3_NEXT),
    "olmo_hybrid": _family("OlmoHybrid", "olmo_hybrid", norms="wide", **_EVERY_4),
    "kimi_linear": _family("KimiLinear", "experts", linear="kda", **_MLA),
    "bailing_hybrid": _family("BailingHybrid", "experts whole_gates head_gate", linear="kda", **_MLA),
    "minimax": _family("MiniMax", "experts", linear="lightning", bias=False, out=False),
    "mamba": _family("Mamba", "alone", linear="mamba1", tied=True),
    "falcon_mamba": _family("FalconMamba", "alone", linear="mamba1", tied=True),
    "mamba2": _family("Mamba2", "alone", linear="mamba", tied=False),
    "recurrent_gemma": _family(
        "RecurrentGemma",
        "half_inner griffin",
        linear="lru",
        out=True,
        mlp=True,
        tied=True,
        defaults={"block_types": ("recurrent", "recurrent", "attention"), "partial_rotary_factor": 0.5},
    ),
    "rwkv": _family("Rwkv", "embedding_norm four_times", norm="layer", linear="wkv", gated=False, mlp=False),
    "zamba2": _family("Zamba2", "along", linear="mamba", tied=True, bias=False, out=False, mlp="add_bias_linear"),
    "bamba": _family("Bamba", linear="mamba"),
    "granitemoehybrid": _family("GraniteMoeHybrid", linear="mamba"),
    "falcon_h1": _family("FalconH1", "both_parts", linear="mamba"),
    "jamba": _family("Jamba", linear="mamba1", bias=False, out=False),
    "lfm2": _family("Lfm2", "ff_multiple", linear="conv", norms="head", bias=False, out=False, mlp=False, tied=True),
    "lfm2_moe": _family("Lfm2Moe", "experts", linear="conv", norms="head", bias=False, out=False, mlp=False, tied=True),
    "lfm3": _family(
        "Lfm3", "head_gate", place="both", linear="conv", norms="head", bias=False, out=False, mlp=False, tied=True
    ),
    # Encoders.
    "bert": _family("Bert", "embedding_norm types transform encoder pooled", **_BERT),
    "roberta": _family("Roberta", "embedding_norm types transform encoder pooled", **_BERT),
    "xlm-roberta": _family("XLMRoberta", "embedding_norm types transform encoder pooled", **_BERT),
    "camembert": _family("Camembert", "embedding_norm types transform encoder pooled", **_BERT),
    "data2vec-text": _family("Data2VecText", "embedding_norm types transform encoder pooled", **_BERT),
    "xlm-roberta-xl": _family("XLMRobertaXL", "types transform encoder", **{**_BERT, "place": "pre"}),
    "roberta-prelayernorm": _family(
        "RobertaPreLayerNorm", "embedding_norm types transform encoder", **{**_BERT, "place": "pre"}
    ),
    "albert": _family("Albert", "embedding_norm types transform encoder groups pooled project_bias", **_BERT),
    "electra": _family("Electra", "embedding_norm types transform encoder project_bias", **_BERT),
    "jina_embeddings_v3": _family(
        "JinaEmbeddingsV3", "embedding_norm types transform encoder pooled", **{**_BERT, "positions": None}
    ),
    "rembert": _family(
        "RemBert", "embedding_norm types transform encoder pooled project_bias", **{**_BERT, "tied": False}
    ),
    "roformer": _family("RoFormer", "embedding_norm types transform encoder", **{**_BERT, "positions": None}),
    "big_bird": _family("BigBird", "embedding_norm types transform encoder pooler", **_BERT),
    "distilbert": _family("DistilBert", "embedding_norm transform encoder", **_BERT),
    "mpnet": _family("MPNet", "embedding_norm transform encoder pooled", **_BERT),
    "nomic_bert": _family(
        "NomicBert",
        "embedding_norm types transform encoder",
        place="after",
        norm="layer",
        bias=False,
        out=False,
        mlp=False,
        tied=True,
        head_bias=True,
    ),
    "eurobert": _family("EuroBert", "encoder"),
    "esm": _family("Esm", "transform encoder absolute", **{**_BERT, "place": "pre"}),
    "xlm": _family("XLM", "embedding_norm encoder four_times", **_BERT),
    "deberta": _family("Deberta", "embedding_norm types transform encoder disentangled plain_keys", **_BERT),
    "deberta-v2": _family("DebertaV2", "embedding_norm types transform encoder disentangled", **_BERT),
    "bert-generation": _family("BertGeneration", "embedding_norm encoder", **_BERT),
    "megatron-bert": _family("MegatronBert", "types transform encoder pooled", **{**_BERT, "place": "pre"}),
    "ernie": _family("Ernie", "embedding_norm types transform encoder pooled task_types", **_BERT),
    "modernbert": _family(
        "ModernBert",
        "embedding_norm transform encoder modern",
        norm="bare",
        bias=False,
        out=False,
        mlp=False,
        tied=True,
        head_bias=True,
    ),
    "modernbert-decoder": _family(
        "ModernBertDecoder",
        "embedding_norm transform modern",
        norm="bare",
        bias=False,
        out=False,
        mlp=False,
        tied=True,
        head_bias=True,
    ),
}

#: Types that only published files have: no program of transformers checks what the table says of them.
PUBLISHED_ONLY = frozenset(
    ("deepseek_ref", "internlm2", "kimi_k2", "kimi_k3", "mimo", "minimax_m1", "nemotron-nas", "qwen")
)

#: Types of models around a decoder, or other names -> the type that says how it is built.
ALIASES: dict[str, str] = {
    "kimi_k25": "deepseek_v3",
    "emu3_text_model": "llama",
    "deepseek_ref": "deepseek_v4",
    "gemma4_unified": "gemma4_text",
    "gemma4_unified_text": "gemma4_text",
    "qwen3_vl_text": "qwen3",
    "qwen2_5_omni_text": "qwen2",
    "qwen3_omni_moe_text": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "minimax_m1": "minimax",
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "gpt-sw3": "gpt2",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "gemma4": "gemma4_text",
}
