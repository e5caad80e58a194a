"""Whole models: the light models of the onnx package, beside what Benanza and onnx-tool print for them."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest

import flopwise
from flopwise.conventions import CONVENTIONS

if TYPE_CHECKING:
    from flopwise import Profile

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

#: Benanza's totals per class: multiply-adds, additions, divisions, exponentiations, comparisons, general; and overall.
BENANZA = {
    "bvlc_alexnet": ((655622016, 463184, 906984, 453992, 1623808, 0), 1314692000),
    "densenet121": ((2865496576, 32037376, 15667456, 0, 17557440, 0), 5796255424),
    "inception_v1": ((1435344384, 826576, 1549800, 775400, 14365328, 0), 2888205872),
    "resnet50": ((4098792960, 16735696, 11114984, 1000, 11415040, 0), 8236852640),
}

#: Benanza's page "Layer Information": ``flopsinfo --full --human`` of AlexNet.
ALEXNET = """
conv_1 | Conv | 102 MFlop | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 203 MFlop
relu_1 | Relu | 280 kFlop | 0 Flops | 0 Flops | 0 Flops | 280 kFlop | 0 Flops | 840 kFlop
lrn_1 | LRN | 280 kFlop | 280 kFlop | 560 kFlop | 280 kFlop | 0 Flops | 0 Flops | 1.7 MFlop
maxpool_1 | Pooling | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 584 kFlop | 0 Flops | 584 kFlop
conv2_2 | Conv | 208 MFlop | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 415 MFlop
relu_2 | Relu | 173 kFlop | 0 Flops | 0 Flops | 0 Flops | 173 kFlop | 0 Flops | 519 kFlop
lrn_2 | LRN | 173 kFlop | 173 kFlop | 346 kFlop | 173 kFlop | 0 Flops | 0 Flops | 1.0 MFlop
maxpool_2 | Pooling | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 332 kFlop | 0 Flops | 332 kFlop
conv_3 | Conv | 127 MFlop | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 255 MFlop
relu_3 | Relu | 55 kFlop | 0 Flops | 0 Flops | 0 Flops | 55 kFlop | 0 Flops | 166 kFlop
conv4_2 | Conv | 96 MFlop | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 191 MFlop
relu_4 | Relu | 55 kFlop | 0 Flops | 0 Flops | 0 Flops | 55 kFlop | 0 Flops | 166 kFlop
conv5_2 | Conv | 64 MFlop | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 127 MFlop
relu_5 | Relu | 37 kFlop | 0 Flops | 0 Flops | 0 Flops | 37 kFlop | 0 Flops | 111 kFlop
maxpool_3 | Pooling | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 83 kFlop | 0 Flops | 83 kFlop
reshape_1 | Reshape | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 0 Flops
gemm_1 | Gemm | 38 MFlop | 4.1 kFlop | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 76 MFlop
relu_6 | Relu | 4.1 kFlop | 0 Flops | 0 Flops | 0 Flops | 4.1 kFlop | 0 Flops | 12 kFlop
dropout_1 | Dropout | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 4.1 kFlop | 0 Flops | 4.1 kFlop
dropout_1 | Dropout | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 4.1 kFlop | 0 Flops | 4.1 kFlop
gemm_2 | Gemm | 17 MFlop | 4.1 kFlop | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 34 MFlop
relu_7 | Relu | 4.1 kFlop | 0 Flops | 0 Flops | 0 Flops | 4.1 kFlop | 0 Flops | 12 kFlop
dropout_2 | Dropout | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 4.1 kFlop | 0 Flops | 4.1 kFlop
dropout_2 | Dropout | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 4.1 kFlop | 0 Flops | 4.1 kFlop
gemm_3 | Gemm | 4.1 MFlop | 1.0 kFlop | 0 Flops | 0 Flops | 0 Flops | 0 Flops | 8.2 MFlop
softmax_1 | Softmax | 0 Flops | 1.0 kFlop | 1.0 kFlop | 1.0 kFlop | 0 Flops | 0 Flops | 3.0 kFlop
"""

#: The same rows to the last digit: the classes that are not zero, in order, and the total.
ALEXNET_EXACT = [
    ((101616768,), 203233536),
    ((279936, 279936), 839808),
    ((279936, 279936, 559872, 279936), 1679616),
    ((584064,), 584064),
    ((207667200,), 415334400),
    ((173056, 173056), 519168),
    ((173056, 173056, 346112, 173056), 1038336),
    ((331776,), 331776),
    ((127401984,), 254803968),
    ((55296, 55296), 165888),
    ((95551488,), 191102976),
    ((55296, 55296), 165888),
    ((63700992,), 127401984),
    ((36864, 36864), 110592),
    ((82944,), 82944),
    ((), 0),
    ((37748736, 4096), 75501568),
    ((4096, 4096), 12288),
    ((4096,), 4096),
    ((4096,), 4096),
    ((16777216, 4096), 33558528),
    ((4096, 4096), 12288),
    ((4096,), 4096),
    ((4096,), 4096),
    ((4096000, 1000), 8193000),
    ((1000, 1000, 1000), 3000),
]


def path(model: str) -> str:
    return str(LIGHT / f"light_{model}.onnx")


def unnamed(model: str) -> onnx.ModelProto:
    """The model as it was when Benanza's page was written: without names of nodes."""
    proto = onnx.load(path(model))
    for one in proto.graph.node:
        one.ClearField("name")
    return proto


