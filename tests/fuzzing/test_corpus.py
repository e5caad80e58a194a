"""A short run of everything that is fuzzed, and every input on which something ever failed."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from fuzz.mutation import mutated
from fuzz.one import CORPUS, inputs_of
from fuzz.onnx_operators import Chance, models
from fuzz.targets import SLOW, TARGETS

import flopwise
from flopwise.errors import FlopwiseError

ROOT = Path(__file__).parents[2]

FAILED = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", FAILED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_failed(path: Path) -> None:
    data = path.read_bytes()
    if path.parent.name in TARGETS:
        TARGETS[path.parent.name].run(data)
        return
    with contextlib.suppress(FlopwiseError):
        flopwise.profile(data, assume={"*": 3}).to_dict()


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_changes(name: str) -> None:
    seeds, chance = inputs_of(name), random.Random(0)
    for data in seeds[:: len(seeds) // 100 + 1]:
        TARGETS[name].run(data)
    for _ in range(10 if name in SLOW else 60):
        TARGETS[name].run(mutated(seeds, chance))


def test_seeds_are_what_they_should_be() -> None:
    for data in TARGETS["onnx_profile"].seeds()[:3]:
        assert flopwise.profile(data).rows
    for name in ("safetensors", "gguf", "npy", "npz"):
        assert TARGETS[name].seeds()


@pytest.mark.skipif(os.name != "posix", reason="crashes are signals of POSIX")
def test_a_few_operators_in_a_child() -> None:
    script = "import sys; from tests.fuzzing.test_corpus import operators; operators(400)"
    folders = os.pathsep.join([str(ROOT), str(ROOT / "src"), *filter(None, sys.path)])
    ended = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": folders}, cwd=ROOT)
    assert ended.returncode == 0


def operators(number: int) -> None:
    """Profile so many random models."""
    for model, _ in zip(models(Chance(0), 0), range(number), strict=False):
        with contextlib.suppress(FlopwiseError, ValueError):
            flopwise.profile(model.SerializeToString(), assume={"*": 3}).to_dict()


def test_hostile_files_take_neither_time_nor_memory() -> None:
    """Each in a process of its own: status 0 to 2, one line of error at most, in 10 seconds."""
    for path in sorted((CORPUS / "onnx_profile").iterdir()):
        ended = subprocess.run(
            [sys.executable, "-m", "flopwise", "profile", str(path)],
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        assert ended.returncode in (0, 1, 2), path
        assert ended.stderr.count("\n") <= 1, path
        assert "bug in flopwise" not in ended.stderr


def test_the_corpus_holds_models() -> None:
    for path in (CORPUS / "onnx_profile").glob("*.onnx"):
        onnx.load_model(path, load_external_data=False)
