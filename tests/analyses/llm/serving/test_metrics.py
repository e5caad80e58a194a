"""Metrics as the engines' documentation shows them, asked for without a server and without waiting."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest

from flopwise.analyses.llm.serving.metrics import counters_of, scraped, watched
from flopwise.errors import InputError, ModelError

#: https://docs.sglang.io/references/production_metrics.html
SGLANG = """\
# HELP sglang:prompt_tokens_total Number of prefill tokens processed.
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{{model_name="meta-llama/Llama-3.1-8B-Instruct"}} 8.128902e+06
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{{model_name="meta-llama/Llama-3.1-8B-Instruct"}} {}
sglang:token_usage{{model_name="meta-llama/Llama-3.1-8B-Instruct"}} 0.28
sglang:num_running_reqs{{model_name="meta-llama/Llama-3.1-8B-Instruct"}} 1.0
"""

#: The names of https://docs.vllm.ai/en/latest/design/metrics.html, of two engines.
VLLM = """\
vllm:num_requests_running{{engine="0",model_name="m"}} 12.0
vllm:num_requests_running{{engine="1",model_name="m}}"}} 10.0
vllm:prompt_tokens_total{{engine="0",model_name="m"}} {0}
vllm:prompt_tokens_total{{engine="1",model_name="m"}} {0} 1395066363000
vllm:prompt_tokens_created{{engine="0",model_name="m"}} 1.7e+09
vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} {1}
vllm:generation_tokens_total{{engine="0",model_name="m"}} {2}
"""


def test_minutes_of_vllm_are_the_differences_of_all_engines_without_what_was_cached() -> None:
    pages: Iterator[str] = iter(
        [VLLM.format(*counts) for counts in ((1000, 0, 50), (1500, 300, 650), (1500, 300, 650))]
    )
    waited: list[float] = []
    log = watched("http://host/metrics", 2, lambda url: next(pages), waited.append)
    assert [(one.prompt, one.generated, one.running) for one in log.works] == [(700, 600, 22), (0, 0, 22)]
    assert (log.engine, waited) == ("vLLM", [60.0, 60.0])


def test_counters_of_sglang() -> None:
    counters = counters_of(SGLANG.format("7.557572e+06"), "page", datetime.datetime(2026, 1, 1))
    assert (counters.prompt, counters.generated, counters.running) == (8128902, 7557572, 1)


def test_refusals() -> None:
    pages = iter([SGLANG.format(900), SGLANG.format(20)])
    with pytest.raises(ModelError, match="counters fell"):
        watched("http://host/metrics", 1, lambda url: next(pages), lambda seconds: None)
    with pytest.raises(ModelError, match=r"http://host/metrics: no metrics of vLLM or SGLang"):
        watched("http://me:secret@host/metrics?key=1", 1, lambda url: "up 1\n", lambda seconds: None)
    with pytest.raises(InputError, match="--minutes 0"):
        watched("http://host/metrics", 0)
    with pytest.raises(InputError, match="begins with http"):
        scraped("file:///etc/passwd")
