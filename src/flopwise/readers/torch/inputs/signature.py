"""What is known of a module's inputs before it runs: their names, and shapes in which names stand for open sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from flopwise.errors import InputError
from flopwise.readers.inputs import InputSpec, input_specs, parse
from flopwise.readers.torch.capture.tensors import DTYPES
from flopwise.readers.torch.inputs.arguments import parameters_of
from flopwise.readers.torch.inputs.configured import configured
from flopwise.readers.torch.inputs.making import WHOLE


def open_specs(model: nn.Module, inputs: Any) -> list[InputSpec]:
    """The inputs of a module as the caller describes them, each with its element type; see `_described`."""
    floats = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    specs = _described(model, inputs)
    listed = next((s.name for s in specs if s.items is not None), None)
    if listed is not None:
        raise InputError(
            f"input {listed!r} is a list of tensors, whose sizes cannot be symbols; wrap the module so that"
            " its inputs are tensors"
        )
    return [replace(spec, dtype=spec.dtype or ("int64" if spec.name in WHOLE else DTYPES[floats])) for spec in specs]


def _described(model: nn.Module, inputs: Any) -> list[InputSpec]:
    """The inputs of a module as the caller describes them; those of a Hugging Face model are open in "batch" and
    "sequence" when nobody does.

    Args:
        model: the module.
        inputs: texts of the form ``name:dtype:shape``, a mapping from name to shape, or one shape.

    Raises:
        InputError: nothing is given where something is needed, or it is none of these.
    """
    names = parameters_of(model)
    if inputs is None:
        shapes = configured(model, names)
        if shapes is None:
            first = names[0] if names else "x"
            raise InputError(f"the inputs are needed, with names for open sizes: -i {first}:f32:batchx3x224x224")
        from_config = configured(model, names, {"batch": 1 << 20, "sequence": 1 << 21, "target": 1 << 22}) or {}
        words = {1 << 20: "batch", 1 << 21: "sequence", 1 << 22: "target"}
        return [InputSpec(name, tuple([words.get(d, d) for d in from_config[name]])) for name in shapes]
    if isinstance(inputs, str):
        inputs = [inputs]
    if isinstance(inputs, list) and all(isinstance(text, str) for text in inputs):
        specs = []
        for position, text in enumerate(inputs):
            named = any(text.startswith(f"{name}:") for name in names)
            specs.append(parse(text, names if named else [names[position] if position < len(names) else "x"]))
        return specs
    if isinstance(inputs, (tuple, torch.Size)) and names:
        inputs = {names[0]: tuple(inputs)}
    return input_specs(inputs, names)
