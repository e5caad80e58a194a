"""Keras models against twins in PyTorch, figures worked out by hand, and the same model on Keras' JAX backend."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras")

from tests.keras_models import archive, convolution, graph, older  # noqa: E402
from torch import nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.errors import InputError, ModelError  # noqa: E402
from flopwise.formats.table import open_stored  # noqa: E402

if keras.backend.backend() != "torch":
    pytest.skip("Keras was imported with another backend", allow_module_level=True)

L = keras.layers


def figures(profile: flopwise.Profile) -> tuple[object, object, object]:
    return profile.total("macs"), profile.total("params"), profile.total("buffers")


def test_a_file_is_rebuilt_without_weights(tmp_path: Path) -> None:
    path = tmp_path / "net.keras"
    path.write_bytes(archive(convolution()))
    profile = flopwise.profile(path)
    assert figures(profile) == (8 * 27 * 14 * 14 + 8 * 3, 8 * 27 + 8 + 16 + 27, 16)
    assert profile.graph.format == "keras"
    assert [(t.name, t.shape) for t in profile.graph.inputs] == [("image", (1, 16, 16, 3))]
    (conv,) = (row for row in profile.rows if row.node.op == "Conv")
    assert [(module.path, module.kind) for module in conv.node.scope] == [("", "Sequential"), ("conv", "Conv2D")]
    assert flopwise.profile(path, batch_size=4).total("macs") == 4 * (profile.total("macs") or 0)
    with pytest.raises(InputError, match=r"input 'image' is \?x16x16x3 \(\?: any size\), not 1x8x16x3"):
        flopwise.profile(path, (1, 8, 16, 3))


def test_a_preset_is_read_without_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that keras_hub saves, whose classes are those of its package."""
    kind = {"module": "keras_hub.models", "class_name": "Net", "registered_name": "keras_hub>Net"}
    (tmp_path / "config.json").write_text(json.dumps({**kind, "config": {"name": "net", "units": 7}}))
    if importlib.util.find_spec("keras_hub") is None:
        with pytest.raises(ModelError, match=r"is a model of keras_hub's, .*: pip install keras-hub"):
            flopwise.profile(tmp_path)
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "keras_hub.py").write_text("""
import keras
@keras.saving.register_keras_serializable(package="keras_hub")
class Net(keras.Model):
    def __init__(self, units, **names):
        x = keras.Input((5,), name="x")
        super().__init__(x, keras.layers.Dense(units)(x), **names)
""")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, "keras_hub", raising=False)
    profile = flopwise.profile(tmp_path)
    assert (profile.total("macs"), profile.total("params"), profile.graph.format) == (5 * 7, 5 * 7 + 7, "keras")
    (tmp_path / "config.json").write_text(json.dumps({**kind, "class_name": "Popen", "registered_name": "Popen"}))
    with pytest.raises(ModelError, match="which is none of Keras'"):
        flopwise.profile(tmp_path)


