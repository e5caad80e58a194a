"""Quantised checkpoints: weights in packed words are counted, their bytes are those stored, and scales are apart."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy
import pytest

import flopwise
from flopwise.cli import main
from flopwise.formats.table import open_stored

WIDTHS = {"I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "U8": 1, "I8": 1, "F8_E4M3": 1}

Entries = dict[str, tuple[str, tuple[int, ...]]]


def _write(path: Path, entries: Entries, values: dict[str, bytes] | None = None) -> Path:
    """A safetensors file of zeros, but for some elements."""
    header: dict[str, Any] = {}
    at, data = 0, b""
    for name, (dtype, shape) in entries.items():
        size = math.prod(shape) * WIDTHS[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        data += (values or {}).get(name, b"").ljust(size, b"\0")
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


K, N, GROUP = 256, 512, 128
STATE = json.dumps({"shape": [N, K], "dtype": "bfloat16", "blocksize": 64}).encode()

#: Method -> tensors, elements that are not zero, and elements of weights and of scales.
CASES: dict[str, tuple[Entries, dict[str, bytes], int, int]] = {
    "GPTQ int4": (
        {
            "a.qweight": ("I32", (K // 8, N)),
            "a.qzeros": ("I32", (K // GROUP, N // 8)),
            "a.scales": ("F16", (K // GROUP, N)),
            "a.g_idx": ("I32", (K,)),
        },
        {},
        K * N,
        K // GROUP * N,
    ),
    "GPTQ int3": (
        {
            "a.qweight": ("I32", (K * 3 // 32, N)),
            "a.qzeros": ("I32", (K // GROUP, N * 3 // 32)),
            "a.scales": ("F16", (K // GROUP, N)),
        },
        {},
        K * N,
        K // GROUP * N,
    ),
    "AWQ int4": (
        {
            "a.qweight": ("I32", (K, N // 8)),
            "a.qzeros": ("I32", (K // GROUP, N // 8)),
            "a.scales": ("F16", (K // GROUP, N)),
        },
        {},
        K * N,
        K // GROUP * N,
    ),
    **{
        f"GPTQ int{bits}": (
            {"a.qweight": ("I32", (K * bits // 32, N)), "a.g_idx": ("I32", (K,)), "a.scales": ("F16", (2, N))},
            {},
            K * N,
            2 * N,
        )
        for bits in (1, 8)
    },
    **{
        f"AWQ int{bits}": (
            {"a.qweight": ("I32", (K, N * bits // 32)), "a.scales": ("F16", (K // GROUP, N))},
            {},
            K * N,
            K // GROUP * N,
        )
        for bits in (2, 8)
    },
    "compressed-tensors int4": (
        {
            "a.weight_packed": ("I32", (N, K // 8)),
            "a.weight_shape": ("I64", (2,)),
            "a.weight_scale": ("BF16", (N, K // GROUP)),
        },
        {"a.weight_shape": numpy.array([N, K], "<i8").tobytes()},
        K * N,
        K // GROUP * N,
    ),
    "MXFP4 float4e2m1": (
        {"a.w_blocks": ("U8", (4, N, K // 32, 16)), "a.w_scales": ("U8", (4, N, K // 32))},
        {},
        4 * N * K,
        4 * N * K // 32,
    ),
    "bitsandbytes nf4": (
        {
            "a.weight": ("U8", (N * K // 2, 1)),
            "a.weight.absmax": ("U8", (N * K // 64,)),
            "a.weight.quant_map": ("F32", (16,)),
            "a.weight.nested_absmax": ("F32", (N * K // 64 // 256,)),
            "a.weight.nested_quant_map": ("F32", (256,)),
            "a.weight.quant_state.bitsandbytes__nf4": ("U8", (len(STATE),)),
        },
        {"a.weight.quant_state.bitsandbytes__nf4": STATE},
        N * K,
        N * K // 64 + 16 + N * K // 64 // 256 + 256,
    ),
    "NVFP4 float4e2m1": (
        {
            "a.weight": ("U8", (N, K // 2)),
            "a.weight_scale": ("F8_E4M3", (N, K // 16)),
            "a.weight_scale_2": ("F32", ()),
            "a.input_scale": ("F32", ()),
        },
        {},
        N * K,
        N * K // 16,
    ),
    "scaled float8e4m3fn": (
        {"a.weight": ("F8_E4M3", (N, K)), "a.weight_scale_inv": ("F32", (N // 128, K // 128))},
        {},
        N * K,
        N * K // 128 // 128,
    ),
    "scaled int8": ({"a.weight": ("I8", (N, K)), "a.SCB": ("F32", (N,))}, {}, N * K, N),
}


@pytest.mark.parametrize("method", CASES)
def test_parameters_bytes_and_scales(tmp_path: Path, method: str) -> None:
    entries, values, weights, scales = CASES[method]
    path = _write(tmp_path / "model.safetensors", {**entries, "a.bias": ("F16", (N,))}, values)
    profile = flopwise.profile(path)
    assert profile.total("params") == weights + N
    parts = ("scale", "absmax", "SCB", "quant_map")
    assert sum(row.buffers for row in profile.rows if any(part in row.name for part in parts)) == scales
    stored = sum(math.prod(shape) * WIDTHS[dtype] for dtype, shape in entries.values()) + 2 * N
    assert sum(tensor.nbytes for tensor in open_stored(path).tensors) == stored
    assert any(method in note for note in profile.notes)
    with open_stored(path) as found:
        packed = [tensor.packed for tensor in found.tensors if tensor.packed is not None]
    assert [math.prod(one.shape) for one in packed] == ([] if method.startswith("scaled") else [weights])
    if packed and not method.startswith("MXFP4"):
        assert packed[0].shape == (N, K)


def test_a_layer_of_4096(tmp_path: Path) -> None:
    entries: Entries = {
        "q.qweight": ("I32", (512, 4096)),
        "q.qzeros": ("I32", (32, 512)),
        "q.scales": ("F16", (32, 4096)),
        "q.g_idx": ("I32", (4096,)),
    }
    profile = flopwise.profile(_write(tmp_path / "a.safetensors", entries))
    assert (profile.total("params"), profile.total("buffers")) == (4096 * 4096, 32 * 4096 + 32 * 512 + 4096)


def test_words_of_nine_bits_are_no_method(tmp_path: Path) -> None:
    entries: Entries = {"a.qweight": ("I32", (K * 9 // 32, N)), "a.g_idx": ("I32", (K,)), "a.scales": ("F16", (2, N))}
    path = _write(tmp_path / "a.safetensors", entries)
    assert not any("GPTQ" in note for note in flopwise.profile(path).notes)
    with open_stored(path) as found:
        assert not any(tensor.packed for tensor in found.tensors)


def test_scales_in_another_shard(tmp_path: Path) -> None:
    entries = CASES["GPTQ int4"][0]
    names = list(entries)
    _write(tmp_path / "1.safetensors", {names[0]: entries[names[0]]})
    _write(tmp_path / "2.safetensors", {name: entries[name] for name in names[1:]})
    places = {name: "1.safetensors" if name == names[0] else "2.safetensors" for name in names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert flopwise.profile(tmp_path / "model.safetensors.index.json").total("params") == K * N


def test_what_the_configuration_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path / "model.safetensors", CASES["GPTQ int4"][0])
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": settings}))
    assert main(["profile", str(path)]) == 0
    out = capsys.readouterr().out
    assert "config.json says that the weights are quantised: gptq, 4 bits, 128 in a group" in out
    assert "as they are stored" not in out
    _write(path, {"a.weight": ("F16", (4, 4))})
    assert main(["profile", str(path)]) == 0
    assert "128 in a group; tensors are counted as they are stored" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        ({"a.qweight": ("I32", (4, 4))}, {}),
        ({"a.qweight": ("I32", (4, 4)), "a.scales": ("F16", ())}, {}),
        ({"a.qweight": ("I32", (4, 4)), "a.scales": ("F16", (1, 5))}, {}),
        ({"a.qweight": ("I32", (4, 4)), "a.scales": ("F16", (1, 4)), "a.qzeros": ("I32", (1, 0))}, {}),
        ({"a.weight_packed": ("I32", (4, 4)), "a.weight_shape": ("I64", (2,))}, {}),
        ({"a.weight_packed": ("I32", (4, 4)), "a.weight_shape": ("I64", (2,))}, {"a.weight_shape": b"\xff" * 16}),
        ({"a_blocks": ("U8", (4, 4)), "a_scales": ("U8", (5,))}, {}),
        ({"qweight": ("I32", (0, 4)), "scales": ("F16", (1, 4))}, {}),
        ({"a.qweight": ("I32", (9, 4)), "a.scales": ("F16", (1, 4)), "a.g_idx": ("I32", (32,))}, {}),
        ({"a.qweight": ("I32", (4, 4)), "a.scales": ("F16", (1, 8))}, {}),
        ({"a.qweight": ("I32", (4, 4)), "a.scales": ("F16", (1, 128))}, {}),
        ({"a.qweight": ("F32", (4, 4)), "a.scales": ("F16", (1, 32))}, {}),
        ({"a_blocks": ("U8", (4, 4)), "a_scales": ("F16", (4,))}, {}),
    ],
)
def test_names_that_mean_nothing(tmp_path: Path, entries: Entries, values: dict[str, bytes]) -> None:
    with open_stored(_write(tmp_path / "a.safetensors", entries, values)) as stored:
        assert all(tensor.packed is None for tensor in stored.tensors)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"quantization_config": 1}', "[" * 100_000, '{"quantization_config": {"bits": "x"}}']
)
def test_configurations_that_say_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    flopwise.profile(_write(tmp_path / "a.safetensors", {"a.weight": ("F16", (4, 4))}))


@pytest.mark.parametrize(
    ("rows", "outputs", "dtype"), [(8, 4, "int8"), (1, 4, "int1"), (4, 32, "int4"), (4, 16, "int8"), (4, 64, "int2")]
)
def test_words_hold_elements_of_up_to_8_bits(tmp_path: Path, rows: int, outputs: int, dtype: str) -> None:
    entries: Entries = {"a.qweight": ("I32", (rows, 4)), "a.scales": ("F16", (1, outputs)), "a.g_idx": ("I32", (32,))}
    with open_stored(_write(tmp_path / "a.safetensors", entries)) as stored:
        (packed,) = [tensor.packed for tensor in stored.tensors if tensor.packed]
    assert packed.dtype == dtype


@pytest.mark.parametrize(("elements", "shape"), [(63, (63,)), (64, (64,)), (62, (64,)), (65, (64,))])
def test_a_description_says_as_many_elements_as_bytes_hold(
    tmp_path: Path, elements: int, shape: tuple[int, ...]
) -> None:
    state = json.dumps({"shape": [elements]}).encode()
    name = "a.weight.quant_state.bitsandbytes__nf4"
    entries: Entries = {"a.weight": ("U8", (32, 1)), "a.weight.absmax": ("F32", (1,)), name: ("U8", (len(state),))}
    with open_stored(_write(tmp_path / "a.safetensors", entries, {name: state})) as stored:
        (packed,) = [tensor.packed for tensor in stored.tensors if tensor.packed]
    assert packed == ("nf4", shape)
