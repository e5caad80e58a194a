"""Jobs that hang, grow, die or fail cost one result each, and no other."""

from __future__ import annotations

import re
import sys
import threading
import time

import pytest

from flopwise.analyses.zoo.engines import StoppedError, Supervisor

WORK = "tests.analyses.zoo.jobs:work"


def test_each_job_has_one_outcome() -> None:
    supervisor = Supervisor(WORK, seconds=3, memory=300 << 20)
    jobs = ["a", "die", "b", "fail", "c", "hang", "d", "grow", "exit", "linger", "e"]
    try:
        outcomes = {job: supervisor.do(job) for job in jobs}
    finally:
        supervisor.end()
    assert [outcomes[job].value for job in "abcde"] == list("ABCDE")
    assert outcomes["die"].error == "the process ended (SIGKILL)"
    assert outcomes["fail"].error == "ValueError: of no use"
    assert outcomes["hang"].error == "took more than 3 s"
    assert outcomes["linger"].error == "took more than 3 s while lingering"
    assert outcomes["grow"].error == "took more than 0.292969 GiB of memory"
    assert outcomes["exit"].error == "the process ended (exit code 3: the last words)"


def test_what_fails_in_a_used_process_is_tried_in_a_new_one() -> None:
    supervisor = Supervisor(WORK, seconds=60)
    try:
        assert [supervisor.do(job).error for job in ("fresh", "fresh", "a", "fresh")] == [""] * 4
        assert supervisor.do("refuse").error == "InputError: no"
    finally:
        supervisor.end()


def test_a_job_can_be_stopped() -> None:
    stop = threading.Event()
    supervisor = Supervisor(WORK, stop=stop)
    threading.Timer(0.5, stop.set).start()
    start = time.monotonic()
    with pytest.raises(StoppedError):
        supervisor.do("hang")
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("moment", ["starting", "working"])
def test_who_stops_a_job_may_end_its_process_too(moment: str) -> None:
    """The end is not the model's failure, whichever of the two is noticed first."""
    stop = threading.Event()
    supervisor = Supervisor(WORK, stop=stop)
    if moment == "working":
        assert supervisor.do("a").value == "A"

    def interrupt() -> None:
        while supervisor._process is None:
            time.sleep(0.001)
        time.sleep(0.2 if moment == "working" else 0)
        stop.set()
        supervisor.end()

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(StoppedError):
        supervisor.do("hang")
    other.join()


def test_what_a_job_prints_is_no_answer() -> None:
    supervisor = Supervisor(WORK)
    try:
        assert supervisor.do("print").value == "PRINT"
    finally:
        supervisor.end()


def _is_there(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("job", ["fork", "fork and hang", "fork and die"])
def test_what_a_job_starts_ends_with_its_process(job: str) -> None:
    supervisor = Supervisor(WORK, seconds=3)
    try:
        outcome = supervisor.do(job)
    finally:
        supervisor.end()
    (number,) = re.findall(r"(\d+)\)?$", outcome.value or outcome.error)
    patience = time.monotonic() + 10
    while _is_there(int(number)) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not _is_there(int(number))
