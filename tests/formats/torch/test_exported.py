"""Exported programs that are read as data: figures and elements are those of the module, and nothing of theirs runs."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from tests.formats.torch.archives import changed, exported, in_the_old_layout
from torch import nn

import flopwise
from flopwise.errors import FlopwiseError, ModelError
from flopwise.formats.table import open_stored
from flopwise.formats.torch.exported import MOST_POWER, Block, function


def _figures(profile: flopwise.Profile) -> list[tuple[Any, ...]]:
    return [(r.node.op, r.node.module, r.count, r.params, r.output_bytes) for r in profile.rows]


@pytest.mark.parametrize("layout", ["new", "old"])
def test_figures_and_elements(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "net.pt2"
    net = exported(path)
    if layout == "old":
        in_the_old_layout(path, tmp_path / "old.pt2")
        path = tmp_path / "old.pt2"
    direct, profile = flopwise.profile(net, (4, 3, 8, 8)), flopwise.profile(path)
    for total in ("macs", "flops", "params", "output_bytes"):
        assert profile.total(total) == direct.total(total)
    assert _figures(flopwise.profile(path, (9, 3, 8, 8))) == _figures(flopwise.profile(net, (9, 3, 8, 8)))
    assert _figures(flopwise.profile(path, {"x": (9, 3, 8, 8)})) == _figures(flopwise.profile(net, (9, 3, 8, 8)))
    trusted = flopwise.profile(torch.export.load(tmp_path / "net.pt2"))
    assert _figures(profile) == _figures(trusted)
    with open_stored(path) as stored:
        found = {tensor.name: tensor for tensor in stored.tensors}
        for name, tensor in {**net.state_dict(), "steps": net.steps}.items():
            numpy.testing.assert_array_equal(found[name].array(), tensor.numpy())
        roles = {name: tensor.role for name, tensor in found.items()}
    assert roles["norm.running_mean"] == "buffer"
    assert (roles["conv.weight"], roles["norm.num_batches_tracked"]) == ("weight", "constant")
    assert flopwise.sparsity(path).to_dict()["totals"]["macs"] == direct.total("macs")


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = x @ x.T
        first, _ = x.split([1, 3], 1)
        y = torch.stack([first, first]).sum(0) * math.inf
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (y,))


class Nested(nn.Module):
    def forward(self, pair: dict[str, torch.Tensor], none: None = None, *, k: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": pair["a"] @ pair["b"] + k}


def test_other_programs(tmp_path: Path) -> None:
    x = torch.randn(4, 8)
    torch.export.save(torch.export.export(Branches(), (x,)), tmp_path / "a.pt2")
    assert flopwise.profile(tmp_path / "a.pt2").total("macs") == 4 * 4 * 8
    pair = {"a": torch.randn(4, 8), "b": torch.randn(8, 2)}
    torch.export.save(torch.export.export(Nested(), (pair,), {"k": torch.randn(2)}), tmp_path / "b.pt2")
    assert flopwise.profile(tmp_path / "b.pt2").total("macs") == 4 * 8 * 2
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    torch.export.save(torch.export.export(tied, (torch.randn(2, 4),)), tmp_path / "c.pt2")
    assert flopwise.profile(tmp_path / "c.pt2").total("macs") == 2 * 2 * 16
    turned = nn.Linear(4, 3)
    turned.weight = nn.Parameter(torch.randn(4, 3).T)
    torch.export.save(torch.export.export(turned, (torch.randn(2, 4),)), tmp_path / "d.pt2")
    with open_stored(tmp_path / "d.pt2") as stored:
        numpy.testing.assert_array_equal(stored.tensors[0].array(), turned.weight.detach().numpy())


CODE = "__import__('os').mkdir({!r})"


def _expressions(content: dict[str, Any], mark: str) -> None:
    for name, meta in content["graph_module"]["graph"]["tensor_values"].items():
        if name == "x":
            meta["sizes"][0] = {"as_expr": {"expr_str": CODE.format(mark), "hint": {"as_int": 4}}}
    content["range_constraints"] = {CODE.format(mark): {"min_val": 2, "max_val": 64}}


def _guards(content: dict[str, Any], mark: str) -> None:
    content["guards_code"] = [CODE.format(mark)]


def _names(content: dict[str, Any], mark: str) -> None:
    calls = content["graph_module"]["module_call_graph"]
    calls[0]["signature"]["forward_arg_names"] = [CODE.format(mark)]


def _enumeration(content: dict[str, Any], mark: str) -> None:
    context = json.dumps({"__enum__": True, "fqn": "this:s", "name": "s"})
    spec = json.dumps([1, {"type": "builtins.tuple", "context": context, "children_spec": []}])
    content["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = spec


def _target(target: str, *arguments: dict[str, Any]) -> Any:
    def change(content: dict[str, Any], mark: str) -> None:
        inputs = [{"name": "", "arg": argument, "kind": 1} for argument in ({"as_string": mark}, *arguments)]
        node = {"target": target, "inputs": inputs, "outputs": [], "metadata": {}}
        content["graph_module"]["graph"]["nodes"].insert(0, node)

    return change


@pytest.mark.parametrize(
    "change",
    [
        _expressions,
        _guards,
        _names,
        _enumeration,
        _target("torch.os.mkdir"),
        _target("torch.load"),
        _target("torch.ops.load_library"),
        _target("torch.ops.aten.__class__.mro"),
        _target("torch.ops.aten.from_file.default", {"as_bool": True}, {"as_int": 4}),
        _target("torch.ops.higher_order.print"),
        _target("torch.ops.debugprims.load_tensor.default"),
        _target("_operator.methodcaller"),
        _target("_operator.mul", {"as_int": 10**9}),
        _target("math.factorial"),
        _target("builtins.eval"),
        _target("os.mkdir"),
    ],
)
def test_what_a_program_says_is_not_evaluated(tmp_path: Path, change: Any) -> None:
    path, mark = tmp_path / "net.pt2", tmp_path / "it ran"
    exported(path)
    changed(path, lambda content: change(content, str(mark)))
    other = path.rename(tmp_path / "pytorch_model.bin")  # the content decides, not the ending
    for ask in (flopwise.weights, flopwise.sparsity, flopwise.profile, flopwise.formula):
        with contextlib.suppress(FlopwiseError):
            ask(str(other))
        assert not mark.exists()
    assert len(flopwise.weights(tmp_path).entries) == 3


@pytest.mark.parametrize(
    "entry", [{"as_custom_obj": {"name": "a", "class_fqn": "b"}}, {"as_graph": {}}, {}, {"a": 1, "b": 2}]
)
def test_arguments_that_are_no_data(tmp_path: Path, entry: dict[str, Any]) -> None:
    exported(tmp_path / "net.pt2")
    changed(tmp_path / "net.pt2", lambda c: _target("torch.ops.aten.relu.default", entry)(c, "x"))
    with pytest.raises(ModelError, match=r"net\.pt2: "):
        flopwise.profile(tmp_path / "net.pt2")


def _nested(depth: int) -> dict[str, Any]:
    """A graph with graphs inside each other."""
    graph: dict[str, Any] = {"inputs": [], "outputs": [], "nodes": []}
    for _ in range(depth):
        argument = {"name": "", "arg": {"as_graph": {"graph": graph}}, "kind": 1}
        node = {"target": "torch.ops.higher_order.cond", "inputs": [argument], "outputs": [], "metadata": {}}
        graph = {"inputs": [], "outputs": [], "nodes": [node]}
    return graph


def test_graphs_nest_32_deep_at_most() -> None:
    Block(_nested(32))
    with pytest.raises(ModelError, match="its graphs nest deeper than 32"):
        Block(_nested(33))


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    exported(path)
    whole = path.read_bytes()
    rng = numpy.random.default_rng(0)
    for _ in range(60):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 20):
            data[place] = rng.integers(256)
        path.write_bytes(data)
        for ask in (flopwise.profile, open_stored):
            with contextlib.suppress(FlopwiseError):
                ask(path)
    for length in (0, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FlopwiseError):
            flopwise.profile(path)


@pytest.mark.parametrize(
    "lie", [{"sizes": [{"as_int": 1 << 40}]}, {"storage_offset": {"as_int": 9}}, {"strides": [{"as_int": -1}]}]
)
def test_tensors_that_lie_about_themselves(tmp_path: Path, lie: dict[str, Any]) -> None:
    path = tmp_path / "net.pt2"
    exported(path)
    changed(path, lambda c: c["config"]["conv.bias"]["tensor_meta"].update(lie), "model_weights_config.json")
    for ask in (flopwise.profile, open_stored):
        with pytest.raises(ModelError, match=r"net\.pt2: "):
            ask(path)


# Arithmetic on sizes in an exported program: its limits hold at their ends, and it takes numbers alone.


#: The least number that no size has.
BEYOND = 1 << 63


@pytest.mark.parametrize("exponent", [MOST_POWER, -MOST_POWER])
def test_an_exponent_is_at_most_64_either_way(exponent: int) -> None:
    power = function("_operator.pow")
    assert power(1, exponent) == 1
    further = exponent + (1 if exponent > 0 else -1)
    with pytest.raises(ModelError, match=f"raises a size to the power {further}"):
        power(1, further)


def test_a_large_exponent_is_refused_before_it_is_computed() -> None:
    with pytest.raises(ModelError, match="to the power 10000000000000"):
        function("operator.pow")(3, 10**13)


@pytest.mark.parametrize(
    ("target", "operands"),
    [
        ("_operator.add", (BEYOND - 1, 1)),
        ("_operator.mul", (1 << 31, 1 << 32)),
        ("_operator.mul", (-(1 << 31), 1 << 32)),
        ("_operator.pow", (2, 63)),
        ("operator.neg", (BEYOND,)),
    ],
)
def test_a_size_of_2_to_the_63_is_refused(target: str, operands: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"computes a size beyond 2\^63"):
        function(target)(*operands)


@pytest.mark.parametrize(
    ("target", "operands", "size"),
    [
        ("_operator.add", (BEYOND - 2, 1), BEYOND - 1),
        ("_operator.sub", (2 - BEYOND, 1), 1 - BEYOND),
        ("_operator.pow", (2, 62), 1 << 62),
    ],
)
def test_the_largest_sizes_are_computed(target: str, operands: tuple[int, ...], size: int) -> None:
    assert function(target)(*operands) == size


@pytest.mark.parametrize("operands", [([0], 1 << 40), ("a", 1 << 40), (1 << 40, None)])
def test_what_is_no_number_is_not_computed_with(operands: tuple[Any, Any]) -> None:
    with pytest.raises(ModelError, match="arithmetic on what is neither a number nor a tensor"):
        function("_operator.mul")(*operands)
