"""Models by the names of timm, torchvision and transformers, with the sizes of their images."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytest.importorskip("torch")
import flopwise
from flopwise.errors import InputError, ModelError
from flopwise.formats.torch.libraries import CATALOGUES

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("timm", "torchvision", "transformers"))), reason="timm and transformers are not installed"
)

#: Name -> input and parameters as the library's own documentation states them.
STATED = {
    "timm:resnet50.a1_in1k": ((1, 3, 224, 224), 25_557_032),
    "timm:vit_base_patch14_dinov2": ((1, 3, 518, 518), 86_579_712),  # without the token of masks, which nobody reads
    "torchvision:efficientnet_b1": ((1, 3, 240, 240), 7_794_184),
    "torchvision.models:resnet18": ((1, 3, 224, 224), 11_689_512),
    "torchvision:inception_v3": ((1, 3, 299, 299), 27_161_264),
    "transformers:xlm-roberta": ((1, 128), 109_482_240),
}


@pytest.mark.parametrize("name", STATED)
def test_models_as_their_libraries_state_them(name: str) -> None:
    shape, params = STATED[name]
    profile = flopwise.profile(name)
    assert profile.graph.inputs[0].shape == shape
    assert profile.sum.params == params


def test_a_batch_and_an_input_of_ones_own() -> None:
    assert flopwise.profile("timm:resnet18", batch_size=4).graph.inputs[0].shape == (4, 3, 224, 224)
    assert flopwise.profile("timm:resnet18", "1x3x64x64").graph.inputs[0].shape == (1, 3, 64, 64)
    arguments = {"num_hidden_layers": "2"}
    two_layers = flopwise.profile("transformers:bert", arguments=arguments)
    assert two_layers.sum.params == STATED["transformers:xlm-roberta"][1] - 10 * 7_087_872


def test_a_formula_is_of_a_batch_of_the_image_that_the_library_states() -> None:
    formula = flopwise.formula("torchvision:squeezenet1_1")
    assert [str(symbol) for symbol in formula.symbols] == ["batch"]
    assert formula.value("macs", batch=3) == 3 * flopwise.profile("torchvision:squeezenet1_1").sum.macs


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timm:resnt50", "timm has no model 'resnt50'; did you mean timm:resnet50"),
        ("torchvision:vit_b", "did you mean .*torchvision:vit_b_16"),
        ("transformers:bertt", "did you mean transformers:bert "),
        ("timm:create_model", r"needs 'model_name': give arguments=\{'model_name': 'VALUE'\}"),
    ],
)
def test_names_that_are_not_there(name: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        flopwise.profile(name)


def test_detectors_have_no_size_of_an_image() -> None:
    with pytest.raises(InputError, match="needs the shape of its input 'images'"):
        flopwise.profile("torchvision:fasterrcnn_resnet50_fpn")


def test_every_name_has_a_maker() -> None:
    for library, catalogue in CATALOGUES.items():
        names = catalogue.names()
        assert len(names) > 50, library
        assert callable(catalogue.maker(names[0]))
