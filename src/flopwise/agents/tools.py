"""The table of the tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import flopwise
from flopwise._results import Json
from flopwise.agents.tool import Lines, Tool
from flopwise.answers import report_of
from flopwise.errors import InputError
from flopwise.formats.table import format_of, is_model
from flopwise.report.report import Report


def _text(about: str, *choices: str) -> Json:
    return {"type": "string", "description": about, **({"enum": list(choices)} if choices else {})}


def _number(about: str, least: int = 1) -> Json:
    return {"type": "integer", "minimum": least, "description": about}


def _truth(about: str) -> Json:
    return {"type": "boolean", "description": about}


def _texts(about: str) -> Json:
    return {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": about}


def _numbers(about: str) -> Json:
    return {"type": "object", "additionalProperties": {"type": "integer"}, "description": about}


_FORMS = (
    "a path or URL of a model file (.onnx, .pt2, .prototxt, .tflite, .gguf ...), a config.json or its folder, "
    "hf:ORG/NAME, or a library's name such as torchvision:resnet50, timm:vit_tiny_patch16_224, transformers:bert"
)
_MODEL = _text(f"The model: {_FORMS}.")
_READING = {
    "inputs": _texts("Shapes of the inputs, as name:dtype:shape, name:shape or shape, such as x:f32:1x3x224x224."),
    "dims": _numbers("Sizes of symbolic dimensions by name."),
    "batch_size": _number("First dimension of the inputs whose first dimension is the batch.", 0),
    "trips": _numbers("How often loops run, by name, where the model does not say."),
    "assume": _numbers("ONNX: sizes of dimensions that nothing else says, by name; * stands for all others."),
}
_CONVENTION = "A counting convention: flops (default), macs, fvcore, thop, ptflops, torch ..."

_REQUEST = {
    "model": _text("A config.json, a folder with one, hf:ORG/NAME, or a GGUF file."),
    "prompt": _number("Tokens of each sequence's prompt; of a training step, of each sequence. Default: 4096."),
    "batch": _number("Sequences. Default: 1."),
    "dtype": _text("Element type of the weights: bf16, fp16, fp32; default: as configured."),
    "weights": _text("How the weights are stored: int8, fp8, int4, awq, gptq, nf4, mxfp4, q4_k_m ..."),
    "device": _text("A device of flopwise devices, such as h100, for least times and what fits; 2xh100 for several."),
    **{
        way: _number(about)
        for way, about in (
            ("tp", "Devices that share each layer's products."),
            ("pp", "Stages that share the layers."),
            ("ep", "Devices that share the experts."),
            ("dp", "Replicas that share the batch."),
        )
    },
}


def _reading(model: str, trust_code: bool, settings: Mapping[str, object]) -> dict[str, Any]:
    """Arguments for a model; trust in its code where its format knows such a thing."""
    knows = "trust_code" in {field.name for field in fields(format_of(model).options)}
    return {**settings, "trust_code": trust_code} if knows else dict(settings)


def _profile(trust_code: bool, model: str, **settings: Any) -> Report:
    from flopwise.report.commands.profile import profile_report
    from flopwise.report.sheet.listing import Choice

    choice = Choice(settings.pop("by", "layer"), settings.pop("depth", None))
    return profile_report(flopwise.profile(model, **_reading(model, trust_code, settings)), choice)


def _llm(trust_code: bool, model: str, **settings: Any) -> Report:
    from flopwise.report.commands.llm.report import llm_report

    return llm_report(flopwise.llm(model, trust_code=trust_code, **settings))


def _llm_train(trust_code: bool, model: str, **settings: Any) -> Report:
    from flopwise.report.commands.llm.report import training_report

    return training_report(flopwise.llm(model, train=True, trust_code=trust_code, **settings))


def _compare(
    trust_code: bool,
    models: Sequence[str],
    conventions: Sequence[str] = ("flops",),
    batch_sizes: Sequence[int] = (),
    **settings: object,
) -> Report:
    from flopwise.report.commands.compare import comparison_report

    ways = {"models": models, "conventions": conventions, "batch_sizes": batch_sizes}
    several = [name for name, values in ways.items() if len(values) > 1]
    if len(several) > 1:
        raise InputError(f"compare one thing at a time, not several of {' and '.join(several)}")
    graphs = [
        flopwise.read(model, batch_size=size, **_reading(model, trust_code, settings))
        for model in models
        for size in batch_sizes or (None,)
    ]
    profiles = [flopwise.profile(graph, convention=name) for graph in graphs for name in conventions]
    labels = [f"batch {size}" for size in batch_sizes] if len(batch_sizes) > 1 else None
    return comparison_report(flopwise.compare(*profiles, labels=labels))


def _explain(
    trust_code: bool, what: str, conventions: Sequence[str] = (), by: str = "cause", **settings: object
) -> Report:
    if not is_model(what):
        from flopwise.report.commands.explain import operator_report

        if settings:
            raise InputError(f"{what}: is an operator, which {next(iter(settings))} says nothing of")
        return operator_report(what, conventions)
    from flopwise.report.commands.differences import difference_report

    names = list(dict.fromkeys(conventions or ("flops", "macs")))
    if len(names) < 2:
        raise InputError("give two different conventions: of a model, they are compared")
    graph = flopwise.read(what, **_reading(what, trust_code, settings))
    return difference_report([flopwise.profile(graph, convention=name) for name in names], by)


def _trace(trust_code: bool, trace: str, model: str | None = None, **settings: object) -> Report:
    from flopwise.report.commands.trace import trace_report

    reading = settings if model is None else _reading(model, trust_code, settings)
    return trace_report(flopwise.trace(model, trace, **reading))


def _memory(trust_code: bool, model: str, **settings: object) -> Report:
    report: Report = report_of(flopwise.memory(model, **_reading(model, trust_code, settings)))
    return report


def _bound(trust_code: bool, model: str, **settings: object) -> Report:
    from flopwise.report.commands.bound import bound_report

    return bound_report(flopwise.bound(model, **_reading(model, trust_code, settings)))


def _widest(line: Json) -> float | None:
    """The largest difference of a line's count from the first model's; None where one is unknown."""
    differences: list[float | None] = line["count"]["difference"]
    return None if None in differences else max(abs(difference or 0) for difference in differences)


def _apart(part: Json) -> float | None:
    """The distance of the counts that conventions make of a part; None where one of them cannot count it."""
    counts: list[float | None] = list(part["counts"].values())
    return None if None in counts else max(map(float, counts)) - min(map(float, counts))  # type: ignore[arg-type]


#: Name -> the tool.
TOOLS: dict[str, Tool] = {
    "profile": Tool(
        "The exact cost of a model, per layer and in total: MACs, FLOPs, parameters, bytes, activations.",
        {
            "model": _MODEL,
            **_READING,
            "convention": _text(_CONVENTION),
            "train": _truth("Also the backward pass of each layer, and what a training step takes."),
            "optimizer": _text("With train: its step and state.", "sgd", "momentum", "adam", "adamw"),
            "masked": _text("Attention scores: all that are computed, or those after masking.", "executed", "needed"),
            "by": _text("Also the figures of each group.", "layer", "op", "module", "dtype"),
            "depth": _number("With by=module: how many levels."),
        },
        ("model",),
        _profile,
        "profile",
        lines=Lines("layers", "count", lambda layer: layer["count"]),
    ),
    "llm": Tool(
        "A request to a language model from its configuration alone: prefill, decoding, cache, memory, least times.",
        {
            **_REQUEST,
            "generate": _number("Tokens generated after the prompt; 0: none. Default: 256.", 0),
            "kv_dtype": _text("Element type of keys and values in the cache: bf16, fp8, int4, q8_0 ..."),
            "logits": _text("Positions of the prompt that an engine scores.", "last", "all"),
            "conventions": _texts("Count each part by these conventions, too."),
            "gpus": _number("So many devices, divided in every way that tp, pp, ep and dp do not fix."),
            "cp": _number("Devices that share the tokens of each sequence."),
            "max_batched_tokens": _number("Tokens of an engine's step. Default: 8192."),
            "memory_fraction": {
                "type": "number",
                "description": "The part of a device's memory that an engine may use. Default: 0.9.",
            },
        },
        ("model",),
        _llm,
        "llm",
    ),
    "llm_train": Tool(
        "A training step of a language model from its configuration alone: FLOPs, memory, what each rank holds, MFU.",
        {
            **_REQUEST,
            "optimizer": _text("Default: adamw.", "sgd", "momentum", "adam", "adamw"),
            "checkpointing": _text("What the backward pass recomputes.", "none", "selective", "full"),
            "fsdp": _number("Ranks that share weights and batch (ZeRO-3)."),
            "lora": _text("Train low-rank adapters alone, such as r=16,targets=q_proj,v_proj."),
            "tokens_per_second": {"type": "number", "description": "Of a run on the device, for its MFU."},
            "measured": {"type": "number", "description": "Seconds of a step of a run on the device, for its MFU."},
        },
        ("model",),
        _llm_train,
        "llm-train",
    ),
    "compare": Tool(
        "Models side by side, or one model in several conventions or batch sizes, with differences to the first.",
        {
            "models": _texts(f"One model or more; each is {_FORMS}."),
            **{key: schema for key, schema in _READING.items() if key != "batch_size"},
            "conventions": _texts("Counting conventions; several to compare them on one model. Default: flops."),
            "batch_sizes": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "description": "Batch sizes; several to compare them on one model.",
            },
        },
        ("models",),
        _compare,
        "compare",
        ("models",),
        Lines("layers", "difference of counts", _widest),
    ),
    "explain": Tool(
        "The formula of an operator in each convention, or why conventions differ on a model, cause by cause.",
        {
            "what": _text(f"An operator, such as Conv or aten::linear, or a model: {_FORMS}."),
            "conventions": _texts(
                "Of a model: two or more to compare. Default: flops and macs. Of an operator: which."
            ),
            **_READING,
            "by": _text("Of a model: one line for each of these.", "cause", "op", "layer"),
        },
        ("what",),
        _explain,
        models=("what",),
        lines=Lines("parts", "difference of counts", _apart),
    ),
    "trace": Tool(
        "Recorded time on the layers of a model: a trace of PyTorch's profiler, onnxruntime or TensorRT.",
        {
            "trace": _text("Path of the trace; packed by gzip or not."),
            "model": _text(f"The model that ran: {_FORMS}. Without it the trace's own operators are counted."),
            **_READING,
            "step": _text("median (default), all, or the name of a step."),
            "phase": _text("Only this pass of a step.", "forward", "backward"),
            "device": _text("A device of flopwise devices for least times; default: what the trace names."),
            "beside": _text(
                "A file with more: an engine's layers, the capture of CUDA graphs, kernel_information.json."
            ),
            "split": _text("Divide segments' time by multiply-adds: an estimate.", "macs"),
        },
        ("trace",),
        _trace,
        "trace",
        lines=Lines("rows", "time", lambda row: row["time_ns"]),
    ),
    "memory": Tool(
        "Weights, activations and their peak: which tensors are alive there, layer by layer, with training too.",
        {
            "model": _MODEL,
            **_READING,
            "train": _truth("Also what the backward pass keeps."),
            "optimizer": _text("With train: its step and state.", "sgd", "momentum", "adam", "adamw"),
            "inplace": _truth("Element-wise operators may write over their inputs."),
        },
        ("model",),
        _memory,
        "memory",
        lines=Lines("steps", "bytes", lambda step: step["bytes"]),
    ),
    "bound": Tool(
        "The least time a model can take on a device, by arithmetic and memory, layer by layer; nothing runs.",
        {
            "model": _MODEL,
            **_READING,
            "device": _text("A device of flopwise devices, such as h100 or rtx4090."),
            "dtype": _text("Type of floating-point products, such as tfloat32; default: the model's own."),
        },
        ("model", "device"),
        _bound,
        "bound",
        lines=Lines("rows", "least time", lambda row: row["physical_ns"]),
    ),
}
