"""The child process in which onnx's C++ code runs when it may crash, hang or take all memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import onnx

from flopwise.readers.onnx.native.worker import ANSWER, DONE, REQUEST

_WORKER = Path(__file__).with_name("worker.py")

#: How many seconds a request may take, how many more for each megabyte of its model, and how many the child to start.
SECONDS, SECONDS_PER_MEGABYTE, START = 2.0, 1.0, 4.0


class LostError(RuntimeError):
    """The child ended, or had to be ended, while it worked on a request."""


class Child:
    """One child, started when it is first needed and again when it was lost. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, kind: int, model: onnx.ModelProto) -> onnx.ModelProto:
        """The answer to a request.

        Args:
            kind: one of the kinds in ``flopwise.readers.onnx.native.worker``.
            model: what it is about.

        Raises:
            LostError: the child crashed, or took too much time or memory.
            RuntimeError: onnx refuses the model.
        """
        data = model.SerializeToString()
        seconds = SECONDS + SECONDS_PER_MEGABYTE * len(data) / (1 << 20)
        request = REQUEST.pack(kind, seconds, len(data)) + data
        answers: list[tuple[int, bytes]] = []
        with self._lock:
            process, patience = self._running()
            # In a thread, so that this one can stop waiting: after so many seconds, or at Ctrl-C.
            exchange = threading.Thread(target=_exchange, args=(process, request, answers), daemon=True)
            try:
                exchange.start()
                exchange.join(seconds + patience)
                late = exchange.is_alive()
            except BaseException:
                self._end()
                raise
            if not answers:
                self._end()
                raise LostError("takes too long" if late else "ends the process, or takes too much memory")
        status, payload = answers[0]
        if status != DONE:
            raise RuntimeError(payload.decode("utf-8", "replace"))
        answer: onnx.ModelProto = onnx.ModelProto.FromString(payload)
        return answer

    def _running(self) -> tuple[subprocess.Popen[bytes], float]:
        """The process, and how many seconds it may take to start.

        Raises:
            LostError: it cannot be started.
        """
        if self._process is not None and self._process.poll() is None and self._owner == os.getpid():
            return self._process, 0.5
        if not sys.executable or getattr(sys, "frozen", False):
            raise LostError("would need a Python interpreter of its own, and there is none")
        folders = [folder for folder in sys.path if folder]  # but for the current one, which may be the model's
        script = f"import runpy, sys; sys.path[:] = {folders!r}; runpy.run_path({str(_WORKER)!r}, run_name='__main__')"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the parent, which ends the child
            )
        except OSError as error:
            raise LostError(f"needs a process of its own, which cannot be started ({error.strerror})") from error
        self._owner = os.getpid()
        return self._process, START

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def _exchange(process: subprocess.Popen[bytes], request: bytes, answers: list[tuple[int, bytes]]) -> None:
    """Put the status and the payload of the answer into the list; nothing if there is no whole answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        process.stdin.write(request)
        process.stdin.flush()
        head = process.stdout.read(ANSWER.size)
        if len(head) == ANSWER.size:
            status, length = ANSWER.unpack(head)
            payload = process.stdout.read(length)
            if len(payload) == length:
                answers.append((status, payload))


#: The child that all models share.
CHILD = Child()
