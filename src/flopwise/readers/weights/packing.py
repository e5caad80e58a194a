"""Quantised checkpoints: how many weights are packed into the words that a file stores, and what scales them.

A packed tensor is known by the names beside it:

- GPTQ, AWQ: ``qweight`` with ``scales``, ``qzeros``, ``g_idx``; https://github.com/AutoGPTQ/AutoGPTQ, https://github.com/mit-han-lab/llm-awq
- compressed-tensors: ``weight_packed`` with ``weight_shape``; https://github.com/vllm-project/compressed-tensors
- MXFP4: ``*_blocks`` with ``*_scales``; https://huggingface.co/openai/gpt-oss-20b
- bitsandbytes: ``weight`` with ``weight.absmax`` (NF4, FP4) or ``SCB`` (int8); https://github.com/bitsandbytes-foundation/bitsandbytes
- NVFP4: ``weight`` of bytes with ``weight_scale`` and ``weight_scale_2``; fp8: ``weight`` with ``weight_scale`` or
  ``weight_scale_inv``; https://github.com/NVIDIA/TensorRT-Model-Optimizer
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from flopwise.errors import FlopwiseError
from flopwise.graph.stored import Packed, StoredTensor
from flopwise.readers.source.text import json_object

#: Last parts of the names of tensors that scale others, or move their zero.
SCALES = frozenset(
    {
        *("scales", "scale", "weight_scale", "weight_scale_inv", "weight_scale_2", "input_scale", "activation_scale"),
        *("output_scale", "k_scale", "v_scale", "SCB", "scale_weight", "scale_input"),
    }
)

#: What stands in the names of tensors that describe another.
DESCRIPTIONS = ("weight_shape", "quant_state")

#: Bytes of a tensor that says how another is packed.
_SMALL = 1 << 16

#: Names that stand beside a weight of bitsandbytes.
_BITSANDBYTES = ("absmax", "quant_map", "nested_absmax", "nested_quant_map")


def with_packing(tensors: Iterable[StoredTensor]) -> tuple[tuple[StoredTensor, ...], tuple[str, ...]]:
    """The tensors with what is packed into them, their scales as buffers; and what the user should know about that."""
    listed = tuple(tensors)
    names = {tensor.name: tensor for tensor in listed}
    changes: dict[str, StoredTensor] = {}
    methods: Counter[str] = Counter()
    for tensor in listed:
        method, packed, scales = _packing(tensor, names)
        if packed is not None:
            changes[tensor.name] = replace(tensor, packed=packed, role="weight")
        if method:
            methods[f"{method} {packed.dtype if packed else tensor.dtype}"] += 1
            for name in scales:
                described = any(mark in name for mark in DESCRIPTIONS)
                changes[name] = replace(names[name], role="constant" if described else "buffer")
    if not methods:
        return listed, ()
    kinds = ", ".join(f"{count} of {method}" for method, count in methods.items())
    note = f"quantised weights ({kinds}): parameters are the weights that are packed, and scales are buffers"
    return tuple([changes.get(tensor.name, tensor) for tensor in listed]), (note,)


def _packing(tensor: StoredTensor, names: Mapping[str, StoredTensor]) -> tuple[str, Packed | None, tuple[str, ...]]:
    """The method of a quantised weight, what is packed into it, and the names of its scales; "" for any other."""
    stem, _, last = tensor.name.rpartition(".")
    front = f"{stem}." if stem else ""

    def beside(*ends: str) -> tuple[str, ...]:
        return tuple(front + end for end in ends if front + end in names)

    if last == "qweight" and len(tensor.shape) == 2 and (scales := names.get(f"{front}scales")) is not None:
        return _words(tensor, scales, names.get(f"{front}qzeros"), names.get(f"{front}g_idx"), beside("scales"))
    if last == "weight_packed" and (shape := _numbers(names.get(f"{front}weight_shape"))):
        bits = 8 * tensor.nbytes // max(math.prod(shape), 1)
        return "compressed-tensors", Packed(f"int{bits}", shape) if bits else None, beside("weight_shape", *SCALES)
    if last.endswith("_blocks") and tensor.dtype == "uint8" and len(tensor.shape) > 1:
        scales = names.get(tensor.name.removesuffix("_blocks") + "_scales")
        if scales is not None and scales.dtype == "uint8" and scales.shape == tensor.shape[:-1]:
            *outer, groups, width = tensor.shape
            return "MXFP4", Packed("float4e2m1", (*outer, groups * width * 2)), (scales.name,)
    if f"{tensor.name}.absmax" in names and tensor.dtype == "uint8":
        kinds = {kind: f"{tensor.name}.quant_state.bitsandbytes__{kind}" for kind in ("nf4", "fp4")}
        kind = next((kind for kind, name in kinds.items() if name in names), "nf4")
        shape = _shape_in(names.get(kinds[kind]), 2 * tensor.numel) or (2 * tensor.numel,)
        also = tuple(n for n in (*(f"{tensor.name}.{end}" for end in _BITSANDBYTES), *kinds.values()) if n in names)
        return "bitsandbytes", Packed(kind, shape), also
    if last == "weight" and tensor.dtype == "uint8" and beside("weight_scale") and beside("weight_scale_2"):
        return "NVFP4", Packed("float4e2m1", (*tensor.shape[:-1], tensor.shape[-1] * 2)), beside(*SCALES)
    if last.endswith("weight") and tensor.dtype.startswith(("float8", "int8")) and (also := beside(*SCALES)):
        return "scaled", None, also
    return "", None, ()


def _words(
    tensor: StoredTensor,
    scales: StoredTensor,
    zeros: StoredTensor | None,
    order: StoredTensor | None,
    names: tuple[str, ...],
) -> tuple[str, Packed | None, tuple[str, ...]]:
    """The content of 32-bit words: of GPTQ along the inputs, of AWQ along the outputs, with scales by column."""
    rows, columns = tensor.shape
    outputs = scales.shape[-1] if scales.shape else 0
    if tensor.dtype != "int32" or not rows or not columns or not outputs:
        return "", None, ()
    if columns == outputs:
        bits = 32 * zeros.shape[-1] // outputs if zeros is not None and zeros.shape else 0
        inputs = order.numel if order is not None and order.numel else 32 * rows // bits if bits else 0
        bits = 32 * rows // inputs if inputs else 0
        return ("GPTQ", Packed(f"int{bits}", (outputs, inputs)), names) if 0 < bits <= 8 else ("", None, ())
    if outputs % columns == 0 and outputs // columns in (4, 8, 16):
        return "AWQ", Packed(f"int{32 * columns // outputs}", (outputs, rows)), names
    return "", None, ()


def _numbers(tensor: StoredTensor | None) -> tuple[int, ...]:
    """The elements of a small tensor that holds a shape; () where there is none."""
    if tensor is None or not 0 < tensor.numel <= 8 or not tensor.dtype.startswith("int"):
        return ()
    try:
        shape = tuple(map(int, tensor.array().reshape(-1).tolist()))
    except FlopwiseError:
        return ()
    return shape if all(0 < d < 1 << 40 for d in shape) else ()


def _shape_in(tensor: StoredTensor | None, elements: int) -> tuple[int, ...]:
    """The shape in a description of bitsandbytes, which is JSON in bytes; () where it says no other than that many."""
    if tensor is None or tensor.nbytes > _SMALL:
        return ()
    try:
        shape = json.loads(bytes(tensor.array().tobytes()))["shape"]
        if all(isinstance(d, int) and d > 0 for d in shape) and elements - 1 <= math.prod(shape) <= elements:
            return tuple(shape)
    except (FlopwiseError, KeyError, TypeError, ValueError, RecursionError):
        pass
    return ()


def configured(model: str) -> str:
    """The quantisation that the configuration beside a local file of weights states, in words; "" where none."""
    folder = model if os.path.isdir(model) else os.path.dirname(model)
    for file in ("config.json", "quantize_config.json", "hf_quant_config.json"):
        settings = json_object(os.path.join(folder, file))
        plain = settings if "bits" in settings else {}
        inner = settings.get("quantization_config", settings.get("quantization", plain))
        if not isinstance(inner, dict) or not inner:
            continue
        method = inner.get("quant_method") or inner.get("quant_algo") or ("gptq" if "bits" in inner else "")
        facts = [f"{method}" if isinstance(method, str) and method else "a method without a name"]
        for key, unit in (("bits", "bits"), ("group_size", "in a group")):
            if isinstance(inner.get(key), int):
                facts.append(f"{inner[key]} {unit}")
        return f"{file} says that the weights are quantised: {', '.join(facts)}"
    return ""
