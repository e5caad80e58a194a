"""The networks as TensorFlow Lite, by litert-torch 0.10.0; ``python -m tests.formats.converted`` converts them anew,
``python -m tests.formats.converted NAME FILE`` writes one at its full size.

The converter takes half a minute a network and needs 300 MB of packages, so its files are kept, with zeros for weights.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

from tests.formats.network_sizes import FULL, SMALL, Sizes

ARCHIVE = Path(__file__).parent / "data" / "networks.zip"


def converted(name: str, folder: Path) -> Path:
    """The file of a network."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        return Path(archive.extract(f"{name}.tflite", folder))


def _without_elements(data: bytes) -> bytes:
    """A model with zeros in place of all floats but single ones."""
    import tflite

    model, result = tflite.Model.GetRootAsModel(data, 0), bytearray(data)
    for number in range(model.SubgraphsLength()):
        graph = model.Subgraphs(number)
        for place in range(graph.TensorsLength()):
            tensor = graph.Tensors(place)
            elements = model.Buffers(tensor.Buffer()).DataAsNumpy()
            if tensor.Type() == tflite.TensorType.FLOAT32 and not isinstance(elements, int) and elements.size > 4:
                start = elements.__array_interface__["data"][0] - _address(data)
                result[start : start + elements.size] = bytes(elements.size)
    return bytes(result)


def _address(data: bytes) -> int:
    """Where bytes lie in memory."""
    import numpy as np

    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


def convert(name: str, path: Path, sizes: Sizes = SMALL) -> None:
    """Convert a network."""
    import litert_torch
    import torch
    from tests.formats.networks import built

    torch.backends.mha.set_fastpath_enabled(False)  # nobody sees into a fused layer
    module, inputs = built(name, sizes)
    litert_torch.convert(module, inputs).export(str(path))


def write() -> None:
    """Convert all small networks."""
    with (
        zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        tempfile.TemporaryDirectory() as folder,
    ):
        for name in SMALL:
            path = Path(folder) / f"{name}.tflite"
            convert(name, path)
            archive.writestr(zipfile.ZipInfo(path.name), _without_elements(path.read_bytes()), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    convert(sys.argv[1], Path(sys.argv[2]), FULL) if len(sys.argv) == 3 else write()
