"""The work of a serving engine by the counters of its Prometheus metrics, asked for again and again."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable
from typing import NamedTuple

from flopwise.analyses.llm.serving.log import Log, Work
from flopwise.errors import InputError, ModelError
from flopwise.formats.sources.location import shown

#: Seconds between two answers, and bytes of one.
PAUSE, LARGEST = 60.0, 16 << 20

_SAMPLE = re.compile(
    r"^(?P<engine>vllm|sglang):(?P<name>\w+)(?:\{.*\})?[ \t]+(?P<value>[-+.\deE]+)(?:[ \t]+-?\d+)?[ \t\r]*$", re.M
)

#: Names of counters and gauges -> what is taken of them. Prompt tokens that were found in the cache are not computed.
_NAMES = {
    "prompt_tokens_total": "prompt",
    "generation_tokens_total": "generated",
    "num_requests_running": "running",
    "num_running_reqs": "running",
    "prefix_cache_hits_total": "cached",
    "cached_tokens_total": "cached",
}


class Counters(NamedTuple):
    """The counters of an engine at a moment, over all of its parts."""

    engine: str
    at: datetime.datetime
    prompt: float
    generated: float
    running: float
    cached: float = 0.0


def counters_of(text: str, name: str, at: datetime.datetime) -> Counters:
    """The counters in a page of metrics.

    Raises:
        ModelError: it has none of vLLM or SGLang.
    """
    sums: dict[str, float] = {}
    engine = ""
    for sample in _SAMPLE.finditer(text):
        taken = _NAMES.get(sample["name"])
        if taken is not None:
            try:
                sums[taken] = sums.get(taken, 0.0) + float(sample["value"])
            except ValueError:
                raise ModelError(f"{name}: {sample[0].strip()[:80]!r} is no sample of a metric") from None
            engine = {"vllm": "vLLM", "sglang": "SGLang"}[sample["engine"]]
    lacking = [part for part in ("prompt", "generated", "running") if part not in sums]
    if lacking:
        raise ModelError(
            f"{name}: no metrics of vLLM or SGLang (vllm:prompt_tokens_total, sglang:prompt_tokens_total ...); "
            "SGLang has them with --enable-metrics"
        )
    return Counters(engine, at, **sums)


def scraped(url: str) -> str:
    """The text that a server gives.

    Raises:
        InputError: the URL is none of http or https.
        ModelError: there is no answer, another than a page of text, or a very large one.
    """
    name = shown(url)
    if url.partition("://")[0].lower() not in ("http", "https"):
        raise InputError(f"--metrics {name}: give a URL that begins with http:// or https://")
    from flopwise.formats.sources.remote import Http

    server = Http(url)
    try:
        status, text = server.page(LARGEST)
    finally:
        server.close()
    if status != 200:
        raise ModelError(f"{name}: the server answers with HTTP {status}, not with metrics")
    return text.decode("utf-8", "replace")


def watched(
    url: str, minutes: int, scrape: Callable[[str], str] = scraped, wait: Callable[[float], None] = time.sleep
) -> Log:
    """The work of an engine in the minutes to come.

    Args:
        url: of its metrics.
        minutes: that are waited for.
        scrape: gives the text of a URL.
        wait: waits so many seconds.

    Raises:
        InputError: the URL is none of http or https, or there are no minutes.
        ModelError: there is no answer, or one without metrics; or the engine began anew.
    """
    if minutes < 1:
        raise InputError(f"--minutes {minutes}: give at least 1")
    name = shown(url)
    before = counters_of(scrape(url), name, datetime.datetime.now())
    begin, works = before.at, []
    for _ in range(minutes):
        wait(PAUSE)
        after = counters_of(scrape(url), name, datetime.datetime.now())
        prompt, generated = after.prompt - before.prompt, after.generated - before.generated
        if prompt < 0 or generated < 0:
            raise ModelError(f"{name}: counters fell: the engine began anew in between")
        computed = max(prompt - max(after.cached - before.cached, 0.0), 0.0)
        works.append(Work(before.at, after.at, computed, generated, round(max(before.running, after.running))))
        before = after
    return Log(before.engine, works, begin)
