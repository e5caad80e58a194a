"""The HTML page as a file: what is in it, without a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.report.graphs import NASTY
from tests.report.html.browser import data_of

import flopwise
from flopwise.cli import cli
from flopwise.conventions import CONVENTIONS
from flopwise.graph import Body, Graph, Module, Node, Tensor
from flopwise.report.commands.profile import render
from flopwise.report.html.model import EXACT, page_data
from flopwise.report.structure import MOST, Group, groups

HOSTILE = '</script><img src=x onerror="document.title=1">'


def tensor(name: str, *shape: int, kind: Any = "activation") -> Tensor:
    return Tensor(name, shape, "float32", kind)


def chain(names: list[str], size: int = 8, paths: list[str] | None = None) -> Graph:
    """A chain of products of matrices, each with the weight of its own."""
    nodes = []
    for i, name in enumerate(names):
        path = (paths[i] if paths else "").split(".")
        scope = tuple(Module(".".join(path[: k + 1]), "Block") for k in range(len(path))) if paths and paths[i] else ()
        weight = tensor(f"w{i}", size, size, kind="weight")
        nodes.append(
            Node("MatMul", name, (tensor(f"t{i}", 1, size), weight), (tensor(f"t{i + 1}", 1, size),), modules=scope)
        )
    ends = (tensor("t0", 1, size),), (tensor(f"t{len(names)}", 1, size),)
    return Graph("chain", "hand", "models/chain.onnx", *ends, tuple(nodes))


def symbolic(rows: Any) -> Graph:
    """One product of matrices, of as many rows as a symbol says."""
    x, y = (Tensor(name, (rows, 8), "float32") for name in "xy")
    return Graph("open", "hand", "", (x,), (y,), (Node("MatMul", "m", (x, tensor("w", 8, 8, kind="weight")), (y,)),))


class Elements(HTMLParser):
    """The elements of a page as a browser sees them, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_data_are_the_figures_of_the_json() -> None:
    profile = flopwise.profile("examples/tiny_resnet.onnx")
    found, expected = data_of(render(profile, "html")), profile.to_dict()
    assert found["layers"]["name"] == [layer["name"] for layer in expected["layers"]]
    for key in ("macs", "flops", "params", "buffers", "weight_bytes", "activations", "output_bytes"):
        assert found["layers"][key] == [layer[key] for layer in expected["layers"]], key
        assert found["totals"][key] == expected["totals"][key]
    assert found["totals"]["peak_activation_bytes"] == expected["totals"]["peak_activation_bytes"]
    assert max(found["memory"]["bytes"]) == expected["totals"]["peak_activation_bytes"]
    assert found["memory"]["bytes"][found["memory"]["peak"]] == sum(b["bytes"] for b in found["memory"]["alive"])


@pytest.mark.parametrize("path", ["examples/tiny_resnet.onnx", "examples/custom_op.onnx", "examples/alexnet.prototxt"])
def test_each_convention_has_the_figures_of_its_own_profile(path: str) -> None:
    found = page_data(flopwise.profile(path))
    shown = {view["name"] for view in found["conventions"]}
    assert {"flops", "macs"} <= shown
    assert shown | {other["name"] for other in found["refused"]} == set(CONVENTIONS)
    for view in found["conventions"]:
        own = flopwise.profile(path, convention=view["name"])
        assert view["total"] == own.to_dict()["totals"]["count"], view["name"]
        own_counts = (
            view["counts"] if isinstance(view["counts"], list) else found["conventions"][view["counts"]]["counts"]
        )
        counts = [count for count in own_counts if count != ""]
        assert sum(count or 0 for count in counts) == own.total("count")


def on_constants() -> Graph:
    """A product whose weight is copied, shifted and scaled first, and one whose weight is shared with it."""
    x, y, z = tensor("x", 4, 8), tensor("y", 4, 8), tensor("z", 4, 8)
    weight, bias = tensor("w", 8, 8, kind="weight"), tensor("b", 8, kind="weight")
    copied, shifted, scaled = tensor("copied", 8), tensor("shifted", 8, 8), tensor("scaled", 8, 8)
    nodes = (
        Node("Identity", "copy", (bias,), (copied,)),
        Node("Add", "shift", (weight, copied), (shifted,)),
        Node("Mul", "scale", (shifted, shifted), (scaled,)),
        Node("MatMul", "first", (x, scaled), (y,)),
        Node("MatMul", "second", (y, scaled), (z,)),
    )
    return Graph("constants", "hand", "", (x,), (z,), nodes)


