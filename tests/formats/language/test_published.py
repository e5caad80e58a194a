"""Published checkpoints: their files' sizes, and what engines say of their caches."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.formats.language.test_calculators import CONFIGURATIONS

import flopwise
from flopwise.formats.language.config import decoder_of
from flopwise.formats.language.read import content_of

#: Name, total_size of the index beside its files (bytes), where that index was read, and the configuration.
PUBLISHED: dict[str, dict[str, Any]] = {
    entry["name"]: entry for entry in json.loads(Path(__file__).with_name("published.json").read_text())
}


def _blocks(*shapes: tuple[int, int]) -> int:
    """Bytes of matrices in fp8 with a scale in single precision for each block of 128 by 128."""
    return sum(rows * columns + -(-rows // 128) * -(-columns // 128) * 4 for rows, columns in shapes)


#: DeepSeek-V3's layer that predicts a second token: latent attention, 257 experts, the router, norms and the product
#: that joins both inputs; the tables of embeddings and scores stand in the files once more.
_DEEPSEEK_DRAFT = (
    _blocks((1536, 7168), (24576, 1536), (576, 7168), (32768, 512), (7168, 16384))
    + 257 * _blocks((2048, 7168), (2048, 7168), (7168, 2048))
    + 2 * (256 * 7168 + 5 * 7168 + 1536 + 512 + 14336 * 7168)
    + 2 * 129_280 * 7168 * 2
)

#: Bytes by which files are larger than the model, and why.
LARGER = {
    "Falcon-180B-chat": (65_024 * 14_848 * 2, "the files hold the table of embeddings twice; the model ties both"),
    "MiMo-7B": (
        2 * (4096 * 4096 * 2 + 4096 + 2 * (4096 * 1024 + 1024) + 3 * 4096 * 11_008 + 8192 * 4096 + 5 * 4096),
        "a layer that predicts a second token, with a product that joins both inputs and three more norms",
    ),
    "DeepSeek-V3": (_DEEPSEEK_DRAFT, "a layer that predicts a second token, with tables of its own"),
}

#: Models whose figures are within a thousandth and not equal, and why.
NEAR = {
    "MiniMax-M1-80k": "routers in float32",
    "gpt-oss-20b": "headers of the files",
    "Qwen-7B-Chat-Int4": "0.015 % unexplained",
    "Phi-4-AutoRound-GPTQ-4bit": "an engine keeps no order of the inputs, but a table of rotations",
    "llama-3-8b-Instruct-bnb-4bit": "three digits",
    "Qwen2.5-7B-Instruct-bnb-4bit": "three digits",
    "DeepSeek-V3": "headers of 91,991 tensors",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_are_as_large_as_the_files(name: str, tmp_path: Path) -> None:
    entry = PUBLISHED[name]
    (tmp_path / "config.json").write_text(json.dumps(entry["configuration"]), encoding="utf-8")
    result = flopwise.llm(tmp_path, prompt=16, generate=1).to_dict()
    files = entry["total_size"] - LARGER.get(name, (0, ""))[0]
    assert result["weight_bytes"] == pytest.approx(files, rel=1e-3)
    assert (result["weight_bytes"] == files) is (name not in NEAR)


#: Parameters of published models, by configuration, as remembered: a reminder for whoever changes the table, no proof.
COUNTED: dict[str, dict[str, Any]] = {
    entry["name"]: entry for entry in json.loads(Path(__file__).with_name("parameters.json").read_text())
}


@pytest.mark.parametrize("name", COUNTED)
def test_parameters_stay(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(COUNTED[name]["configuration"]), encoding="utf-8")
    result = flopwise.llm(tmp_path, prompt=64, generate=0).to_dict()
    assert result["params"] == COUNTED[name]["parameters"]
    assert not [note for note in result["notes"] if "no architecture here knows" in note]


class Log(NamedTuple):
    """What an engine said of the cache of a model: bytes for so many tokens."""

    engine: str
    #: The model, by its name in ``SIZES``.
    model: str
    tokens: int
    nbytes: float
    #: How far bytes may be from tokens times bytes of a token, as a share, and why.
    within: float
    why: str
    source: str
    date: str
    #: Devices that share the heads of keys, and bytes of a number over those of bfloat16.
    devices: int = 1
    width: Fraction = Fraction(1)


_QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "torch_dtype": "bfloat16",
}
_LLAMA_7B = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "torch_dtype": "float16",
}
SIZES: dict[str, dict[str, Any]] = {
    "llama-3-8b": CONFIGURATIONS["llama_3_1_8b"],
    "llama-2-7b": _LLAMA_7B,
    "llama-30b": {
        **_LLAMA_7B,
        "hidden_size": 6656,
        "intermediate_size": 17920,
        "num_hidden_layers": 60,
        "num_attention_heads": 52,
        "torch_dtype": "float32",
    },
    "mistral-small-24b": {
        **CONFIGURATIONS["mistral_7b"],
        "hidden_size": 5120,
        "intermediate_size": 32768,
        "num_hidden_layers": 40,
        "head_dim": 128,
        "sliding_window": None,
        "vocab_size": 131072,
    },
    "qwen2.5-32b": {**CONFIGURATIONS["qwen2_5_14b"], "num_hidden_layers": 64, "intermediate_size": 27648},
    "qwen3-1.7b": {
        **CONFIGURATIONS["qwen3_8b"],
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "tie_word_embeddings": True,
    },
    "qwen3-30b-a3b": CONFIGURATIONS["qwen3_30b_a3b"],
    "qwen3-235b-a22b": _QWEN3_MOE,
    "qwen3-coder-480b": {
        **_QWEN3_MOE,
        "hidden_size": 6144,
        "num_hidden_layers": 62,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "moe_intermediate_size": 2560,
        "num_experts": 160,
    },
    "deepseek-v2-lite": COUNTED["DeepSeek-V2-Lite"]["configuration"],
    "deepseek-v3": CONFIGURATIONS["deepseek_v3"],
    "gpt-oss-120b": {
        **CONFIGURATIONS["gpt_oss_20b"],
        "layer_types": CONFIGURATIONS["gpt_oss_20b"]["layer_types"][:2] * 18,
        "num_local_experts": 128,
        "num_hidden_layers": 36,
    },
}
_GIB, _MIB = 2**30, 2**20
#: llama.cpp's q8_0: 34 bytes for 32 numbers.
_Q8 = Fraction(34, 64)
_DIGITS = "two decimals"

LOGS = (
    Log("vLLM", "llama-3-8b", 31_232, 3.81 * _GIB, 2e-3, _DIGITS,
        "https://github.com/vllm-project/vllm/issues/10517", "2024-12-02"),
    Log("vLLM", "mistral-small-24b", 184_832, 28.20 * _GIB, 2e-4, _DIGITS,
        "https://github.com/llm-d-incubation/llm-d-planner, docs/empirical-vllm-memory-results.md", "2026-04-27"),
    Log("vLLM", "qwen3-30b-a3b", 262_144, 24.0 * _GIB, 0, "",
        "https://github.com/vllm-project/vllm/issues/34076", "2026-02"),
    Log("vLLM", "qwen3-coder-480b", 262_144, 62.00 * _GIB, 1e-4, _DIGITS,
        "https://github.com/vllm-project/recipes/pull/12", "2025"),
    Log("vLLM", "qwen3-coder-480b", 205_728, 48.66 * _GIB, 2e-4, "whole blocks of 16 tokens",
        "https://github.com/vllm-project/recipes/pull/12", "2025"),
    Log("vLLM", "qwen3-235b-a22b", 178_880, 8.11 * _GIB, 0.012,
        "not explained by the log; perhaps memory of one rank and tokens of the one that has least",
        "https://github.com/vllm-project/vllm/issues/21348", "2025-07-22", 4),
    Log("vLLM", "deepseek-v2-lite", 1, 31_104, 0, "",
        "https://github.com/Isk4R1oT/ridgepoint, calibration/CALIBRATION.md", "2026-09-07"),
    Log("SGLang", "qwen3-235b-a22b", 367_404, (8.23 + 8.23) * _GIB, 1e-3, "two decimals each of keys and values",
        "https://github.com/vllm-project/vllm/issues/21348", "2025-07-22", 4),
    Log("SGLang", "qwen3-30b-a3b", 1_669_816, (76.44 + 76.44) * _GIB, 1e-4, "two decimals each of keys and values",
        "https://github.com/sgl-project/sglang/pull/18263", "2026-07-15"),
    Log("TensorRT-LLM", "llama-2-7b", 132_608, 69_524_783_104, 0, "",
        "https://github.com/NVIDIA/TensorRT-LLM/issues/1400", "2024-04-04"),
    Log("MLC LLM", "qwen3-1.7b", 4096, (2702.16 - 2254.16) * _MIB, 0, "",
        "https://github.com/mlc-ai/mlc-llm/pull/3221", "2025-05-04"),
    Log("MLC LLM", "llama-2-7b", 21_275, 10_689.56 * _MIB, 5e-3,
        "52 MiB of workspace stand in the same figure: 48 MiB, and queries and keys of a chunk of 128 tokens",
        "https://github.com/mlc-ai/mlc-llm/issues/2026", "2024-03-25"),
    Log("llama.cpp", "qwen2.5-32b", 32_768, 4352 * _MIB, 0, "",
        "https://github.com/ggml-org/llama.cpp/issues/11200", "2025-01", width=_Q8),
    Log("llama.cpp", "deepseek-v3", 32_768, 1166.62 * _MIB, 1e-5, _DIGITS,
        "https://github.com/ikawrakow/ik_llama.cpp/pull/259", "2025-03", width=_Q8),
    Log("llama-cpp-python", "llama-30b", 512, 1560 * _MIB, 0, "",
        "https://github.com/abetlen/llama-cpp-python/issues/66", "2023"),
    Log("Ollama", "gpt-oss-120b", 262_144, 9216 * _MIB, 0, "",
        "https://github.com/ollama/ollama/issues/16480", "2026"),
    Log("Ollama", "deepseek-v3", 2048, 9760 * _MIB * 576 / (128 * (192 + 128)), 0,
        "this version kept keys of 192 and values of 128 numbers for each of 128 heads; others keep the latent of 576",
        "https://github.com/ollama/ollama/issues/8447", "2025-01-16"),
)  # fmt: skip


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.engine} {log.model} {log.tokens}")
def test_a_token_in_the_cache_is_as_large_as_engines_say(log: Log, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SIZES[log.model]), encoding="utf-8")
    each = flopwise.llm(tmp_path, prompt=1024, generate=1).to_dict()["cache"]["bytes_per_token"]
    assert log.tokens * each * log.width / log.devices == pytest.approx(log.nbytes, rel=log.within or 1e-12), log.why


def test_six_engines_say_so() -> None:
    assert len({log.engine for log in LOGS} - {"llama-cpp-python"}) == 6  # which is llama.cpp again


def test_what_an_engine_loads(tmp_path: Path) -> None:
    """Beside the weights vLLM keeps a table of rotations: of 131,072 positions and 128 numbers in two bytes, 32 MiB."""
    (tmp_path / "config.json").write_text(json.dumps(SIZES["llama-3-8b"]), encoding="utf-8")
    weights = flopwise.llm(tmp_path, prompt=16).to_dict()["weight_bytes"]
    assert (weights + 32 * _MIB) / _GIB == pytest.approx(14.9888, abs=1e-4)


REAL = Path(__file__).parents[4] / "shared" / "models" / "llm" / "real"

#: Configurations that say no sizes at all, which their programs' defaults stand for, and what is missing in them.
SIZELESS = {"Gemma-3n-default", "OLMo-Hybrid", "ZAMBA2-1.2B"}


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the folder of published configurations beside the repository")
def test_every_published_configuration_is_read_whole() -> None:
    silent = {}
    for folder in sorted(path for path in REAL.iterdir() if path.is_dir() and path.name not in SIZELESS):
        decoder = decoder_of(folder.name, content_of(folder), "bfloat16")
        unread = [note for note in decoder.notes if "no architecture here knows" in note]
        if unread:
            silent[folder.name] = unread
    assert set(silent) <= {"moonshotai--Kimi-K3"}, silent  # residuals of blocks: by the table alone


#: Published configurations, the gigabytes of their files, the bytes by which these are larger than the model, and why:
#: the page lists files as the hub does, 15 July 2026. The figures have one decimal.
FILES = {
    "MiniMaxAI--MiniMax-M2.7": (230.1, 0, ""),
    "nvidia--MiniMax-M2.7-NVFP4": (
        139.9,
        62 * 2 * (2 * 3072 * 6144 + 2 * 3072 * 1024),
        "attention stays in float32, which its configuration does not say",
    ),
    "nvidia--MiniMax-M3-NVFP4": (250.1, 0, ""),
}


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the folder of published configurations beside the repository")
@pytest.mark.parametrize("name", FILES)
def test_quantised_files_are_as_large(name: str) -> None:
    gigabytes, more, why = FILES[name]
    weights = flopwise.llm(REAL / name, prompt=16, generate=1).to_dict()["weight_bytes"]
    assert weights + more == pytest.approx(gigabytes * 1e9, rel=1e-3), why
