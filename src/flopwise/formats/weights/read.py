"""Files with tensors and no graph: safetensors, models in several files with an index, and packed weights."""

from __future__ import annotations

import functools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from flopwise._limits import within_limit
from flopwise._results import Json
from flopwise.errors import FlopwiseError, ModelError, counted
from flopwise.formats.sources.location import is_url, naming, shown
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import Source
from flopwise.formats.sources.text import json_object
from flopwise.formats.weights.storage import SourceStorage
from flopwise.formats.weights.tensor import NETWORK, StoredTensors, in_slots, in_storage, length, said_by_name
from flopwise.graph import Graph, Kind, Module, Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.graph.stored import Packed, Storage, StoredTensor

# Safetensors files: names, types, shapes and places of the tensors from the header; no element is read.
#
# Source: https://github.com/huggingface/safetensors#format

#: Bytes of the number in front of the header.
FRONT = 8

MOST_DIMS = 64

#: The file's names of element types -> flopwise's.
DTYPES: dict[str, str] = {
    "BOOL": "bool",
    "F4": "float4e2m1",
    "F6_E2M3": "float6e2m3",
    "F6_E3M2": "float6e3m2",
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "float8e5m2",
    "F8_E4M3": "float8e4m3fn",
    "F8_E5M2FNUZ": "float8e5m2fnuz",
    "F8_E4M3FNUZ": "float8e4m3fnuz",
    "F8_E8M0": "float8e8m0",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "C64": "complex64",
}


class Entry(NamedTuple):
    """A tensor of a file by place: its elements lie at [start, end)."""

    name: str
    #: A name of ``flopwise.graph.dtypes``.
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def open_safetensors(source: Source) -> StoredTensors:
    """The tensors of a file.

    Raises:
        ModelError: as for ``read_header``.
    """
    entries = read_header(source)
    storage = SourceStorage.from_source(source)
    tensors = [
        in_storage(e.name, e.shape, e.dtype, storage, ((e.start, e.end),), **said_by_name(e.name, e.dtype))
        for e in entries
    ]
    return StoredTensors.from_file(storage, "safetensors", in_slots(tensors))


def read_header(source: Source) -> list[Entry]:
    """The tensors of a file, in the order of their places.

    Raises:
        ModelError: the file is not a safetensors file, is truncated or damaged, or has a header that cannot be right.
    """
    name = source.name
    if source.size < FRONT + 2:
        raise ModelError(f"{name}: not a safetensors file, or truncated: it has {source.size} bytes")
    size = int.from_bytes(source.read(0, FRONT), "little")
    if size > source.size - FRONT:
        raise ModelError(f"{name}: not a safetensors file, or truncated: its header should have {size:,} bytes")
    within_limit("header_bytes", size, f"{name}: its header has")
    text = source.read(FRONT, size)
    if not text.startswith(b"{"):
        raise ModelError(f"{name}: not a safetensors file (its header is not a JSON object)")
    header = parsed(text, name, "header")
    entries = [_entry(name, key, value, FRONT + size) for key, value in header.items() if key != "__metadata__"]
    return in_order(entries, FRONT + size, source)


def parsed(text: bytes, name: str, what: str) -> Json:
    """The JSON object in a text.

    Raises:
        ModelError: it is none, a name stands in it twice, or it is nested too deeply.
    """

    def once(pairs: Iterable[tuple[str, object]]) -> Json:
        listed = list(pairs)
        named = dict(listed)
        if len(named) < len(listed):
            twice = next(key for key, count in Counter(key for key, _ in listed).items() if count > 1)
            raise ModelError(f"{name}: its {what} names {twice[:100]!r} twice")
        return named

    try:
        content = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{name}: its {what} is not JSON, or damaged ({' '.join(str(error).split())[:100]})"
        ) from error
    if not isinstance(content, dict):
        raise ModelError(f"{name}: its {what} is not a JSON object")
    return content


