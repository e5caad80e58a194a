"""Speculative decoding: a round's tokens by simulation, its work by profiles, its memory by both models' own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from tests.language_models import ENCODER_DECODER, ENCODERS, LLAMA, written

import flopwise

SMALL = {**LLAMA, "num_hidden_layers": 1, "vocab_size": 352}


def _folder(path: Path, name: str, config: dict[str, Any]) -> Path:
    (path / name).mkdir()
    return written(path / name, config)


def test_a_round_of_guesses_and_their_check(tmp_path: Path) -> None:
    model, draft = _folder(tmp_path, "model", LLAMA), _folder(tmp_path, "draft", SMALL)
    request: dict[str, Any] = {"prompt": 32, "generate": 8, "batch": 2}
    plain, alone = (flopwise.llm(one, **request, device="h100") for one in (model, draft))
    result = flopwise.llm(model, **request, device="h100", draft=draft, accept=0.7, draft_tokens=3)
    rounds = result.speculation
    assert rounds is not None
    check = flopwise.profile(model, past=32, new=4, batch_size=2)
    assert alone.decode is not None
    assert rounds.macs_per_round == 3 * alone.decode.macs + check.total("macs")
    generator, trials = random.Random(0), 20_000
    given = 0
    for _ in range(trials):
        accepted = 0
        while accepted < 3 and generator.random() < 0.7:
            accepted += 1
        given += accepted + 1
    assert rounds.tokens_per_round == pytest.approx(given / trials, rel=0.02)
    assert result.decode == plain.decode
    assert result.serving is not None
    assert plain.serving is not None
    assert alone.serving is not None
    both = [one.serving.memory for one in (plain, alone)]
    memory = result.serving.memory
    assert memory.weight_bytes == sum(one.weight_bytes for one in both)
    assert memory.cache_bytes(2, 40) == sum(one.cache_bytes(2, 40) for one in both)
    assert memory.workspace_bytes(2) == max(one.workspace_bytes(2) for one in both)
    assert alone.device is not None
    assert alone.device.decode is not None
    assert rounds.round_seconds is not None
    assert rounds.round_seconds > 3 * alone.device.decode.seconds
    token = rounds.round_seconds / rounds.tokens_per_round
    assert result.serving.floors is not None
    assert result.serving.floors.decode_seconds == token
    assert f"at most {1 / token:,.0f} tokens/s each" in result.to_dict()["verdict"]
    assert result.to_dict()["speculation"]["round_macs"] == rounds.macs_per_round
    assert any("the draft's vocabulary has 352 entries, the model's 320" in note for note in result.notes)
    every = flopwise.llm(model, **request, draft=draft, accept=1.0, draft_tokens=3).speculation
    assert every is not None
    assert (every.tokens_per_round, every.round_seconds) == (4, None)


def test_devices_share_a_model_and_its_draft(tmp_path: Path) -> None:
    model, draft = _folder(tmp_path, "model", LLAMA), _folder(tmp_path, "draft", SMALL)
    request: dict[str, Any] = {"prompt": 32, "generate": 8, "batch": 2, "device": "2xh100", "tp": 2}
    result = flopwise.llm(model, **request, draft=draft, draft_tokens=3)
    assert result.serving is not None
    both = [serving.memory for one in (model, draft) if (serving := flopwise.llm(one, **request).serving) is not None]
    memory = result.serving.memory
    assert memory.weight_bytes == sum(one.weight_bytes for one in both)
    assert memory.cache_bytes(2, 40) == sum(one.cache_bytes(2, 40) for one in both)
    assert memory.workspace_bytes(2) == max(one.workspace_bytes(2) for one in both)
    alone = flopwise.llm(model, **{**request, "device": "h100", "tp": None}, draft=draft, draft_tokens=3).serving
    assert alone is not None
    assert alone.floors is not None
    assert result.serving.floors is not None
    assert alone.floors.decode_seconds is not None
    assert result.serving.floors.decode_seconds is not None
    assert result.speculation is not None
    assert result.speculation.round_seconds == pytest.approx(
        result.serving.floors.decode_seconds * result.speculation.tokens_per_round
    )
    assert alone.floors.decode_seconds / 2 < result.serving.floors.decode_seconds < alone.floors.decode_seconds
    assert {str(one.split) for one in flopwise.llm(model, **{**request, "tp": None}, draft=draft).splits} == {
        "tp 2",
        "pp 2",
        "dp 2",
    }


def test_the_own_head_of_a_model_is_divided_with_it(tmp_path: Path) -> None:
    def weights(name: str, layers: int, **settings: Any) -> int:
        own = {**LLAMA, "num_hidden_layers": layers, "num_nextn_predict_layers": 1}
        folder = _folder(tmp_path, name, own)
        serving = flopwise.llm(folder, prompt=32, generate=8, device="2xh100", tp=2, **settings).serving
        assert serving is not None
        return serving.memory.weight_bytes

    layer = weights("three", 3) - weights("two", 2)
    joined = 2 * (2 * 64 * 64 + 3 * 64)  # a product that each device has whole, and three norms; tables are the model's
    assert weights("mtp", 2, draft="mtp") == weights("plain", 2) + layer + joined


@pytest.mark.parametrize(
    ("config", "options", "words"),
    [
        (SMALL, {"accept": 1.5}, "the share of guesses that are accepted is from 0 to 1"),
        (SMALL, {"draft_tokens": 0}, "draft_tokens 0: must be at least 1"),
        (ENCODERS["bert"], {}, "draft: BertForMaskedLM takes no steps after the prompt: give a decoder"),
        (ENCODER_DECODER, {}, "takes no steps after the prompt"),
    ],
)
def test_drafts_that_are_none(tmp_path: Path, config: dict[str, Any], options: dict[str, Any], words: str) -> None:
    draft = _folder(tmp_path, "draft", config)
    with pytest.raises(flopwise.InputError, match=words):
        flopwise.llm(_folder(tmp_path, "model", LLAMA), prompt=8, generate=2, draft=draft, **options)
