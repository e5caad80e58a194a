"""Files that are no tests of their own, and what holds for all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # time says nothing here
settings.load_profile("busy")

#: pytest-xdist runs several processes, and in each of them PyTorch would start a thread for every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

#: Keras would take its element type and the order of axes from the user's file, or write one: here it finds none.
os.environ["KERAS_HOME"] = os.path.join(os.devnull, "keras")

#: OpenVINO would tell its makers of every conversion, each time from a fork of this process; without this package not.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type] # as Python documents it

#: Children import the engines and jobs of tests; what is not named here they do not take from the current folder.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")))
)

#: What a shell's background jobs and those of ``nohup`` ignore, and our children would as well.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (getattr(signal, "SIGHUP", 0), signal.SIG_DFL)):
    if number and signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)

#: They import torch, which must not be needed to look for tests; they hold no doctests.
collect_ignore = ["torch_modules.py", "torch_tools.py", "torch_models.py", "torch_vision.py", "compat/nets.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Before there are workers: yapf, which mmengine imports, stores its grammar unguarded at its first import.

    Two workers of a machine without that file would read it half-written (yapf 0.43.0).
    """
    if not hasattr(config, "workerinput"):
        with contextlib.suppress(ImportError):
            importlib.import_module("yapf")


@pytest.fixture(autouse=True, scope="session")
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An error that nobody foresaw fails a test of the command line, where users get one line.

    Measured times are neither read from the user's store nor written into it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOPWISE_TRACEBACK", "1")
        patch.setenv("FLOPWISE_STORE", str(tmp_path_factory.mktemp("store") / "times.sqlite"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _documents_are_as_their_schema_says() -> Iterator[None]:
    """Whatever JSON a test writes is held against the published schema, all of each kind but once."""
    from flopwise.api.schema import schema
    from flopwise.report.formats import json as written
    from flopwise.report.schemas.documents import DOCUMENTS

    validators = pytest.importorskip("jsonschema")
    seen: set[tuple[str, object]] = set()
    render = written.render_content

    def render_checked(content: Any, look: Any = None) -> str:
        text: str = render(content, look)
        name = str(content.get("schema", "")) if isinstance(content, dict) else ""
        key = name.removeprefix("flopwise.").removesuffix("/1")
        if key in DOCUMENTS and (kind := (key, _kinds(document := json.loads(text, parse_constant=int)))) not in seen:
            validators.Draft202012Validator(schema(key)).validate(document)
            seen.add(kind)
        return text

    with pytest.MonkeyPatch.context() as patch:
        for module in list(sys.modules.values()):
            if getattr(module, "render_content", None) is render:
                patch.setattr(module, "render_content", render_checked)
        yield


def _kinds(value: object) -> object:
    """What a schema sees of a value: keys, and types of all that stands under them; those in a list once."""
    if isinstance(value, dict):
        return frozenset((key, _kinds(each)) for key, each in value.items())
    return frozenset(map(_kinds, value)) if isinstance(value, list) else type(value)


#: Megabytes of models between two searches for garbage, which take half a second each where PyTorch is loaded.
_GARBAGE = 300

#: The megabytes that this process had after the last search.
_before = 0


def pytest_collection_finish() -> None:
    """Set the tests themselves aside: runs of PyTorch modules look through all objects for tensors that escaped."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Libraries complain at the end of a process about objects that are never collected."""
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="module")
def _no_garbage_is_left() -> Iterator[None]:
    """Models that files of tests made are gone after some: they would fill the memory; the rest is set aside."""
    global _before
    yield
    if _resident() > _before + _GARBAGE:
        gc.unfreeze()
        gc.collect()
        _before = _resident()
    gc.freeze()


def _resident() -> int:
    """Megabytes of this process in memory; more each time where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20
    except OSError:
        return _before + _GARBAGE + 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which command installs the packages that skipped tests need."""
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ())]
    found = re.findall(r"import '([\w.]+)'|(?:^|: )(\S+) is not inst", "\n".join(reasons), re.MULTILINE)
    names = sorted({(one or other).removeprefix("tests.").partition(".")[0] for one, other in found})
    pinned = re.sub("[-_]", "", (Path(__file__).parents[1] / "constraints.txt").read_text())
    commands = {
        "pip install -c constraints.txt -e '.[test]'": [n for n in names if n.lower().replace("_", "") in pinned],
        "no part of the test environment": [n for n in names if n.lower().replace("_", "") not in pinned],
    }
    for command, packages in commands.items():
        if packages:
            terminalreporter.write_line(f"skipped for want of {', '.join(packages)}: {command}")
