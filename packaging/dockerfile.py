"""Carry out the Dockerfile without a daemon: its RUN lines in a new virtual environment, then its ENTRYPOINT."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Build as the Dockerfile says in a folder that stands for the image, and run ``flopwise`` in it on an example."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", str(image / "python")], check=True)
        path = f"{image / 'python' / 'bin'}:{os.environ['PATH']}"
        environment, entry = {**os.environ, "PATH": path}, ["false"]
        for name, rest in steps:
            if name == "ARG":
                key, _, value = rest.partition("=")
                environment[key] = value
            elif name == "COPY":
                *sources, target = rest.split()
                for source in sources:
                    _copy(ROOT / source, image / target.lstrip("/"), inside=target.endswith("/"))
            elif name == "RUN":
                subprocess.run(["sh", "-ec", rest.replace("/source", f"{image}/source")], env=environment, check=True)
            elif name == "ENTRYPOINT":
                entry = json.loads(rest)
            elif name not in ("FROM", "WORKDIR", "USER", "CMD"):
                raise SystemExit(f"Dockerfile: {name} is not carried out here")
        command = [*entry, "profile", "tiny_resnet.onnx", "--by", "op"]
        return subprocess.run(command, env=environment, cwd=ROOT / "examples").returncode


def _copy(source: Path, target: Path, inside: bool) -> None:
    if inside:
        target.mkdir(parents=True, exist_ok=True)
        target = target / source.name
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


if __name__ == "__main__":
    raise SystemExit(main())
