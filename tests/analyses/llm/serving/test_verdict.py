"""The verdict: a line that begins with the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flopwise.analyses.llm.serving.memory import Cache, Kept, Memory, Workspace
from flopwise.analyses.llm.serving.serving import Engine, Floors, Serving, usable, verdict

MEMORY = Memory(61 * 10**9, Cache((Kept(131_072),)), Workspace(8192, ((10**9, 0),)))
SERVING = Serving(
    MEMORY, Engine(), 16, 4352, "H100", 80 * 10**9, max_sequences=17, max_context=4432, floors=Floors(1.0, 0.02, 800.0)
)
MORE = "engines may keep 2.0 GB more for themselves"
PARTS = "61 GB of weights, 9.1 GB of cache and 1.0 GB of workspace"


@pytest.mark.parametrize(
    ("serving", "line"),
    [
        (
            SERVING,
            f"fits: H100, {PARTS} in 72 GB (0.9 of 80 GB); {MORE}; at most 17 sequences; at most 50 tokens/s each",
        ),
        (
            replace(SERVING, reported=False, floors=None),
            f"fits: H100, {PARTS} in 72 GB (0.9 of 80 GB by the vendor); {MORE}; at most 17 sequences",
        ),
        (
            replace(SERVING, memory=replace(MEMORY, prefix=1024), engine=Engine(shared_prefix=1024)),
            f"fits: H100, {PARTS.replace('9.1', '7.1')} in 72 GB (0.9 of 80 GB); at most 17 sequences",
        ),
        (replace(SERVING, device=None, device_bytes=None), f"needs {PARTS}"),
        (
            replace(SERVING, device_bytes=40 * 10**9, max_sequences=0, max_context=0, fewest=2),
            f"does not fit: H100, 71 GB of 36 GB (0.9 of 40 GB), {PARTS}; fits on 2 devices or more",
        ),
    ],
    ids=["fits", "by the vendor", "shared prefix", "no device", "does not fit"],
)
def test_the_line(serving: Serving, line: str) -> None:
    assert verdict(serving) == line


def test_a_rate_at_most_is_rounded_up() -> None:
    assert Floors(1.0, 8.0, 0.125).to_dict() == {"prefill_ns": 10**9, "decode_ns": 8 * 10**9, "tokens_per_s": 1}


def test_the_part_of_a_device_is_exact() -> None:
    assert [usable(80 * 10**9, fraction) for fraction in (0.9, 0.1, 1.0)] == [72 * 10**9, 8 * 10**9, 80 * 10**9]
