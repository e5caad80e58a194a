"""Formulas of Caffe nets: poolings that round up and clip, and weights that grow with the image."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import flopwise

ALEXNET = Path(__file__).parents[3] / "examples" / "alexnet.prototxt"

#: Poolings with and without clipping, a deconvolution, a sum of two ways and a product with what is left.
NET = """
name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 40 dim: 56 } } }
layer { name: "a" type: "Convolution" bottom: "data" top: "a"
  convolution_param { num_output: 8 kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "p" type: "Pooling" bottom: "a" top: "p" pooling_param { kernel_size: 2 stride: 2 pad: 1 } }
layer { name: "q" type: "Pooling" bottom: "a" top: "q" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "s" type: "SPP" bottom: "q" top: "s" spp_param { pyramid_height: 2 } }
layer { name: "u" type: "Deconvolution" bottom: "p" top: "u"
  convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 } }
layer { name: "l" type: "LRN" bottom: "u" top: "l" }
layer { name: "c" type: "InnerProduct" bottom: "l" top: "c" inner_product_param { num_output: 10 } }
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    return path


def same(formula: flopwise.Formula, model: Path, point: dict[str, int]) -> None:
    profile = flopwise.profile(model, {"data": (point["N"], 3, point["H"], point["W"])})
    assert formula.at(**point) == {f: getattr(profile.sum, f) for f in formula.at(**point)}, point


def test_values_are_those_of_profiles(net: Path) -> None:
    formula = flopwise.formula(net, {"data": ("N", 3, "H", "W")})
    assert formula.exact
    chance = random.Random(1)
    least = {d.name: d.low for d in formula.domains}
    points = [least, {**least, "N": 0}, *({n: chance.randint(s, 300) for n, s in least.items()} for _ in range(20))]
    for point in points:
        if not formula.guards.broken(point):
            same(formula, net, point)


def test_weights_grow_with_the_image() -> None:
    formula = flopwise.formula(ALEXNET, {"data": ("N", 3, "H", "W")})
    assert formula.at(N=1, H=227, W=227)["params"] == 60965224
    assert formula.at(N=1, H=259, W=227)["params"] == 60965224 + 4096 * 256 * 6
    assert formula.conditions == ("H >= 39 (Pooling 'pool5')", "W >= 39 (Pooling 'pool5')")
    same(formula, ALEXNET, {"N": 3, "H": 39, "W": 300})


def test_a_batch_alone(net: Path) -> None:
    formula = flopwise.formula(net, {"data": ("N", 3, 40, 56)})
    assert str(formula.total("params")) == str(flopwise.profile(net).sum.params)
    assert formula.value("macs", N=2) == flopwise.profile(net).sum.macs


def test_shapes_that_the_file_leaves_open(tmp_path: Path) -> None:
    path = tmp_path / "open.prototxt"
    path.write_text(NET.replace("input_param { shape { dim: 2 dim: 3 dim: 40 dim: 56 } }", ""))
    formula = flopwise.formula(path, ["data:f32:N,3,40,56"])
    assert formula.at(N=1) == flopwise.formula(path, {"data": ("N", 3, 40, "W")}).at(N=1, W=56)
    with pytest.raises(flopwise.InputError, match="no open dimension"):
        flopwise.formula(path)


def test_sizes_that_are_numbers_have_no_formula(net: Path) -> None:
    with pytest.raises(flopwise.InputError, match="put symbols in place of numbers, for example -i data:float32:N"):
        flopwise.formula(net)
