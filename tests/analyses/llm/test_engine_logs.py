"""What engines print of weights and caches in public logs, to the digits that they print."""

from __future__ import annotations

from fractions import Fraction

import pytest

pytest.importorskip("transformers")

from tests.analyses.llm.held import held

GIB, MIB = 2**30, 2**20

#: Model, tokens, devices that share the heads of keys, bytes of a number over those of bfloat16; what is printed, its
#: unit, its last digit, and the log.
CACHES = [
    # vLLM 0.6 on an RTX 3090: 1,952 blocks of 16 tokens
    ("llama3-8b", 31_232, 1, 1, 3.81, GIB, 0.01, "https://github.com/vllm-project/vllm/issues/10517"),
    ("llama3-8b", 23_648, 1, 1, 2.89, GIB, 0.01, "https://github.com/vllm-project/vllm/issues/10517"),
    # vLLM 0.10 with data parallelism: what a context needs
    ("qwen3-coder-480b", 262_144, 1, 1, 62.0, GIB, 0.01, "https://github.com/vllm-project/recipes/pull/12"),
    # vLLM 0.15, all of its stages together
    ("qwen3-30b-a3b", 262_144, 1, 1, 24.0, GIB, 0.1, "https://github.com/vllm-project/vllm/issues/34076"),
    # SGLang on four H100: keys and values of 8.23 each
    ("qwen3-235b-a22b", 367_404, 4, 1, 16.46, GIB, 0.02, "https://github.com/vllm-project/vllm/issues/21348"),
    # llama.cpp, latents in q8_0: 34 bytes for 32 numbers
    (
        "deepseek-v3",
        32_768,
        1,
        Fraction(34, 64),
        1166.62,
        MIB,
        0.01,
        "https://github.com/ikawrakow/ik_llama.cpp/pull/259",
    ),
    # llama.cpp, the 18 layers without a window, of two sequences
    ("gpt-oss-120b", 262_144, 1, 1, 9216.0, MIB, 0.01, "https://github.com/ollama/ollama/issues/16480"),
]


@pytest.mark.parametrize("row", CACHES, ids=lambda row: f"{row[0]} {row[1]}")
def test_caches(row: tuple[str, int, int, Fraction, float, int, float, str]) -> None:
    model, tokens, devices, width, printed, unit, digit, _ = row
    nbytes = held(model, "bfloat16").token * tokens / devices * width
    assert nbytes / unit == pytest.approx(printed, abs=digit)


def test_a_cache_that_vllm_fills_but_for_a_percent() -> None:
    """Of 8.11 GiB it makes 178,880 tokens, 1.1 % less than there is room for."""
    token = held("qwen3-235b-a22b", "float8e4m3fn").token / 4
    assert 0.985 < 178_880 * token / (8.11 * GIB) < 1


def test_weights() -> None:
    """Beside them vLLM keeps a table of rotations: of 131,072 positions and 128 numbers in two bytes, 32 MiB."""
    assert (held("llama3-8b", "bfloat16").weights + 32 * MIB) / GIB == pytest.approx(14.9888, abs=1e-4)


def test_checkpoints() -> None:
    """Sizes of all tensors of the published files; vLLM pads the experts of the larger one to 64.38 GiB."""
    assert held("gpt-oss-20b", "mxfp4").weights == 13_761_264_768
    assert held("gpt-oss-120b", "mxfp4").weights == 65_248_815_744
