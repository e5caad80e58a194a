"""Child processes: started in isolation, watched, and ended together with all that they have started.

A child runs one function of the package. It imports from where its parent does, but never from the current folder,
which may be anybody's. Both sides speak in lines of JSON; what a child prints is no message.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from flopwise._current_folder import import_path

#: What a child runs. The package comes from its own place, whether or not that is on the path.
_START = """
import importlib.machinery, importlib.util, json, site, sys
home, path, users, module, function, arguments = json.loads(sys.argv.pop())
if users:
    site.addsitedir(users)
sys.path[:] = [*path, *(folder for folder in sys.path if folder not in path)]
spec = importlib.machinery.PathFinder.find_spec("flopwise", [home])
sys.modules["flopwise"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["flopwise"])
getattr(importlib.import_module(module), function)(*arguments)
"""

#: Where the package lies: a folder, or an archive.
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: Seconds between two looks at a silent child, and those after its deadline in which its parent may end it.
_TICK, _GRACE = 0.05, 5.0

#: Lines of standard error that are kept, and characters of each.
_LINES, _WIDTH = 20, 2000


class LostError(Exception):
    """A child gives no message."""


class EndedError(LostError):
    """It has ended.

    Attributes:
        code: its exit code, or the negative number of the signal that ended it; None where it could not be started.
        late: True where it has taken more of the processor than it may.
        words: the last line that it wrote to its standard error.
    """

    def __init__(self, code: int | None, words: str = "") -> None:
        self.code, self.words = code, words
        self.late = code is not None and -code == getattr(signal, "SIGXCPU", None)
        super().__init__(words or (f"ended with exit code {code}" if code else "ended"))


class LateError(LostError):
    """It is silent, and still runs."""


class LargeError(LostError):
    """It has more memory in use than it may, and still runs."""


class StoppedError(LostError):
    """Somebody asked for an end; it still runs."""


class Child:
    """A Python process that runs a function, in a group of its own: an interrupt reaches it through its parent alone.

    Args:
        function: what it runs, as ``module:name``.
        arguments: of the function.
        variables: of its environment, beside those of this process.

    Raises:
        EndedError: it cannot be started.
    """

    def __init__(self, function: str, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        if not sys.executable or getattr(sys, "frozen", False):
            raise EndedError(None, "would need a Python interpreter of its own, and there is none")
        module, _, name = function.partition(":")
        start = json.dumps([_HOME, import_path(), _users_folder(), module, name, arguments])
        flags = ["-I", "-u", f"-Xutf8={sys.flags.utf8_mode}", *(["-B"] if sys.dont_write_bytecode else [])]
        try:
            self.process = subprocess.Popen(
                [sys.executable, *flags, "-c", _START, start],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **(variables or {})},
                start_new_session=True,
            )
        except OSError as error:
            reason = f"needs a process of its own, which cannot be started ({error.strerror})"
            raise EndedError(None, reason) from error
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._words: deque[str] = deque(maxlen=_LINES)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        for thread in (self._listener, *(threading.Thread(target=t, daemon=True) for t in (self._write, self._read))):
            thread.start()

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError), self.process.stdin as pipe:  # type: ignore[union-attr]
            while (request := self._requests.get()) is not None:
                pipe.write(request)
                pipe.flush()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self.process.stdout as pipe:  # type: ignore[union-attr]
            for line in pipe:
                self._messages.put(json.loads(line))
        self._messages.put(_END)

    def _listen(self) -> None:
        """Keep the last lines of standard error, however much comes."""
        with contextlib.suppress(OSError, ValueError), self.process.stderr as pipe:  # type: ignore[union-attr]
            while line := pipe.readline(_WIDTH):
                if words := line.decode("utf-8", "replace").strip():
                    self._words.append(words)

    def send(self, request: object, seconds: float | None = None) -> None:
        """Hand it a request; it never waits.

        Args:
            request: anything that JSON can say.
            seconds: how long it may work on it; then it ends even when nobody is left to end it.
        """
        self._requests.put(json.dumps([request, seconds]).encode() + b"\n")

    def receive(self, seconds: float, memory: int = 0, stop: threading.Event | None = None) -> Any:
        """Its next message.

        Args:
            seconds: how long to wait for it.
            memory: bytes that it may have in use; 0 for no limit.
            stop: when it is set, nobody waits any longer.

        Raises:
            LostError: there is none; the subclass says why.
        """
        deadline = time.monotonic() + seconds
        ended = False
        while True:
            if stop is not None and stop.is_set():  # who asks for an end may have ended it, too
                raise StoppedError
            if ended:
                raise self._ended()
            left = deadline - time.monotonic()
            with contextlib.suppress(queue.Empty):
                message = self._messages.get(timeout=max(0.0, min(_TICK, left)))
                if message is not _END:
                    return message
                self._messages.put(_END)
                ended = True
                continue
            if left <= 0:
                raise LateError(f"gives no message for {seconds:g} s")
            if self._has_ended():  # what it has started may hold its pipe open
                self._kill()
            if memory and self.resident() > memory:
                raise LargeError(f"has more than {memory:,} bytes of memory in use")

    def interrupt(self) -> None:
        """Send it what Ctrl-C would."""
        with contextlib.suppress(OSError, ValueError):  # it has ended, or the system has no such signal
            self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """End it, whatever it is doing, with all that it has started; once more does no harm."""
        self._kill()
        self.process.wait()
        self._requests.put(None)

    def resident(self) -> int:
        """Bytes of memory that it has in use; 0 where that cannot be known."""
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        try:
            import psutil

            return int(psutil.Process(self.process.pid).memory_info().rss)
        except Exception:  # it has ended, or psutil is missing
            return 0

    def _has_ended(self) -> bool:
        """True once the process has ended; until it is waited for, no other process gets its number."""
        if sys.platform == "win32" or not hasattr(os, "waitid") or self.process.returncode is not None:
            return self.process.poll() is not None
        with contextlib.suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        return True

    def _kill(self) -> None:
        """End the process and all that belong to its group."""
        if self.process.returncode is not None:
            return
        if sys.platform == "win32":
            self.process.kill()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses a group that has ended
                os.killpg(self.process.pid, signal.SIGKILL)

    def _ended(self) -> EndedError:
        """The error for a process that has ended, with its exit status and its last words."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # it closes its pipes a moment before it ends
            deadline = time.monotonic() + 1
            while not self._has_ended() and time.monotonic() < deadline:
                time.sleep(0.001)
        self._kill()
        code = self.process.wait()
        self._listener.join(1)
        return EndedError(code, self._words[-1] if self._words else "")


