"""The work of a serving engine by its log: lines of vLLM and SGLang as they print them."""

from __future__ import annotations

import datetime
import itertools
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from flopwise.errors import InputError, ModelError
from flopwise.formats.sources.location import shown

#: Characters of a line that are looked at, and lines with figures that are kept.
LONGEST, MOST = 4096, 1_000_000

#: Seconds between two lines of one run of an engine.
LONGEST_GAP = 86_400

_VLLM = re.compile(
    r"Avg prompt throughput: ([\d.]+) tokens/s, Avg generation throughput: ([\d.]+) tokens/s, Running: (\d+) reqs"
)
_VLLM_TIME = re.compile(r"\b(?P<month>\d\d)-(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\b")
_ENGINE = re.compile(r"Engine (\d+):")
_ACCEPTED = re.compile(r"Mean acceptance length: ([\d.]+)")

_SGLANG_TIME = re.compile(
    r"\[(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d) )?"
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?P<rank>[^\]]*)\]"
)
_PREFILL = re.compile(r"Prefill batch.*?#new-seq: (\d+), #new-token: (\d+), #cached-token: (\d+)")
_DECODE = re.compile(r"Decode batch.*?#running-req: (\d+)")
_RATE = re.compile(r"gen throughput \(token/s\): ([\d.]+)")
_LENGTH = re.compile(r"accept len: ([\d.]+)")

#: Words of a line that has figures, whether or not these can be read.
_PHRASES = ("Avg prompt throughput", "Prefill batch", "Decode batch")


class Work(NamedTuple):
    """The work of an engine in a stretch of time, which ends at a line of its log."""

    begin: datetime.datetime
    end: datetime.datetime
    #: Tokens of prompts, tokens that were generated, and sequences at work.
    prompt: float
    generated: float
    running: int
    #: Tokens of a sequence in a step: more than 1 with speculative decoding.
    accepted: float = 1.0

    def part(self, first: datetime.datetime, last: datetime.datetime) -> Work:
        """The part of the work between two moments, if it is done evenly."""
        length = (self.end - self.begin).total_seconds()
        overlap = (min(self.end, last) - max(self.begin, first)).total_seconds()
        share = overlap / length if length else 1.0
        return self._replace(prompt=self.prompt * share, generated=self.generated * share)


@dataclass
class Log:
    """The work of an engine."""

    engine: str
    works: list[Work]
    #: The moment that the first stretch begins.
    begin: datetime.datetime
    #: Tokens of a prompt on average, what was found in the cache included; None where the log does not say.
    prompt_length: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def dated(self) -> bool:
        """True if lines have a date."""
        return self.begin.date() != _NO_DATE


class _Line(NamedTuple):
    """A line with rates, as they were in the time since the line before."""

    engine: str
    end: datetime.datetime
    prompt: float
    generated: float
    running: int
    accepted: float


#: The year of lines without one, which is a leap year, and the day of lines without a date.
NO_YEAR = 1904
_NO_DATE = datetime.date(NO_YEAR, 1, 1)


def log_of(lines: Iterable[str], name: str) -> Log:
    """The work in a log.

    Args:
        lines: of the log.
        name: of the log, for messages.

    Raises:
        ModelError: no line has figures of vLLM or SGLang, or fewer than two do; or more than a million have.
    """
    rates: list[_Line] = []
    works: list[Work] = []
    prompts = sequences = 0
    wrong: list[int] = []
    accepted = 1.0
    engines: dict[str, None] = {}
    for number, whole in enumerate(lines, 1):
        line = whole[:LONGEST]
        if spoken := _ACCEPTED.search(line):
            accepted = max(_number(spoken[1]), 1.0)
            rates[-1:] = [one._replace(accepted=accepted) for one in rates[-1:]]
        if not any(phrase in line for phrase in _PHRASES):
            continue
        rate, work = _vllm(line, accepted) or _decode(line), _prefill(line)
        if rate is not None:
            rates.append(rate)
        elif work is not None:
            works.append(work)
            new, cached = _PREFILL.search(line).group(1, 3)  # type: ignore[union-attr] # ``work`` is of it
            sequences += int(new)
            prompts += int(work.prompt) + int(cached)
        else:
            wrong.append(number)
        engines["vLLM" if "Avg prompt" in line else "SGLang"] = None
        if len(rates) + len(works) > MOST:
            raise ModelError(f"{name}: more than {MOST:,} lines with figures; give a part of the log")
    works += _stretches(rates)
    works.sort(key=lambda work: work.end)
    if not works:
        raise ModelError(
            f"{name}: fewer than two lines with figures of vLLM ('Avg prompt throughput: ...') "
            "or of SGLang ('Decode batch ...')" + (f"; not understood: {_places(wrong)}" if wrong else "")
        )
    begin = min([*[one.end for one in rates], *[one.end for one in works]])
    log = Log(" and ".join(engines), works, begin)
    if sequences:
        log.prompt_length = prompts / sequences
    if wrong:
        log.notes.append(f"left out, as their figures were not understood: {_places(wrong)}")
    return log


