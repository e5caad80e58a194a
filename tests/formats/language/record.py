"""What transformers' own programs say of every type of language model: the figures that the table is held against.

``python -m tests.formats.language.record`` builds each type of transformers' causal mapping, and the encoders below,
from its default configuration with eight layers and windows that 96 tokens fill, records the program, and writes
``transformers.json`` anew; names of types as arguments write those alone.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("transformers.json")

#: Tokens of the prompt.
PROMPT = 96

#: Encoders, which the causal mapping does not name, and their classes.
ENCODERS = {
    "distilbert": "DistilBertForMaskedLM",
    "mpnet": "MPNetForMaskedLM",
    "esm": "EsmForMaskedLM",
    "deberta-v2": "DebertaV2ForMaskedLM",
    "nomic_bert": "NomicBertForMaskedLM",
    "eurobert": "EuroBertForMaskedLM",
    "modernbert": "ModernBertForMaskedLM",
}

#: Encoders with their decoders, as they are.
PAIRS = (
    "t5",
    "mt5",
    "bart",
    "mbart",
    "pegasus",
    "marian",
    "blenderbot",
    "m2m_100",
    "whisper",
    "t5gemma",
    "mvp",
    "plbart",
)

#: Settings without which a default cannot be built, or says too little.
SETTINGS: dict[str, dict[str, Any]] = {
    "ministral": {
        "num_key_value_heads": 8,
        "head_dim": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 4,
    },
    "nemotron": {"num_key_value_heads": 8, "head_dim": 128, "num_attention_heads": 48, "hidden_size": 6144},
    "hunyuan_v1_dense": {"num_key_value_heads": 8, "head_dim": 128},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 2},
    "deepseek_v2": {
        "num_experts_per_tok": 6,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "moe_intermediate_size": 1407,
    },
    "dots1": {
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 1408,
        "head_dim": 128,
        "num_attention_heads": 32,
    },
    "bamba": {"attn_layer_indices": [2, 5]},
    "glm4_moe": {"head_dim": 128},
    "laguna": {
        "num_attention_heads_per_layer": [48, 64] * 4,
        "layer_types": ["full_attention", "sliding_attention"] * 4,
        "sliding_window": 33,
    },
    "granitemoehybrid": {
        "layer_types": ["mamba", "mamba", "attention", "mamba"] * 2,
        "num_local_experts": 16,
        "shared_intermediate_size": 1024,
        "mamba_n_heads": 128,
    },
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 64,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": "p2c|c2p",
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
    "esm": {"vocab_size": 33, "position_embedding_type": "rotary", "token_dropout": False, "pad_token_id": 1},
    "minimax_m3_vl_text": {"layer_types": ["full_attention", "minimax_m3_sparse"] * 4, "index_block_size": 16},
}

#: Sizes that are made small enough for the prompt to fill them.
SMALL = {"sliding_window": 33, "attention_chunk_size": 32, "index_topk": 16, "window_size": 32, "index_topk_blocks": 3}

#: Keys of a configuration that say nothing of its sizes.
ASIDE = ("transformers_version", "_name_or_path", "id2label", "label2id", "dtype", "chunk_size_feed_forward")
ASIDE += ("initializer_range", "output_router_logits", "use_cache", "task_specific_params", "problem_type")


class LateError(Exception):
    """A program took too long."""


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise LateError(f"not done after {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def configuration(kind: str) -> dict[str, Any]:
    """The configuration of a type: its defaults with eight layers."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    import flopwise.api.language.program  # repairs torchvision, which some of its modules import

    assert flopwise.api.language.program
    build = transformers.CONFIG_MAPPING[kind]
    own, error = SETTINGS.get(kind, {}), None
    for depth in ({},) if kind in PAIRS else ({"num_hidden_layers": 8}, {"n_layers": 8}, {}):
        try:
            made = build(**depth, **own)
            break
        except Exception as e:  # a default that cannot be shortened, or built
            error = e
    else:
        raise ValueError(f"{kind}: {error}")
    for part in {id(c): c for c in (made, getattr(made, "text_config", None)) if c is not None}.values():
        for key, most in SMALL.items():
            value = getattr(part, key, None)
            if type(value) is int and value > most:
                setattr(part, key, most)
    heads = CAUSAL.get(kind)
    heads = heads if isinstance(heads, str) or heads is None else heads[0]
    whole = made.to_dict()
    content = {key: value for key, value in whole.items() if _tells(key, value)}
    name = ENCODERS.get(kind) or (f"{_title(kind)}ForConditionalGeneration" if kind in PAIRS else heads)
    return {**content, "model_type": kind, "architectures": [name], "torch_dtype": "bfloat16"}


def _title(kind: str) -> str:
    """How the classes of a type begin."""
    import transformers

    return transformers.CONFIG_MAPPING[kind].__name__.removesuffix("Config")


def _tells(key: str, value: object) -> bool:
    return key not in ASIDE and "token_id" not in key and value is not None and not key.startswith("vision")


def recorded(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of the program that transformers builds from a configuration."""
    import flopwise
    from flopwise.api.language.program import language_module

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(content), encoding="utf-8")
        module = language_module(folder, None, False)
        return figures(flopwise.llm(module, prompt=PROMPT, generate=0 if kind in ENCODERS else 1).to_dict())


def figures(result: Mapping[str, Any]) -> dict[str, int]:
    """The figures of a request that are held against each other."""
    step, cache = result.get("decode") or {}, result.get("cache") or {}
    every = {
        "parameters": result["params"],
        "prompt": result["prefill"]["macs"],
        "prompt needed": result["prefill"]["needed_macs"],
        "active": result["active_params"] if step else None,
        "step": step.get("macs"),
        "step needed": step.get("needed_macs"),
        "state": cache.get("bytes"),
    }
    return {key: value for key, value in every.items() if value is not None}


def main(kinds: list[str]) -> None:
    """Write the figures of some types, or of all."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for kind in kinds or sorted({*CAUSAL, *ENCODERS, *PAIRS}):
        try:
            with _within(75):
                content = configuration(kind)
                known[kind] = {"configuration": content, "figures": recorded(kind, content)}
            print(kind, known[kind]["figures"])
        except Exception as e:  # types that cannot be built are left out
            print(f"{kind}: {type(e).__name__}: {str(e)[:150]}")
    lines = [f"{json.dumps(kind)}: {json.dumps(known[kind])}" for kind in sorted(known)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
