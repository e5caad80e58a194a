"""Generated pages are current, and links between pages lead somewhere; tests/docs runs what stands in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import flopwise

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def test_the_generated_pages_are_current() -> None:
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_picture_shows_what_the_program_counts(tmp_path: Path) -> None:
    """The figures in the words beside README's picture; ``docs/pictures.py`` makes it of the same sizes."""
    words = re.search(
        r'alt="The page of a language model: (\d+) GFLOP, (\d+) × LlamaDecoderLayer', README.read_text("utf-8")
    )
    assert words is not None
    script = (ROOT / "docs" / "pictures.py").read_text("utf-8")
    sizes = {key: int(value) for key, value in re.findall(r'"(\w+)": (\d+)', script)}
    tokens = re.search(r"^TOKENS = (\d+)", script, re.MULTILINE)
    assert tokens is not None
    sizes |= {"vocab_size": 32000, "num_hidden_layers": int(words[2])}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **sizes}))
    profile = flopwise.profile(tmp_path, {"input_ids": (1, int(tokens[1]))})
    assert round(profile.total("flops") / 1e9) == int(words[1])


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