@pytest.mark.parametrize("convention", ["flops", "caffe", "thop", "torchinfo", "benanza"])
def test_the_page_lists_what_the_command_line_lists(convention: str) -> None:
    """Constants are no layers of it where they are none of the profile's, whatever other conventions list."""
    profile = flopwise.profile(on_constants(), convention=convention)
    found, expected = page_data(profile), profile.to_dict()
    assert found["layers"]["name"] == [layer["name"] for layer in expected["layers"]]
    for key in ("params", "buffers", "weight_bytes", "output_bytes", "macs", "flops"):
        assert sum(found["layers"][key]) == expected["totals"][key], key
    assert len(found["layers"]["name"]) == (5 if convention in ("thop", "torchinfo", "benanza") else 2)


def test_work_on_constants_that_a_convention_counts_is_said() -> None:
    found = page_data(flopwise.profile(on_constants()))
    (view,) = [view for view in found["conventions"] if view["name"] == "benanza"]
    counts = view["counts"] if isinstance(view["counts"], list) else found["conventions"][view["counts"]]["counts"]
    hidden = flopwise.profile(on_constants(), convention="benanza").total("count") - sum(counts)
    assert hidden > 0
    said = f"the total has {hidden:,} FLOP of 2 layers not listed here: shift and others"
    assert {"text": said, "gap": False} in view["notes"]


def test_the_chosen_convention_comes_with_its_unit_and_source() -> None:
    found = page_data(flopwise.profile("examples/tiny_resnet.onnx", convention="benanza"))
    assert found["convention"] == "benanza"
    view = next(v for v in found["conventions"] if v["name"] == "benanza")
    assert view["unit"] == CONVENTIONS["benanza"].unit
    assert view["source"]


def test_a_training_step_is_there_when_somebody_asked_for_it() -> None:
    assert page_data(flopwise.profile("examples/tiny_resnet.onnx"))["training"] is None
    profile = flopwise.profile("examples/tiny_resnet.onnx", train=True)
    found, expected = page_data(profile), profile.to_dict()
    for key in ("backward_macs", "backward_flops", "saved_bytes"):
        assert found["layers"][key] == [layer[key] for layer in expected["layers"]]
        assert found["training"][key] == expected["training"][key]
    for view in found["conventions"]:
        own = flopwise.profile("examples/tiny_resnet.onnx", convention=view["name"], train=True).to_dict()
        assert view["total"] == own["totals"]["count"], view["name"]
        if view["backward"] is None:
            assert own["training"]["backward"] is None
        else:
            assert sum(count or 0 for count in view["backward"]) == own["training"]["backward"]


def test_what_is_unknown_is_null_and_said() -> None:
    found = page_data(flopwise.profile("examples/custom_op.onnx"))
    view = found["conventions"][0]
    assert None in view["counts"]
    assert view["uncounted"] == 1
    assert view["unknown"] == {"com.example::Spline": 1}
    assert any(note["gap"] and "Spline" in note["text"] for note in view["notes"])
    assert "macs" in found["atLeast"]


def test_the_users_rules_hold_in_every_convention() -> None:
    rule = {"com.example::Spline": lambda node: flopwise.Counts(mac=7)}
    found = page_data(flopwise.profile("examples/custom_op.onnx", rules=rule))
    macs = next(view for view in found["conventions"] if view["name"] == "macs")
    assert macs["uncounted"] == 0
    assert macs["total"] == 647


def test_names_cannot_leave_the_data() -> None:
    names = [HOSTILE, "<!--<script>", "]]>", "[[data]]", *NASTY]
    page = render(flopwise.profile(chain(names)), "html")
    elements = Elements(page).found
    assert not [tag for tag, _ in elements if tag in ("img", "iframe", "object", "embed", "link")]
    assert not [attrs for _, attrs in elements if any(key.startswith("on") for key in attrs)]
    page.encode()
    found = data_of(page)["layers"]["name"]
    assert found[0] == HOSTILE
    assert found[3] == "[[data]]"
    assert len(found) == len(names)


def test_the_title_is_escaped() -> None:
    graph = chain(["a"])
    page = render(flopwise.profile(Graph(HOSTILE, "hand", "", graph.inputs, graph.outputs, graph.nodes)), "html")
    assert not [tag for tag, _ in Elements(page).found if tag == "img"]
    assert page.count("<title>") == 1


def test_only_the_scripts_of_the_page_may_run_and_nothing_is_loaded() -> None:
    page = render(flopwise.profile(chain(["a", "b"])), "html")
    elements = Elements(page).found
    policy = next(a["content"] for t, a in elements if t == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "script-src 'unsafe" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) > 5
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert not [attrs for _, attrs in elements if "src" in attrs]
    assert not [tag for tag, _ in elements if tag == "link"]


