"""Configurations of language models: what names one, and one line for each way in which it can be wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from tests.language_models import LLAMA, MIXTURE, written

import flopwise
from flopwise._limits import limits
from flopwise.errors import ModelError
from flopwise.formats.language.source import is_language_model
from flopwise.formats.torch.language.config import read_config


def test_what_names_a_configuration(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    other = tmp_path / "model.json"
    other.write_text(json.dumps({"nodes": []}))
    assert is_language_model(folder)
    assert is_language_model(str(folder / "config.json"))
    assert is_language_model("hf:org/name")
    assert not is_language_model(str(other))
    assert not is_language_model(str(tmp_path / "absent.onnx"))
    assert not is_language_model(b"bytes")


def test_every_command_that_takes_a_model_takes_one(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    profile = flopwise.profile(folder, {"input_ids": (1, 16)})
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64
    assert profile.total("params") == flopwise.profile(folder / "config.json").total("params")
    assert profile.total("params") == 2 * 320 * 64 + 2 * layer + 64
    assert profile.graph.format == "config"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a configuration"),
        ("{}", "has no 'model_type'"),
        ('{"model_type": "lama"}', "does not know the model type 'lama'; near: "),
        ('{"model_type": "private", "auto_map": {}}', "runs only with --trust-code"),
        ('{"model_type": "llama", "hidden_size": "wide"}', "config.json: "),
        ('{"model_type": "llama", "num_attention_heads": 0}', "sizes cannot be 0: num_attention_heads"),
        ('{"model_type": "llama", "hidden_size": 0}', "hidden_size is 0"),
        ('{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 5}', "not a multiple of the number of"),
        (
            '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 3}',
            "num_attention_heads 4 is not a multiple of num_key_value_heads 3",
        ),
        ('{"model_type": "llama", "num_hidden_layers": -1}', "num_hidden_layers is -1"),
    ],
)
def test_wrong_configurations(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(flopwise.ModelError, match=r"config\.json") as raised:
        flopwise.llm(path)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_hub_that_nobody_reaches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        flopwise.ModelError, match=r"is not in the cache of the hub, and cannot be fetched \(HF_HUB_OFFLINE"
    ):
        read_config("hf:nobody/none")
    for name in ("a/b/c", ".", "..", "../x", "/etc", "", "a\0b"):
        with pytest.raises(flopwise.ModelError, match="write hf:ORGANISATION/NAME"):
            read_config(f"hf:{name}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nobody/none").mkdir(parents=True)
    with pytest.raises(flopwise.ModelError, match="nobody/none is a path here, too"):
        read_config("hf:nobody/none")


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import util

    found = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "transformers" else found(name))
    for call in (flopwise.llm, flopwise.profile):
        with pytest.raises(flopwise.ModelError, match=r"pip install 'flopwise\[llm\]'"):
            call(written(tmp_path, {**LLAMA, "model_type": "xlstm", "architectures": ["xLSTMForCausalLM"]}))
    with pytest.raises(flopwise.InputError, match="is not a language model"):
        flopwise.llm("examples/tiny_resnet.onnx")


def test_more_layers_than_any_model_has(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="num_hidden_layers is 1,000,000,000 layers, more than the limit language_lay"):
        read_config(written(tmp_path, {**LLAMA, "num_hidden_layers": 10**9}))
    with limits(language_layers=1), pytest.raises(ModelError, match="more than the limit language_layers of 1"):
        read_config(written(tmp_path, LLAMA))


def test_more_modules_than_any_model_has(tmp_path: Path) -> None:
    folder = written(tmp_path, {**LLAMA, "num_hidden_layers": 200})
    with limits(language_modules=100), pytest.raises(ModelError, match="more than the limit language_modules of 100"):
        flopwise.profile(folder)


def test_an_element_type_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(flopwise.ModelError, match="torch_dtype is 'float7'"):
        flopwise.llm(written(tmp_path, {**LLAMA, "torch_dtype": "float7"}), prompt=8, generate=1)


def test_a_module_is_not_the_model_of_a_configuration_that_lies_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    monkeypatch.chdir(tmp_path)
    assert flopwise.profile(torch.nn.Linear(3, 2), (1, 3)).total("macs") == 6


@pytest.mark.parametrize("convention", ["calflops", "ptflops", "thop", "torchinfo"])
def test_tools_that_count_programs_count_that_of_transformers(tmp_path: Path, convention: str) -> None:
    import tests.torch_vision  # noqa: F401 - which transformers looks at
    import transformers

    folder, inputs = written(tmp_path, LLAMA), {"input_ids": (1, 16)}
    module = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(folder)).eval()
    by_name = flopwise.profile(folder, inputs, convention=convention)
    assert by_name.total("count") == flopwise.profile(module, inputs, convention=convention).total("count")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**LLAMA, "model_type": "qwen3", "layer_types": ["full_attention"]}, "layer_types has 1 entries for 2 layers"),
        ({**MIXTURE, "num_experts_per_tok": 99}, "num_experts_per_tok is 99, more than its"),
        ({**LLAMA, "intermediate_size": 0}, "intermediate_size is 0; a whole number of at least 1"),
        ({**LLAMA, "num_attention_heads": 4.5}, "num_attention_heads is 4.5; a whole number"),
    ],
)
def test_sizes_that_do_not_fit_together(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    with pytest.raises(flopwise.ModelError, match=words):
        flopwise.llm(written(tmp_path, config), prompt=8, generate=1)


def test_sizes_left_to_defaults_are_said(tmp_path: Path) -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_hidden_layers"}
    with limits(language_modules=10**6):
        notes = flopwise.llm(written(tmp_path, config), prompt=8, generate=1).notes
    assert any("num_hidden_layers is missing: what the configuration does not say" in note for note in notes)


def test_a_figure_of_a_tool_without_its_program_is_an_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flopwise.formats.torch.language import format as language_format

    notes = flopwise.profile(written(tmp_path, LLAMA), convention="ptflops").notes
    assert not any("is an estimate" in note for note in notes)
    found = language_format.by_table
    monkeypatch.setattr(
        language_format,
        "by_table",
        lambda model, inputs, dims, options: found(model, inputs, dims, replace(options, program=False)),
    )
    notes = flopwise.profile(written(tmp_path, LLAMA), convention="ptflops").notes
    assert any("is an estimate (pip install" in note for note in notes)
