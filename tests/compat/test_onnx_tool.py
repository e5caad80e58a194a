"""The functions of onnx-tool, beside those of the installed onnx-tool."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from flopwise.compat import onnx_tool as ours
from flopwise.errors import InputError

theirs = pytest.importorskip("onnx_tool")

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
EXAMPLES = Path(__file__).parents[2] / "examples"
MODELS = [
    LIGHT / "light_bvlc_alexnet.onnx",
    LIGHT / "light_resnet50.onnx",
    LIGHT / "light_vgg19.onnx",
    LIGHT / "light_squeezenet.onnx",
    EXAMPLES / "tiny_resnet.onnx",
]


def printed(function: Any, *arguments: Any, **options: Any) -> list[str]:
    """The lines of a table: titles and rules, then the layers in the order of their names, then the totals."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(*arguments, **options)
    return settled(out.getvalue())


def settled(text: str) -> list[str]:
    lines = text.splitlines()
    return [lines[0], *sorted(lines[1:-1]), lines[-1]]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_the_same_table(path: Path) -> None:
    assert printed(ours.model_profile, str(path)) == printed(theirs.model_profile, str(path))


def test_the_same_table_of_all_operators() -> None:
    path = str(LIGHT / "light_bvlc_alexnet.onnx")
    found = printed(ours.model_profile, path, hidden_ops=None)
    expected = printed(theirs.model_profile, path, hidden_ops=None)
    kinds = lambda lines: sorted(line.split()[1] for line in lines[2:])  # noqa: E731
    assert kinds(found) == kinds(expected)


def test_other_shapes_and_files(tmp_path: Path) -> None:
    path = str(EXAMPLES / "transformer_block.onnx")
    shapes = {"hidden_states": np.zeros((2, 16, 40), np.float32)}
    for name in ("table.txt", "table.csv"):
        files = [str(tmp_path / f"{who}_{name}") for who in ("ours", "theirs")]
        for function, file in zip((ours.model_profile, theirs.model_profile), files, strict=True):
            with contextlib.suppress(SystemExit):
                function(str(EXAMPLES / "tiny_resnet.onnx"), save_profile=file)
        found, expected = (Path(file).read_text() for file in files)
        assert settled(found) == settled(expected)
    ours.model_profile(path, shapes, save_model=str(tmp_path / "with_shapes.onnx"))
    assert onnx.load(tmp_path / "with_shapes.onnx").graph.value_info


