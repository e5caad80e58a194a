"""A child says what it has to say, ends when it is to end, with all that it started, and imports nothing from here."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from flopwise import _child
from flopwise._child import Child, EndedError, LargeError, LateError, StoppedError

#: What the children of these tests run.
RUN = "tests.children:"


def test_values_go_there_and_back() -> None:
    child = Child(RUN + "echo", "a", "ü")
    child.send({"a": [1, "ü\n"]})
    assert child.receive(60) == {"request": {"a": [1, "ü\n"]}, "arguments": ["a", "ü"]}
    child.end()
    with pytest.raises(EndedError):
        child.receive(60)
    child.end()  # once more does no harm


def test_one_that_ends_says_why() -> None:
    child = Child(RUN + "end")
    assert child.receive(60) == "last"
    for _ in "twice":
        with pytest.raises(EndedError) as error:
            child.receive(60)
        assert (error.value.code, error.value.words) == (1, "memory")
    child.send("too late")
    child.end()


def test_what_is_printed_is_no_message() -> None:
    child = Child(RUN + "print_much")
    assert child.receive(60) == "done"
    assert len(child._words) <= 20
    child.end()


def test_what_is_no_json_ends_the_child() -> None:
    child = Child(RUN + "write_noise")
    with pytest.raises(EndedError):
        child.receive(60)
    assert child.process.returncode == -signal.SIGKILL


def test_limits_of_time_and_memory_and_an_end_on_request() -> None:
    child = Child(RUN + "hang")
    try:
        assert child.receive(60) == "hanging"
        with pytest.raises(LateError, match=r"gives no message for 0\.2 s"):
            child.receive(0.2)
        with pytest.raises(LargeError):
            child.receive(60, memory=1)
        stop = threading.Event()
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(StoppedError):
            child.receive(60, stop=stop)
    finally:
        child.end()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_deadline_holds_without_a_parent_and_only_while_something_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    child = Child(RUN + "echo")
    try:
        child.send(1, seconds=1)
        child.receive(60)
        with pytest.raises(LateError):
            child.receive(0.5)
    finally:
        child.end()
    child = Child(RUN + "hold_everything")  # no other thread can run in it
    try:
        child.send(1, seconds=1 - _child._GRACE)
        with pytest.raises(EndedError) as error:
            child.receive(60)
        assert error.value.code == -signal.SIGALRM
    finally:
        child.end()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("ending", ["end", "interrupt", "parent"])
def test_what_it_has_started_ends_with_it(ending: str) -> None:
    if ending == "parent":
        code = "from flopwise._child import Child; print(Child('tests.children:start').receive(60), flush=True)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        number = int(done.stdout)
    else:
        child = Child(RUN + "start")
        number = child.receive(60)
        assert is_there(number)
        if ending == "interrupt":
            child.interrupt()
            with pytest.raises(EndedError):
                child.receive(60)
        child.end()
    deadline = time.monotonic() + 20
    while is_there(number) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_there(number)


def is_there(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("executable", ["", "/no/such/python"])
def test_without_an_interpreter(executable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(EndedError, match=r"would need a Python interpreter|cannot be started \(No such file"):
        Child(RUN + "echo")


def test_a_crash_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EndedError):
        Child(RUN + "crash").receive(60)
    assert list(tmp_path.iterdir()) == []


def test_the_package_comes_from_its_own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that is an archive, or the current folder with other files in it."""
    import shutil

    package = Path(_child.__file__).parent
    ignored = shutil.ignore_patterns("[!_]*", "__pycache__")
    shutil.copytree(
        package, tmp_path / "src" / "flopwise", ignore=lambda at, names: set(ignored(at, names)) - {"errors"}
    )
    archive = shutil.make_archive(str(tmp_path / "flopwise"), "zip", tmp_path / "src")
    for name in ("json", "queue", "struct"):
        (tmp_path / "src" / f"{name}.py").write_text("open('ran', 'w')")
    code = (
        "import json, queue, struct, sys; sys.path[:] = [sys.argv[1], *filter(None, sys.path)]\n"
        "from flopwise import _child; import os; os.chdir('src')\n"
        "assert _child.__file__.startswith(sys.argv[1])\n"
        "child = _child.Child('tests.children:tell_home')\n"
        "print(child.receive(60))"
    )
    for home in (archive, str(tmp_path / "src")):
        done = subprocess.run(
            [sys.executable, "-c", code, home],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip().startswith(home), done.stderr
    assert sorted(path.name for path in (tmp_path / "src").iterdir()) == [
        "flopwise",
        "json.py",
        "queue.py",
        "struct.py",
    ]


def test_only_this_file_starts_processes() -> None:
    """One supervisor: nothing else in the package imports what starts them."""
    package = Path(_child.__file__).parent
    starting = re.compile(
        r"\b(import subprocess|from subprocess|os\.(system|popen|fork|exec\w+|spawn\w+|posix_spawn))\b"
    )
    files = [path for path in package.rglob("*.py") if starting.search(path.read_text("utf-8"))]
    assert files == [package / "_child.py"]