@pytest.fixture(scope="module")
def alexnet() -> Profile:
    return flopwise.profile(unnamed("bvlc_alexnet"), convention="benanza")


@pytest.mark.parametrize("model", BENANZA)
def test_benanza_totals(model: str) -> None:
    p = flopwise.profile(path(model), convention="benanza")
    classes = [p.sum.view.dot(merged) for merged in p.convention.display.classes.values()]
    assert (tuple(classes), p.total("count")) == BENANZA[model]
    assert p.exact


def test_benanza_rows_as_people_read_them(alexnet: Profile) -> None:
    benanza = CONVENTIONS["benanza"]
    assert benanza.display.human is not None
    found = []
    for row in alexnet.rows:
        assert row.view is not None
        assert row.count is not None
        classes = [row.view.dot(merged) for merged in benanza.display.classes.values()]
        found.append(" | ".join([row.name, row.type, *map(benanza.display.human, [*classes, row.count])]))
    assert found == ALEXNET.strip().splitlines()


def test_benanza_rows_exactly(alexnet: Profile) -> None:
    found = []
    for row in alexnet.rows:
        assert row.view is not None
        classes = (row.view.dot(merged) for merged in alexnet.convention.display.classes.values())
        found.append((tuple(n for n in classes if n), row.count))
    assert found == ALEXNET_EXACT


def test_repeated_entries_count_once_for_everything_else(alexnet: Profile) -> None:
    once = flopwise.profile(path("bvlc_alexnet"))
    assert alexnet.total("macs") == once.total("macs") == 654560384
    assert alexnet.total("params") == once.total("params") == 60965224


@pytest.mark.parametrize("file", sorted(LIGHT.glob("*.onnx")), ids=lambda f: f.stem)
def test_onnx_tool_per_operator(file: Path) -> None:
    tool = pytest.importorskip("onnx_tool")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = tool.Model(str(file), {"verbose": False}).graph
        graph.graph_reorder_nodes()
        graph.shape_infer(None)
        graph.profile(exclude_ops=tool.NoMacsOps)
    expected: Counter[str] = Counter()
    for one in graph.nodemap.values():
        if one.op_type not in tool.NoMacsOps:
            expected[one.op_type] += int(one.macs[0])
    p = flopwise.profile(str(file), convention="onnx-tool")
    assert {s.name: s.count for s in p.by("op")} == expected
    assert p.total("count") == int(graph.macs[0])


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("bvlc_alexnet", 675839112),
        ("densenet121", 3369419240),
        ("resnet50", 4450789512),
        ("vgg19", 19667941512),
    ],
)
def test_onnx_tool_totals(model: str, count: int) -> None:
    assert flopwise.profile(path(model), convention="onnx-tool").total("count") == count


#: Conventions whose tools take a single image, whatever the batch.
OF_ONE_IMAGE = ("caffe", "convnet-burden", "mmcv")

#: The convention whose tool divides one part of its count by the batch, and not the other.
OF_BOTH = "ptflops"


@functools.lru_cache(maxsize=2)
def graph(model: str, batch: int) -> flopwise.Graph:
    """The model with a batch, which is read once for all conventions."""
    return flopwise.read(path(model), batch_size=batch)


@pytest.mark.parametrize("convention", [name for name in CONVENTIONS if name != OF_BOTH])
@pytest.mark.parametrize("model", ["densenet121", "squeezenet"])
def test_doubling_the_batch_doubles_the_count(convention: str, model: str) -> None:
    """Up to what is computed once for all images: folding normalisations, and Benanza's views of weights."""
    once = ("BatchNormalization", "Unsqueeze")
    counts = []
    for batch in (1, 2):
        rows = flopwise.profile(graph(model, batch), convention=convention).rows
        counts.append(sum(row.count or 0 for row in rows if row.node.op not in once))
    assert counts[1] == (1 if convention in OF_ONE_IMAGE else 2) * counts[0]
