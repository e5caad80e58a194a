"""``flopwise.llm_log``: what a serving engine achieved, beside the floor of its devices."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable

from flopwise._arguments import checked
from flopwise.analyses.llm.inference import inference
from flopwise.analyses.llm.runs import Program
from flopwise.analyses.llm.serving.achieved import Achieved, compare_with_floor
from flopwise.analyses.llm.serving.log import LONGEST, Log, log_of
from flopwise.analyses.llm.serving.serving import Engine
from flopwise.api.language.program import (
    ConfiguredProgram,
    LanguageProgram,
    cache_type,
    configured,
    devices_of,
    language_module,
    usual_prompt,
    usual_prompt_of,
)
from flopwise.api.language.request import MOST_STEPS
from flopwise.errors import InputError, ModelError
from flopwise.formats.sources.location import in_words


@checked
def llm_log(
    model: object,
    log: str | os.PathLike[str] | None = None,
    *,
    metrics: str | None = None,
    minutes: int = 1,
    device: str,
    gpus: int | None = None,
    prompt: int | None = None,
    generate: int = 256,
    dtype: str | None = None,
    weights: str | None = None,
    kv_dtype: str | None = None,
    max_batched_tokens: int = 8192,
    trust_code: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Achieved:
    """The time of a serving engine, minute by minute, beside the least time that its devices need for the same work.

    Args:
        model: as in ``flopwise.llm``.
        log: a log of vLLM or SGLang, whose lines with throughputs and batches are read; nothing is patched in.
        metrics: in its place the URL of the engine's Prometheus metrics, which are asked for once a minute.
        minutes: how long ``metrics`` are watched.
        device: the device that the engine runs on, by a name of ``flopwise devices``; "8xh100" for eight.
        gpus: how many devices serve the model together.
        prompt: tokens of a prompt on average; None: as in ``flopwise.llm``.
        generate: tokens after it on average.
        dtype: as in ``flopwise.llm``, and so are ``weights``, ``kv_dtype`` and ``trust_code``.
        max_batched_tokens: tokens of a step of the engine at most.
        progress: called with the name of each step.

    Raises:
        ModelError: the model or the log cannot be read, or holds no figures; the server gives no metrics.
        InputError: neither a log nor a URL is given, or both; the device is unknown, or a number is less than 1.
    """
    if (log is None) == (metrics is None):
        raise InputError("give either a log or the URL of metrics")
    for name, number in (("prompt", prompt), ("generate", generate), ("max_batched_tokens", max_batched_tokens)):
        if number is not None and operator.index(number) < 1:
            raise InputError(f"{name} {number}: must be at least 1")
        if name != "prompt" and number is not None and operator.index(number) > MOST_STEPS:
            raise InputError(f"{name} {number:,}: more than {MOST_STEPS:,} tokens are not counted")
    cache = cache_type(kv_dtype)
    count, where = devices_of(device, gpus)
    assert where is not None
    progress("reading the log" if log is not None else f"waiting for {minutes} min of metrics")
    if metrics is not None:
        from flopwise.analyses.llm.serving.log import watched

        work = watched(metrics, minutes)
    else:
        assert log is not None
        work = _read(os.fspath(log))
    progress("building the model")
    table, prompt = configured(model, trust_code, dtype, weights), None if prompt is None else operator.index(prompt)
    program: Program
    if table is not None:
        prompt = prompt or usual_prompt_of(table.decoder)
        program = ConfiguredProgram(table, model, cache, generate)
    else:
        module = language_module(model, dtype, trust_code)
        prompt = prompt or usual_prompt(module)
        program = LanguageProgram(module, model, cache, weights, generate)
    request = inference(
        program,
        prompt=prompt,
        generate=operator.index(generate),
        batch=1,
        kv_dtype=kv_dtype,
        engine=Engine(operator.index(max_batched_tokens)),
        progress=progress,
    )
    return compare_with_floor(work, request, where, count or 1, max_batched_tokens)


def _read(path: str) -> Log:
    """The work in a file.

    Raises:
        ModelError: it cannot be read, is no file, or holds no figures.
    """
    if not os.path.isfile(path):
        raise ModelError(f"{path}: {'is no file' if os.path.exists(path) else 'no such file'}")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return log_of(iter(lambda: file.readline(LONGEST), ""), path)
    except OSError as error:
        raise ModelError(f"{path}: {in_words(error)}") from error
