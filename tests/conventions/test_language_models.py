"""The rules of thumb for language models, beside their formulas."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

pytest.importorskip("transformers")

from tests.language_models import LLAMA, MIXTURE, written

import flopwise

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_head": 4, "n_layer": 2}
GPT2 |= {"vocab_size": 320, "n_positions": 128}


@pytest.mark.parametrize("config", [LLAMA, MIXTURE, GPT2], ids=["llama", "mixture", "gpt2"])
@pytest.mark.parametrize("rule", ["palm", "nanogpt", "torchtitan", "megatron"])
def test_a_forward_pass_is_a_third_of_the_rule(tmp_path: Path, config: dict[str, object], rule: str) -> None:
    folder = written(tmp_path, config)
    step = flopwise.llm(folder, train=True, prompt=32, batch=2)
    count = flopwise.profile(folder, {"input_ids": (2, 32)}, convention=rule).total("count")
    assert 3 * count == step.rules_of_thumb[rule]


def test_palm_by_hand(tmp_path: Path) -> None:
    profile = flopwise.profile(written(tmp_path, LLAMA), {"input_ids": (2, 32)}, convention="palm")
    assert profile.total("count") == 64 * (2 * profile.total("params") + 4 * 2 * 4 * 16 * 32)


def test_a_model_without_tokens_has_no_count() -> None:
    profile = flopwise.profile("examples/tiny_resnet.onnx", convention="palm")
    assert not profile.exact
    assert any("is for language models" in note for note in profile.notes)


def test_what_tokens_look_up_in_a_row_of_numbers_is_no_embedding(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, array = onnx.helper, onnx.numpy_helper.from_array
    nodes = [
        helper.make_node("Gather", ["bias", "input_ids"], ["b"], name="bias"),
        helper.make_node("Gather", ["table", "input_ids"], ["e"], name="embedding"),
        helper.make_node("MatMul", ["e", "head"], ["logits"], name="head"),
    ]
    stored = {"bias": (999,), "table": (50, 8), "head": (8, 50)}
    weights = [array(numpy.ones(shape, "f"), name) for name, shape in stored.items()]
    ids = helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, [2, 3])
    ends = [helper.make_tensor_value_info(name, 1, None) for name in ("b", "logits")]
    graph = helper.make_graph(nodes, "g", [ids], ends, weights)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    # 6 tokens, each twice the parameters: those of the table are looked up and multiplied in the head alone
    plain = flopwise.profile(path, convention="nanogpt")
    assert plain.exact
    assert plain.total("count") == 6 * 2 * (999 + 50 * 8 + 8 * 50)
