"""Published Caffe networks, written out from their papers' tables under the layer names of the published files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

#: A blob's name.
Blob = str


class Writer:
    """A prototxt in the making: each method adds a layer and returns the name of its result."""

    def __init__(self, name: str) -> None:
        self.lines = [f'name: "{name}"']

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def layer(self, kind: str, name: str, *bottoms: Blob, tops: tuple[Blob, ...] = (), more: str = "") -> Blob:
        results = tops or (name,)
        ends = [*(f'bottom: "{b}"' for b in bottoms), *(f'top: "{t}"' for t in results), more]
        self.lines.append(f'layer {{ name: "{name}" type: "{kind}" {" ".join(filter(None, ends))} }}')
        return results[0]

    def input(self, *dims: int) -> Blob:
        return self.layer("Input", "data", more=f"input_param {{ shape {{ dim: {list(dims)} }} }}")

    def old_input(self, *dims: int) -> Blob:
        """As files from before the Input layer say it."""
        self.lines += ['input: "data"', *(f"input_dim: {dim}" for dim in dims)]
        return "data"

    def data(self, *tops: Blob, train: int, test: int) -> Blob:
        """One layer for each phase, whose shapes only the database knows."""
        for phase, batch in (("TRAIN", train), ("TEST", test)):
            more = f"include {{ phase: {phase} }} data_param {{ batch_size: {batch} }}"
            self.layer("Data", tops[0], tops=tops, more=more)
        return tops[0]

    def conv(self, name: str, x: Blob, filters: int, kernel: int, *, more: str = "", weights: str = "") -> Blob:
        options = f"convolution_param {{ num_output: {filters} kernel_size: {kernel} {more} }}"
        return self.layer("Convolution", name, x, more=f"{weights} {options}")

    def product(self, name: str, x: Blob, outputs: int, weights: str = "") -> Blob:
        return self.layer("InnerProduct", name, x, more=f"{weights} inner_product_param {{ num_output: {outputs} }}")

    def pool(self, name: str, x: Blob, kernel: int, stride: int, kind: str = "MAX", pad: int = 0) -> Blob:
        options = f"pool: {kind} kernel_size: {kernel} stride: {stride} pad: {pad}"
        return self.layer("Pooling", name, x, more=f"pooling_param {{ {options} }}")

    def norm(self, name: str, x: Blob) -> Blob:
        return self.layer("LRN", name, x, more="lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }")

    def in_place(self, kind: str, name: str, x: Blob, more: str = "") -> Blob:
        return self.layer(kind, name, x, tops=(x,), more=more)

    def statistics(self, norm: str, scale: str, x: Blob) -> Blob:
        """Batch normalisation is two layers in Caffe."""
        self.in_place("BatchNorm", norm, x, "batch_norm_param { use_global_stats: true }")
        return self.in_place("Scale", scale, x, "scale_param { bias_term: true }")


def _alexnet(name: str, norm_first: bool) -> str:
    """Krizhevsky et al., 2012; the CaffeNet pools before it normalises."""
    w = Writer(name)
    x = w.input(10, 3, 227, 227)
    for number, (filters, kernel, more) in enumerate(
        ((96, 11, "stride: 4"), (256, 5, "pad: 2 group: 2"), (384, 3, "pad: 1")), 1
    ):
        x = w.conv(f"conv{number}", x, filters, kernel, more=more)
        w.in_place("ReLU", f"relu{number}", x)
        if number < 3:
            steps: list[Callable[[Blob], Blob]] = [
                lambda y, n=number: w.norm(f"norm{n}", y),  # type: ignore[misc]
                lambda y, n=number: w.pool(f"pool{n}", y, 3, 2),  # type: ignore[misc]
            ]
            for step in steps if norm_first else reversed(steps):
                x = step(x)
    for number, filters in ((4, 384), (5, 256)):
        x = w.conv(f"conv{number}", x, filters, 3, more="pad: 1 group: 2")
        w.in_place("ReLU", f"relu{number}", x)
    x = w.pool("pool5", x, 3, 2)
    for number in (6, 7):
        x = w.product(f"fc{number}", x, 4096)
        w.in_place("ReLU", f"relu{number}", x)
        w.in_place("Dropout", f"drop{number}", x)
    w.layer("Softmax", "prob", w.product("fc8", x, 1000))
    return w.text()


#: Inception module -> filters of 1x1, reduced 3x3, 3x3, reduced 5x5, 5x5, projection (Szegedy et al., 2014, table 1).
_INCEPTION = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def _googlenet(training: bool) -> str:
    w = Writer("GoogLeNet")

    def conv(scope: str, label: str, x: Blob, filters: int, kernel: int, more: str = "") -> Blob:
        x = w.conv(f"{scope}/{label}", x, filters, kernel, more=more)
        return w.in_place("ReLU", f"{scope}/relu_{label.removesuffix('_s2')}", x)

    def inception(name: str, x: Blob) -> Blob:
        one, three_in, three, five_in, five, projection = _INCEPTION[name]
        scope = f"inception_{name}"
        first = conv(scope, "1x1", x, one, 1)
        second = conv(scope, "3x3", conv(scope, "3x3_reduce", x, three_in, 1), three, 3, "pad: 1")
        third = conv(scope, "5x5", conv(scope, "5x5_reduce", x, five_in, 1), five, 5, "pad: 2")
        fourth = conv(scope, "pool_proj", w.pool(f"{scope}/pool", x, 3, 1, pad=1), projection, 1)
        return w.layer("Concat", f"{scope}/output", first, second, third, fourth)

    def loss(scope: str, top: str, x: Blob) -> None:
        w.layer("SoftmaxWithLoss", f"{scope}/{top}", x, "label")
        for k in (1, 5):
            more = f"include {{ phase: TEST }} accuracy_param {{ top_k: {k} }}"
            w.layer("Accuracy", f"{scope}/top-{k}", x, "label", more=more)

    def auxiliary(scope: str, x: Blob) -> None:
        x = conv(scope, "conv", w.pool(f"{scope}/ave_pool", x, 5, 3, "AVE"), 128, 1)
        x = w.in_place("ReLU", f"{scope}/relu_fc", w.product(f"{scope}/fc", x, 1024))
        w.in_place("Dropout", f"{scope}/drop_fc", x)
        loss(scope, "loss", w.product(f"{scope}/classifier", x, 1000))

    x = w.data("data", "label", train=32, test=50) if training else w.input(10, 3, 224, 224)
    x = w.norm("pool1/norm1", w.pool("pool1/3x3_s2", conv("conv1", "7x7_s2", x, 64, 7, "pad: 3 stride: 2"), 3, 2))
    x = conv("conv2", "3x3", conv("conv2", "3x3_reduce", x, 64, 1), 192, 3, "pad: 1")
    x = w.pool("pool2/3x3_s2", w.norm("conv2/norm2", x), 3, 2)
    for name in _INCEPTION:
        x = inception(name, x)
        if training and name in ("4a", "4d"):
            auxiliary("loss1" if name == "4a" else "loss2", x)
        if name in ("3b", "4e"):
            x = w.pool(f"pool{int(name[0])}/3x3_s2", x, 3, 2)
    x = w.in_place("Dropout", "pool5/drop_7x7_s1", w.pool("pool5/7x7_s1", x, 7, 1, "AVE"))
    x = w.product("loss3/classifier", x, 1000)
    if training:
        loss("loss3", "loss3", x)
    else:
        w.layer("Softmax", "prob", x)
    return w.text()


def _digits(w: Writer, x: Blob, end: str = "", shared: bool = False) -> Blob:
    """LeNet's layers for digits of 28x28; siblings share their weights by name."""

    def weights(layer: str) -> str:
        return f'param {{ name: "{layer}_w" }} param {{ name: "{layer}_b" }}' if shared else ""

    x = w.pool(f"pool1{end}", w.conv(f"conv1{end}", x, 20, 5, weights=weights("conv1")), 2, 2)
    x = w.pool(f"pool2{end}", w.conv(f"conv2{end}", x, 50, 5, weights=weights("conv2")), 2, 2)
    x = w.in_place("ReLU", f"relu1{end}", w.product(f"ip1{end}", x, 500, weights("ip1")))
    return w.product(f"ip2{end}", x, 10, weights("ip2"))


