"""Quantised checkpoints: how many weights are packed into the words that a file stores, and what scales them.

A packed tensor is known by its name and those beside it, in a way of its own for each method (``_METHODS``).
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

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

#: Ends of the names beside a weight of bitsandbytes.
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


#: The method of a quantised weight, what is packed into it, and the names of its scales; "" for any other tensor.
_Packing: TypeAlias = "tuple[str, Packed | None, tuple[str, ...]]"

#: The end of a name -> the tensor of this name beside another; None if there is none.
_Beside: TypeAlias = Callable[[str], StoredTensor | None]

_UNPACKED: _Packing = ("", None, ())


def _packing(tensor: StoredTensor, names: Mapping[str, StoredTensor]) -> _Packing:
    """The packing of a tensor by the first method that it looks like."""
    stem, _, last = tensor.name.rpartition(".")
    front = f"{stem}." if stem else ""
    packings = (method(last, tensor, lambda end: names.get(front + end)) for method in _METHODS)
    return next((packing for packing in packings if packing is not None), _UNPACKED)


def _present(beside: _Beside, ends: Iterable[str]) -> tuple[str, ...]:
    """The names of the tensors that are there."""
    return tuple(tensor.name for tensor in map(beside, ends) if tensor is not None)


def _gptq_or_awq(last: str, tensor: StoredTensor, beside: _Beside) -> _Packing | None:
    """GPTQ and AWQ: ``qweight`` of 32-bit words with ``scales``, ``qzeros``, ``g_idx``.

    The words hold neighbours along the inputs, of AWQ along the outputs; scales go by column.
    https://github.com/AutoGPTQ/AutoGPTQ, https://github.com/mit-han-lab/llm-awq
    """
    if last != "qweight" or len(tensor.shape) != 2 or (scales := beside("scales")) is None:
        return None
    zeros, order = beside("qzeros"), beside("g_idx")
    rows, columns = tensor.shape
    outputs = scales.shape[-1] if scales.shape else 0
    if tensor.dtype != "int32" or not rows or not columns or not outputs:
        return _UNPACKED
    if columns == outputs:
        bits = 32 * zeros.shape[-1] // outputs if zeros is not None and zeros.shape else 0
        inputs = order.numel if order is not None and order.numel else 32 * rows // bits if bits else 0
        bits = 32 * rows // inputs if inputs else 0
        return ("GPTQ", Packed(f"int{bits}", (outputs, inputs)), (scales.name,)) if 0 < bits <= 8 else _UNPACKED
    if outputs % columns == 0 and outputs // columns in (4, 8, 16):
        return "AWQ", Packed(f"int{32 * columns // outputs}", (outputs, rows)), (scales.name,)
    return _UNPACKED


def _compressed_tensors(last: str, tensor: StoredTensor, beside: _Beside) -> _Packing | None:
    """compressed-tensors: ``weight_packed`` with ``weight_shape``; https://github.com/vllm-project/compressed-tensors"""
    if last != "weight_packed" or not (shape := _numbers(beside("weight_shape"))):
        return None
    bits = 8 * tensor.nbytes // max(math.prod(shape), 1)
    packed = Packed(f"int{bits}", shape) if bits else None
    return "compressed-tensors", packed, _present(beside, ("weight_shape", *SCALES))


def _mxfp4(last: str, tensor: StoredTensor, beside: _Beside) -> _Packing | None:
    """MXFP4: ``*_blocks`` with ``*_scales``; https://huggingface.co/openai/gpt-oss-20b"""
    if not last.endswith("_blocks") or tensor.dtype != "uint8" or len(tensor.shape) < 2:
        return None
    scales = beside(last.removesuffix("_blocks") + "_scales")
    if scales is None or scales.dtype != "uint8" or scales.shape != tensor.shape[:-1]:
        return None
    *outer, groups, width = tensor.shape
    return "MXFP4", Packed("float4e2m1", (*outer, groups * width * 2)), (scales.name,)


def _bitsandbytes(last: str, tensor: StoredTensor, beside: _Beside) -> _Packing | None:
    """bitsandbytes in NF4 or FP4: ``weight`` with ``weight.absmax``; https://github.com/bitsandbytes-foundation/bitsandbytes"""
    if tensor.dtype != "uint8" or beside(f"{last}.absmax") is None:
        return None
    ends = {kind: f"{last}.quant_state.bitsandbytes__{kind}" for kind in ("nf4", "fp4")}
    kind = next((kind for kind, end in ends.items() if beside(end) is not None), "nf4")
    shape = _shape_in(beside(ends[kind]), 2 * tensor.numel) or (2 * tensor.numel,)
    settings = [f"{last}.{end}" for end in _BITSANDBYTES]
    return "bitsandbytes", Packed(kind, shape), _present(beside, (*settings, *ends.values()))


def _nvfp4(last: str, tensor: StoredTensor, beside: _Beside) -> _Packing | None:
    """NVFP4: ``weight`` of bytes with ``weight_scale``, ``weight_scale_2``; https://github.com/NVIDIA/TensorRT-Model-Optimizer"""
    if last != "weight" or tensor.dtype != "uint8" or len(_present(beside, ("weight_scale", "weight_scale_2"))) < 2:
        return None
    shape = (*tensor.shape[:-1], tensor.shape[-1] * 2)
    return "NVFP4", Packed("float4e2m1", shape), _present(beside, SCALES)


def _scaled(last: str, tensor: StoredTensor, beside: _Beside) -> _Packing | None:
    """fp8 and int8: ``weight`` with a scale beside, such as ``weight_scale_inv``, or ``SCB`` of bitsandbytes."""
    if not last.endswith("weight") or not tensor.dtype.startswith(("float8", "int8")):
        return None
    scales = _present(beside, SCALES)
    return ("scaled", None, scales) if scales else None


_METHODS = (_gptq_or_awq, _compressed_tensors, _mxfp4, _bitsandbytes, _nvfp4, _scaled)


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
