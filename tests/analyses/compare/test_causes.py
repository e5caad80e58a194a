"""Why conventions differ: causes in words, which add up to the difference."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

import flopwise
from flopwise.analyses.compare.causes import Difference, why
from flopwise.api.compare import comparison
from flopwise.conventions import CONVENTIONS
from flopwise.graph import Graph
from flopwise.report.commands.differences import difference_report, overview_report
from flopwise.report.report import as_text

EXAMPLES = Path(__file__).parents[3] / "examples"

MODELS = {
    "tiny_resnet.onnx": None,
    "alexnet.prototxt": None,
    "custom_op.onnx": None,
    "transformer_block.onnx": {"hidden_states": (2, 16, 40)},
}


def _encoder() -> Graph:
    torch = pytest.importorskip("torch")
    layers = [torch.nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True) for _ in range(3)]
    return flopwise.read(torch.nn.Sequential(*layers), inputs=(2, 10, 32))


def _difference(graph: Graph, first: str, other: str) -> Difference:
    return why(*(flopwise.profile(graph, convention=name) for name in (first, other)))


def _check(graph: Graph) -> None:
    profiles = [flopwise.profile(graph, convention=c) for c in CONVENTIONS.values()]
    for first, other in itertools.permutations(profiles, 2):
        found = why(first, other)
        assert sum(cause.difference for cause in found.causes) == found.difference
        assert found.difference == found.totals[1] - found.totals[0]
        assert found.printed_difference == other.sum.count - first.sum.count
        assert all(cause.difference or cause.unknown for cause in found.causes)
        sizes = [(-abs(cause.difference), not cause.unknown) for cause in found.causes]
        assert sizes == sorted(sizes)
        assert all(cause.rows and cause.layers for cause in found.causes)
        assert len({cause.what for cause in found.causes}) == len(found.causes)
        assert not any("multiply-adds alone" in c.why for c in found.causes if max(c.counts) > 2 * min(c.counts))


@pytest.mark.parametrize("name", MODELS)
def test_causes_of_all_pairs_add_up(name: str) -> None:
    _check(flopwise.read(EXAMPLES / name, inputs=MODELS[name]))


def test_causes_in_a_program_add_up() -> None:
    _check(_encoder())


def test_projections_that_a_tool_does_not_see() -> None:
    found = _difference(_encoder(), "fvcore", "thop")
    first, second = found.causes
    assert (first.what, first.why, first.layers) == (
        "attention's in and out projections",
        "thop does not see them",
        3,
    )
    assert first.difference == -3 * 4 * 20 * 32 * 32
    assert (second.what, second.layers) == ("layer norm", 6)
    assert second.why == "for each output element fvcore counts 5, thop 4"


def test_an_attention_that_a_tool_counts_as_a_whole_is_one_cause() -> None:
    found = _difference(_encoder(), "macs", "ptflops")
    whole = [cause for cause in found.causes if cause.what == "multi-head attention"]
    assert [cause.layers for cause in whole] == [3]
    assert not any("projections" in cause.what for cause in found.causes)


def test_units_are_converted() -> None:
    found = _difference(flopwise.read(EXAMPLES / "tiny_resnet.onnx"), "flops", "macs")
    assert (found.unit, found.totals) == ("FLOP", (3_818_068, 2 * 1_859_904))
    assert [(c.what, c.why, c.layers, c.difference) for c in found.causes][:2] == [
        ("batch norm", "counted by flops alone", 15, -49_528),
        ("ReLU", "counted by flops alone", 13, -22_528),
    ]
    assert found.causes[-1].what == "biases of linear layers"
    factor = found.factor_of_two
    assert factor is not None
    assert (factor.layers, factor.counts, factor.unknown) == (16, (2 * 1_859_904, 1_859_904), False)
    back = why(found.other, found.first)
    assert back.factor_of_two is not None
    assert back.factor_of_two.counts == (1_859_904, 2 * 1_859_904)
    text = as_text(difference_report((found.other, found.first)))
    assert text.index("factor of two") < text.index("batch norm")
    assert "exceed 100 %" not in text
    opposite = [flopwise.profile(EXAMPLES / "tiny_resnet.onnx", convention=name) for name in ("onnx-tool", "flops")]
    assert "note: some causes work against others, so shares" in as_text(difference_report(opposite))


def test_what_cannot_be_counted_is_no_zero_and_has_no_difference() -> None:
    graph = flopwise.read(EXAMPLES / "tiny_resnet.onnx")
    found = _difference(graph, "flops", "palm")
    assert not found.exact
    assert all(cause.missing == (False, True) and "cannot count" in cause.why for cause in found.causes)
    assert found.causes[0].what == "convolutions"  # the largest first, what costs nothing last
    assert (found.causes[-1].what, found.causes[-1].why) == ("Flatten", "palm cannot count it")
    told = found.to_dict()
    assert told["difference"] is None
    assert (told["causes"][0]["counts"], told["causes"][0]["difference"]) == ([3_719_168, None], None)
    profiles = [flopwise.profile(graph, convention=name) for name in ("flops", "palm")]
    for by, first in (("cause", "convolutions 15 3,719,168 ? ?"), ("op", "Conv 15 3,719,168 ? ?")):
        lines = [" ".join(line.split()) for line in as_text(difference_report(profiles, by)).splitlines()]
        assert [line for line in lines if line.startswith(first)]
        assert [line for line in lines if line.startswith("Total") and line.endswith("?")]
        assert not [line for line in lines if "-0.0" in line or " 0 0 0" in line]


def test_more_than_the_multiply_adds_is_a_ratio() -> None:
    torch = pytest.importorskip("torch")
    layers = [torch.nn.ConvTranspose2d(3, outs, 3, stride=2, bias=False) for outs in (3, 4)]
    found = _difference(flopwise.read(torch.nn.Sequential(*layers), inputs=(1, 3, 10, 10)), "macs", "thop")
    (cause,) = found.causes
    assert (cause.what, cause.layers) == ("transposed convolutions", 2)
    assert cause.why.startswith("thop counts 4.")


def test_the_same_counts_have_no_causes() -> None:
    graph = flopwise.read(EXAMPLES / "tiny_resnet.onnx")
    assert _difference(graph, "macs", "caffe").causes == ()
    text = as_text(difference_report([flopwise.profile(graph, convention=c) for c in ("macs", "caffe")]))
    assert "all layers" in text
    assert "count the same in every layer" in text
    by_op = as_text(difference_report([flopwise.profile(graph, convention=c) for c in ("macs", "caffe")], "op"))
    assert "macs and caffe count the same in every operator" in by_op


def test_reports_name_the_causes() -> None:
    graph = flopwise.read(EXAMPLES / "tiny_resnet.onnx")
    profiles = [flopwise.profile(graph, convention=name) for name in ("flops", "macs", "fvcore")]
    text = as_text(difference_report(profiles))
    assert "1.86 MMAC = 3.72 MFLOP (1 MAC = 2 FLOP)" in text
    assert text.count("because") == 2
    assert "batch norm" in str(comparison(profiles))
    rows = as_text(difference_report(profiles), "csv").splitlines()
    assert rows[0].startswith("first,other,unit,layers,reason")
    assert {row.split(",")[1] for row in rows[1:]} == {"macs", "fvcore"}
    overview = as_text(overview_report([flopwise.profile(graph, convention=c) for c in CONVENTIONS]))
    assert all(f"\n{name} " in overview for name in CONVENTIONS)
    assert "cannot count this model" in overview
    content = json.loads(as_text(overview_report(profiles), "json"))
    assert [(c["name"], c["unit"], c["count"]) for c in content["conventions"][:2]] == [
        ("flops", "FLOP", 3_818_068),
        ("macs", "MAC", 1_859_904),
    ]
    assert content["conventions"][1]["difference"] == why(*profiles[:2]).to_dict()


def test_a_comparison_of_conventions_says_why() -> None:
    graph = flopwise.read(EXAMPLES / "tiny_resnet.onnx")
    compared = comparison([flopwise.profile(graph, convention=c) for c in ("flops", "macs")])
    assert compared.difference("count") == 2 * 1_859_904 - 3_818_068
    assert compared.to_dict()["differences"][0]["causes"][0]["layers"] == "batch norm"
    models = comparison([flopwise.profile(EXAMPLES / "tiny_resnet.onnx") for _ in range(2)])
    assert models.differences == ()
    assert "differences" not in models.to_dict()
