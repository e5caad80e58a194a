"""``flopwise memory``."""

from __future__ import annotations

from flopwise.answers.memory.memory import memory
from flopwise.answers.memory.report import memory_batches_report, memory_report, plan_text
from flopwise.cli import options
from flopwise.cli.answer import ASK, answer

command = answer(
    "memory",
    memory,
    memory_report,
    examples=["model.onnx", "model.onnx -b 1,8,64", "model.onnx --train --optimizer adam --device h100"],
    options=[
        options.model_in_batches,
        options.training,
        options.fitting,
        options.element_type,
        options.units,
    ],
    asks={"inplace": ASK, "align": ASK},
    files={"plan": ("Also write an offset for each activation in one block of memory (JSON).", plan_text)},
    batches=memory_batches_report,
)
