"""Model types of transformers, reduced: prefill, a step and the cache's bytes equal those of a real run."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tests.torch_vision  # noqa: F401 # before a model of transformers asks for it
from tests.language_steps import compare

#: Of each kind of attention, state and mixture some; benchmarks/llm_sweep.py tries all.
TYPES = """
    apertus bailing_hybrid bamba bart beam bloom cohere cohere2 deepseek_v2 dots1 dots3_note_text emu3 exaone4
    falcon falcon_h1 falcon_mamba gemma gemma2 gemma3_text gemma4 glm4 gpt2 gpt_bigcode gpt_neox gpt_oss granitemoe
    granitemoehybrid jamba kimi_linear lfm2_moe llama llama4 m2m_100 mamba mamba2 marian mbart minimax mistral
    mixtral mpt nllb-moe olmo2 olmoe opt phi phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_5 qwen3_moe qwen3_next smollm3
    stablelm switch_transformers t5 xglm xlstm
""".split()  # noqa: SIM905 # one word each

#: Those whose program asks for the elements of its tensors.
IN_MEMORY = ("jetmoe",)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What configurations say about sizes that do not fit is not said."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


#: Those whose caches differ, which run with the newest transformers too.
CACHES = """
    bamba cohere2 deepseek_v2 falcon_h1 gemma3_text gpt2 gpt_oss jamba kimi_linear lfm2_moe llama mamba mamba2 minimax
    mixtral qwen3_next t5 xlstm
""".split()  # noqa: SIM905


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.upstream] * (kind in CACHES)) for kind in TYPES]
)
def test_a_type(kind: str) -> None:
    assert compare(kind, past=12, new=1, batch=2) == "equal"


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_a_type_that_needs_its_weights(kind: str) -> None:
    assert compare(kind, past=12, new=1, batch=2) == "equal with weights in memory"
