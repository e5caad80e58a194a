"""An engine's log beside the floor of ``flopwise.llm``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.analyses.llm.serving.test_log import PREFILL, VLLM
from tests.language_models import LLAMA, written

import flopwise


@pytest.fixture
def llama(tmp_path: Path) -> str:
    return str(written(tmp_path, LLAMA))


@pytest.mark.parametrize("sequences", [1, 4])
def test_an_engine_at_the_floor_needs_all_of_its_time(llama: str, tmp_path: Path, sequences: int) -> None:
    request = flopwise.llm(llama, prompt=32, generate=16, batch=sequences, device="h100")
    assert request.device is not None
    rate = sequences * 16 / request.device.generate.seconds
    log = tmp_path / "vllm.log"
    lines = [VLLM.format(f"10:{13 + i // 6}:{10 * (i % 6):02}", 0, "0.0", f"{rate:.3f}", sequences) for i in range(15)]
    log.write_text("\n".join(lines))
    result = flopwise.llm_log(llama, log, device="h100", prompt=32, generate=16)
    assert [minute.name for minute in result.minutes] == ["05-19 10:13", "05-19 10:14", "05-19 10:15"]
    assert [minute.seconds for minute in result.minutes] == [60, 60, 20]
    assert (
        0.995 < result.whole.share < 1.000001
    )  # a step of several sequences looks up their rows of the embeddings as well
    assert result.whole.sequences == pytest.approx(sequences)
    twice = flopwise.llm_log(llama, log, device="2xh100", prompt=32, generate=16)
    assert twice.whole.floor_seconds == pytest.approx(result.whole.floor_seconds / 2)


def test_prompts_cost_what_the_prefill_does(llama: str, tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    log.write_text("\n".join(PREFILL.format(f"20:02:5{i}", 4, 128, 0) for i in range(4)))
    result = flopwise.llm_log(llama, log, device="h100", prompt=32)
    request = flopwise.llm(llama, prompt=32, generate=0, batch=16)
    assert result.whole.macs == sum(request.prefill.products.values())
    assert result.whole.prompt_tokens == 512
    assert json.loads(json.dumps(result.to_dict()))["schema"] == "flopwise.llm-log/1"


def test_refusals(llama: str, tmp_path: Path) -> None:
    with pytest.raises(flopwise.InputError, match="either a log or the URL"):
        flopwise.llm_log(llama, device="h100")
    with pytest.raises(flopwise.ModelError, match="is no file"):
        flopwise.llm_log(llama, tmp_path, device="h100")
    with pytest.raises(flopwise.InputError, match="generate 0"):
        flopwise.llm_log(llama, tmp_path, device="h100", generate=0)
