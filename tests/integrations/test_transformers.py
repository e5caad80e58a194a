"""Twenty steps of a real ``Trainer``: its log and ``total_flos`` read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tests.torch_vision")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments  # noqa: E402

import flopwise  # noqa: E402
from flopwise.integrations import transformers as integration  # noqa: E402

LENGTH, BATCH, STEPS = 9, 3, 20


class Reporter(TrainerCallback):
    """What TensorBoard, W&B and the others get."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **named: Any) -> None:
        self.lines.append(dict(logs))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compiled", [False, True])
def test_twenty_steps(tmp_path: Path, compiled: bool) -> None:
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=31))
    tokens = torch.randint(31, (BATCH, LENGTH))
    data = [{"input_ids": tokens[i % BATCH], "labels": tokens[i % BATCH]} for i in range(2 * BATCH * STEPS)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=2,
        logging_steps=5,
        eval_strategy="steps",
        eval_steps=10,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        bf16=compiled,
        torch_compile=compiled,
        torch_compile_backend="eager" if compiled else None,
    )
    reporter = Reporter()
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:BATCH], callbacks=[reporter])
    meter = integration.attach(trainer, keep=False)
    trainer.train()
    assert meter.dtype == ("bfloat16" if compiled else "float32")

    profile = flopwise.profile(model, {"input_ids": tokens, "labels": tokens}, train=True)
    once = profile.total("flops") + profile.total("backward_flops")
    lines = [line for line in trainer.state.log_history if "loss" in line]
    assert [line["step"] for line in lines] == [5, 10, 15, 20]
    for line, reported in zip(lines, [one for one in reporter.lines if "loss" in one], strict=True):
        assert line["flops"] == pytest.approx(2 * once, rel=1e-3)  # the loss is divided by the items of both batches
        assert line["tokens_per_s"] == pytest.approx(2 * BATCH * LENGTH / line["step_s"])
        assert line["tflops_per_s"] == pytest.approx(line["flops"] / line["step_s"] / 1e12)
        assert 0 < line["mfu"] <= line["hfu"] < 1
        assert 0 < line["wait_s"] < line["step_s"]
        assert reported["mfu"] == line["mfu"]
    assert trainer.state.total_flos == pytest.approx(2 * STEPS * once, rel=1e-3)
    assert not model._forward_pre_hooks