def _lenet() -> str:
    w = Writer("LeNet")
    w.layer("Softmax", "prob", _digits(w, w.input(64, 1, 28, 28)))
    return w.text()


def _siamese() -> str:
    w = Writer("mnist_siamese")
    w.product("feat", _digits(w, w.input(10000, 1, 28, 28)), 2)
    return w.text()


def _siamese_training() -> str:
    w = Writer("mnist_siamese_train_test")
    pair = w.data("pair_data", "sim", train=64, test=100)
    w.layer("Slice", "slice_pair", pair, tops=("data", "data_p"), more="slice_param { slice_dim: 1 slice_point: 1 }")
    shared = 'param { name: "feat_w" } param { name: "feat_b" }'
    ends = [w.product(f"feat{end}", _digits(w, f"data{end}", end, shared=True), 2, shared) for end in ("", "_p")]
    w.layer("ContrastiveLoss", "loss", *ends, "sim", more="contrastive_loss_param { margin: 1 }")
    return w.text()


def _resnet50() -> str:
    """He et al., 2015; in the published file the first convolution of a stage strides, and conv1 has a bias."""
    w = Writer("ResNet-50")

    def conv(block: str, branch: str, x: Blob, filters: int, kernel: int, stride: int, active: bool) -> Blob:
        name = f"{block}_branch{branch}"
        more = f"pad: {kernel // 2} stride: {stride} bias_term: false"
        x = w.conv(f"res{name}", x, filters, kernel, more=more)
        w.statistics(f"bn{name}", f"scale{name}", x)
        return w.in_place("ReLU", f"res{name}_relu", x) if active else x

    x = w.conv("conv1", w.old_input(1, 3, 224, 224), 64, 7, more="pad: 3 stride: 2")
    w.statistics("bn_conv1", "scale_conv1", x)
    x = w.pool("pool1", w.in_place("ReLU", "conv1_relu", x), 3, 2)
    for stage, blocks in ((2, 3), (3, 4), (4, 6), (5, 3)):
        filters = 16 * 2**stage
        for block in range(blocks):
            name = f"{stage}{'abcdef'[block]}"
            stride = 2 if stage > 2 and block == 0 else 1
            short = conv(name, "1", x, 4 * filters, 1, stride, False) if block == 0 else x
            y = conv(name, "2a", x, filters, 1, stride, True)
            y = conv(name, "2c", conv(name, "2b", y, filters, 3, 1, True), 4 * filters, 1, 1, False)
            x = w.in_place("ReLU", f"res{name}_relu", w.layer("Eltwise", f"res{name}", short, y))
    w.layer("Softmax", "prob", w.product("fc1000", w.pool("pool5", x, 7, 1, "AVE"), 1000))
    return w.text()


