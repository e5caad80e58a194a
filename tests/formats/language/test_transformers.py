"""Every type of the table against transformers' own program of it, recorded: equal, or a stated difference.

``record.py`` wrote the figures: default configurations with eight layers, 96 tokens, windows that they fill.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.formats.language import record

import flopwise
from flopwise.formats.language.config import kind_of
from flopwise.formats.language.read import in_table

RECORDED: dict[str, dict[str, Any]] = json.loads(record.FILE.read_text(encoding="utf-8"))

PROMPT, STEP = {"prompt", "prompt needed"}, {"step", "step needed"}
WORK = PROMPT | STEP
NEEDED = {"prompt needed", "step needed"}

#: Types of which transformers says other figures: which, and why ours are as they are. By how much is not held, so that
#: a further fault in a figure that differs anyway does not show here.
DIFFERENCES: dict[str, tuple[set[str], str]] = {
    **dict.fromkeys(
        (
            *("bailing_hybrid", "bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear"),
            *(
                "mamba",
                "mamba2",
                "nemotron_h",
                "olmo_hybrid",
                "qwen3_5_moe_text",
                "qwen3_5_text",
                "qwen3_next",
                "zamba2",
            ),
        ),
        (WORK, "a recurrence counts by its definition, the program scans it in chunks; a step's products are its own"),
    ),
    **dict.fromkeys(
        ("lfm2_moe", "lfm3"),
        (WORK, "the program convolves padding in a prompt, and adds up a step's taps in a pointwise product"),
    ),
    "recurrent_gemma": (PROMPT, "the program convolves padding in a prompt"),
    "minimax": ({*PROMPT, "state"}, "the recurrence by its definition; engines keep its state in float32"),
    **dict.fromkeys(
        ("bloom", "codegen", "git", "gpt_neox_japanese", "mpt", "openai-gpt", "xglm"),
        ({"prompt needed"}, "the mask of the program is computed, so that it is not known; it is causal"),
    ),
    "gpt_neo": ({"prompt needed", *STEP, "state"}, "local layers see, and need to keep, no more than their window"),
    **dict.fromkeys(
        ("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "youtu"),
        (
            {"step"},
            "queries are multiplied with latents, as engines do; the program expands those of the whole context",
        ),
    ),
    **dict.fromkeys(
        ("deepseek_v32", "glm_moe_dsa", "hy_v4"),
        (NEEDED | {"step"}, "queries are multiplied with latents, and with chosen keys alone, as engines do"),
    ),
    "minimax_m3_vl_text": (NEEDED, "the program masks keys of blocks that are not chosen; nobody multiplies them"),
    "deepseek_v4": (
        {*WORK, "active", "state"},
        "gates of compressed entries count as they are added up, entries as they grow on average",
    ),
    "llama4_text": ({*WORK, "active"}, "the program runs every expert on every token"),
    "longcat_flash": ({"parameters"}, "the program gives weights to experts that do nothing; files have none"),
    "hunyuan_v1_moe": (
        {"parameters", "active", *WORK},
        "experts are as wide as moe_intermediate_size says, which the program leaves out",
    ),
    "diffllama": (WORK, "each score weighs values of twice the width; the program computes scores twice"),
    "deberta-v2": (PROMPT, "products of the table of distances depend on weights alone: the program folds them"),
    "roformer": ({"parameters"}, "a table of sines is no weight"),
    "esm": ({"parameters"}, "a head that predicts contacts is no part of the language model"),
    **dict.fromkeys(
        ("fuyu", "gemma3", "got_ocr2", "phi4_multimodal"), ({"parameters"}, "what reads images and sound is left out")
    ),
    "moss_transcribe_diarize": ({"parameters", "active"}, "its program ties what the part that writes text does not"),
    "gemma3n": (
        {"parameters", "active", *WORK},
        "what reads images and sound is left out; the program looks tokens up in their tables as well",
    ),
}
DIFFERENCES["mllama"] = (
    {"active", "prompt needed"},
    "eight rows of the table stand for images alone; the mask of the program is not known",
)
DIFFERENCES["git"] = ({"parameters", "prompt needed"}, "the tower is left out; the mask of the program is not known")

#: Types of transformers' causal mapping that the table does not have.
ELSEWHERE = {
    *("axk2", "cpmant", "doge", "hrm_text", "inkling2_text", "inkling_text", "moshi", "roc_bert", "trocr", "xlstm"),
    "zamba",
}


def written(folder: Path, kind: str) -> Path:
    """The folder of a configuration."""
    (folder / "config.json").write_text(json.dumps(RECORDED[kind]["configuration"]), encoding="utf-8")
    return folder


def counted(folder: Path, kind: str) -> dict[str, int]:
    """The figures of a type by its configuration alone."""
    step = "step" in RECORDED[kind]["figures"]
    return record.figures(flopwise.llm(written(folder, kind), prompt=record.PROMPT, generate=int(step)).to_dict())


@pytest.mark.parametrize("kind", sorted(set(RECORDED) - ELSEWHERE))
def test_type_equals_its_program(kind: str, tmp_path: Path) -> None:
    assert in_table(written(tmp_path, kind))
    theirs, ours = RECORDED[kind]["figures"], counted(tmp_path, kind)
    stated, why = DIFFERENCES.get(kind, (set(), "equal"))
    assert {key for key in theirs if theirs[key] != ours[key]} == stated & set(theirs), why


@pytest.mark.parametrize("kind", sorted(ELSEWHERE))
def test_types_that_the_table_lacks(kind: str, tmp_path: Path) -> None:
    assert not in_table(written(tmp_path, kind))  # one that it has belongs among those above


@pytest.mark.upstream
@pytest.mark.parametrize(
    "kind",
    ["llama", "qwen3_moe", "gemma3_text", "gpt_oss", "deepseek_v3", "cohere2", "mamba2", "bert", "t5", "olmo2", "phi3"],
)
def test_the_installed_transformers_says_the_same(kind: str) -> None:
    """A release that computes or stores something else shows here, before users see it."""
    pytest.importorskip("transformers")
    entry = RECORDED[kind]
    assert record.recorded(kind, entry["configuration"]) == entry["figures"]


@pytest.mark.upstream
def test_the_table_has_most_of_the_causal_mapping() -> None:
    pytest.importorskip("transformers")
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    known = [kind for kind in CAUSAL if kind_of({"model_type": kind, "architectures": ["AnyForCausalLM"]})]
    known += [kind for kind, entry in RECORDED.items() if kind in CAUSAL and kind_of(entry["configuration"])]
    assert len(set(known)) >= 160