def test_large_integers_travel_as_text() -> None:
    found = page_data(flopwise.profile(chain(["huge"], 2**27)))
    assert found["layers"]["macs"] == [str(2**54)]
    assert found["conventions"][0]["counts"] == [str(2**55)]
    assert EXACT < 2**54


def test_a_model_without_layers_has_a_page() -> None:
    graph = Graph("nothing", "hand", "", (), (), ())
    found = data_of(render(flopwise.profile(graph), "html"))
    assert found["layers"]["name"] == []
    assert found["groups"] == [["nothing", "", -1, 0]]


def test_edges_carry_shapes_between_layers() -> None:
    found = page_data(flopwise.profile(chain(["a", "b"])))
    edges = [tuple(found["edges"][i : i + 3]) for i in range(0, len(found["edges"]), 3)]
    shape = found["shapes"].index("1×8")
    assert edges == [(-1, 0, shape), (0, 1, shape), (1, -1, shape)]


def grouped(graph: Graph, names: list[str]) -> tuple[list[Group], list[int]]:
    return groups("m", [node.scope for node in graph.nodes], [node.op for node in graph.nodes], names)


def test_modules_are_a_tree_and_layers_know_theirs() -> None:
    graph = chain(["a", "b", "c"], paths=["net.one", "net.two", ""])
    found, owners = grouped(graph, ["a", "b", "c"])
    assert [(g.name, g.parent) for g in found] == [("m", None), ("net", 0), ("one", 1), ("two", 1)]
    assert owners == [2, 3, 0]


def test_names_with_paths_stand_in_for_modules() -> None:
    graph = chain(["x", "y", "z"])
    found, owners = grouped(graph, ["conv1", "inception_3a/1x1", "inception_3a/3x3"])
    assert [(g.name, g.parent) for g in found] == [("m", None), ("inception_3a", 0)]
    assert owners == [0, 1, 1]


@pytest.mark.parametrize("many", [MOST, MOST + 1, 1000, 5000])
def test_no_module_has_too_many_parts(many: int) -> None:
    names = [f"layer_{i}" for i in range(many)]
    found, owners = grouped(chain(names), names)
    parts = [owners.count(i) + sum(g.parent == i for g in found) for i in range(len(found))]
    assert max(parts) <= MOST
    assert [i for i in owners if i < 0] == []
    assert (len(found) == 1) == (many <= MOST)
    for i, group in enumerate(found[1:], start=1):
        assert group.parent is not None
        assert group.parent < i


def test_5000_layers_stay_under_5_mb() -> None:
    names = [f"/model/stage.{i // 500}/block.{i // 10}/linear{i % 10}/MatMul" for i in range(5000)]
    page = render(
        flopwise.profile(chain(names, paths=[f"stage{i // 500}.block{i // 10}" for i in range(5000)])), "html"
    )
    assert len(page.encode()) < 5_000_000


def test_the_command_line_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert CliRunner().invoke(cli, ["profile", "examples/tiny_resnet.onnx", "-o", str(out)]).exit_code == 0
    assert data_of(out.read_text("utf-8"))["model"]["name"] == "tiny_resnet"


def test_the_libraries_come_with_their_licences() -> None:
    vendor = Path(flopwise.__file__).parent / "report" / "html" / "assets" / "vendor"
    for script in vendor.glob("*.js"):
        licence = vendor / script.name.replace(".min.js", ".LICENSE.txt")
        assert "Copyright" in licence.read_text("utf-8"), script.name
        assert "sourceMappingURL" not in script.read_text("utf-8")


def test_figures_in_symbols_are_text() -> None:
    sympy = pytest.importorskip("sympy")
    n = sympy.Symbol("n", positive=True, integer=True)
    graph = symbolic(n)
    found = page_data(flopwise.profile(graph))
    assert found["layers"]["macs"] == ["64*n"]
    assert found["inputs"][0]["shape"] == "n×8"
    assert found["memory"]["missing"] == ["x", "y"]
    assert {"flops", "macs"} <= {view["name"] for view in found["conventions"]}


def test_layers_in_control_flow_say_how_often_they_run() -> None:
    x, y, z = tensor("x", 1, 8), tensor("y", 1, 8), tensor("z", 1, 8)
    body = (Body(0, "body", 5),)
    nodes = (
        Node("Loop", "loop", (None, None, x), (z,)),
        Node("MatMul", "m", (x, tensor("w", 8, 8, kind="weight")), (y,), within=body),
    )
    found = page_data(flopwise.profile(Graph("loops", "hand", "", (x,), (z,), nodes)))
    assert found["layers"]["times"] == {1: 5}
    assert found["layers"]["macs"][1] == 5 * 64
