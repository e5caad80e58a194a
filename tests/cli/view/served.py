"""``flopwise view`` as a process of its own: started, asked, and ended by a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

#: Seconds that a busy machine may take for anything.
PATIENCE = 60


def served(*arguments: str, folder: Path, end: int = signal.SIGINT, variables: Mapping[str, str] = os.environ) -> None:
    """Start it in a folder, get its page, drop a file, have it looked at, and end it; nothing stays behind."""
    with tempfile.TemporaryDirectory() as place:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "flopwise", "view", *arguments],
            cwd=folder,
            env={**variables, "BROWSER": "true", "TMPDIR": place},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            url = urlsplit(process.stdout.readline().strip())  # it comes, or the end of the process does
            client = HTTPConnection(url.netloc, timeout=PATIENCE)
            own = {"Origin": f"http://{url.netloc}"}
            kinds = json.dumps({"kinds": [{"drop": 0, "name": "a.onnx"}]})
            for method, path, body in (("GET", "", None), ("PUT", "files/0/a.onnx?at=0", "a"), ("POST", "ask", kinds)):
                client.request(method, url.path + path, body, own)
                reply = client.getresponse()
                assert reply.status < 300
                reply.read()
            client.close()
            assert len(os.listdir(place)) == 1
            process.send_signal(end)
            out, said = process.communicate(timeout=PATIENCE)
            assert (process.returncode, out, said.strip()) == (130, "", "flopwise: interrupted")
            assert os.listdir(place) == []
        finally:
            process.kill()
            process.wait()
