"""``flopwise llm``, and language models in the other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from tests.language_models import LLAMA, MIXTURE, written

from flopwise.cli import main


@pytest.fixture
def llama(tmp_path: Path) -> str:
    folder = tmp_path / "llama"
    folder.mkdir()
    return str(written(folder, LLAMA))


def test_the_page(llama: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", llama, "--prompt", "32", "--generate", "4", "--device", "h100"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("fits: NVIDIA H100")
    for words in (
        "prefill, 32 tokens",
        "decode step after 32",
        "cache per token",
        "total: weights",
        "max tokens per second",
    ):
        assert words in page


def test_the_page_of_several_devices(llama: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["llm", llama, "--prompt", "32", "--generate", "4", "-b", "2", "--device", "2xh100"]
    assert main([*command, "--human"]) == 0
    page = capsys.readouterr().out
    for words in ("2 × NVIDIA H100 SXM5 80GB · 2 sequences of 36 tokens", "lowest latency per token", "tp 2", "dp 2"):
        assert words in page
    assert main([*command, "-f", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["serving"] == content["splits"][0]
    assert {"devices", "tp", "pp", "ep", "cp", "dp", "per_device", "floors"} <= content["serving"].keys()


def test_the_json(llama: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", llama, "--prompt", "32", "--generate", "4", "-f", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["schema"] == "flopwise.llm/1"
    keys = ("model", "batch", "params", "active_params", "weight_bytes", "prefill", "decode", "generate", "cache")
    assert set(keys) | {"rewrites", "notes"} <= content.keys()
    assert {"tokens", "macs", "needed_macs", "flops", "bytes"} <= content["prefill"].keys()
    assert {"past", "macs", "needed_macs", "flops", "bytes"} <= content["decode"].keys()
    assert content["verdict"].startswith("needs ")
    parts = ("weight_bytes", "cache_bytes", "workspace_bytes")
    each = content["serving"]["per_device"]
    assert each["must_fit_bytes"] == sum(each[part] for part in parts)


def test_training(llama: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", llama, "--train", "--prompt", "32", "-b", "4", "--fsdp", "2", "-f", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["rank"]["devices"] == 2
    assert set(content["rules_of_thumb"]) == {"6N", "palm", "nanogpt", "torchtitan", "megatron"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "h1000"], "unknown device 'h1000'; did you mean"),
        (["-b", "0"], "batch 0: must be at least 1"),
        (["--block-size", "0"], "block_size 0: must be at least 1"),
        (["--prompt", "32", "--shared-prefix", "33"], "shared_prefix 33: the prompt has 32 tokens"),
        (["--generate", "0", "--shared-prefix", "4"], "shared_prefix 4: no token is generated, so no cache is kept"),
        (["--memory-fraction", "1.1"], "memory_fraction 1.1: must be above 0 and at most 1"),
        (["--memory-fraction", "0.5"], "memory_fraction 0.5: give the device as well"),
        (["--generate", "99999999999999"], "generate 99,999,999,999,999: more than 1,048,576 tokens are not counted"),
        (["--tp", "2"], "tp: give the device as well"),
        (["--device", "h100", "--tp", "8"], "tp 8: 4 heads of model.layers.0.self_attn do not divide by it"),
        (["--fsdp", "2"], "--fsdp is for a training step: give --train"),
        (["--train", "--gpus", "2"], "--gpus is for a request; leave --train out"),
        (["--tokens-per-s", "10"], "is for a training step: give --train"),
        (["--train", "--tokens-per-s", "10"], "the MFU of a run needs a device as well"),
        (["--measured", "10"], "--measured is for a training step: give --train"),
        (["--train", "--device", "8xh100"], "8xh100: these are 8 devices, nothing says how they share the step"),
        (["--train", "--rewrite", "absorb-mla"], "leave --train out"),
        (["--optimizer", "sgd"], "--optimizer is for a training step: give --train"),
        (["--checkpointing", "full"], "--checkpointing is for a training step: give --train"),
        (["--train", "--block-size", "8"], "--block-size is for a request; leave --train out"),
        (["--train", "--kv-dtype", "fp8"], "--kv-dtype is for a request; leave --train out"),
        (["--rewrite", "absorb-mla"], "expands no latents"),
        (["--kv-dtype", "fp3"], "unknown element type 'fp3' of the cache"),
    ],
)
def test_one_line_for_what_is_wrong(
    llama: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["llm", llama, "--prompt", "8", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_stages_are_named_where_there_are_several(llama: str, capsys: pytest.CaptureFixture[str]) -> None:
    training = ["llm", llama, "--train", "--prompt", "16", "-b", "4"]
    assert main([*training, "--dp", "2"]) == 0
    assert "stage 1" not in capsys.readouterr().out
    assert main([*training, "--pp", "2"]) == 0
    assert "note: the rank with the most memory: stage 1 of 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("heads", "note"),
    [
        (None, "note: the configuration names no architectures; counted as LlamaForCausalLM"),
        (["FooForCausalLM"], None),
        (["LlamaForCausalLM"], None),
    ],
)
@pytest.mark.parametrize("command", [["llm", "--prompt", "16", "--generate", "1"], ["profile"]], ids=["llm", "profile"])
def test_a_head_that_is_chosen_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], heads: list[str] | None, note: str | None
) -> None:
    config = {**LLAMA, "architectures": heads}
    assert main([command[0], str(written(tmp_path, config)), *command[1:]]) == 0
    out = capsys.readouterr().out
    assert note in out.splitlines() if note else "counted as" not in out


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("bart", "BartForConditionalGeneration"),
        ("whisper", "WhisperForConditionalGeneration"),
        ("bert", "BertLMHeadModel"),
    ],
)
def test_an_encoder_and_its_decoder_are_counted_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, head: str
) -> None:
    config = {"model_type": kind, "d_model": 48, "encoder_layers": 1, "decoder_layers": 1, "max_source_positions": 50}
    assert main(["profile", str(written(tmp_path, config)), "--past", "0"]) == 0
    assert f"note: the configuration names no architectures; counted as {head}" in capsys.readouterr().out


def test_a_type_of_transformers_has_its_own_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", "transformers:gpt2", "--prompt", "16", "--generate", "1"]) == 0
    assert "transformers:gpt2 · GPT2LMHeadModel · float32" in capsys.readouterr().out
    assert main(["llm", "transformers:gpt"]) == 2
    assert "does not know the model type 'gpt'; near: " in capsys.readouterr().err


def test_a_file_that_is_no_language_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", "examples/tiny_resnet.onnx"]) == 2
    assert "is not a language model: give a config.json" in capsys.readouterr().err


def test_a_folder_is_one_model_in_every_command(llama: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "mixture"
    other.mkdir()
    written(other, MIXTURE)
    assert main(["profile", llama, "--past", "16", "-f", "json"]) == 0
    profile = json.loads(capsys.readouterr().out)
    assert profile["totals"]["state_bytes"] == 2 * 2 * 2 * 16 * 16 * 2
    assert main(["memory", llama, "--past", "16"]) == 0
    assert "state of 4 tensors" in capsys.readouterr().out
    assert main(["compare", llama, str(other), "--by", "op"]) == 0
    assert main(["table", llama, str(other)]) == 0
    assert main(["explain", llama, "-c", "palm", "-c", "flops"]) == 0
    assert "MixtralForCausalLM" in capsys.readouterr().out


def test_the_log_of_an_engine(llama: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    text = "INFO 05-19 10:13:{} [loggers.py:271] Engine 000: Avg prompt throughput: 90.0 tokens/s, "
    text += "Avg generation throughput: 55.3 tokens/s, Running: 8 reqs, Waiting: 0 reqs"
    log.write_text("\n".join(text.format(seconds) for seconds in (11, 21, 31)))
    assert main(["llm", llama, "--log", str(log), "--device", "h100"]) == 0
    page = capsys.readouterr().out
    assert "vLLM on NVIDIA H100" in page
    assert "05-19 10:13" in page
    assert "% of the measured time" in page
    assert main(["llm", llama, "--log", str(log), "--device", "h100", "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["whole"]["generated_tokens"] == 1106
    for options, words in (
        (["--log", str(log)], "give --device"),
        (["--log", str(log), "--device", "h100", "--tp", "2"], "--tp says nothing of a log"),
        (["--log", str(log), "--device", "h100", "--minutes", "2"], "give --metrics"),
        (["--minutes", "2"], "give --metrics"),
        (["--metrics", "ftp://host/metrics", "--device", "h100"], "begins with http"),
    ):
        assert main(["llm", llama, *options]) == 2
        assert words in capsys.readouterr().err


def test_a_training_step_that_must_fit_ends_with_one_where_it_does_not(tmp_path: Path, llama: str) -> None:
    large = {**LLAMA, "hidden_size": 8192, "intermediate_size": 32768, "num_attention_heads": 64, "head_dim": 128}
    big = str(written(tmp_path, {**large, "num_hidden_layers": 16}))
    for model, status in ((llama, 0), (big, 1)):
        assert main(["llm", model, "--train", "--prompt", "32", "--device", "h100", "--require", "fits"]) == status


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tp", "0"], "tp 0: must be at least 1"),
        (["--tp", "3"], "tp 3: 4 heads of model.layers.0.self_attn do not divide by it; 2 and 4 do"),
        (["--train", "--tp", "3"], "tp 3: 4 heads of model.layers.0.self_attn do not divide by it; 2 and 4 do"),
        (["--ep", "2"], "ep 2: the model has no experts to divide"),
        (["--pp", "3"], "pp 3: the model has 2 layers; give at most as many"),
    ],
)
def test_a_split_that_is_none_is_a_line(
    llama: str, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["llm", llama, "--prompt", "32", "--device", "h100", *options]) == 2
    assert capsys.readouterr().err == f"flopwise: {words}\n"
