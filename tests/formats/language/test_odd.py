"""Configurations with values that cannot be: an error of one line that says what is allowed, or a note of a guess."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.language_models import LLAMA, MIXTURE, written

import flopwise

QWEN2 = {**LLAMA, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "use_sliding_window": True}
QWEN2 = {**QWEN2, "sliding_window": 32, "max_window_layers": 1}
GEMMA3 = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]}

#: A configuration, what is changed in it, and what the error says behind the name of the file.
ERRORS: list[tuple[Mapping[str, Any], dict[str, Any], str]] = [
    (LLAMA, {"layer_types": 5}, "layer_types is 5; expected: a list of kinds of layers"),
    (LLAMA, {"layer_types": ["foo"] * 99}, "'foo' is no kind of layers of llama; known: attention, full"),
    (LLAMA, {"layer_types": ["moe"] * 99}, "'moe' is no kind of layers of llama"),
    (LLAMA, {"layer_types": ["full_attention"]}, "layer_types has 1 entries for"),
    (LLAMA, {"head_dim": "16"}, "head_dim is '16'; a whole number of at least 1 is expected"),
    (LLAMA, {"head_dim": 0}, "head_dim is 0; a whole number of at least 1 is expected"),
    (LLAMA, {"hidden_act": 5}, "hidden_act is 5; expected: a word"),
    (LLAMA, {"rope_scaling": "linear"}, "rope_scaling is 'linear'; expected: an object of settings"),
    (LLAMA, {"rope_scaling": {"factor": "x"}}, "rope_scaling: factor is 'x'; expected: a number of at least 0"),
    (LLAMA, {"tie_word_embeddings": "false"}, "tie_word_embeddings is 'false'; expected: true or false"),
    (LLAMA, {"attention_bias": 1}, "attention_bias is 1; expected: true or false"),
    (LLAMA, {"torch_dtype": 7, "dtype": None}, "torch_dtype is 7, which is not an element type such as 'bfloat16'"),
    (LLAMA, {"torch_dtype": "int64", "dtype": None}, "torch_dtype is 'int64', which is not an element type"),
    (LLAMA, {"architectures": "LlamaForCausalLM"}, "architectures is LlamaForCausalLM; a list of names is expected"),
    (LLAMA, {"model_type": ""}, "has no 'model_type'"),
    (LLAMA, {"intermediate_size": [64]}, "intermediate_size has 1 entries for"),
    (LLAMA, {"intermediate_size": ["a"] * 99}, "a whole number of at least 0, or a list of one for each layer"),
    (LLAMA, {"max_position_embeddings": -4}, "max_position_embeddings is -4; expected: a whole number of at least 1"),
    (LLAMA, {"max_position_embeddings": "512"}, "max_position_embeddings is '512'; expected: a whole number"),
    (LLAMA, {"partial_rotary_factor": 2}, "partial_rotary_factor is 2; expected: a number from 0 to 1"),
    (LLAMA, {"quantization_config": {"quant_method": 5}}, "quantization_config: quant_method is 5; the name"),
    (LLAMA, {"num_local_experts": "8"}, "num_local_experts is '8'; expected: a whole number of at least 0"),
    (MIXTURE, {"num_local_experts": 0}, "num_local_experts is 0; a whole number of at least 1 is expected"),
    (MIXTURE, {"n_shared_experts": "1"}, "n_shared_experts is '1'; expected: a whole number"),
    (MIXTURE, {"first_k_dense_replace": "a"}, "first_k_dense_replace is 'a'; expected: a whole number of at least 0"),
    (MIXTURE, {"moe_layer_freq": [1]}, "moe_layer_freq has 1 entries for"),
    (MIXTURE, {"mlp_only_layers": 5}, "mlp_only_layers is 5; expected: a list of numbers of layers"),
    (MIXTURE, {"mlp_layer_types": ["foo"] * 99}, "expected: a list of 'dense' or 'sparse' for each layer"),
    (QWEN2, {"use_sliding_window": "yes"}, "use_sliding_window is 'yes'; expected: true or false"),
    (QWEN2, {"max_window_layers": "a"}, "max_window_layers is 'a'; expected: a whole number of at least 0"),
    (GEMMA3, {"text_config": 5}, "text_config is 5; an object of settings is expected"),
]


@pytest.mark.parametrize(("base", "change", "message"), ERRORS)
def test_a_value_that_cannot_be_is_an_error(
    base: Mapping[str, Any], change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = written(tmp_path, {**base, **change})
    with pytest.raises(flopwise.FlopwiseError) as caught:
        flopwise.llm(folder, prompt=8)
    text = str(caught.value)
    assert message in text
    assert str(folder) in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"hidden_act": "foo"}, "'foo' is no activation that is known here; counted as Swish"),
        ({"rope_scaling": {"rope_type": "foo", "factor": 2.0}}, "rope_scaling names the type 'foo', which is none"),
        ({"model_type": "mine"}, "the model type 'mine' is none of the table; counted as llama, whose class"),
        ({"architectures": ["MixtralForCausalLM"]}, "architectures names MixtralForCausalLM, which is a class of"),
    ],
)
def test_a_guess_is_a_note(change: dict[str, Any], note: str, tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, {**LLAMA, **change}), prompt=8)
    assert any(note in one for one in result.notes)


def test_the_activation_that_a_configuration_names_is_counted(tmp_path: Path) -> None:
    """Relu: an operation for an element; its square: one more; by 2 and 2 layers of 96 tokens' inner features."""
    base = {**LLAMA, "model_type": "arcee", "architectures": ["ArceeForCausalLM"]}
    relu, square = (
        flopwise.profile(written(tmp_path, {**base, "hidden_act": name}), {"input_ids": "1x8"}).total("flops")
        for name in ("relu", "relu2")
    )
    assert square - relu == 8 * LLAMA["num_hidden_layers"] * LLAMA["intermediate_size"]


#: Files that are damaged or of types that nobody knows, and what the error says.
DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty; a JSON object with 'model_type' is expected"),
    "damaged": (b'{"model_type": "llama", ', "is not JSON"),
    "list": (b"[]", "is not a configuration"),
    "binary": (bytes(range(256)), "is not text in UTF-8"),
    "unknown": (b'{"model_type": "foobar", "architectures": ["FooForCausalLM"]}', "does not know the model type"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_cannot_be_read_says_so_without_frameworks(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    content, message = DAMAGED[name]
    (tmp_path / "config.json").write_bytes(content)
    code = (
        "import json, resource, sys\n"
        "from flopwise.cli import main\n"
        f"status = main(['llm', {str(tmp_path / 'config.json')!r}])\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(json.dumps([status, 'torch' in sys.modules, 'transformers' in sys.modules, used.ru_utime]))\n"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, torch, transformers, _ = json.loads(child.stdout)
    assert (status, torch, transformers) == (2, False, False)
    assert message in child.stderr
    assert len(child.stderr.splitlines()) == 1
