"""The table and the tree of a PyTorch module: what fvcore and mmengine show, in flopwise's own form."""

from __future__ import annotations

import pytest

import flopwise
from flopwise.report.commands.profile import render

torch = pytest.importorskip("torch")

from tests.compat.nets import NETS  # noqa: E402

from flopwise.compat.fvcore import parameter_count  # noqa: E402 - after the question for torch


def odd() -> flopwise.Profile:
    module, x = NETS["odd"]()
    return flopwise.profile(module, x, convention="fvcore")


def test_every_module_has_a_line_called_or_not() -> None:
    module, _ = NETS["odd"]()
    names = [one.name for one in odd().by("module")]
    assert sorted(names) == sorted(name for name, _ in module.named_modules())
    assert names[0] == ""
    assert names.index("heads") + 1 == names.index("heads.0")


def test_the_figures_of_a_module_are_those_of_fvcore() -> None:
    from flopwise.compat.fvcore import ActivationCountAnalysis, FlopCountAnalysis

    module, x = NETS["odd"]()
    flops, activations = FlopCountAnalysis(module, x).by_module(), ActivationCountAnalysis(module, x).by_module()
    params = parameter_count(module)
    for one in odd().by("module"):
        assert one.count == flops[one.name]
        assert one.activations == activations[one.name]
        # what a module holds and another uses counts where it is used: ``direct`` ran in the model itself
        assert one.params == (0 if one.name == "direct" else params[one.name])


def test_depth() -> None:
    module, x = NETS["odd"]()
    found = flopwise.profile(module, x).by("module", 1)
    assert {one.depth for one in found} == {0, 1}
    assert {one.name for one in found} == {"", *(name for name, _ in module.named_children())}


def test_the_table() -> None:
    text = render(odd(), "table", by="module", columns="name,params,count,activations", header=True)
    lines = [line.split() for line in text.splitlines()]
    assert ["Odd", "1,375", "5,200", "332"] in lines
    assert ["heads", "75", "240", "12"] in lines
    assert ["same", "0", "0", "0"] in lines
    assert "note: not called: never, heads.1, direct" in text
    wide = render(odd(), "table", by="module")
    assert "activations" in wide
    assert "MACs (fvcore)" in wide


def test_the_tree() -> None:
    text = render(odd(), "tree", by="module", columns="name,params,count")
    assert "├─ heads" in text
    assert "├─ never (Linear)" in text
    assert "└─ direct" in text


def test_a_module_called_several_times_has_its_parameters_once() -> None:
    first = next(one for one in odd().by("module") if one.name == "first")
    assert (first.params, first.count, len(first.rows)) == (110, 2 * 4 * 100, 2)


@pytest.mark.parametrize("format", ["table", "tree", "markdown", "csv", "json", "latex"])
def test_every_format_shows_modules_without_layers(format: str) -> None:
    assert "direct" in render(odd(), format, by="module")


def test_a_file_has_no_uncalled_modules() -> None:
    assert "not called" not in render(flopwise.profile("examples/tiny_resnet.onnx"), "table", by="module")
