"""``flopwise flops``: the class table."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import LIGHT, Run

#: The AlexNet rows that Benanza's documentation prints with --full --human: layer, type, multiply-adds, total.
ALEXNET = """
conv_1 Conv 102 MFlop 203 MFlop
relu_1 Relu 280 kFlop 840 kFlop
lrn_1 LRN 280 kFlop 1.7 MFlop
maxpool_1 Pooling 0 Flops 584 kFlop
conv2_2 Conv 208 MFlop 415 MFlop
relu_2 Relu 173 kFlop 519 kFlop
lrn_2 LRN 173 kFlop 1.0 MFlop
maxpool_2 Pooling 0 Flops 332 kFlop
conv_3 Conv 127 MFlop 255 MFlop
relu_3 Relu 55 kFlop 166 kFlop
conv4_2 Conv 96 MFlop 191 MFlop
relu_4 Relu 55 kFlop 166 kFlop
conv5_2 Conv 64 MFlop 127 MFlop
relu_5 Relu 37 kFlop 111 kFlop
maxpool_3 Pooling 0 Flops 83 kFlop
reshape_1 Reshape 0 Flops 0 Flops
gemm_1 Gemm 38 MFlop 76 MFlop
relu_6 Relu 4.1 kFlop 12 kFlop
dropout_1 Dropout 0 Flops 4.1 kFlop
dropout_1 Dropout 0 Flops 4.1 kFlop
gemm_2 Gemm 17 MFlop 34 MFlop
relu_7 Relu 4.1 kFlop 12 kFlop
dropout_2 Dropout 0 Flops 4.1 kFlop
dropout_2 Dropout 0 Flops 4.1 kFlop
gemm_3 Gemm 4.1 MFlop 8.2 MFlop
softmax_1 Softmax 0 Flops 3.0 kFlop
"""


def test_benanza_alexnet(run: Run) -> None:
    found = json.loads(run("flops", LIGHT / "light_bvlc_alexnet.onnx", "-c", "benanza", "-f", "json").out)
    figures = {k: found[k] for k in found if isinstance(found[k], int)}
    assert figures == {
        "multiply_adds": 655622016,
        "additions": 463184,
        "divisions": 906984,
        "exponentiations": 453992,
        "comparisons": 1623808,
        "general": 0,
        "total": 1314692000,
    }
    assert found["convention"] == {"name": "benanza", "unit": "FLOP"}


@pytest.mark.parametrize(
    ("model", "total"), [("densenet121", 5796255424), ("inception_v1", 2888205872), ("resnet50", 8236852640)]
)
def test_benanza_totals(run: Run, model: str, total: int) -> None:
    found = json.loads(run("flops", LIGHT / f"light_{model}.onnx", "-c", "benanza", "-f", "json").out)
    assert found["total"] == total


def test_benanza_alexnet_rows(run: Run) -> None:
    out = run("flops", LIGHT / "light_bvlc_alexnet.onnx", "-c", "benanza", "--full", "--human", "-f", "markdown").out
    rows = [
        [cell.strip().replace("\\", "") for cell in line.split("|")[1:-1]] for line in out.splitlines() if "|" in line
    ]
    body = [row for row in rows if len(row) == 9][2:-1]
    assert [" ".join([*row[:3], row[-1]]) for row in body] == ALEXNET.strip().splitlines()


def test_own_classes_add_up(run: Run, tiny: object) -> None:
    found = json.loads(run("flops", tiny, "-f", "json", "--full").out)
    classes = [k for k in found["layers"][0] if k not in ("name", "type", "total")]
    for key in [*classes, "total"]:
        assert found[key] == sum(row[key] for row in found["layers"])
    assert found["total"] == 2 * found["mac"] + sum(found[k] for k in classes if k not in ("mac", "bit"))


@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "latex"])
@pytest.mark.parametrize("more", [[], ["--full"], ["--human"], ["--full", "--no-header"]])
def test_every_format(run: Run, tiny: object, format_: str, more: list[str]) -> None:
    code, out, err = run("flops", tiny, "-f", format_, *more)
    assert (code, err) == (0, "")
    assert "mac" in out or "--no-header" in more