def sparse(share: float, blocks: tuple[int, int], shape: tuple[int, ...] = (64, 128)) -> Any:
    generator = np.random.default_rng(0)
    kept = generator.random((shape[0] // blocks[0], shape[1] // blocks[1])) >= share
    mask = np.kron(kept, np.ones(blocks)).reshape(shape[:2] + (1,) * (len(shape) - 2))
    return (generator.random(shape).astype(np.float32) + 1) * mask.astype(np.float32)


@pytest.mark.parametrize("blocks", [(1, 1), (1, 4), (4, 1), (8, 8)])
def test_zeros(blocks: tuple[int, int], tmp_path: Path) -> None:
    from onnx_tool import tensor

    for shape in ((64, 128), (64, 128, 3, 3)):
        array = sparse(0.7, blocks, shape)
        ratio = ours.narray_calc_sparsity(array)
        assert ratio == tensor.narray_calc_sparsity(array)
        block, share = ours.search_sparse_blocksize(array, ratio)
        expected = tensor.search_sparse_blocksize(array, ratio)
        assert block == expected[0]
        assert share == pytest.approx(float(expected[1]))
    helper = onnx.helper
    info = helper.make_tensor_value_info
    weight = onnx.numpy_helper.from_array(sparse(0.7, blocks), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    graph = helper.make_graph([node], "g", [info("x", 1, [3, 64])], [info("y", 1, [3, 128])], [weight])
    onnx.save(helper.make_model(graph), tmp_path / "sparse.onnx")
    path = str(tmp_path / "sparse.onnx")
    found = printed(ours.model_profile, path)
    assert found == printed(theirs.model_profile, path)
    assert "Sparse Block Ratio" in found[0]


def test_shapes_over_a_range() -> None:
    path = str(EXAMPLES / "transformer_block.onnx")
    description = {"hidden_states": [1, "s", 40]}
    engine, graph = ours.model_shape_regress(path, description, {"s": (8, 32)})
    assert [t.shape for t in graph.inputs] == [(1, 32, 40)]
    engine.update_variable("s", 12)
    engine.update_variables()
    assert engine.get_tensorshape("hidden_states") == [1, 12, 40]
    assert engine.get_tensorshape(graph.outputs[0].name)[:2] == [1, 12]
    with pytest.raises(InputError, match="'s' has no range"):
        ours.model_shape_regress(path, description, {})
    with pytest.raises(InputError, match="no tensor 'nowhere'"):
        engine.get_tensorshape("nowhere")


def test_an_operator_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="not a valid onnx op: Convv"):
        ours.model_profile(str(MODELS[0]), exclude_ops=["Convv"])
    first = printed(ours.model_profile, str(MODELS[0]), exclude_ops=["Relu"])
    assert not any(" Relu " in line for line in first)
    assert any(" Relu " in line for line in printed(ours.model_profile, str(MODELS[0])))


def _crop() -> onnx.ModelProto:
    """A custom operator whose result another one takes."""
    from tests.formats.models import model, node, value

    nodes = [node("CropPlugin", "x small", "cut", margin=2), node("Relu", "cut", "y")]
    return model(nodes, [value("x", (1, 3, 32, 32)), value("small", (1, 3, 16, 16))], outputs=["y"])


@pytest.mark.parametrize("tool", [theirs, ours], ids=["theirs", "ours"])
def test_an_operator_in_the_registry_is_shaped_and_counted(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = next(name for name, value in vars(tool.NODE_REGISTRY).items() if isinstance(value, dict))
    monkeypatch.setattr(tool.NODE_REGISTRY, held, {**getattr(tool.NODE_REGISTRY, held)})  # later tests list it

    @tool.NODE_REGISTRY.register()
    class CropPluginNode(tool.Node):  # type: ignore[misc,name-defined] # its class is the tool's
        def shape_infer(self, intensors: Any, outtensors: Any) -> None:
            outtensors[0].update_shape(intensors[1].get_shape())
            outtensors[0].update_dtype(intensors[0].dtype)

        def profile(self, intensors: Any, outtensors: Any) -> list[int]:
            return [int(np.prod(outtensors[0].get_shape())) * self.margin, 0]

    net = tool.loadmodel(_crop())
    net.graph.graph_reorder_nodes()
    net.graph.shape_infer({"x": tool.create_ndarray_f32((1, 3, 32, 32))})
    net.graph.profile()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        net.graph.print_node_map()
    lines = out.getvalue().splitlines()
    (crop,) = [line.split() for line in lines if "CropPlugin" in line]
    assert crop[-2:] == ["1x3x32x32", "1x3x16x16"]
    assert f"{2 * 3 * 16 * 16:,}" in crop
    assert net.graph.macs == [2 * 3 * 16 * 16 + 3 * 16 * 16, 0.0]


def test_a_model_writes_what_its_functions_write(tmp_path: Path) -> None:
    net = ours.Model(EXAMPLES / "tiny_resnet.onnx")
    net.graph.shape_infer({"image": ours.create_ndarray_f32((2, 3, 64, 64))})
    net.save_model(str(tmp_path / "shapes.onnx"))
    written = onnx.load(str(tmp_path / "shapes.onnx"))
    assert [d.dim_value for d in written.graph.output[0].type.tensor_type.shape.dim] == [2, 10]
    assert (net.modelname, ours.create_ndarray_int64((2,)).tolist()) == ("tiny_resnet", [0, 0])
