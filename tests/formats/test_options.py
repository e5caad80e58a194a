"""Options that only one format takes: as an object, as keywords, and for the wrong model."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import flopwise
from flopwise import CaffeOptions, InputError, JaxOptions, OnnxOptions, TorchOptions
from flopwise.formats.options import OWNERS, Keywords, options_of

MODEL = "examples/tiny_resnet.onnx"


def test_every_field_is_a_keyword() -> None:
    names = [f.name for kind in (OnnxOptions, TorchOptions, CaffeOptions, JaxOptions) for f in fields(kind)]
    assert set(names) == Keywords.__annotations__.keys() == OWNERS.keys()
    shared = {"element_type", "past", "new", "trips", "arguments"}
    assert {name for name in names if names.count(name) > 1} == shared, "others: of one"


def test_keywords_win_over_the_object() -> None:
    assert options_of(CaffeOptions, CaffeOptions("TRAIN", level=1), {"level": 0}) == CaffeOptions("TRAIN", level=0)


@pytest.mark.parametrize("empty", [None, False, "", (), [], {}])
def test_what_is_empty_is_left_out(empty: Any) -> None:
    assert options_of(CaffeOptions, CaffeOptions("TRAIN"), {"phase": empty, "mode": empty}) == CaffeOptions("TRAIN")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"phase": "TEST", "stages": ["x"]}, r"phase and stages: only for Caffe nets \(\.prototxt\)"),
        ({"mode": "eval"}, "mode: only for PyTorch modules"),
        ({"grad": True}, "grad: only for PyTorch modules"),
        ({"options": CaffeOptions()}, "CaffeOptions: only for Caffe nets"),
        ({"options": TorchOptions()}, "TorchOptions: only for PyTorch modules"),
    ],
)
@pytest.mark.parametrize("call", [flopwise.read, flopwise.profile, flopwise.formula], ids=lambda c: c.__name__)
def test_an_option_of_another_format_is_refused(call: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(MODEL, **keywords)


def test_a_state_is_of_two_formats() -> None:
    with pytest.raises(InputError, match=r"past: only for ONNX, OpenVINO, .* models and PyTorch modules"):
        options_of(CaffeOptions, None, {"past": 8})


NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 3, 8, 8] } } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
layer { name: "drop" type: "Dropout" bottom: "relu" top: "drop" include { phase: TRAIN } }
"""


def test_an_object_and_keywords_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(NET, "utf-8")
    names = [
        [n.name for n in flopwise.read(path, **given).nodes]
        for given in ({"phase": "TRAIN"}, {"options": CaffeOptions("TRAIN")}, {})
    ]
    assert names[0] == names[1] == ["relu", "drop"]
    assert names[2] == ["relu"]


def test_a_keyword_that_no_format_has() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'phases'"):
        flopwise.profile(MODEL, phases="TEST")  # type: ignore[call-arg]
