"""How engines divide weights: models for which transformers has no plan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.language_models import ENCODER_DECODER, ENCODERS, LLAMA, SMALL, STATE_SPACE, written

pytest.importorskip("transformers")

import flopwise
from flopwise.analyses.llm.division import Split
from flopwise.analyses.llm.runs import Runs
from flopwise.analyses.llm.serving.split import divisible
from flopwise.api.language.program import LanguageProgram, language_module

OPT = {"model_type": "opt", "architectures": ["OPTForCausalLM"], "ffn_dim": 96, "word_embed_proj_dim": 64, **SMALL}

DISTILBERT = {"model_type": "distilbert", "architectures": ["DistilBertModel"], "dim": 64, "hidden_dim": 96} | {
    "n_heads": 4,
    "n_layers": 2,
    "vocab_size": 320,
}

ALBERT = {**SMALL, "model_type": "albert", "architectures": ["AlbertModel"], "embedding_size": 32}

#: Configuration -> the weights that every device has whole: norms, places, biases added to the sums of all devices.
WHOLE: dict[str, tuple[dict[str, Any], str]] = {
    "opt": (OPT, r"norm|embed_positions|(?:out_proj|fc2)\.bias"),
    "xlm-roberta": (ENCODERS["xlm-roberta"], r"LayerNorm|position_emb|token_type|output\.dense\.bias|pooler"),
    "modernbert": ({**ENCODERS["modernbert"], "architectures": ["ModernBertModel"]}, "norm"),
    "distilbert": (DISTILBERT, r"norm|LayerNorm|position_emb|(?:out_lin|lin2)\.bias"),
    "albert": (
        ALBERT,
        r"norm|LayerNorm|position_emb|token_type|mapping_in|attention\.dense\.bias|ffn_output\.bias|pooler",
    ),
    "t5": (ENCODER_DECODER, "norm|relative_attention_bias"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_two_devices_have_half_of_each_matrix_and_product(name: str, tmp_path: Path) -> None:
    config, whole = WHOLE[name]
    model = written(tmp_path, config)
    module: Any = language_module(model, None, False)
    runs = Runs(LanguageProgram(module, model, None), 1)
    request = divisible(runs, 32, 1 if runs.program.keeps_state else 0, runs.largest_step(32, 32))
    (one,), (half,) = (request.stages(Split(tp=tp)) for tp in (1, 2))
    left = {path: p for path, p in module.named_parameters() if re.search(whole, path)}
    assert 2 * half.weight_bytes - one.weight_bytes == sum(p.numel() * p.element_size() for p in left.values())
    pooled = sum(p.numel() for path, p in left.items() if re.search(r"pooler(?:\.dense)?\.weight", path))
    mapped = sum(32 * p.numel() for path, p in left.items() if path.endswith("mapping_in.weight"))
    assert 2 * half.prefill.macs == one.prefill.macs + pooled + mapped
    assert 2 * half.cache.nbytes(32) == one.cache.nbytes(32)
    if name == "albert":  # whose layers are one
        return
    sums, tables = (4 * 32 + 6, 32 + 1) if name == "t5" else (4 * 32, 32)
    scores = 320 // 2 if name in ("opt", "t5") else 0
    width = next(module.parameters()).element_size()
    assert half.prefill.sent_bytes == {"tp": width * ((sums + tables) * 64 + scores)}


def test_a_note_says_how_much_is_not_divided(tmp_path: Path) -> None:
    module = language_module(written(tmp_path, STATE_SPACE), None, False)
    result = flopwise.llm(module, prompt=32, generate=4, device="2xh100", tp=2)
    matrices = {path: p for path, p in module.named_parameters() if p.dim() > 1}
    share = round(100 * sum(p.numel() for path, p in matrices.items() if ".mixer." in path) / result.params)
    assert (
        f"tp 2: each device has {share} % of the weights whole, in layers that the division does not name"
        in result.notes
    )
    alone = flopwise.llm(module, prompt=32, generate=4, device="2xh100", dp=2)
    divided = flopwise.llm(written(tmp_path, LLAMA), prompt=32, generate=4, device="2xh100", tp=2)
    assert not any("of the weights whole" in note for note in (*alone.notes, *divided.notes))
