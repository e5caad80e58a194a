"""Lines as engines printed them in public issues.

vllm-project/vllm 43295, 15018; noonghunna/club-3090 93; sgl-project/sglang 22166, 36081, 4759, 1612.
"""

from __future__ import annotations

import pytest

from flopwise.analyses.llm.serving.log import LONGEST_GAP, log_of
from flopwise.errors import ModelError

RATES = "Avg prompt throughput: {} tokens/s, Avg generation throughput: {} tokens/s, Running: {} reqs, "
VLLM = "(APIServer pid=3646) INFO 05-19 {} [loggers.py:271] Engine 00{}: " + RATES + "Waiting: 43 reqs, GPU KV cache"
OLD = "INFO 03-18 {} [metrics.py:481] " + RATES + "Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.6%"
DECODE = (
    "[2026-04-05 {}] Decode batch, #running-req: {}, #token: 11179, token usage: 0.08, cuda graph: True, "
    "gen throughput (token/s): {}, #queue-req: 0"
)
PREFILL = (
    "[2026-04-05 {}] Prefill batch, #new-seq: {}, #new-token: {}, #cached-token: {}, token usage: 0.08, "
    "#running-req: 31, #queue-req: 0, cuda graph: True, input throughput (token/s): 559.53"
)


def test_rates_of_vllm_are_tokens_of_the_time_since_the_line_before() -> None:
    lines = [
        VLLM.format("10:13:11", 0, "0.0", "1055.3", 18),
        '(APIServer pid=3646) INFO:     172.31.0.1:37016 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        VLLM.format("10:13:21", 0, "0.0", "1226.3", 18),
        VLLM.format("10:13:31", 0, "12068.8", "734.9", 21),
    ]
    log = log_of(lines, "log")
    assert [(round(one.prompt), round(one.generated), one.running) for one in log.works] == [
        (0, 12263, 18),
        (120688, 7349, 21),
    ]
    assert (log.engine, f"{log.begin:%m-%d %H:%M:%S}", log.notes) == ("vLLM", "05-19 10:13:11", [])


def test_each_engine_of_vllm_has_rates_of_its_own_and_a_pause_does_not_count() -> None:
    times = ("10:13:11", "10:13:21", "10:13:31", "10:53:31")
    lines = [VLLM.format(time, engine, "0.0", "100.0", 4) for time in times for engine in (0, 1)]
    assert sum(one.generated for one in log_of(lines, "log").works) == 2 * 100 * (10 + 10 + 15)


def test_lines_of_old_versions_and_of_speculative_decoding() -> None:
    old = [OLD.format(time, "0.0", "0.4", 2) for time in ("09:04:46", "09:04:56")]
    assert log_of(old, "log").works[0].generated == pytest.approx(4)
    spoken = "INFO 05-07 04:56:17 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.63, Accepted"
    lines = [VLLM.format(time, 0, "2.5", "123.8", 1) for time in ("04:56:17", "04:56:27")]
    assert log_of([lines[0], spoken, lines[1]], "log").works[0].accepted == 2.63
    assert log_of([*lines, spoken], "log").works[0].accepted == 2.63


def test_batches_of_sglang() -> None:
    lines = [
        DECODE.format("20:02:50", 32, "1601.11"),
        PREFILL.format("20:02:51", 1, 158, 42),
        DECODE.format("20:02:52", 29, "1500.5"),
        "[2026-04-05 20:02:53 TP0 EP0] Prefill batch, #new-seq: 3, #new-token: 290, #cached-token: 10",
        "[16:43:29 TP0] Decode batch. #running-req: 1, #token: 7352, accept len: 2.54, gen throughput (token/s): 39.33",
    ]
    log = log_of(lines[:4], "log")
    assert [(one.prompt, one.generated) for one in log.works] == [(158, 0), (0, 3001), (290, 0)]
    assert (log.engine, log.prompt_length) == ("SGLang", (158 + 42 + 290 + 10) / 4)
    later = lines[4].replace("16:43:29", "16:43:39")
    undated = log_of([lines[4], later], "log")
    assert (round(undated.works[0].generated, 6), undated.works[0].accepted, undated.dated) == (393.3, 2.54, False)


def test_lines_that_are_cut_or_false_are_named() -> None:
    good = [VLLM.format(time, 0, "0.0", "100.0", 4) for time in ("10:13:11", "10:13:21")]
    cut = ["INFO 05-19 10:13:51 Avg prompt throughput: x", VLLM.format("10:99:21", 0, "0.0", "1.0", 4), "Decode batch"]
    assert log_of([*good, *cut], "log").notes == ["left out, as their figures were not understood: lines 3, 4, 5"]
    with pytest.raises(ModelError, match=r"fewer than two lines.*not understood: line 1$"):
        log_of(["Prefill batch, " + "#" * 10_000], "log")
    with pytest.raises(ModelError, match="fewer than two lines"):
        log_of(good[:1], "log")


def test_another_run_in_the_same_file_begins_anew() -> None:
    first = [DECODE.format(f"20:02:5{second}", 8, "100.0") for second in (0, 1)]
    other = [line.replace("2026-04-05", "2026-04-09") for line in first]
    works = log_of([*first, *other], "log").works
    assert LONGEST_GAP < 4 * 86_400
    assert [one.generated for one in works] == [100, 100]
