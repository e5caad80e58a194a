"""Stored widths: of a quantisation's settings beside the bytes of files with its layout, and of files themselves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.language_models import LLAMA, MIXTURE, written

import flopwise

#: Large enough that a group or block of 128 is one.
WIDE: dict[str, Any] = {**LLAMA, "hidden_size": 256, "intermediate_size": 512, "head_dim": 64, "num_key_value_heads": 4}
MATRICES = [(256, 256)] * 4 + [(512, 256)] * 2 + [(256, 512)]


def _packed(out: int, into: int, bits: int, group: int) -> int:
    """Bytes of GPTQ's tensors: packed weights and zero points in words of 32 bits, scales in half precision."""
    groups = into // group
    return out * into * bits // 8 + groups * (out * bits // 8) + groups * out * 2


#: ``quantization_config`` -> bytes of a matrix of so many outputs and inputs, from the shapes that its files hold.
LAYOUTS: list[tuple[dict[str, Any], Any]] = [
    (
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        lambda o, i: o * i + math.ceil(o / 128) * math.ceil(i / 128) * 4,
    ),
    ({"quant_method": "mxfp4"}, lambda o, i: o * i // 2 + o * i // 32),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128}, lambda o, i: _packed(o, i, 4, 128) + 4 * i),
    ({"quant_method": "gptq", "bits": 8, "group_size": 32}, lambda o, i: _packed(o, i, 8, 32) + 4 * i),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, lambda o, i: _packed(o, i, 4, 128)),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, lambda o, i: o * i // 2 + o * i // 64 * 4),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, lambda o, i: o * i + o * 4),
]


@pytest.mark.parametrize(
    ("settings", "nbytes"), LAYOUTS, ids=lambda x: str(x.get("quant_method")) if isinstance(x, dict) else ""
)
def test_settings_stand_for_the_bytes_of_the_files(tmp_path: Path, settings: dict[str, Any], nbytes: Any) -> None:
    plain = flopwise.llm(written(tmp_path, WIDE), prompt=8, generate=1)
    small = flopwise.llm(written(tmp_path, {**WIDE, "quantization_config": settings}), prompt=8, generate=1)
    assert small.params == plain.params
    before = 2 * sum(2 * out * into for out, into in MATRICES)
    after = 2 * sum(nbytes(out, into) for out, into in MATRICES)
    assert small.weight_bytes == pytest.approx(plain.weight_bytes - before + after, rel=0.01)
    assert small.decode.bytes < plain.decode.bytes
    assert any("quantised" in note for note in small.notes)


def test_stacks_of_experts_are_quantised_too(tmp_path: Path) -> None:
    config = {**MIXTURE, "quantization_config": {"quant_method": "mxfp4"}}
    plain, small = (flopwise.llm(written(tmp_path, c), prompt=8, generate=1) for c in (MIXTURE, config))
    experts = 2 * 8 * 3 * 64 * 96
    assert plain.weight_bytes - small.weight_bytes > experts * (2 - 17 / 32) * 0.99


def test_an_unknown_method_is_noted(tmp_path: Path) -> None:
    result = flopwise.llm(
        written(tmp_path, {**LLAMA, "quantization_config": {"quant_method": "new"}}), prompt=8, generate=1
    )
    assert any("'new', whose widths are not known" in note for note in result.notes)


