"""``get_flops`` of the pycaffe script, beside what the script prints of AlexNet."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conventions.caffe_nets import ALEXNET_LINES

from flopwise.compat.caffe import get_flops
from flopwise.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples"

SUMS = """\
Layers num: 8
Total number of parameters:  60954656
Total number of FLOPs:  724406816
"""


def test_the_text_of_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES / "alexnet.prototxt")
    assert get_flops(file) == (60_954_656, 724_406_816)
    assert capsys.readouterr().out == f"{file}\n{ALEXNET_LINES}{SUMS}"
    get_flops(file, show_detail=False)
    assert capsys.readouterr().out == f"{file}\n{SUMS}"


def test_other_layers(capsys: pytest.CaptureFixture[str]) -> None:
    assert get_flops(EXAMPLES / "alexnet.prototxt", False, ["InnerProduct"]) == (58_621_952, 58_621_952)
    with pytest.raises(InputError, match="counts no layers of type 'Pooling'"):
        get_flops(EXAMPLES / "alexnet.prototxt", flop_layers=["Pooling"])
    with pytest.raises(InputError, match="is not a Caffe net"):
        get_flops(EXAMPLES / "tiny_resnet.onnx")