def _mobilenet() -> str:
    """Howard et al., 2017, table 1; the classifier is a convolution."""
    w = Writer("MobileNet")

    def conv(name: str, x: Blob, filters: int, kernel: int, more: str) -> Blob:
        x = w.conv(name, x, filters, kernel, more=f"bias_term: false {more}")
        return w.in_place("ReLU", name.replace("conv", "relu"), w.statistics(f"{name}/bn", f"{name}/scale", x))

    x = conv("conv1", w.old_input(1, 3, 224, 224), 32, 3, "pad: 1 stride: 2")
    channels = 32
    stages = {"2_1": 64, "2_2": 128, "3_1": 128, "3_2": 256, "4_1": 256, "4_2": 512}
    stages |= {f"5_{number}": 512 for number in range(1, 6)} | {"5_6": 1024, "6": 1024}
    for name, filters in stages.items():
        stride = 2 if name in ("2_2", "3_2", "4_2", "5_6") else 1
        x = conv(f"conv{name}/dw", x, channels, 3, f"pad: 1 group: {channels} stride: {stride}")
        x = conv(f"conv{name}/sep", x, filters, 1, "")
        channels = filters
    pooled = w.layer("Pooling", "pool6", x, more="pooling_param { pool: AVE global_pooling: true }")
    w.layer("Softmax", "prob", w.conv("fc7", pooled, 1000, 1))
    return w.text()


#: Name of the network -> how its prototxt is written.
NETWORKS: dict[str, Callable[[], str]] = {
    "bvlc_alexnet": lambda: _alexnet("AlexNet", norm_first=True),
    "bvlc_reference_caffenet": lambda: _alexnet("CaffeNet", norm_first=False),
    "bvlc_googlenet": lambda: _googlenet(training=False),
    "bvlc_googlenet_train_val": lambda: _googlenet(training=True),
    "lenet": _lenet,
    "mnist_siamese": _siamese,
    "mnist_siamese_train_test": _siamese_training,
    "resnet50": _resnet50,
    "mobilenet_v1": _mobilenet,
}


@cache
def prototxt(name: str) -> str:
    """The text of a network's prototxt."""
    return NETWORKS[name]()


def written(folder: Path, name: str) -> Path:
    """The prototxt of a network as a file in the folder."""
    path = folder / f"{name}.prototxt"
    path.write_text(prototxt(name))
    return path
