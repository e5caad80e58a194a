"""Splits among devices: all that divide, what fits, the fewest devices, and floors of several links."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.language_models import ENCODER_DECODER, LLAMA, MIXTURE, written

pytest.importorskip("transformers")


import flopwise
from flopwise.analyses.llm.division import Split
from flopwise.analyses.llm.inference import Inference
from flopwise.analyses.llm.serving.solver import splits
from flopwise.analyses.llm.serving.split import seconds
from flopwise.analyses.timing.catalog import find


def test_every_split_uses_all_devices() -> None:
    each = list(splits(8, experts=8))
    assert len(set(each)) == len(each)
    assert {split.devices for split in each} == {8}
    assert {(split.tp, split.pp, split.dp) for split in each} == {
        (tp, pp, 8 // tp // pp) for tp in (1, 2, 4, 8) for pp in (1, 2, 4, 8) if 8 % (tp * pp) == 0
    }
    assert all(split.ep == 1 for split in splits(8))
    assert {split.tp for split in splits(8, ways={"tp": 2})} == {2}
    assert [str(split) for split in splits(8, ways={"pp": 1, "dp": 1})] == ["tp 8"]


@pytest.mark.parametrize(
    ("split", "sent", "microseconds"),
    [
        (Split(tp=8), {"tp": 450_000}, 1.0),  # eight H100 on a board: 450 GB/s each way
        (Split(pp=16), {"pp": 50_000}, 1.0),  # some of sixteen stages send to another board: 50 GB/s
        (Split(ep=16, dp=16), {"ep": 750_000}, 750_000 * 8 / 15 / 50_000),  # 8 of 15 others are on another board
        (Split(tp=16), {"tp": 750_000}, 750_000 / 15 * 16 * 7 / 8 / 450_000),  # the sum of a board goes over links
    ],
)
def test_links_reach_a_board_and_the_network_the_others(
    split: Split, sent: dict[str, int], microseconds: float
) -> None:
    assert seconds(split, sent, find("h100")) == pytest.approx(microseconds * 1e-6)


def served(model: Path, **settings: object) -> Inference:
    return flopwise.llm(model, prompt=32, generate=4, **settings)  # type: ignore[call-overload,no-any-return]


def test_splits_are_listed_the_fastest_first_and_limits_are_tight(tmp_path: Path) -> None:
    result = served(written(tmp_path, MIXTURE), device="4xh100", batch=4)
    times = [one.floors.decode_seconds or 0.0 for one in result.splits if one.floors is not None]
    assert times == sorted(times)
    assert result.serving is result.splits[0]
    assert result.to_dict()["serving"] == result.to_dict()["splits"][0]
    rates = [one["most_tokens_per_s"] for one in result.to_dict()["splits"]]
    assert rates == [math.ceil(one.most_tokens_per_second or 0) for one in result.splits]
    for one in result.splits:
        assert one.max_sequences is not None
        assert one.max_sequences % one.split.dp == 0
        have, each = one.memory_bytes or 0, one.max_sequences // one.split.dp
        assert one.memory.must_fit_bytes(each, 36) <= have < one.memory.must_fit_bytes(each + 1, 36)
        assert one.floors is not None
        assert one.floors_apart is not None
        assert one.floors.prefill_seconds <= one.floors_apart.prefill_seconds


def test_the_longest_context_is_that_of_one_device(tmp_path: Path) -> None:
    """Behind an encoder the cache grows with the prompt alone."""
    model = written(tmp_path, ENCODER_DECODER)
    alone, placed = (served(model, device="h100", **ways).serving for ways in ({}, {"tp": 1}))
    assert alone is not None
    assert placed is not None
    assert placed.max_context == alone.max_context


def test_devices_of_an_encoder_send_while_they_read(tmp_path: Path) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = written(tmp_path, {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 320, **sizes})
    serving = served(model, device="2xh100", tp=2).serving
    assert serving is not None
    assert serving.communication_bytes_per_token > 0
    assert serving.most_tokens_per_second is None


def test_the_fewest_devices_that_fit(tmp_path: Path) -> None:
    model = written(tmp_path, {**LLAMA, "num_hidden_layers": 8, "num_key_value_heads": 4})
    one = served(model, device="h100").serving
    assert one is not None
    assert not served(model, device="h100").splits
    short = {"device": "h100", "memory_fraction": (one.must_fit_bytes - 1) / (one.device_bytes or 1)}
    two = served(model, **short)
    assert two.serving is not None
    assert (two.serving.fits, two.serving.split.devices, two.serving.fewest) == (False, 1, 2)
    assert two.splits[0].fits
    assert {split.split.devices for split in two.splits} == {2}


def test_uneven_replicas_and_pipelines_say_what_they_assume(tmp_path: Path) -> None:
    notes = served(written(tmp_path, LLAMA), device="h100", dp=3, pp=2, batch=8).notes
    assert "dp 3: 8 sequences do not divide by it; memory and times are of a replica with 3" in notes
    assert any(note.startswith("pp 2: the prompt passes the stages in pieces") for note in notes)
    assert not any(note.startswith(("dp", "pp")) for note in served(tmp_path, device="h100", dp=4, batch=8).notes)


def test_devices_without_a_known_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.analyses.llm.serving.memory.EngineStep.workspace", lambda *call: None)
    assert served(written(tmp_path, LLAMA), device="h100").serving is None
    with pytest.raises(flopwise.InputError, match="2xh100: what LlamaForCausalLM takes of its memory is not known"):
        served(tmp_path, device="2xh100")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tp": 2}, "tp: give the device as well"),
        ({"gpus": 2}, "gpus 2: give the device as well"),
        ({"device": "2xh100", "gpus": 4}, "2xh100: these are 2 devices, not 4"),
        ({"device": "h100", "gpus": 0}, "0 devices: must be at least 1"),
        ({"device": "h100", "gpus": 10**9}, "1000000000 devices: must be at least 1 and at most 1000000"),
        ({"device": "9" * 5000 + "xh100"}, "unknown device '999"),
        ({"device": "2xh1000"}, "unknown device 'h1000'"),
        ({"device": "3xh100", "tp": 2}, "3 devices: no split of them has tp 2, as 2 does not divide 3"),
        ({"device": "h100", "tp": 8}, "tp 8: 4 heads of model.layers.0.self_attn do not divide by it"),
        ({"device": "h100", "memory_fraction": 0.0}, "memory_fraction 0: must be above 0 and at most 1"),
    ],
)
def test_what_cannot_be_divided_is_said(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    with pytest.raises(flopwise.InputError, match=words):
        served(written(tmp_path, LLAMA), **settings)