def test_a_command_imports_of_keras_what_reads_a_model(tmp_path: Path) -> None:
    """Not what draws, trains or compiles, which would be most of its memory; what a program imports stays whole."""
    (tmp_path / "net.keras").write_bytes(archive(convolution()))
    code = (
        "import atexit, sys; atexit.register(lambda: print([name for name in ('matplotlib', 'pandas', 'jax', "
        "'torch._dynamo') if name in sys.modules])); sys.argv[0] = 'flopwise'; "
        "from flopwise.__main__ import main; main()"
    )
    command = [sys.executable, "-c", code, "profile", str(tmp_path / "net.keras"), "-f", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"
    assert json.loads(ended.stdout.rpartition("[]")[0])["totals"]["macs"] == 8 * 3 * 9 * 14 * 14 + 8 * 3


def test_several_inputs_have_the_names_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "two.keras"
    path.write_bytes(archive(graph()))
    assert figures(flopwise.profile(path, {"a": (5, 10), "b": (5, 4)})) == (5 * 40, 44, 0)
    assert figures(flopwise.profile(path, ["a:5x10", "b:5x4"])) == (5 * 40, 44, 0)
    assert figures(flopwise.profile(path, [(5, 10), (5, 4)])) == (5 * 40, 44, 0)


def test_files_of_keras_2_and_3(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "old.h5"
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"] = "2.12.0"
        file.attrs["model_config"] = json.dumps(older())
        file["model_weights/first/first/kernel:0"] = [[1.0] * 5] * 7
    assert figures(flopwise.profile(path)) == (35 + 10, 35 + 5 + 10 + 2, 0)
    with open_stored(path) as stored:
        assert [(tensor.name, tensor.array().sum()) for tensor in stored.tensors] == [("first.kernel", 35)]
    net = keras.Sequential([L.Input((4,)), L.Dense(3), L.BatchNormalization()])
    for name in ("net.keras", "net.h5"):
        net.save(tmp_path / name)
        assert figures(flopwise.profile(tmp_path / name)) == figures(flopwise.profile(net)) == (12, 15 + 6, 6)
        with open_stored(tmp_path / name) as stored:
            roles = [(tensor.name.rpartition(".")[2], tensor.shape) for tensor in stored.tensors]
            assert sum(math.prod(shape) for _, shape in roles) == 27


def old_layer(kind: str, name: str, *calls: list[Any], **config: Any) -> dict[str, Any]:
    """A layer of a graph as Keras 2 writes it, with the tensors of each of its calls."""
    return {"class_name": kind, "config": {"name": name, **config}, "name": name, "inbound_nodes": [*calls]}


def old_input(name: str, *shape: int) -> dict[str, Any]:
    return old_layer("InputLayer", name, batch_input_shape=[None, *shape], sparse=False, ragged=False)


def old_graph(*layers: dict[str, Any], inputs: str, outputs: list[list[Any]], name: str = "m") -> dict[str, Any]:
    starts = [[name, 0, 0] for name in inputs.split()]
    config = {"name": name, "layers": [*layers], "input_layers": starts, "output_layers": outputs}
    return {"class_name": "Functional", "config": config}


def old_file(path: Path, config: dict[str, Any], **attributes: Any) -> flopwise.Profile:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.attrs.update({"keras_version": "2.11.0", **attributes, "model_config": json.dumps(config)})
        file.create_group("model_weights")
    return flopwise.profile(path)


SQUARE = {"kernel_size": [3, 3], "padding": "same", "use_bias": False, "groups": 1}
CELL = {"units": 8, "time_major": False, "implementation": 2}
ARGUMENTS: dict[str, tuple[dict[str, Any], tuple[int, ...], int]] = {
    "depthwise": (old_layer("DepthwiseConv2D", "l", [["x", 0, 0, {}]], depth_multiplier=1, **SQUARE), (8, 8, 3), 1728),
    "separable": (old_layer("SeparableConv2D", "l", [["x", 0, 0, {}]], filters=4, **SQUARE), (8, 8, 3), 64 * 39),
    "transposed": (
        old_layer("Conv2DTranspose", "l", [["x", 0, 0, {}]], filters=4, output_padding=None, **SQUARE),
        (8, 8, 3),
        64 * 3 * 36,
    ),
    "steps": (
        old_layer(
            "TimeDistributed",
            "l",
            [["x", 0, 0, {}]],
            layer={"class_name": "DepthwiseConv2D", "config": {"name": "d", **SQUARE}},
        ),
        (5, 4, 4, 3),
        5 * 16 * 27,
    ),
    "LSTM": (old_layer("LSTM", "l", [["x", 0, 0, {}]], **CELL), (5, 3), 5 * 4 * 8 * 11),
    "GRU": (old_layer("GRU", "l", [["x", 0, 0, {}]], reset_after=True, **CELL), (5, 3), 5 * 3 * 8 * 11),
    "CuDNNLSTM": (old_layer("CuDNNLSTM", "l", [["x", 0, 0, {}]], units=8), (5, 3), 5 * 4 * 8 * 11),
    "both ways": (
        old_layer(
            "Bidirectional", "l", [["x", 0, 0, {}]], layer={"class_name": "LSTM", "config": {"name": "c", **CELL}}
        ),
        (5, 3),
        2 * 5 * 4 * 8 * 11,
    ),
    "policy": (
        old_layer(
            "Dense",
            "l",
            [["x", 0, 0, {}]],
            units=8,
            dtype={"class_name": "Policy", "config": {"name": "mixed_float16"}},
        ),
        (3,),
        24,
    ),
    "axis": (
        old_layer("BatchNormalization", "l", [["x", 0, 0, {}]], axis=[3], renorm=False, fused=True),
        (8, 8, 3),
        0,
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_keras_3_dropped(name: str, tmp_path: Path) -> None:
    layer, shape, macs = ARGUMENTS[name]
    net = old_graph(old_input("x", *shape), layer, inputs="x", outputs=[["l", 0, 0]])
    assert old_file(tmp_path / "net.h5", net).total("macs") == macs


def test_arguments_that_ask_for_what_is_gone(tmp_path: Path) -> None:
    lstm = old_layer("LSTM", "l", [["x", 0, 0, {}]], **{**CELL, "time_major": True})
    net = old_graph(old_input("x", 5, 3), lstm, inputs="x", outputs=[["l", 0, 0]])
    with pytest.raises(ModelError, match=r"layer 'l' \(LSTM\) has time_major True, which Keras 3 does not know"):
        old_file(tmp_path / "net.h5", net)
    norm = old_layer("LayerNormalization", "l", [["x", 0, 0, {}]], axis=[1, 2])
    net = old_graph(old_input("x", 5, 3), norm, inputs="x", outputs=[["l", 0, 0]])
    assert old_file(tmp_path / "norm.h5", net).total("params") == 2 * 15


def old_dense(name: str, given: int, units: int, kind: str) -> dict[str, Any]:
    """A model of one product, as layers in a row or as a graph."""
    start, product = old_input(f"{name}_in", given), f"{name}_d"
    if kind == "Functional":
        dense = old_layer("Dense", product, [[f"{name}_in", 0, 0, {}]], units=units, use_bias=False)
        return old_graph(start, dense, inputs=f"{name}_in", outputs=[[product, 0, 0]], name=name)
    layers = [start, old_layer("Dense", product, units=units, use_bias=False)]
    return {"class_name": kind, "config": {"name": name, "layers": layers}}


@pytest.mark.parametrize("kind", ["Sequential", "Functional"])
@pytest.mark.parametrize("first", [0, 1])
def test_models_in_models_of_keras_2(kind: str, first: int, tmp_path: Path) -> None:
    """Their calls are numbered from 1, since call 0 is that of their own inputs."""
    coder = {**old_dense("enc", 8, 4, kind), "name": "enc", "inbound_nodes": [[["in", 0, 0, {}]]]}
    back = {**old_dense("dec", 4, 8, kind), "name": "dec", "inbound_nodes": [[["enc", first, 0, {}]]]}
    net = old_graph(old_input("in", 8), coder, back, inputs="in", outputs=[["dec", first, 0]])
    assert old_file(tmp_path / "coder.h5", net).total("macs") == 64
    calls = [[["in", 0, 0, {}]], [["enc", first, 0, {}]]]
    twice = {**old_dense("enc", 8, 8, kind), "name": "enc", "inbound_nodes": calls}
    net = old_graph(old_input("in", 8), twice, inputs="in", outputs=[["enc", first + 1, 0]])
    assert figures(old_file(tmp_path / "twice.h5", net)) == (128, 64, 0)


def test_calls_of_keras_2_with_several_tensors(tmp_path: Path) -> None:
    x, y = old_input("x", 5, 8), old_input("y", 4, 8)
    attention = old_layer(
        "MultiHeadAttention",
        "a",
        [["x", 0, 0, {"value": ["y", 0, 0], "training": False}]],
        num_heads=2,
        key_dim=4,
        value_dim=4,
        output_shape=None,
        attention_axes=None,
    )
    net = old_graph(x, y, attention, inputs="x y", outputs=[["a", 0, 0]])
    assert old_file(tmp_path / "a.h5", net).total("macs") == (5 + 4 + 4 + 5) * 64 + 2 * 5 * 4 * 8
    coder = old_layer("LSTM", "c", [["x", 0, 0, {}]], return_state=True, **CELL)
    states = [["y", 0, 0, {}], ["c", 0, 1, {}], ["c", 0, 2, {}]]
    net = old_graph(x, y, coder, old_layer("LSTM", "d", states, **CELL), inputs="x y", outputs=[["d", 0, 0]])
    assert old_file(tmp_path / "s.h5", net).total("macs") == 9 * 4 * 8 * 16


def test_the_configuration_of_a_model_is_the_attribute_of_that_name(tmp_path: Path) -> None:
    """Not that of its metrics, losses or regularizers, wherever HDF5 puts them and however long the texts are."""
    h5py = pytest.importorskip("h5py")
    metric = {"class_name": "MeanMetricWrapper", "config": {"name": "accuracy", "fn": "categorical_accuracy"}}
    loss = {"loss": {"class_name": "BinaryCrossentropy", "config": {"name": "model_config"}}, "metrics": [[metric]]}
    training = json.dumps(loss)
    assert old_file(tmp_path / "first.h5", older(), training_config=training).total("macs") == 45
    many = {f"note{i}": training for i in range(30)}  # in a heap of their own
    assert old_file(tmp_path / "dense.h5", older(), **many).total("macs") == 45
    for version in ("earliest", "latest"):
        with h5py.File(tmp_path / "fixed.h5", "w", libver=version) as file:
            for name, text in (("training_config", training), ("model_config", json.dumps(older()))):
                file.attrs.create(name, text.encode(), dtype=f"S{len(text)}")
        assert flopwise.profile(tmp_path / "fixed.h5").total("macs") == 45


def _lstm() -> tuple[Any, nn.Module, tuple[int, ...]]:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return keras.Sequential([L.Input((20, 16)), L.LSTM(32), L.Dense(3)]), Net(), (1, 20, 16)


def _unet() -> tuple[Any, nn.Module, tuple[int, ...]]:
    x = L.Input((16, 16, 3))
    down = L.Conv2D(8, 3, padding="same", activation="relu")(x)
    low = L.Conv2D(16, 3, padding="same", activation="relu")(L.MaxPooling2D()(down))
    up = L.Conv2DTranspose(8, 2, strides=2, padding="same")(low)
    net = keras.Model(x, L.Conv2D(2, 1)(L.Concatenate()([down, up])))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
            self.c, self.d = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 1)

        def forward(self, x: Any) -> Any:
            down = self.a(x).relu()
            low = self.b(nn.functional.max_pool2d(down, 2)).relu()
            return self.d(torch.cat([down, self.c(low)], 1))

    return net, Net(), (1, 3, 16, 16)


def _attention(causal: bool) -> tuple[Any, nn.Module, tuple[int, ...]]:
    x = L.Input((24, 64))
    y = L.LayerNormalization()(x)
    y = L.Add()([x, L.MultiHeadAttention(4, 16)(y, y, use_causal_mask=causal)])
    y = L.Add()([y, L.Dense(64)(L.Dense(256, activation="gelu")(L.LayerNormalization()(y)))])

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.after = nn.LayerNorm(64), nn.LayerNorm(64)
            self.projections = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
            self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

        def forward(self, x: Any) -> Any:
            q, k, v = (p(self.norm(x)).view(1, 24, 4, 16).transpose(1, 2) for p in self.projections[:3])
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            x = x + self.projections[3](y.transpose(1, 2).reshape(1, 24, 64))
            return x + self.down(nn.functional.gelu(self.up(self.after(x))))

    return keras.Model(x, y), Net(), (1, 24, 64)


TWINS: dict[str, Callable[[], tuple[Any, nn.Module, tuple[int, ...]]]] = {
    "LSTM": _lstm,
    "U-Net": _unet,
    "vision transformer": lambda: _attention(False),
    "GPT": lambda: _attention(True),
}


@pytest.mark.parametrize("name", TWINS)
def test_twins(name: str) -> None:
    net, twin, shape = TWINS[name]()
    own, other = flopwise.profile(net), flopwise.profile(twin, shape)
    extra = 4 * 32 if name == "LSTM" else 0  # PyTorch's has two biases where Keras' has one
    assert figures(own)[:2] == (other.total("macs"), (other.total("params") or 0) - extra)
    assert own.to_dict()["coverage"]["exact"]


def test_published_networks() -> None:
    """torchvision's figures of the same network, and Keras' own sum of parameters (keras.io/api/applications)."""
    profile = flopwise.profile("keras.applications:MobileNetV2", (1, 224, 224, 3))
    assert figures(profile) == (300_774_272, 3_504_872, 3_538_984 - 3_504_872)


class Net(keras.Model):  # type: ignore[misc] # Keras is not typed
    def __init__(self) -> None:
        super().__init__()
        self.blocks = [L.Dense(5), L.Dense(6)]
        self.head = L.Dense(3)
        self.drop = L.Dropout(0.5)

    def call(self, x: Any, training: bool = False) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(self.drop(x, training=training))


def test_a_model_of_its_own_class() -> None:
    net = Net()
    with pytest.raises(ModelError, match="Net: has no weights yet; call it once"):
        flopwise.profile(net, (1, 4))
    net(torch.zeros(1, 4))
    profile = flopwise.profile(net, (1, 4))
    assert figures(profile) == (20 + 30 + 18, 25 + 36 + 21, 0)
    modules = [row.node.scope[-1].path for row in profile.rows if row.node.op == "MatMul"]
    assert modules == [net.blocks[0].name, net.blocks[1].name, net.head.name]
    assert flopwise.profile(net, {"x": (2, 4)}).total("macs") == 2 * 68
    trained = flopwise.profile(net, (2, 4), train=True)
    assert trained.total("backward_flops")
    assert net._modules.keys() >= {"head", "drop"}  # it is as it was
    with pytest.raises(InputError, match="Net: states no inputs; give their shapes"):
        flopwise.profile(net)


@pytest.mark.parametrize("kind", ["RandomFlip", "RandomRotation", "RandomContrast", "RandomErasing"])
def test_augmentation_is_for_training(kind: str) -> None:
    layer = getattr(L, kind)(**{} if kind == "RandomFlip" else {"factor": 0.1})
    profile = flopwise.profile(keras.Sequential([keras.Input((16, 16, 3)), layer, L.Conv2D(4, 3)]))
    assert profile.total("flops") == 14 * 14 * 4 * (2 * 27 + 1)


class Picky(L.Layer):  # type: ignore[misc]
    """A layer that fails with three rows."""

    def call(self, x: Any) -> Any:
        if x.shape[0] == 3:
            raise ValueError("not three")
        return x


def test_errors_are_those_of_layers() -> None:
    """Without the arguments of the call, which Keras adds in colours."""
    with pytest.raises(ModelError, match="ValueError: not three") as raised:
        flopwise.profile(keras.Sequential([keras.Input((6,)), Picky()]), batch_size=3)
    assert "Arguments received" not in str(raised.value)
    assert "x1b" not in str(raised.value)
    assert keras.config.is_traceback_filtering_enabled()


def test_open_sizes_are_asked_for() -> None:
    net = keras.Sequential([L.Input((None, None, 3), name="x"), L.Conv2D(2, 3)])
    with pytest.raises(InputError, match=r"sizes of input 'x' are open \(\?x\?x\?x3\); give inputs=\{'x': \(1, 64, 64"):
        flopwise.profile(net)
    with pytest.raises(InputError, match=r"Sequential: .*'y'"):
        flopwise.profile(net, {"y": (1, 5, 5, 3)})
    assert flopwise.profile(net, {"x": (1, 5, 5, 3)}).total("macs") == 9 * 27 * 2


def test_long_loops_are_refused() -> None:
    net = keras.Sequential([L.Input((20_000, 2)), L.LSTM(3)])
    with pytest.raises(ModelError, match="has 20,000 steps, which PyTorch runs one by one; KERAS_BACKEND=jax"):
        flopwise.profile(net)


ON_JAX = """
import json, sys
import flopwise
from tests.keras_models import archive, convolution
open(sys.argv[1], "wb").write(archive(convolution()))
of_file = flopwise.profile(sys.argv[1])
import keras
assert keras.backend.backend() == "jax"
L = keras.layers
net = keras.Sequential([L.Input((20_000, 16)), L.LSTM(32, return_sequences=True), L.Dense(3)])
loop = flopwise.profile(net)
rows = [(row.node.op, row.node.scope[-1].kind) for row in of_file.rows if row.macs]
net = keras.Sequential([L.Input((6,)), L.Dense(4, kernel_initializer="zeros"), L.BatchNormalization(), L.Dense(3)])
if sys.argv[2:]:
    net.save(sys.argv[2])
    for model in (net, sys.argv[2]):
        layers = [one for one in flopwise.sparsity(model).layers if one.row.node.op == "MatMul"]
        assert [one.weights[0].zeros for one in layers] == [24, 0], model
print(json.dumps([[p.total(c) for c in ("macs", "params", "buffers")] for p in (of_file, loop)] + [rows]))
"""


def test_on_jax(tmp_path: Path) -> None:
    """A file counts the same on JAX, where a recurrent layer is a loop however long; its zeros are found."""
    pytest.importorskip("jax")
    root = str(Path(__file__).parents[3])
    surroundings = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "PYTHONPATH": os.pathsep.join([root, *filter(None, sys.path)]),
        "KERAS_HOME": str(tmp_path / "home"),
    }
    saved = [str(tmp_path / "saved.keras")] if importlib.util.find_spec("h5py") else []
    command = [sys.executable, "-c", ON_JAX, str(tmp_path / "net.keras"), *saved]
    ended = subprocess.run(command, env=surroundings, capture_output=True, text=True, cwd=root)
    assert ended.returncode == 0, ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.keras", "saved.keras"][: 1 + len(saved)]
    of_file, loop, rows = json.loads(ended.stdout)
    assert of_file == [8 * 27 * 14 * 14 + 24, 251 + 16, 16]
    assert loop == [20_000 * (4 * 32 * (16 + 32) + 96), 4 * 32 * 49 + 99, 0]
    assert rows == [["lax::conv_general_dilated", "Conv2D"], ["MatMul", "Dense"]]


def test_frozen_and_quantized_weights_are_parameters() -> None:
    """Keras' own count_params() is their sum with statistics; what is frozen or quantized is not trained there."""
    net = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(3)])
    net.get_layer("a").trainable = False
    assert flopwise.profile(net).total("params") == net.count_params() == 51
    net = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4, dtype="int8_from_float32")])
    profile = flopwise.profile(net)
    assert (profile.total("params"), profile.total("buffers")) == (8 * 4 + 4, 4)
    assert profile.total("weight_bytes") == 8 * 4 + 4 * 4 + 4 * 4


def test_quantized_files_are_read(tmp_path: Path) -> None:
    net = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4)])
    net.quantize("int8")
    net.save(tmp_path / "net.keras")
    assert flopwise.profile(tmp_path / "net.keras").total("params") == 36


def test_zeros_are_those_of_the_file(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    net = keras.Sequential([L.Input((6,)), L.Dense(4, kernel_initializer="zeros"), L.BatchNormalization(), L.Dense(3)])
    for name in ("net.keras", "net.h5"):
        net.save(tmp_path / name)
        first, last = (layer for layer in flopwise.sparsity(tmp_path / name).layers if layer.row.node.op == "MatMul")
        assert [layer.weights[0].zeros for layer in (first, last)] == [24, 0], name