def _entry(file: str, name: str, value: object, data: int) -> Entry:
    def wrong(why: str) -> ModelError:
        return ModelError(f"{file}: tensor {name[:200]!r}: {why}")

    if not isinstance(value, dict):
        raise wrong("is not described by dtype, shape and data_offsets")
    dtype, shape, places = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise wrong(f"has the unknown element type {str(dtype)[:50]!r}")
    if not isinstance(shape, list) or len(shape) > MOST_DIMS or not _natural(shape):
        raise wrong(f"has no shape of at most {MOST_DIMS} dimensions: {str(shape)[:100]}")
    if not isinstance(places, list) or len(places) != 2 or not _natural(places):
        raise wrong(f"has no data_offsets of two numbers: {str(places)[:100]}")
    start, end = places
    needed = length(math.prod(shape), DTYPES[dtype])
    if end < start or end - start != needed:
        raise wrong(
            f"of shape {tuple(shape)} and type {dtype} takes {needed:,} bytes, "
            f"but its data_offsets are {start:,} to {end:,}"
        )
    return Entry(name, DTYPES[dtype], tuple(shape), data + start, data + end)


def _natural(values: list[Any]) -> bool:
    """True where all values are whole numbers from 0 to 2^63 - 1, and none is a flag."""
    return {*map(type, values)} <= {int} and min(values, default=0) >= 0 and max(values, default=0) < 1 << 63


def in_order(entries: list[Entry], start: int, source: Source) -> list[Entry]:
    """The tensors of a file in the order of their places, which cover it without overlap and without holes.

    Raises:
        ModelError: they do not.
    """
    ordered = sorted(entries, key=lambda entry: (entry.start, entry.end))
    here, before = start, ""
    for entry in ordered:
        if entry.start < here:
            raise ModelError(f"{source.name}: tensors {before[:200]!r} and {entry.name[:200]!r} overlap")
        if entry.start > here:
            raise ModelError(
                f"{source.name}: the {entry.start - here:,} bytes before {entry.name[:200]!r} belong to no tensor"
            )
        if entry.end > source.size:
            raise ModelError(
                f"{source.name}: truncated: tensor {entry.name[:200]!r} ends at byte {entry.end:,}, "
                f"but the file has {source.size:,}"
            )
        here, before = entry.end, entry.name
    if here != source.size:
        raise ModelError(f"{source.name}: its last {source.size - here:,} bytes belong to no tensor")
    return ordered


# Quantised checkpoints: how many weights are packed into the words that a file stores, and what scales them.
#
# A packed tensor is known by its name and those beside it, in a way of its own for each method (``_METHODS``).

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


# A file with tensors and no graph as a Graph: one row for each tensor, whose operator is unknown.
#
# So its parameters and bytes can be listed and added up, while what it computes stays unknown, not zero. A model
# may lie in several files with an index: model.safetensors.index.json, pytorch_model.bin.index.json.
#
# Source: https://huggingface.co/docs/safetensors/metadata_parsing and
# https://huggingface.co/docs/transformers/big_models

#: The operator of each row.
OP = "flopwise::Tensor"

#: Parts of a name that are taken for modules inside each other; a longer one is that of one module.
DEEPEST = 64

#: Gives the stored tensors of an open file.
Opener = Callable[[Source], StoredTensors]


def open_weights(opener: Opener, model: str) -> StoredTensors:
    """The stored tensors of a file; no element is read.

    Raises:
        ModelError: the file cannot be read.
    """
    with naming(model):
        source = open_source(model)
        try:
            stored = opener(source)
            tensors, notes = with_packing(stored.tensors)
        except BaseException:
            source.close()
            raise
        quantised = "" if is_url(model) else configured(model)
        if quantised and not notes:
            quantised += "; tensors are counted as they are stored"
        return replace(stored, tensors=tensors, notes=(*stored.notes, *notes, *([quantised] if quantised else [])))


def read_weights(opener: Opener, model: str) -> Graph:
    """The tensors of a file or of all files that an index names; only headers are read.

    Args:
        opener: takes its format apart.
        model: path or URL.

    Raises:
        ModelError: the file cannot be read.
    """
    name = shown(model)
    with open_weights(opener, model) as stored:
        if not stored.tensors:
            raise ModelError(f"{name}: holds no tensors")
        note = f"{name} holds weights only: name the architecture to count it, e.g. torchvision.models:resnet50"
        return Graph(
            name=_title(name),
            format=stored.format,
            source=name,
            inputs=(),
            outputs=(),
            nodes=tuple([_row(tensor, stored.format) for tensor in stored.tensors]),
            weights={tensor.name: tensor for tensor in stored.tensors},
            warnings=(note, *stored.notes),
        )


