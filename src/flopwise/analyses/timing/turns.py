"""Models that run here in turns, so that a busy minute hurts all alike: the least time of each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.timing.engines import Options, UnsupportedError
from flopwise.analyses.timing.engines.onnxruntime import Runtime, random_inputs
from flopwise.analyses.timing.sampling import Clock, Sampler
from flopwise.errors import ModelError

#: Seconds of rounds, unless the caller says otherwise, and rounds at least.
SECONDS, FEWEST = 2.0, 6


class Way(NamedTuple):
    """A model, and how it is run."""

    #: Path of an ONNX file, or its bytes, whose external weights are in ``folder``.
    model: str | bytes
    #: Shapes of its inputs by name.
    shapes: Mapping[str, Sequence[int]]
    options: Options = Options()
    folder: str | None = None
    #: Optimisers of onnxruntime, by name, that are left out at the level.
    without: tuple[str, ...] = ()


def in_turns(ways: Sequence[Way], seconds: float = SECONDS) -> list[float]:
    """The least nanoseconds of each way: processor time of the thread; wall time where a way has several threads.

    Args:
        ways: what runs.
        seconds: of rounds at most; a few are finished in any case.

    Raises:
        ModelError: onnxruntime refuses a model, or fails to run it.
    """
    runtime, tasks = Runtime(Options()), {}
    for number, way in enumerate(ways):
        options = way.options
        session = runtime.session(
            way.model, options.level, folder=way.folder, threads=options.threads, without=way.without
        )
        try:
            tasks[str(number)] = runtime.task(session, random_inputs(session.get_inputs(), way.shapes)).run
        except UnsupportedError as error:
            raise ModelError(f"onnxruntime fails to run it: {error}") from error
    alone = all(way.options.threads == 1 for way in ways)
    warm, begin = dict.fromkeys(tasks, 1), time.monotonic()
    sampler = Sampler(tasks, Clock(time.thread_time_ns if alone else time.perf_counter_ns), warm=warm)
    while sampler.rounds < FEWEST or (time.monotonic() - begin < seconds and not sampler.settled):
        sampler.round()
    return [float(sampler.samples[name].best or 0) for name in tasks]
