"""Files that want code to run, or memory to be taken: one line, whatever they say."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras")

from tests.keras_models import archive, convolution, layer, sequential  # noqa: E402

import flopwise  # noqa: E402
from flopwise.errors import ModelError, UntrustedError  # noqa: E402

if keras.backend.backend() != "torch":
    pytest.skip("Keras was imported with another backend", allow_module_level=True)

MARSHALLED = {"class_name": "__lambda__", "config": {"code": "4wEAAAA=", "defaults": None, "closure": None}}


def _of(module: str | None, name: str, **config: Any) -> dict[str, Any]:
    return {"module": module, "class_name": name, "config": config, "registered_name": None}


def _function(module: str, name: str) -> dict[str, Any]:
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


UNTRUSTED: dict[str, tuple[dict[str, Any], str]] = {
    "lambda": (layer("Lambda", "l", function=MARSHALLED), "layer 'l' holds code, which is not run unasked"),
    "old lambda": ({"class_name": "Lambda", "config": {"name": "l", "function": ["4wEA", None, None]}}, "holds code"),
    "lambda inside": (layer("TimeDistributed", "t", layer=MARSHALLED), "holds code"),
    "system": (_of("os", "system", command="true"), "which is none of Keras'"),
    "subprocess": (_of("subprocess", "Popen", args="true"), "which is none of Keras'"),
    "download": (_of("keras.utils", "get_file", fname="x", origin="http://127.0.0.1:9"), "which is none of Keras'"),
    "private": (_of("keras.src.utils.file_utils", "get_file", fname="x"), "which is none of Keras'"),
    "function": (layer("Dense", "d", units=3, activation=_function("os", "system")), "function 'system' is none"),
    "load": (
        layer("Dense", "d", units=3, activation=_function("keras.saving", "load_model")),
        "function 'load_model' is none",
    ),
    "unsafe": (_of("keras.config", "enable_unsafe_deserialization"), "which is none of Keras'"),
    "saved model": (layer("TFSMLayer", "t", filepath="x"), "holds code"),
    "pickle": (layer("TorchModuleWrapper", "t", module="x"), "holds code"),
    "file": (layer("StringLookup", "s", vocabulary="/etc/passwd"), "layer 's' reads the file '/etc/passwd'"),
    "merges": (layer("Tokenizer", "t", merges="merges.txt"), "layer 't' reads the file 'merges.txt'"),
    "proto": (layer("Tokenizer", "t", proto="words.spm"), "layer 't' reads the file 'words.spm'"),
    "own class": (_of(None, "Mine", units=3), "give the model as an object, register the class, or --trust-code"),
}


@pytest.mark.parametrize("case", UNTRUSTED)
def test_code_is_not_run(case: str, tmp_path: Path) -> None:
    part, words = UNTRUSTED[case]
    path = tmp_path / "net.keras"
    for config in (sequential(part), part):
        path.write_bytes(archive(config))
        with pytest.raises(UntrustedError) as raised:
            flopwise.profile(path)
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)


def _around(part: dict[str, Any]) -> dict[str, Any]:
    return layer("TimeDistributed", "steps", layer=part)


def _nested(depth: int) -> str:
    return '{"class_name": "Sequential", "config": ' + '{"layers": [' * depth + "]}" * depth + "}"


_LSTM = _of("keras.layers", "LSTMCell", units=2)

DAMAGED: dict[str, tuple[bytes, str]] = {
    "sizes": (archive(sequential(layer("Dense", "d", units=2**63))), "holds the number 9223372036854775808"),
    "elements": (archive(sequential(*[layer("UpSampling2D", f"u{i}", size=[2**30, 2**30]) for i in range(3)])), ""),
    "depth": (archive(_nested(100_000)), "config.json is no JSON (maximum recursion depth"),
    "steps": (
        archive(sequential(_around(_of("keras.layers", "Dense", units=2)), shape=(None, 30_000, 3))),
        "layer 'steps' has 30,000 steps, which PyTorch runs one by one",
    ),
    "steps in steps": (
        archive(sequential(_around(_around(_of("keras.layers", "Flatten"))), shape=(None, 5, 9_000_000, 2))),
        "has 9,000,000 steps, which PyTorch runs one by one",
    ),
    "window": (
        archive(
            sequential(layer("MelSpectrogram", "m", fft_length=2_000_000_000, num_mel_bins=80), shape=(None, 2000))
        ),
        "layer 'm' makes an array of 160,000,000,000 elements (fft_length 2000000000, num_mel_bins 80)",
    ),
    "frames": (
        archive(sequential(layer("STFTSpectrogram", "s", frame_length=10**6, fft_length=1e9), shape=(None, 2000, 1))),
        "layer 's' makes an array of 1,000,000,000,000,000 elements",
    ),
    "tiles": (
        archive(
            sequential(
                _around(_of("keras.layers", "ContrastLimitedAdaptiveHistogramEqualization", tile_grid_size=[10**8, 1])),
                shape=(None, 2, 8, 8, 3),
            )
        ),
        "makes an array of 100,000,000 elements",
    ),
    "name": (
        archive(sequential(layer("Dense", "a/b", units=2))),
        "TypeError: Error when deserializing class 'Dense'",
    ),
    "no JSON": (archive("{"), "config.json is no JSON"),
    "list": (archive("[]"), "config.json holds no model"),
    "no model": (
        archive({"class_name": "Zeros", "module": "keras.initializers", "config": {}}),
        "not of a Keras model",
    ),
    "no class": (archive({}), "not of a Keras model"),
    "misfit": (archive(sequential(layer("Conv1D", "c", filters=2, kernel_size=3))), "failed with ValueError"),
    "no config": (archive("{}").replace(b"config.json", b"konfig.json"), "an archive without config.json"),
    "cut off": (archive(convolution())[:-40], "truncated or damaged archive"),
    "neither": (b"\xff" * 64, "neither a ZIP archive nor an HDF5 file"),
    "weights": (b"\x89HDF\r\n\x1a\n" + bytes(64), "an HDF5 file without the configuration of a Keras model"),
    "stacked cells": (
        archive(
            sequential(
                layer("RNN", "r", cell=_of("keras.layers", "StackedRNNCells", cells=[_LSTM] * 200)), shape=(None, 50, 3)
            )
        ),
        "layer 'r' has 50 steps of 200 cells, which PyTorch runs one by one; KERAS_BACKEND=jax counts them as a loop",
    ),
    "nested text": (b"\x89HDF\r\n\x1a\nmodel_config" + b'{"config":' * 2000, "is truncated or damaged"),
    "cut text": (b"\x89HDF\r\n\x1a\nmodel_config" + b'{"class_name": "Seq', "is truncated or damaged"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_one_line(case: str, tmp_path: Path) -> None:
    data, words = DAMAGED[case]
    path = tmp_path / "net.keras"
    path.write_bytes(data)
    with pytest.raises((ModelError, flopwise.InputError)) as raised:
        flopwise.profile(path)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ['{"config":', "model_config\0", "model_config\0x" + "\0" * 8])
def test_a_file_is_not_searched_over_and_over(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are read grow as the file does, however many places in it look like the beginning."""
    from flopwise.formats.keras import file
    from flopwise.formats.sources.source import BytesSource

    def read(count: int) -> int:
        data = b"\x89HDF\r\n\x1a\nmodel_config\0" + text.encode() * count

        class Counted(BytesSource):
            total = 0

            def read(self, offset: int, length: int) -> bytes:
                Counted.total += length
                return super().read(offset, length)

        monkeypatch.setattr(file, "open_source", lambda path: Counted(data))
        with pytest.raises(ModelError):
            file.config_of("net.h5")
        return Counted.total

    assert read(40_000) < 2.3 * read(20_000) < 128 * 20_000 * len(text)


