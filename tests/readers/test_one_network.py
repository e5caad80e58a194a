"""One network, many files: the same contraction MACs and parameters whatever the format, each difference explained."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.readers.networks import NETWORKS, built  # noqa: E402
from torch import nn  # noqa: E402

import flopwise  # noqa: E402


class Difference(NamedTuple):
    """What a converter does to the parameters of a network."""

    params: int
    why: str


def exported(name: str, folder: Path) -> Path:
    """The network as ONNX, by the exporter that folds batch norms."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        module, inputs = built(name)
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # nobody sees into a fused layer
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                torch.onnx.export(module, inputs, path, dynamo=False, opset_version=17)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
    return path


def intermediate(name: str, folder: Path) -> Path:
    """The same as OpenVINO makes it of that."""
    openvino = pytest.importorskip("openvino")
    path = folder / f"{name}.xml"
    openvino.save_model(openvino.convert_model(exported(name, folder)), path)
    return path


#: Format -> the file of a network.
FORMATS: dict[str, Callable[[str, Path], Path]] = {"onnx": exported, "openvino": intermediate}

#: (network, format) -> what its converter changes. Batch norms are folded everywhere: each leaves its shift as a bias.
DIFFERENCES: dict[tuple[str, str], Difference] = {
    ("bert", "openvino"): Difference(-(512 - 12) * 32, "rows of the position table beyond the sequence are cut off"),
    ("lstm", "openvino"): Difference(-2 * 2 * 4 * 24, "the two biases of each gate are stored as their sum"),
    ("gpt", "openvino"): Difference(-(32 - 12) * 32, "the same"),
}


def _folded(module: nn.Module) -> int:
    """Parameters less than the module's when its batch norms are folded: their scales."""
    return sum(norm.num_features for norm in module.modules() if isinstance(norm, nn.BatchNorm2d))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


@pytest.fixture(scope="module")
def modules() -> dict[str, tuple[int, int]]:
    """Network -> MACs and parameters of the module."""
    made = {}
    for name in NETWORKS:
        module, inputs = built(name)
        profile = flopwise.profile(module, inputs=inputs)
        params = sum(parameter.numel() for parameter in module.parameters())
        made[name] = profile.total("macs"), params - _folded(module)
    return made


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", NETWORKS)
def test_one_network(name: str, format: str, folder: Path, modules: dict[str, tuple[int, int]]) -> None:
    macs, params = modules[name]
    profile = flopwise.profile(FORMATS[format](name, folder))
    assert not profile.to_dict()["coverage"]["unknown"]
    assert profile.total("macs") == macs
    assert profile.total("params") - params == DIFFERENCES.get((name, format), Difference(0, "")).params
