"""Recurrent states: their shapes are those of the outputs that feed them; and symbols that stand for several sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.formats.models import ints, model, node, value, weight

import flopwise
from flopwise.errors import InputError

EDGES = ("batch_size", "channels", "height", "width")


def matting(*, expand: bool = False) -> onnx.ModelProto:
    """Two recurrent levels as an exporter writes them: all inputs have the same names of dimensions.

    With ``expand``, a state of ones becomes as large as it has to be, so that it may have any size that broadcasts.
    """
    nodes = [
        node("Mul", "src downsample_ratio", "scaled"),
        node("AveragePool", "scaled", "half", kernel_shape=[8, 8], strides=[8, 8]),
        node("Conv", "half w1", "f1"),
        *(
            [node("Add", "f1 r1i", "m1")]
            if expand
            else [node("Concat", "f1 r1i", "c1", axis=1), node("Conv", "c1 v1", "m1")]
        ),
        node("Tanh", "m1", "r1o"),
        node("MaxPool", "r1o", "p2", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("Conv", "p2 w2", "f2"),
        node("Concat", "f2 r2i", "c2", axis=1),
        node("Conv", "c2 v2", "r2o"),
    ]
    stored = [weight("w1", 16, 3, 1, 1), weight("w2", 20, 16, 1, 1), weight("v2", 20, 40, 1, 1)]
    stored += [] if expand else [weight("v1", 16, 32, 1, 1)]
    inputs = [value(name, EDGES) for name in ("src", "r1i", "r2i")]
    inputs.append(value("downsample_ratio", (1,)))
    return model(nodes, inputs, stored, outputs=["r1o", "r2o"])


GIVEN = ["src:f32:1x3x1080x1920", "r1i:f32:1x16x135x240", "r2i:f32:1x20x68x120", "downsample_ratio:f32:-1:0.25"]


def shapes(graph: flopwise.Graph) -> dict[str, Any]:
    return {t.name: t.shape for t in (*graph.inputs, *graph.outputs)}


def test_the_shapes_of_the_user_win_for_each_input() -> None:
    graph = flopwise.read(matting(), GIVEN)
    assert shapes(graph)["r1o"] == (1, 16, 135, 240)
    assert shapes(graph)["r2o"] == (1, 20, 68, 120)
    (warning,) = graph.warnings
    assert warning == (
        "one name stands for several sizes: channels (3 in 'src', 16 in 'r1i', 20 in 'r2i'), height (1080 in 'src', "
        "135 in 'r1i', 68 in 'r2i'), width (1920 in 'src', 240 in 'r1i', 120 in 'r2i'); "
        "each input keeps the shape that is given"
    )
    assert flopwise.profile(graph).exact


def test_what_the_user_says_of_a_name_holds_for_the_other_inputs() -> None:
    net = model(
        [node("Add", "a b", "y"), node("Relu", "c", "z")], {"a": ("n",), "b": ("n",), "c": ("n",)}, outputs=["y", "z"]
    )
    graph = flopwise.read(net, {"a": (8,), "b": (8,)}, dims={"n": 7})
    assert shapes(graph) == {"a": (8,), "b": (8,), "c": (7,), "y": (8,), "z": (7,)}
    assert graph.warnings == (
        "one name stands for several sizes: n (8 in 'a', 7 in --dim); each input keeps the shape that is given",
    )
    with pytest.raises(InputError, match=r"input 'c' has open dimensions \(n\)"):
        flopwise.read(net, {"a": (8,), "b": (1,)})


@pytest.mark.parametrize("expand", [False, True])
def test_states_are_found_by_name(expand: bool) -> None:
    graph = flopwise.read(matting(expand=expand), [GIVEN[0], GIVEN[-1]])
    assert shapes(graph)["r1i"] == (1, 16, 135, 240)
    assert shapes(graph)["r2i"] == (1, 20, 68, 120)
    assert graph.warnings[-1] == (
        "states take the shapes of the outputs that feed them: r1i 1x16x135x240 (as r1o), r2i 1x20x68x120 (as r2o); "
        "-i changes that"
    )
    said = flopwise.profile(matting(expand=expand), GIVEN)
    assert flopwise.profile(graph).total("macs") == said.total("macs")


@pytest.mark.parametrize(
    ("taken", "given"),
    [
        ("r1i", "r1o"),
        ("h_in", "h_out"),
        ("input_state", "output_state"),
        ("h0", "hn"),
        ("state", "new_state"),
        ("c", "cn"),
    ],
)
def test_names_of_states(taken: str, given: str) -> None:
    nodes = [node("Concat", f"x {taken}", "m", axis=1), node("Conv", "m w", given)]
    net = model(nodes, {"x": (1, 3, "h", "w"), taken: (1, "c", "h", "w")}, [weight("w", 4, 7, 1, 1)], outputs=[given])
    assert shapes(flopwise.read(net, {"x": (1, 3, 6, 5)}))[taken] == (1, 4, 6, 5)


def renamed() -> onnx.ModelProto:
    nodes = [node("Concat", "x memory", "m", axis=1), node("Conv", "m w", "after")]
    inputs = {"x": (1, 3, "h", "w"), "memory": (1, "c", "h", "w")}
    return model(nodes, inputs, [weight("w", 4, 7, 1, 1)], outputs=["after"])


def test_states_that_the_user_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="input 'memory' has open dimensions"):
        flopwise.read(renamed(), {"x": (1, 3, 6, 5)})
    assert shapes(flopwise.read(renamed(), {"x": (1, 3, 6, 5)}, states={"memory": "after"}))["memory"] == (1, 4, 6, 5)
    from flopwise.cli import main

    path = str(tmp_path / "m.onnx")
    onnx.save(renamed(), path)
    assert main(["profile", path, "-i", "x:1x3x6x5", "--state", "memory=after"]) == 0
    assert "memory 1x4x6x5 (as after)" in capsys.readouterr().out
    assert main(["profile", path, "-i", "x:1x3x6x5", "--state", "memory"]) == 2
    assert main(["profile", path, "-i", "x:1x3x6x5", "--state", "memory=before"]) == 2
    assert "the model has no output 'before' for a state; its outputs are 'after'" in capsys.readouterr().err


def test_a_state_that_grows_does_not_settle() -> None:
    net = model([node("Concat", "past x", "present", axis=0)], {"x": (1, 4), "past": ("n", 4)}, outputs=["present"])
    with pytest.raises(InputError, match="input 'past' has open dimensions"):
        flopwise.read(net)
    with pytest.raises(InputError, match="the state 'past' does not settle: output 'present' never has the shape"):
        flopwise.read(net, states={"past": "present"})


def test_assumed_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = model([node("Relu", "x", "y")], {"x": ("batch", 3, "h", None)})
    graph = flopwise.read(net, assume={"batch": 1, "*": 64})
    assert shapes(graph)["y"] == (1, 3, 64, 64)
    assert graph.warnings == ("sizes are assumed: x 1x3x64x64; give them with -i",)
    assert flopwise.read(net, (2, 3, 8, 8), assume={"*": 64}).warnings == ()
    with pytest.raises(InputError, match="has open dimensions"):
        flopwise.read(net, assume={"batch": 1})
    from flopwise.cli import main

    path = str(tmp_path / "m.onnx")
    onnx.save(net, path)
    assert main(["flops", path, "--assume", "batch=1,*=64"]) == 0
    assert main(["flops", path, "--assume", "batch"]) == 2
    assert main(["shapes", path, "--assume", "*=2", "-o", str(tmp_path / "o.onnx")]) == 0
    capsys.readouterr()


def test_sizes_that_work_are_suggested() -> None:
    fixed = [
        node("Conv", "x w", "c", kernel_shape=[32, 32], strides=[32, 32]),
        node("Flatten", "c", "f"),
        node("Gemm", "f k", "y"),
    ]
    net = model(fixed, {"x": ("n", 3, "h", "w")}, [weight("w", 2, 3, 32, 32), weight("k", 2 * 8 * 8, 5)])
    with pytest.raises(InputError, match="--dim n=1 --dim h=256 --dim w=256, or with -i x:float32:1x3x256x256"):
        flopwise.read(net)
    last = model([node("Relu", "x", "y")], {"x": ("n", "h", "w", 3)})
    with pytest.raises(InputError, match="-i x:float32:1x224x224x3"):
        flopwise.read(last)


def test_a_graph_may_be_as_large_as_the_user_allows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from flopwise.cli import main

    net = model([node("Relu", f"t{i}", f"t{i + 1}", name="n" * 200) for i in range(10_000)], {"t0": (1,)})
    path = str(tmp_path / "m.onnx")
    onnx.save(net, path)
    assert main(["flops", path]) == 0
    assert main(["flops", path, "--largest-graph", "1"]) == 2
    assert (
        "the graph takes more than 1 MB without the weights; allow more with --largest-graph" in capsys.readouterr().err
    )
    with pytest.raises(flopwise.ModelError, match="more than 0 MB"):
        flopwise.read(path, largest_graph=1000)


def super_resolution() -> onnx.ModelProto:
    nodes = [
        node("Conv", "in k", "c", pads=[1] * 4),
        node("DepthToSpace", "c", "d", blocksize=2),
        node("Add", "d bias", "out"),
    ]
    inputs = {"in": (1, 3, "h", "w"), "bias": (1, 3, 1, 1)}
    return model(nodes, inputs, [weight("k", 12, 3, 3, 3)], outputs=["out"])


def image_to_image(taken: str, given: str) -> onnx.ModelProto:
    nodes = [node("Conv", f"{taken} w", "c", pads=[1] * 4), node("Add", "c scale", given)]
    return model(
        nodes,
        {taken: ("n", 3, "h", "wide"), "scale": (1, 3, 1, 1)},
        [weight("w", 3, 3, 3, 3)],
        outputs=[given],
    )


def pair_of_images() -> onnx.ModelProto:
    """Two images that must be equally large, of any size."""
    nodes = [node("Concat", "a_in b_in", "ab", axis=1), node("Conv", "ab w", "c"), node("Relu", "c", "a_out")]
    nodes += [node("Add", "c scale", "b_out")]
    edges = (1, 3, None, None)
    stored = [weight("w", 3, 6, 1, 1)]
    return model(nodes, {"a_in": edges, "b_in": edges, "scale": (1, 3, 1, 1)}, stored, outputs=["a_out", "b_out"])


def mean_of_steps(taken: str, given: str) -> onnx.ModelProto:
    nodes = [node("MatMul", f"{taken} w", "m"), node("ReduceMean", "m", "r", axes=[1]), node("Add", "r bias", given)]
    inputs = {taken: ("batch", "steps", 4), "bias": ("batch", 1, 4)}
    return model(nodes, inputs, [weight("w", 4, 4)], outputs=[given], opset=13)


def voice_detector(taken: str = "input", given: str = "output") -> onnx.ModelProto:
    """Audio in frames of 16 samples and a state of 8 numbers -> one probability."""
    nodes = [
        node("Reshape", f"{taken} s", "r"),
        node("MatMul", "r w", "f"),
        node("ReduceMean", "f", "m", axes=[1], keepdims=0),
        node("Add", "m state", "stateN"),
        node("MatMul", "stateN v", given),
    ]
    stored = [weight("w", 16, 8), weight("v", 8, 1), ints("s", 0, -1, 16)]
    inputs = {taken: ("batch", "samples"), "state": ("batch", 8)}
    return model(nodes, inputs, stored, outputs=[given, "stateN"], opset=13)


@pytest.mark.parametrize(("taken", "given"), [("input", "output"), ("in", "out"), ("x_in", "x_out"), ("r1i", "r1o")])
def test_a_name_alone_makes_no_state(taken: str, given: str) -> None:
    """An input is as large as an output only where the model runs with no other size."""
    with pytest.raises(InputError, match=rf"input '{taken}' has open dimensions \(n x 3 x h x wide\)"):
        flopwise.read(image_to_image(taken, given))
    with pytest.raises(InputError, match=rf"input '{taken}' has open dimensions \(2 x steps x 4\)"):
        flopwise.read(mean_of_steps(taken, given), {"bias": (2, 1, 4)})
    for said in ({"dims": {"batch": 2}}, {"inputs": {"state": (2, 8)}}, {}):
        with pytest.raises(InputError, match=rf"input '{taken}' has open dimensions .*samples=128|:float32:1x128"):
            flopwise.read(voice_detector(taken, given), **said)  # type: ignore[arg-type] # one of two arguments


def test_the_states_beside_an_input_of_an_open_size() -> None:
    graph = flopwise.read(voice_detector(), {"input": (2, 512)})
    assert shapes(graph)["state"] == (2, 8)
    with pytest.raises(InputError, match="input 'a_in' has open dimensions"):
        flopwise.read(pair_of_images())
    with pytest.raises(
        InputError, match=r"input 'in' has open dimensions \(1 x 3 x h x w\); give them with --dim h=224"
    ):
        flopwise.read(super_resolution())


def test_an_impossible_input_is_named_before_its_states() -> None:
    nodes = [node("Concat", "x h_in", "m", axis=1), node("Conv", "m w", "h_out"), node("Conv", "x v", "y")]
    stored = [weight("w", 4, 7, 1, 1), weight("v", 4, 3, 1, 1)]
    net = model(nodes, {"x": (1, "p", "h", "w"), "h_in": (1, "c", "h", "w")}, stored, outputs=["h_out", "y"])
    with pytest.raises(InputError, match="the input shapes are impossible: Conv"):
        flopwise.read(net, {"x": (1, 2, 6, 5)})
