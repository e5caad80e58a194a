"""An integration whose framework is not installed."""

from __future__ import annotations

import importlib
import sys

import pytest

pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["keras", "lightning", "mmengine", "timm", "transformers", "ultralytics"])
def test_a_missing_framework_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in [name, "pytorch_lightning"] if name == "lightning" else [name]:
        monkeypatch.setitem(sys.modules, package, None)
    for module in [one for one in sys.modules if one.startswith((f"{name}.", f"flopwise.integrations.{name}"))]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(f"flopwise.integrations.{name}")
    assert str(caught.value) == f"flopwise.integrations.{name} needs {name}: pip install {name}"
    assert caught.value.__suppress_context__


def test_an_error_inside_a_framework_stays_as_it_is() -> None:
    from flopwise.integrations.needs import needed

    with pytest.raises(ModuleNotFoundError, match="No module named 'none_such'"), needed("keras"):
        importlib.import_module("none_such")
