"""A call in a process of its own, which may take so long and no longer."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any


def limited(call: Callable[[str], str], argument: str, seconds: float) -> str:
    """What a call returns; "slow: ..." where it takes longer, "ended: ..." where its process ends without an answer."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=_send, args=(call, argument, there))
    child.start()
    there.close()
    try:
        return str(here.recv()) if here.poll(seconds) else f"slow: more than {seconds} s"
    except EOFError:
        return "ended: the process ended"
    finally:
        child.kill()
        child.join()


def _send(call: Callable[[str], str], argument: str, out: Any) -> None:
    out.send(call(argument))
