"""The section "An architecture of a language model" of ``adding.md``, carried out: one entry in the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.adding.page import built
from tests.language_models import LLAMA, written


def test_the_section_works(tmp_path: Path) -> None:
    package = built("An architecture of a language model", tmp_path)
    config = {**LLAMA, "model_type": "lama", "architectures": ["LamaForCausalLM"], "head_dim": None}
    written(tmp_path, config)
    command = [sys.executable, "-m", "flopwise", "llm", "config.json", "--prompt", "8", "--generate", "1", "-f", "json"]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    run = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    layer = 2 * 64 * 4 * 128 + 2 * 64 * 2 * 128 + 3 * 64 * 96 + 2 * 64 + 2 * 128
    assert json.loads(run.stdout)["params"] == 2 * 320 * 64 + 2 * layer + 64
