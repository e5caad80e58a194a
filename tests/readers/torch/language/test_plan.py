"""How engines divide weights: models for which transformers has no plan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.language_models import ENCODER_DECODER, ENCODERS, SMALL, written

pytest.importorskip("transformers")

from flopwise.analyses.llm.runs import Runs
from flopwise.analyses.llm.serving.split import divisible
from flopwise.analyses.llm.serving.ways import Split
from flopwise.api.llm import _module, _Program

OPT = {"model_type": "opt", "architectures": ["OPTForCausalLM"], "ffn_dim": 96, "word_embed_proj_dim": 64, **SMALL}

DISTILBERT = {"model_type": "distilbert", "architectures": ["DistilBertModel"], "dim": 64, "hidden_dim": 96} | {
    "n_heads": 4,
    "n_layers": 2,
    "vocab_size": 320,
}

#: Configuration -> the weights that every device has whole: norms, places, biases added to the sums of all devices.
WHOLE: dict[str, tuple[dict[str, Any], str]] = {
    "opt": (OPT, r"norm|embed_positions|(?:out_proj|fc2)\.bias"),
    "xlm-roberta": (ENCODERS["xlm-roberta"], r"LayerNorm|position_emb|token_type|output\.dense\.bias|pooler"),
    "modernbert": ({**ENCODERS["modernbert"], "architectures": ["ModernBertModel"]}, "norm"),
    "distilbert": (DISTILBERT, r"norm|LayerNorm|position_emb|(?:out_lin|lin2)\.bias"),
    "t5": (ENCODER_DECODER, "norm|relative_attention_bias"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_two_devices_have_half_of_each_matrix_and_product(name: str, tmp_path: Path) -> None:
    config, whole = WHOLE[name]
    model = written(tmp_path, config)
    module: Any = _module(model, None, False)
    runs = Runs(_Program(module, model, None), 1)
    request = divisible(runs, 32, 1 if runs.program.keeps_state else 0, runs.largest_step(32, 32))
    (one,), (half,) = (request.stages(Split(tp=tp)) for tp in (1, 2))
    left = {path: p for path, p in module.named_parameters() if re.search(whole, path)}
    assert 2 * half.weight_bytes - one.weight_bytes == sum(p.numel() * p.element_size() for p in left.values())
    pooled = sum(p.numel() for path, p in left.items() if path.endswith("pooler.dense.weight"))
    assert 2 * half.prefill.macs == one.prefill.macs + pooled
    assert 2 * half.cache.nbytes(32) == one.cache.nbytes(32)
    sums = {"opt": 4 * 32, "xlm-roberta": 4 * 32, "modernbert": 4 * 32, "distilbert": 4 * 32, "t5": 4 * 32 + 6}[name]
    scores = 320 // 2 if name in ("opt", "t5") else 0
    tables = 32 if name != "t5" else 32 + 1
    width = next(module.parameters()).element_size()
    assert half.prefill.sent_bytes == {"tp": width * ((sums + tables) * 64 + scores)}