def test_a_damaged_file_beside_the_configuration(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    (folder / "model.safetensors").write_bytes(b"not what it says it is")
    with pytest.raises(flopwise.ModelError, match=r"model\.safetensors"):
        flopwise.llm(folder, prompt=8, generate=1)
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert any("Git LFS pointer" in note for note in flopwise.llm(folder, prompt=8, generate=1).notes)


def test_files_beside_the_configuration_say_their_widths(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    folder = written(tmp_path, LLAMA)
    plain = flopwise.llm(folder, prompt=8, generate=1)
    rows = {
        "model.embed_tokens.weight": np.zeros((320, 64), np.float16),
        "lm_head.weight": np.zeros((320, 64), np.int8),
    }
    others = np.zeros(plain.params - 2 * 320 * 64, np.int8)
    safetensors.save_file({**rows, "packed": others}, folder / "model.safetensors")
    stored = flopwise.llm(folder, prompt=8, generate=1)
    held = 320 * 64 * 3 + others.nbytes
    assert stored.weight_bytes == pytest.approx(held, rel=0.01)
    assert any(f"{held:,} bytes" in note for note in stored.notes)


def _published(layout: str, out: int, into: int, name: str) -> dict[str, Any]:
    """The tensors in which a matrix of so many outputs and inputs is published."""
    import torch

    def zeros(dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    groups = into // 128
    if layout == "fp8":
        return {
            f"{name}.weight": zeros(torch.float8_e4m3fn, out, into),
            f"{name}.weight_scale_inv": zeros(torch.float32, -(-out // 128), -(-into // 128)),
        }
    if layout == "mxfp4":
        blocks = zeros(torch.uint8, out, into // 32, 16)
        return {f"{name}.weight_blocks": blocks, f"{name}.weight_scales": zeros(torch.uint8, out, into // 32)}
    packed = (into // 8, out) if layout == "gptq" else (into, out // 8)
    tensors = {
        f"{name}.qweight": zeros(torch.int32, *packed),
        f"{name}.qzeros": zeros(torch.int32, groups, out // 8),
        f"{name}.scales": zeros(torch.float16, groups, out),
    }
    return {**tensors, f"{name}.g_idx": zeros(torch.int32, into)} if layout == "gptq" else tensors


@pytest.mark.parametrize(
    "settings",
    [
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        {"quant_method": "mxfp4"},
        {"quant_method": "gptq", "bits": 4, "group_size": 128},
        {"quant_method": "awq", "bits": 4, "group_size": 128},
    ],
    ids=lambda settings: str(settings["quant_method"]),
)
@pytest.mark.parametrize("shards", [1, 2])
def test_weights_take_what_the_published_files_take(tmp_path: Path, settings: dict[str, Any], shards: int) -> None:
    """With the files beside the configuration, in one or in several with an index, and without them."""
    import json

    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    folder = written(tmp_path, {**WIDE, "quantization_config": settings})
    alone = flopwise.llm(folder, prompt=8, generate=1)
    tensors = {
        f"{name}.weight": torch.zeros(320, 256, dtype=torch.bfloat16) for name in ("model.embed_tokens", "lm_head")
    }
    tensors["model.norm.weight"] = torch.ones(256, dtype=torch.bfloat16)
    names = [f"self_attn.{n}_proj" for n in "qkvo"] + [f"mlp.{n}_proj" for n in ("gate", "up", "down")]
    for layer in range(2):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = torch.ones(256, dtype=torch.bfloat16)
        for name, (out, into) in zip(names, MATRICES, strict=True):
            tensors |= _published(settings["quant_method"], out, into, f"model.layers.{layer}.{name}")
    parts = [dict(list(tensors.items())[place::shards]) for place in range(shards)]
    files = ["model.safetensors"] if shards == 1 else [f"model-{i + 1}-of-{shards}.safetensors" for i in range(shards)]
    for part, file in zip(parts, files, strict=True):
        safetensors.save_file(part, folder / file)
    if shards > 1:
        index = {name: file for part, file in zip(parts, files, strict=True) for name in part}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    size = sum(tensor.nbytes for tensor in tensors.values())
    assert sum((folder / file).stat().st_size for file in files) == pytest.approx(size, rel=0.01)
    stored = flopwise.llm(folder, prompt=8, generate=1)
    assert stored.weight_bytes == pytest.approx(size, rel=0.01)
    assert alone.weight_bytes == pytest.approx(size, rel=0.01)
    assert stored.params == alone.params


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quant_method": "gptq", "bits": "four"}, "quantization_config: bits is 'four'"),
        ({"quant_method": "gptq", "bits": 5}, "quantization_config: bits is 5; expected: 2, 3, 4, 8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 0}, "quantization_config: group_size is 0"),
        ({"quant_method": "awq", "bits": 4, "group_size": -2}, "quantization_config: group_size is -2"),
        ([1, 2], "quantization_config"),
    ],
)
def test_settings_that_a_method_does_not_have(tmp_path: Path, settings: Any, words: str) -> None:
    with pytest.raises(flopwise.FlopwiseError, match=words):
        flopwise.llm(written(tmp_path, {**WIDE, "quantization_config": settings}), prompt=8, generate=1)


def test_awq_leaves_the_output_layer_as_it_is_whatever_else_is_named(tmp_path: Path) -> None:
    def bytes_of(settings: dict[str, Any]) -> int:
        model = written(tmp_path, {**WIDE, "quantization_config": settings})
        return flopwise.llm(model, prompt=8, generate=1).weight_bytes

    plain = {"quant_method": "awq", "bits": 4, "group_size": 128}
    more = bytes_of({**plain, "modules_to_not_convert": ["mlp.down_proj"]}) - bytes_of(plain)
    assert more == 2 * (256 * 512 * 2 - _packed(256, 512, 4, 128))


@pytest.mark.parametrize(
    ("settings", "bits"),
    [
        ({"quant_method": "quanto", "weights": "int4"}, 4),
        ({"quant_method": "eetq"}, 8),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, 4),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, 4),
    ],
)
def test_bits_that_settings_say_plainly(tmp_path: Path, settings: dict[str, Any], bits: int) -> None:
    plain = flopwise.llm(written(tmp_path, WIDE), prompt=8, generate=1)
    small = flopwise.llm(written(tmp_path, {**WIDE, "quantization_config": settings}), prompt=8, generate=1)
    elements = 2 * sum(out * into for out, into in MATRICES)
    assert small.weight_bytes == pytest.approx(plain.weight_bytes - elements * 2 + elements * bits / 8, rel=0.05)


def _bytes(folder: Path, settings: dict[str, Any], config: dict[str, Any] = WIDE) -> dict[str, Any]:
    from flopwise.formats.language.read import language

    written(folder, {**config, "quantization_config": settings})
    return dict(language(folder).widths.elements)


def test_each_group_of_compressed_tensors_has_its_own_modules(tmp_path: Path) -> None:
    four = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
    groups = {
        "group_0": {"targets": ["re:.*mlp.*"], "weights": four},
        "group_1": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}},
        "group_2": {"targets": ["model.layers.1.self_attn.q_proj"], "weights": None, "input_activations": {}},
    }
    found = _bytes(tmp_path, {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]})
    assert found["model.layers.0.mlp.down_proj.weight"] == 0.5 + 2 / 128
    assert found["model.layers.0.self_attn.q_proj.weight"] == 1 + 2 / 256
    assert "model.layers.1.self_attn.q_proj.weight" not in found
    assert "lm_head.weight" not in found


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"num_bits": 0}, "num_bits is 0; expected: 1 to 16"),
        ({"num_bits": 17}, "num_bits is 17; expected: 1 to 16"),
        ({"num_bits": 4, "group_size": 0}, "group_size is 0; expected: -1 or a number of at least 1"),
        ({"num_bits": 4, "group_size": -2}, "group_size is -2; expected: -1 or a number of at least 1"),
        ({"num_bits": 1, "group_size": 1}, ""),
        ({"num_bits": 16, "group_size": -1}, ""),
    ],
)
def test_limits_of_compressed_tensors(weights: dict[str, Any], words: str, tmp_path: Path) -> None:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    settings = {"quant_method": "compressed-tensors", "config_groups": groups}
    if words:
        with pytest.raises(flopwise.InputError, match=f"quantization_config: {words}"):
            _bytes(tmp_path, settings)
    else:
        scales = 2 if weights["group_size"] == 1 else 2 / 256
        width = _bytes(tmp_path, settings)["model.layers.0.self_attn.q_proj.weight"]
        assert width == weights["num_bits"] / 8 + scales