def _row(stored: StoredTensor, origin: str) -> Node:
    kind: Kind = "weight"
    if stored.role != "weight":  # tables take memory too; single numbers do not count
        kind = "buffer" if stored.shape else "constant"
    attrs: dict[str, object] = {}
    dtype = stored.packed.dtype if stored.packed else stored.dtype
    if stored.dtype in BITS and stored.packed is None:
        tensor = Tensor(stored.name, stored.shape, stored.dtype, kind)
    else:  # bytes, which hold more elements than bytes
        tensor = Tensor(stored.name, (stored.nbytes,), "uint8", kind)
        shape = stored.packed.shape if stored.packed else stored.shape
        attrs |= {"elements": math.prod(shape), "shape": shape, "blocks": dtype}
    input, result = Tensor(f"{stored.name}:input", None, None), Tensor(f"{stored.name}:output", None, None)
    return Node(OP, stored.name, (tensor, input), (result,), attrs, _scope(stored.layer), f"{origin}:{dtype}")


@functools.lru_cache(1 << 12)
def _scope(layer: str) -> tuple[Module, ...]:
    """The modules of a dotted path, outermost first; those around it are shared with its neighbours."""
    if layer.count(".") >= DEEPEST:
        return (Module(layer, ""),)
    return (*_scope(layer.rpartition(".")[0]), Module(layer, "")) if layer else ()


def _title(name: str) -> str:
    base = os.path.basename(name.rstrip("/")) or name
    for ending in (".safetensors.index.json", ".bin.index.json"):
        base = base.removesuffix(ending)
    return os.path.splitext(base)[0] or base


def places_of(source: Source) -> dict[str, str]:
    """The files that the tensors of an index lie in, by the names of the tensors.

    Raises:
        ModelError: the index is damaged.
    """
    within_limit("header_bytes", source.size, f"{source.name}: the index has")
    places = parsed(source.read(0, source.size), source.name, "index").get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise ModelError(f"{source.name}: no index: it has no weight_map from names to files")
    return places


def open_parts(source: Source, format: str, opener: Opener, endings: tuple[str, ...]) -> StoredTensors:
    """The tensors of all files that an index names, which are in its folder.

    Args:
        source: the index.
        format: of the model.
        opener: gives the tensors of one of its files.
        endings: what the names of these files end in.

    Raises:
        ModelError: the index or a file is damaged, or they do not fit together.
    """
    places = places_of(source)
    tensors: list[StoredTensor] = []
    storages: list[Storage] = []
    notes: list[str] = []
    names: dict[str, set[str]] = {}
    for name, file in places.items():
        names.setdefault(file, set()).add(name)
    for file, here in names.items():
        if os.path.basename(file) != file or "\\" in file or file in ("", ".", ".."):
            raise ModelError(f"{source.name}: its shard {file[:200]!r} does not lie beside it; refused")
        if not file.lower().endswith(endings):
            raise ModelError(f"{source.name}: its shard {file[:200]!r} is not a weights file")
        stored = opener(source.beside(file, f"{source.name}: a shard"))
        storages += stored.storages
        tensors += [tensor for tensor in stored.tensors if tensor.name in here]
        there = stored.others.union(tensor.name for tensor in stored.tensors)
        missing = here - there
        if missing:
            raise ModelError(f"{source.name}: {file} has no tensor {min(missing)[:200]!r}, but the index says so")
        extra = len(there) - len(here)
        if extra:
            notes.append(f"{file} holds {counted(extra, 'tensor')} that the index does not name; left out")
        notes += [note for note in stored.notes if NETWORK not in note]
    index_file = SourceStorage.from_source(source)  # its count of bytes over the network is that of all files
    result = StoredTensors.from_file(index_file, format, in_slots(tensors), tuple(notes))
    return replace(result, storages=(index_file, *storages))