def test_layers_in_a_row_are_called_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    call = keras.layers.ReLU.__call__

    def counted(self: Any, *arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        return call(self, *arguments, **keywords)

    monkeypatch.setattr(keras.layers.ReLU, "__call__", counted)
    path = tmp_path / "net.keras"
    path.write_bytes(archive(sequential(*[layer("ReLU", f"r{i}") for i in range(40)], shape=(None, 4))))
    assert len(flopwise.profile(path).rows) == 40
    assert calls <= 3 * 40


def test_an_archive_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "net.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("config.json", b" " * (64 << 20))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ModelError, match=r"config\.json has 67,108,864 bytes, more than the limit text_bytes"):
        flopwise.profile(path)


def test_weights_in_other_files_are_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "net.h5", "w") as file:
        file.create_dataset("model_weights/d/kernel", (4,), "f", external=[(str(tmp_path / "secret"), 0, 16)])
    (tmp_path / "secret").write_bytes(bytes(16))
    with pytest.raises(ModelError, match="lies in another file, which is not opened"):
        flopwise.weights(tmp_path / "net.h5")


def test_one_may_trust_a_file(tmp_path: Path) -> None:
    net = keras.Sequential([keras.layers.Input((4,)), keras.layers.Lambda(lambda x: x * 2), keras.layers.Dense(3)])
    net.save(tmp_path / "net.keras")
    with pytest.raises(UntrustedError, match="holds code"):
        flopwise.profile(tmp_path / "net.keras")
    profile = flopwise.profile(tmp_path / "net.keras", trust_code=True)
    assert [row.node.op for row in profile.rows] == ["Mul", "MatMul", "Add"]
