"""The names that other programs rely on, and what they do together."""

from __future__ import annotations

import json

import pytest
from onnx import TensorProto, helper

import flopwise

NAMES = {
    "Advice",
    "Bound",
    "CONVENTIONS",
    "OPERATORS",
    "CaffeOptions",
    "Comparison",
    "Convention",
    "Counts",
    "Device",
    "FlopwiseError",
    "Formula",
    "Gradient",
    "Graph",
    "InputError",
    "JaxOptions",
    "Memory",
    "Meter",
    "ModelError",
    "Module",
    "Node",
    "OnnxOptions",
    "Operator",
    "Profile",
    "Row",
    "ShapeError",
    "Sparsity",
    "Sum",
    "Tensor",
    "TorchOptions",
    "Trace",
    "Value",
    "Weights",
    "__version__",
    "advise",
    "annotate",
    "bench",
    "bound",
    "check",
    "compare",
    "compare_traces",
    "devices",
    "diffusion",
    "formula",
    "llm",
    "llm_log",
    "limits",
    "memory",
    "profile",
    "read",
    "render",
    "schema",
    "sparsity",
    "trace",
    "weights",
    "write_shapes",
    "zoo",
}


def linear(domain: str = "") -> bytes:
    """y = act(x @ w), x 2×8, w 8×4; ``act`` of the given domain, Relu of the standard one."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="/head/fc/MatMul"),
        helper.make_node("Mystery" if domain else "Relu", ["h"], ["y"], name="/head/act/Relu", domain=domain),
    ]
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, [8, 4], [1.0] * 32)],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def test_names() -> None:
    assert set(flopwise.__all__) == NAMES
    for name in NAMES:
        assert getattr(flopwise, name) is not None
    assert set(dir(flopwise)) == NAMES


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'flops'"):
        flopwise.flops  # noqa: B018 - the access is what is tested


@pytest.mark.parametrize("inputs", [{"x": (2, 8)}, (2, 8), "x:f32:2x8", ["x:f32:2x8"]])
def test_profile(inputs: object) -> None:
    p = flopwise.profile(linear(), inputs=inputs)
    assert p.total("macs") == 2 * 8 * 4
    assert p.total("flops") == 2 * 2 * 8 * 4 + 2 * 4
    assert p.total("params") == 32
    assert [r.name for r in p.rows] == ["/head/fc/MatMul", "/head/act/Relu"]
    assert [(s.name, s.macs) for s in p.by("op")] == [("MatMul", 64), ("Relu", 0)]
    assert [(s.name, s.macs) for s in p.by("module", depth=2)] == [
        ("", 64),
        ("head", 64),
        ("head.fc", 64),
        ("head.act", 0),
    ]
    assert "MatMul" in str(p)


def test_dict_is_the_stable_schema() -> None:
    found = flopwise.profile(linear(), inputs=(2, 8), convention="macs").to_dict()
    assert list(found) == ["schema", "model", "inputs", "convention", "totals", "layers", "coverage", "notes"]
    assert found["schema"] == "flopwise.profile/1"
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 8]}]
    assert found["convention"] == {"name": "macs", "unit": "MAC"}
    assert list(found["totals"]) == [
        "count",
        "macs",
        "needed_macs",
        "flops",
        "ops",
        "params",
        "buffers",
        "weight_bytes",
        "activations",
        "output_bytes",
        "peak_activation_bytes",
    ]
    assert list(found["layers"][0]) == [
        "name",
        "op",
        "origin",
        "scope",
        "inputs",
        "outputs",
        "count",
        "macs",
        "flops",
        "ops",
        "params",
        "buffers",
        "weight_bytes",
        "activations",
        "output_bytes",
    ]
    assert found["coverage"] == {
        "nodes": 2,
        "exact": True,
        "unknown": {},
        "unresolved": [],
        "bounded": [],
        "stated": [],
    }
    assert json.loads(json.dumps(found)) == found


def test_unknown_operator_is_never_zero() -> None:
    p = flopwise.profile(linear("acme"), inputs=(2, 8))
    row = p.rows[1]
    assert (row.counts, row.count, row.macs, row.flops) == (None, None, None, None)
    assert p.unknown == {"acme::Mystery": 1}
    assert not p.exact
    assert any("acme::Mystery" in note for note in p.notes)
    assert p.to_dict()["layers"][1]["count"] is None


def test_own_rule() -> None:
    rules = {"acme::Mystery": lambda node: flopwise.Counts(add=3) * node.input(0).numel}
    p = flopwise.profile(linear("acme"), inputs=(2, 8), rules=rules)
    assert p.rows[1].count == 3 * 8
    assert not p.unknown
    assert "acme::Mystery" not in flopwise.OPERATORS


def test_unknown_convention_lists_the_known_ones() -> None:
    with pytest.raises(flopwise.InputError, match=r"unknown convention 'fvcoer'; did you mean 'fvcore'\? known: flops"):
        flopwise.profile(linear(), inputs=(2, 8), convention="fvcoer")


def test_to_pandas() -> None:
    frame = flopwise.profile(linear(), inputs=(2, 8)).to_pandas()
    assert list(frame["macs"]) == [64, 0]