def test_patterns_for_experts_reach_their_stacks(tmp_path: Path) -> None:
    groups = {"group_0": {"targets": ["re:.*experts.*"], "weights": {"num_bits": 4, "group_size": 32}}}
    found = _bytes(tmp_path, {"quant_method": "compressed-tensors", "config_groups": groups}, MIXTURE)
    assert found
    assert all("experts" in name and width == 0.5 + 2 / 32 for name, width in found.items())


def test_configurations_of_torchao(tmp_path: Path) -> None:
    def config(name: str, **data: Any) -> dict[str, Any]:
        return {"_type": name, "_version": 1, "_data": data}

    def quantised(inner: dict[str, Any]) -> dict[str, Any]:
        return _bytes(tmp_path, {"quant_method": "torchao", "quant_type": {"default": inner}})

    query, down = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj"
    found = quantised(config("Int4WeightOnlyConfig", group_size=64))
    assert found[f"{query}.weight"] == 0.5 + 2 / 64
    found = quantised(config("Float8DynamicActivationFloat8WeightConfig"))
    assert found[f"{query}.weight"] == 1 + 2 / 256
    found = quantised(config("IntxWeightOnlyConfig", weight_dtype={"_type": "torch.dtype", "_data": "int2"}))
    assert found[f"{query}.weight"] == 0.25 + 2 / 256
    named = {
        "_default": config("Int8WeightOnlyConfig"),
        query: config("Int4WeightOnlyConfig", group_size=128),
        down: None,
    }
    found = quantised(config("ModuleFqnToConfig", module_fqn_to_config=named))
    assert found[f"{query}.weight"] == 0.5 + 2 / 128
    assert found["model.layers.1.self_attn.q_proj.weight"] == 1 + 2 / 256
    assert f"{down}.weight" not in found
    with pytest.raises(flopwise.InputError, match="does not say how many bits"):
        quantised(config("SomethingConfig"))
