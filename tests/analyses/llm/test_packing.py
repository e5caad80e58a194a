"""Packed documents cost what each costs alone; parabolas give what each length gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from tests.language_models import LLAMA, WINDOW, written

import flopwise
from flopwise.analyses.llm import training
from flopwise.analyses.llm.training import over_documents as summed
from flopwise.analyses.llm.training import packed


def test_documents_stand_end_to_end_and_are_cut_where_a_sequence_is_full() -> None:
    rows = packed([700, 300, 50], 3, 512)
    assert [sum(tokens * count for tokens, count in row.items()) for row in rows] == [512] * 3
    assert rows[0] == Counter({512: 1})
    assert rows[1] == Counter({188: 1, 300: 1, 24: 1})
    assert rows[2] == Counter({26: 1, 486: 1})


def test_parabolas_give_what_each_length_gives() -> None:
    counts = Counter({3: 2, 7: 1, 8: 5, 20: 1, 31: 4, 64: 3})
    runs: list[int] = []

    def cost(tokens: int) -> tuple[int, ...]:
        runs.append(tokens)
        return 3 * tokens**2 + 5 * tokens + 11, tokens * (tokens + 1) // 2

    expected = tuple(sum(n * cost(tokens)[place] for tokens, n in counts.items()) for place in (0, 1))
    runs.clear()
    assert summed(cost, counts) == expected
    assert len(runs) == 4
    kinked = lambda tokens: (min(tokens, 16) * tokens,)  # noqa: E731
    assert summed(kinked, counts) == (sum(n * min(tokens, 16) * tokens for tokens, n in counts.items()),)


def _step(folder: Path, **settings: Any) -> dict[str, Any]:
    return flopwise.llm(folder, train=True, **settings).to_dict()


def test_a_step_of_packed_documents_is_the_sum_of_their_steps(tmp_path: Path) -> None:
    written(tmp_path, {**LLAMA, "num_hidden_layers": 1})
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("9, 7\n16\n")
    whole = _step(tmp_path, prompt=32, batch=2, lengths=lengths)
    each = [(_step(tmp_path, prompt=tokens, batch=1), 2) for tokens in (9, 7, 16)]
    for key in ("forward_flops", "backward_flops", "saved_bytes", "model_flops"):
        assert whole[key] == sum(count * step[key] for step, count in each)
    for key in ("params", "weight_bytes", "gradient_bytes", "state_bytes", "optimizer_flops"):
        assert whole[key] == each[0][0][key]
    assert whole["notes"][0].startswith("packed: 6 documents or parts of them in 2 sequences, 11 tokens each")
    # attention is all that changes: products of two factors of each pair of tokens, forward and twice backward
    plain, heads, width = _step(tmp_path, prompt=32, batch=2), 4, 16
    pairs = 2 * (32**2 - (9**2 + 7**2 + 16**2))
    assert plain["model_flops"] - whole["model_flops"] == pytest.approx(pairs * heads * 4 * width * 3, rel=0.15)


def test_a_rank_has_the_sequences_with_the_longest_documents(tmp_path: Path) -> None:
    written(tmp_path, {**LLAMA, "num_hidden_layers": 1})
    both = _step(tmp_path, prompt=32, batch=2, lengths=[32, 8, 8, 8, 8], dp=2)
    alone = _step(tmp_path, prompt=32, batch=1)
    assert both["rank"]["forward_flops"] == alone["forward_flops"]
    assert both["rank"]["saved_bytes"] == alone["saved_bytes"]


def test_what_cannot_be_packed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {**WINDOW, "num_hidden_layers": 1})
    refused = {"0": "'0' is no number", "none": "No such file", "": "No such file"}
    for lengths, why in refused.items():
        with pytest.raises(flopwise.InputError, match=f"lengths.*{why}"):
            _step(tmp_path, prompt=8, lengths=lengths or tmp_path / "missing")
    with pytest.raises(flopwise.InputError, match="without stages"):
        _step(tmp_path, prompt=8, batch=2, pp=2, lengths=4)
    monkeypatch.setattr(training, "MOST_LENGTHS", 2)
    with pytest.raises(flopwise.InputError, match="no parabola"):
        summed(lambda tokens: (tokens**3,), Counter(range(1, 9)))
