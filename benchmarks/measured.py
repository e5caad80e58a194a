"""Work out anew the most that each public throughput of a language model could have shown; takes minutes.

Run from the root: ``python -m benchmarks.measured``. It writes tests/recorded/measured.json, of which
``python docs/generate.py`` makes docs/reference/measured.md.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.analyses.timing.throughputs import RECORDED, RECORDED_FILE, Request, at_most, figures, request


def main() -> None:
    requests: dict[tuple[object, ...], Request] = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in figures("prompt", "output"):
            asked = tuple(row.get(key) for key in ("model", "stored", "cache", "context", "prompt", "generate"))
            if asked not in requests:
                requests[asked] = request(Path(folder), row)
            most = at_most(row, requests[asked])
            row["at_most"] = round(most, 1)  # type: ignore[index]
            print(f"{row['measured'] / most:.2f}  {row['device']} {asked}", flush=True)
    sources = [f"  {json.dumps(name)}: {json.dumps(source)}" for name, source in RECORDED["sources"].items()]
    rows = [f"  {json.dumps(row)}" for row in RECORDED["figures"]]
    text = '{\n "sources": {\n' + ",\n".join(sources) + '\n },\n "figures": [\n' + ",\n".join(rows) + "\n ]\n}\n"
    RECORDED_FILE.write_text(text)


if __name__ == "__main__":
    main()
