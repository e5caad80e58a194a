"""What an engine is given to run: language models without their caches, and only such as fit."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from tests.docs.blocks import ROOT

import flopwise
from flopwise.analyses.timing import machine
from flopwise.api import runnable


def test_caches_are_handed_out_again_afterwards() -> None:
    module = SimpleNamespace(config=SimpleNamespace(use_cache=True))
    with runnable.without_cache(module):
        assert module.config.use_cache is False
    assert module.config.use_cache is True
    with runnable.without_cache(SimpleNamespace()):
        pass


def test_a_configuration_too_large_for_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    small = dataclasses.replace(machine.this_cpu(), memory_bytes=100_000)
    monkeypatch.setattr(machine, "this_cpu", lambda: small)
    counted = flopwise.profile(ROOT / "examples" / "tiny_resnet.onnx")
    opened = runnable.file_of(ROOT / "examples" / "tiny_llama", counted, {}, lambda step: None)
    with pytest.raises(flopwise.InputError, match="too large to be run"), opened:
        pass
