"""Jobs that hang, grow, die or fail cost one result each, and no other."""

from __future__ import annotations

import pytest
from tests.analyses.zoo.jobs import work

from flopwise.analyses.zoo.supervise import run


@pytest.mark.parametrize("workers", [1, 2])
def test_each_job_has_one_outcome(workers: int) -> None:
    jobs = ["a", "die", "b", "fail", "c", "hang", "d", "grow", "e"]
    outcomes = {outcome.job: outcome for outcome in run(work, jobs, workers, seconds=8, memory=1 << 29)}
    assert outcomes.keys() == set(jobs)
    assert [outcomes[job].value for job in "abcde"] == list("ABCDE")
    assert outcomes["die"].error == "the process ended (SIGKILL)"
    assert outcomes["fail"].error == "ValueError: of no use"
    assert outcomes["hang"].error == "took more than 8 s"
    assert outcomes["grow"].error == "took more than 0.5 GiB of memory"


def test_nothing_to_do() -> None:
    assert list(run(work, [])) == []
