"""A process that answers in lines of JSON: what it says, how it ends, and what is left of it."""

from __future__ import annotations

import os

from flopwise.analyses.child import Child

ECHO = "import json, sys\nfor line in sys.stdin: print(json.dumps({'got': json.loads(line)}), flush=True)"


def started(code: str) -> Child:
    """A child that runs some code."""
    return Child(["-c", code], dict(os.environ))


def test_values_go_there_and_back() -> None:
    child = started(ECHO)
    child.send({"a": [1, "ü\n"]})
    assert child.answers.get(timeout=60) == {"got": {"a": [1, "ü\n"]}}
    child.end()
    assert child.answers.get(timeout=60) is None
    assert child.process.returncode not in (None, 0)
    child.end()  # once more does no harm


def test_one_that_ends_says_so_and_why() -> None:
    child = started("import sys; print('{\"last\": 1}'); sys.exit('no\\n\\nmemory\\n\\n')")
    assert [child.answers.get(timeout=60), child.answers.get(timeout=60)] == [{"last": 1}, None]
    assert child.process.wait() == 1
    assert child.last_error() == "memory"
    child.send({"too": "late"})
    child.end()


def test_what_is_no_json_ends_the_answers() -> None:
    child = started("print('{\"cut', flush=True); import time; time.sleep(600)")
    assert child.answers.get(timeout=60) is None
    child.end()
