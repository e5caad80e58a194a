"""Ten networks at their full sizes in seven forms: python benchmarks/one_network.py [NETWORK ...] [--tflite FOLDER]

PyTorch, ONNX (torch.onnx), OpenVINO (of that), Core ML (as far as coremltools converts it), Keras and flax (the twins
of the tests), and TensorFlow Lite: files in FOLDER, each by ``python -m tests.formats.converted NAME
FOLDER/NAME.tflite`` in an environment with litert-torch.
Prints a row for each network, MACs and parameters, and what is different in a format and why. The status is 1 where a
figure differs from what the tests explain (tests/formats/network_sizes.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["KERAS_BACKEND"] = "torch"

import pytest
from tests.formats.network_sizes import FULL, Difference, differences
from tests.formats.networks import built
from tests.formats.test_one_network import exported, folded, in_core_ml
from tests.formats.twins import flax_twin, keras_twin

import flopwise


def _forms(name: str, folder: Path, tflite: Path | None) -> dict[str, object]:
    """Format -> the file or object of a network."""
    import openvino

    onnx = exported(name, folder, FULL)
    openvino.save_model(openvino.convert_model(onnx), folder / f"{name}.xml")
    forms: dict[str, object] = {"onnx": onnx, "openvino": folder / f"{name}.xml"}
    if tflite is not None and (tflite / f"{name}.tflite").exists():
        forms["tflite"] = tflite / f"{name}.tflite"
    with contextlib.suppress(pytest.skip.Exception):
        forms["coreml"] = in_core_ml(name, folder, FULL)
    return forms | {"keras": keras_twin(name, FULL), "flax": flax_twin(name, FULL)}


def _compared(name: str, folder: Path, tflite: Path | None) -> bool:
    """True where each form has the figures of the module, but for what is explained."""
    module, inputs = built(name, FULL)
    macs = flopwise.profile(module, inputs=inputs).total("macs")
    params, norms = sum(parameter.numel() for parameter in module.parameters()), folded(module)
    print(f"{name:14} {macs:15,} MACs {params:12,} params; scales of batch norms {norms:,}", flush=True)
    del module
    right = True
    for format, model in _forms(name, folder, tflite).items():
        profile = flopwise.profile(*model) if isinstance(model, tuple) else flopwise.profile(model)
        different = differences(FULL).get((name, format), Difference(0, ""))
        kept = 0 if format in ("keras", "flax") else norms
        figures = profile.total("macs"), profile.total("params")
        same = figures == (macs + different.macs, params - kept + different.params) and not profile.unknown
        more = f"  {different.macs:+,} MACs, {different.params:+,} params: {different.why}" if different.why else ""
        print(
            f"  {format:9} {'as explained' if same else f'DIFFERS: {figures}, unknown {profile.unknown}'}{more}",
            flush=True,
        )
        right &= same
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(FULL)} (all)")
    parser.add_argument("--tflite", type=Path, metavar="FOLDER", help="with the networks as TensorFlow Lite")
    chosen = parser.parse_args()
    right = True
    for name in chosen.networks or FULL:
        with tempfile.TemporaryDirectory() as folder:
            right &= _compared(name, Path(folder), chosen.tflite)
    return not right


if __name__ == "__main__":
    sys.exit(main())