def _places(numbers: list[int]) -> str:
    """The lines by number, the first of many."""
    more = f" and {len(numbers) - 5:,} more" if len(numbers) > 5 else ""
    return f"line{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:5]))}{more}"


def _number(text: str) -> float:
    """A number with one point at most; 0 where it has more."""
    return float(text) if text.count(".") <= 1 and text != "." else 0.0


def _time(pattern: re.Pattern[str], line: str) -> datetime.datetime | None:
    """The time of a line; None where it has none, or one that is not on the clock."""
    match = pattern.search(line)
    if match is None:
        return None
    parts = {name: int(text) for name, text in match.groupdict().items() if text and name != "rank"}
    names = {"year": NO_YEAR, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
    try:
        return datetime.datetime(*[parts.get(name, usual) for name, usual in names.items()])  # type: ignore[arg-type]
    except ValueError:
        return None


def _vllm(line: str, accepted: float) -> _Line | None:
    figures, time, engine = _VLLM.search(line), _time(_VLLM_TIME, line), _ENGINE.search(line)
    if figures is None or time is None:
        return None
    name = f"vLLM {engine[1]}" if engine else "vLLM"
    return _Line(name, time, _number(figures[1]), _number(figures[2]), int(figures[3]), accepted)


def _decode(line: str) -> _Line | None:
    figures, time, rate = _DECODE.search(line), _time(_SGLANG_TIME, line), _RATE.search(line)
    if figures is None or time is None or rate is None:
        return None
    rank, length = _SGLANG_TIME.search(line), _LENGTH.search(line)
    return _Line(
        f"SGLang{rank['rank'] if rank else ''}",
        time,
        0.0,
        _number(rate[1]),
        int(figures[1]),
        max(_number(length[1]), 1.0) if length else 1.0,
    )


def _prefill(line: str) -> Work | None:
    figures, time = _PREFILL.search(line), _time(_SGLANG_TIME, line)
    return None if figures is None or time is None else Work(time, time, int(figures[2]), 0.0, 0)


def _stretches(lines: list[_Line]) -> list[Work]:
    """The work between the lines of each engine, whose first line says from when on.

    vLLM prints nothing while it is idle, but has its rates of the last few seconds all the same: after a pause they
    count for as long as lines usually are apart. SGLang's are of all the time since the line before. After a day the
    engine counts as begun anew.
    """
    works = []
    for engine in dict.fromkeys(line.engine for line in lines):
        own = [line for line in lines if line.engine == engine]
        gaps = [_seconds(before, after) for before, after in itertools.pairwise(own)]
        usual = sorted(gaps)[len(gaps) // 2] if gaps else 0.0
        for (before, after), gap in zip(itertools.pairwise(own), gaps, strict=True):
            if gap > LONGEST_GAP:
                continue
            covered = min(gap, 1.5 * usual) if engine.startswith("vLLM") else gap
            works.append(
                Work(
                    after.end - datetime.timedelta(seconds=covered),
                    after.end,
                    after.prompt * covered,
                    after.generated * covered,
                    max(before.running, after.running),
                    after.accepted,
                )
            )
    return works


def _seconds(before: _Line, after: _Line) -> float:
    """Seconds from a line to the next; 0 where the clock was put back."""
    return max((after.end - before.end).total_seconds(), 0.0)


# The work of a serving engine by the counters of its Prometheus metrics, asked for again and again.


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
