"""Published networks layer by layer: shapes, stored blobs and multiply-accumulates at batch 1."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.caffe_networks import NETWORKS, written

import flopwise
from flopwise.graph import Shape

LAYERS = Path(__file__).parents[2] / "recorded" / "caffe_layers"
PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "models" / "caffe"

#: Shapes of databases, which the files do not give.
DATA: dict[str, dict[str, Shape]] = {
    "bvlc_googlenet_train_val": {"data": (1, 3, 224, 224), "label": (1,)},
    "mnist_siamese_train_test": {"pair_data": (1, 2, 28, 28), "sim": (1,)},
}

#: Weights, bias, statistics and affine parameters together, and multiply-accumulates.
TOTALS = {
    "bvlc_alexnet": (60_965_224, 724_406_816),
    "bvlc_reference_caffenet": (60_965_224, 724_406_816),
    "bvlc_googlenet": (6_998_552, 1_582_671_872),
    "bvlc_googlenet_train_val": (13_378_280, 1_591_044_096),
    "lenet": (431_080, 2_293_000),
    "mnist_siamese": (431_102, 2_293_020),
    "mnist_siamese_train_test": (431_102, 4_586_040),
    "resnet50": (25_610_269, 3_857_973_248),
    "mobilenet_v1": (4_253_891, 568_740_352),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_network(tmp_path: Path, name: str) -> None:
    _compared(written(tmp_path, name))
    if (published := PUBLISHED / f"{name}.prototxt").exists():
        _compared(published)


def _compared(path: Path) -> None:
    """The network's layers against the recorded ones."""
    profile = flopwise.profile(str(path), inputs=DATA.get(path.stem), batch_size=1)
    rows = {row.name: row for row in profile.rows}
    with (LAYERS / f"{path.stem}.csv").open() as file:
        expected = list(csv.DictReader(file))
    for layer in expected:
        if not json.loads(layer["in_shapes"]):
            continue
        row = rows.pop(layer["name"])
        assert row.node.origin == layer["type"]
        assert [list(t.dims) for t in row.node.known_outputs] == json.loads(layer["out_shapes"]), row.name
        assert row.params + row.buffers == int(layer["params"]), row.name
        assert row.macs == int(layer["macs"]), row.name
    assert not {name for name, row in rows.items() if row.node.known_inputs}
    assert (profile.total("params") + profile.total("buffers"), profile.total("macs")) == TOTALS[path.stem]
    assert not profile.unknown
    assert profile.exact or any(row.node.op == "caffe::Accuracy" for row in profile.rows)
