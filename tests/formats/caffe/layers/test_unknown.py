"""Layers of an unknown type, and stored blobs that tell more than their parameters."""

from __future__ import annotations

import pytest
from tests.formats.caffe.layers.layer import layer, node, one
from tests.formats.caffe.layers.rows import X

from flopwise.errors import InputError
from flopwise.formats.caffe.table import lower
from flopwise.operators.tables import count


def test_unknown_type_is_unresolved_and_what_follows_is_not_guessed() -> None:
    unknown = one("Magic", "", [X], 2)
    assert unknown.op == "caffe::Magic"
    assert unknown.outputs == (None, None)
    assert "no rule for its type Magic" in unknown.note
    behind = one("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", [None])
    assert (behind.op, behind.outputs, behind.weights) == ("Conv", (None,), ())
    assert "'x0' is unknown" in behind.note
    assert one("ReLU", "", [None]).note == ""
    assert count(node(unknown, [X])) is None


def test_unknown_type_takes_the_shapes_that_the_user_gives() -> None:
    (given,) = lower(layer("Magic", "", 1, 2), [X], {"y1": (2, 8)})
    assert given.outputs == (None, (2, 8))
    (whole,) = lower(layer("Magic", "", 1, 1), [X], {"y0": (2, 8)})
    assert "is unknown unless given" not in whole.note
    (behind,) = lower(layer("ReLU", "", 1, 1), [None], {"y0": (2, 8)})
    assert behind.outputs == ((2, 8),)
    (found,) = lower(layer("Proposal", "", 3, 1), [(1, 18, 14, 14), (1, 36, 14, 14), (1, 3)], {"y0": (120, 5)})
    assert (found.outputs, found.bound) == (((120, 5),), False)


def test_python_layer_names_its_module() -> None:
    params = "python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' }"
    python = one("Python", params, [X])
    assert (python.op, python.outputs) == ("caffe::Python", (None,))
    assert "rpn.proposal_layer.ProposalLayer" in python.note
    with pytest.raises(InputError, match="must be given: -i y0:f32"):
        one("Python", params, [])


def test_stored_blobs_of_an_unknown_type_are_parameters() -> None:
    unknown = one("Magic", "", [X], blobs=((4, 3), (4,)))
    assert unknown.weights == (("blob0", (4, 3), "weight"), ("blob1", (4,), "weight"))
    behind = one("BatchNorm", "", [None], blobs=((4,), (4,), (1,)))
    assert [kind for _, _, kind in behind.weights] == ["buffer"] * 3
    assert behind.note == ""


def test_stored_blobs_are_held_against_the_parameters() -> None:
    params = "inner_product_param { num_output: 10 }"
    legacy = one("InnerProduct", params, [(2, 6)], blobs=((1, 1, 10, 6), (1, 1, 1, 10)))
    assert legacy.note == ""
    assert legacy.weights[0][1] == (10, 6)
    other = one("InnerProduct", params, [(2, 6)], blobs=((10, 7),))
    assert "its stored blobs are 10x7, its parameters need 10x6, 10" in other.note
    assert one("BN", "", [X], blobs=((1, 3, 1, 1),) * 2).op == "caffe::BN"
