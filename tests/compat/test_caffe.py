"""``get_flops`` of the pycaffe script, beside what the script prints of AlexNet."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopwise.compat.caffe import get_flops
from flopwise.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples"

#: The script's columns are 16, 16, 8 and 12 wide; the first is one wider than the longest name, of 8 letters at least.
LINES = """\
layer name Filter Shape     Output Size      Params   Flops        Ratio
conv1     (96, 3, 11, 11)  (1, 96, 55, 55)  34848    105415200    14.552
conv2     (256, 48, 5, 5)  (1, 256, 27, 27) 307200   223948800    30.915
conv3     (384, 256, 3, 3) (1, 384, 13, 13) 884736   149520384    20.64
conv4     (384, 192, 3, 3) (1, 384, 13, 13) 663552   112140288    15.48
conv5     (256, 192, 3, 3) (1, 256, 13, 13) 442368   74760192     10.32
fc6       (4096, 9216)     (1, 4096)        37748736 37748736     5.211
fc7       (4096, 4096)     (1, 4096)        16777216 16777216     2.316
fc8       (1000, 4096)     (1, 1000)        4096000  4096000      0.565
"""

SUMS = """\
Layers num: 8
Total number of parameters:  60954656
Total number of FLOPs:  724406816
"""


def test_the_text_of_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES / "alexnet.prototxt")
    assert get_flops(file) == (60_954_656, 724_406_816)
    assert capsys.readouterr().out == f"{file}\n{LINES}{SUMS}"
    get_flops(file, show_detail=False)
    assert capsys.readouterr().out == f"{file}\n{SUMS}"


def test_other_layers(capsys: pytest.CaptureFixture[str]) -> None:
    assert get_flops(EXAMPLES / "alexnet.prototxt", False, ["InnerProduct"]) == (58_621_952, 58_621_952)
    with pytest.raises(InputError, match="counts no layers of type 'Pooling'"):
        get_flops(EXAMPLES / "alexnet.prototxt", flop_layers=["Pooling"])
    with pytest.raises(InputError, match="is no Caffe net"):
        get_flops(EXAMPLES / "tiny_resnet.onnx")
