"""Files that are no tests of their own, and what holds for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # time says nothing here
settings.load_profile("busy")

#: pytest-xdist runs several processes, and in each of them PyTorch would start a thread for every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell's background jobs ignore it, and so would our children
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: They import torch, which must not be needed to look for tests; they hold no doctests.
collect_ignore = ["torch_modules.py", "torch_tools.py", "torch_models.py", "torch_vision.py", "compat/nets.py"]


@pytest.fixture(autouse=True)
def _bugs_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw fails a test of the command line; users get one line."""
    monkeypatch.setenv("FLOPWISE_TRACEBACK", "1")


@pytest.fixture(autouse=True, scope="module")
def _no_garbage_is_left() -> Iterator[None]:
    """Models that a file of tests made are gone after it: in thousands of tests they would fill the memory."""
    yield
    gc.collect()