#: What stands after the last message of a child.
_END = object()


def _users_folder() -> str:
    """The folder of the user's own packages where this process has read it: an isolated one does not by itself."""
    site = sys.modules.get("site")
    return str(getattr(site, "USER_SITE", None) or "") if getattr(site, "ENABLE_USER_SITE", False) else ""


class Parent:
    """The process that has started this one, as its child sees it; there is one.

    From here on what is printed goes to standard error, and this process ends when its parent has gone.
    """

    def __init__(self) -> None:
        self._messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._requests: queue.SimpleQueue[str] = queue.SimpleQueue()
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self._requests.put(line)
        if sys.platform != "win32" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with all that was started here
        os._exit(0)  # whatever this process is doing

    def requests(self) -> Iterator[Any]:
        """The requests of the other side, one after the other."""
        while True:
            request, seconds = json.loads(self._requests.get())
            _end_in(seconds + _GRACE if seconds else 0)
            yield request
            _end_in(0)

    def ask(self, question: object) -> Any:
        """The message that the other side sends in the middle of a request."""
        self.tell(question)
        return json.loads(self._requests.get())[0]

    def tell(self, message: object) -> None:
        """Hand it a message: anything that JSON can say."""
        self._messages.write(json.dumps(message) + "\n")
        self._messages.flush()


def _end_in(seconds: float) -> None:
    """Let the system end this process after so many seconds, even where no other thread can run; 0: never."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)


def limit_memory(more: int) -> None:
    """Let allocations fail in this process once it holds so many bytes more than now, where the system can do that."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        with open("/proc/self/statm") as file:
            limit = int(file.read().split()[5]) * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def limit_processor(more: float) -> None:
    """Let the system end this process with SIGXCPU after so many more seconds of the processor, where it can."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, highest = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + more), highest))
