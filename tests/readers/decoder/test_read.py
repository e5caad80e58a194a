"""Decoders from their configuration alone: every document is that of the program which transformers runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run, run  # noqa: F401 # a fixture

from flopwise.errors import ModelError
from flopwise.readers.decoder import read
from flopwise.readers.decoder.config import decoder_of

SIZES = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}

#: Name -> what a configuration has beside the sizes.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"},
    "tied": {
        "model_type": "llama",
        "dtype": "float16",
        "tie_word_embeddings": True,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 64,
        },
    },
    "one": {"model_type": "llama", "num_key_value_heads": 1, "head_dim": 16},
    "mistral": {"model_type": "mistral", "sliding_window": None, "dtype": "bfloat16"},
    "qwen2": {"model_type": "qwen2", "dtype": "bfloat16", "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", "dtype": "bfloat16"},
}

LINES = (
    "profile -b 3",
    "profile -i input_ids:i64:2x16",
    "profile --past 100",
    "profile --new 2",  # the fewest in whose attention a mask leaves anything out
    "memory",
    "advise",
    "bound --device t4",
    "llm --prompt 40 --generate 8 --device 2xh100 --kv-dtype fp8",
    "llm --prompt 300 --device rtx4090",
)


@pytest.fixture(params=CONFIGURATIONS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(SIZES | CONFIGURATIONS[request.param]))
    return tmp_path


def test_documents_are_those_of_transformers(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    pytest.importorskip("transformers")
    pytest.importorskip("tests.torch_vision")
    whole = "qwen" not in folder.joinpath("config.json").read_text()
    lines = LINES if whole else (LINES[0], LINES[2], *LINES[-2:])
    documents = {}
    for installed in (True, False):
        monkeypatch.setattr(read, "installed", lambda here=installed: here)
        monkeypatch.setattr("flopwise.api.language.decoder.installed", lambda here=installed: here)
        documents[installed] = [run(*line.split(), str(folder), "-f", "json") for line in lines]
    for line, theirs, ours in zip(lines, documents[True], documents[False], strict=True):
        assert theirs.code == 0, theirs.err
        assert ours == theirs, line


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model_type": "mamba"}, "a mamba needs PyTorch and transformers: pip install 'flopwise[llm]'"),
        ({"model_type": "mistral"}, "attention in a window needs"),
        ({"model_type": "llama", "quantization_config": {"bits": 4}}, "quantization_config needs"),
        ({"model_type": "llama", "hidden_act": "gelu"}, "hidden_act 'gelu' needs"),
        ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, "another head"),
        ({"model_type": "llama", "rope_scaling": {"type": "dynamic"}}, "rope_type 'dynamic' needs"),
        ({"model_type": "llama", "num_hidden_layers": "two"}, "num_hidden_layers is 'two'"),
        ({"model_type": "llama", "hidden_size": -1}, "hidden_size is -1"),
        ({"model_type": "llama", "num_key_value_heads": 3}, "not a multiple"),
        ({"model_type": ["llama"]}, "needs PyTorch"),
        ({"model_type": "llama", "num_hidden_layers": 10**7}, "more than the limit language_layers"),
        ({"model_type": "llama", "dtype": "\x1b[31m"}, "an element type such as bfloat16 is expected"),
    ],
)
def test_what_is_not_built_is_one_line(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SIZES | more))
    with pytest.raises(ModelError) as error:
        decoder_of(tmp_path)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_null_for_groups_is_as_many_as_heads(tmp_path: Path) -> None:
    """As transformers reads it, where a key that is not there has its own default."""
    (tmp_path / "config.json").write_text(json.dumps(SIZES | {"model_type": "qwen2", "num_key_value_heads": None}))
    assert decoder_of(tmp_path).groups == SIZES["num_attention_heads"]


def test_what_asks_for_more_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(read, "installed", lambda: False)
    monkeypatch.setattr("flopwise.api.language.decoder.installed", lambda: False)
    for line in ("llm --weights int4", "profile --train", "profile --past 4 --new 2", "profile -i input_ids:i64:3"):
        code, out, err = run(*line.split(), "examples/tiny_llama")
        assert (code, out, err.count("\n")) == (2, "", 1), line
