"""One network, many files: the same contraction MACs and parameters whatever the format, each difference explained."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.coreml_models import coremltools  # noqa: E402
from tests.formats.converted import converted  # noqa: E402
from tests.formats.network_sizes import SMALL, Difference, Sizes, differences  # noqa: E402
from tests.formats.networks import NETWORKS, built  # noqa: E402
from tests.formats.twins import flax_twin, keras_twin  # noqa: E402
from torch import nn  # noqa: E402

import flopwise  # noqa: E402


def exported(name: str, folder: Path, sizes: Sizes = SMALL) -> Path:
    """The network as ONNX, by the exporter that folds batch norms."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        module, inputs = built(name, sizes)
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


def in_keras(name: str, folder: Path) -> object:
    """The same as a model of Keras'."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "torch":
        pytest.skip("Keras was imported with another backend")
    return keras_twin(name)


def in_flax(name: str, folder: Path) -> object:
    """The same as a module of flax's."""
    pytest.importorskip("flax")
    return flax_twin(name)


def in_core_ml(name: str, folder: Path, sizes: Sizes = SMALL) -> Path:
    """The same as coremltools makes it of the traced module."""
    if name in ("bert", "gpt"):
        pytest.skip("coremltools 9 knows no new_ones and no &, of which transformers makes its masks")
    ct = coremltools()
    module, inputs = built(name, sizes)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            if name == "vit":  # int() of an array, which a trace has, fails with today's NumPy
                program, types = torch.export.export(module, inputs).run_decompositions({}), None
            else:
                program = torch.jit.trace(module, inputs, strict=False)
                types = [ct.TensorType(shape=tuple(one.shape)) for one in inputs]
            model = ct.convert(program, inputs=types, minimum_deployment_target=ct.target.iOS18)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    model.save(str(folder / f"{name}.mlpackage"))
    return folder / f"{name}.mlpackage"


#: Format -> the file or object of a network. The converters of the first three fold batch norms: each leaves its shift
#: as a bias. The twins keep them.
FORMATS: dict[str, Callable[[str, Path], object]] = {
    "onnx": exported,
    "openvino": intermediate,
    "tflite": converted,
    "keras": in_keras,
    "flax": in_flax,
    "coreml": in_core_ml,
}

DIFFERENCES = differences(SMALL)


def folded(module: nn.Module) -> int:
    """Parameters less than the module's when its batch norms are folded: their scales."""
    return sum(norm.num_features for norm in module.modules() if isinstance(norm, nn.BatchNorm2d))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


@pytest.fixture(scope="module")
def modules() -> dict[str, tuple[int, int, int]]:
    """Network -> MACs and parameters of the module, and the scales of its batch norms."""
    figures = {}
    for name in NETWORKS:
        module, inputs = built(name)
        profile = flopwise.profile(module, inputs=inputs)
        params = sum(parameter.numel() for parameter in module.parameters())
        figures[name] = profile.total("macs"), params, folded(module)
    return figures


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.upstream] * (name in ("resnet", "gpt"))) for name in NETWORKS]
)
def test_one_network(name: str, format: str, folder: Path, modules: dict[str, tuple[int, int, int]]) -> None:
    macs, params, folded = modules[name]
    model = FORMATS[format](name, folder)
    profile = flopwise.profile(*model) if isinstance(model, tuple) else flopwise.profile(model)
    different = DIFFERENCES.get((name, format), Difference(0, ""))
    assert not profile.to_dict()["coverage"]["unknown"]
    assert profile.total("macs") == macs + different.macs
    kept = 0 if format in ("keras", "flax") else folded
    assert profile.total("params") == params - kept + different.params
