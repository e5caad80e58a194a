"""The tensors of PyTorch modules and checkpoints as payloads.

A checkpoint is loaded with ``weights_only=True``: tensors and plain containers, and no code that a pickle names.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from flopwise.dtypes import BITS
from flopwise.errors import ModelError
from flopwise.readers.formats import shown
from flopwise.readers.payloads import Payload, Stored, in_slots, parted, role_of
from flopwise.readers.payloads_coding import coding, length
from flopwise.readers.payloads_places import Elements, Loaded
from flopwise.readers.source import FileSource, Source

#: PyTorch's names of element types where they are not flopwise's.
_NAMES = {
    "float8_e4m3fn": "float8e4m3fn",
    "float8_e4m3fnuz": "float8e4m3fnuz",
    "float8_e5m2": "float8e5m2",
    "float8_e5m2fnuz": "float8e5m2fnuz",
    "float8_e8m0fnu": "float8e8m0",
    "float4_e2m1fn_x2": "float4e2m1",
    "qint8": "int8",
    "quint8": "uint8",
    "qint32": "int32",
}

#: Where checkpoints of training keep the weights.
_WEIGHTS = ("state_dict", "model_state_dict", "model", "module", "net")

#: How deep containers in a checkpoint may nest.
DEEPEST = 32


class _Tensor(Elements):
    """The elements of a tensor of PyTorch's, on whatever device; those on the CPU are views."""

    def __init__(self, tensor: Any, dtype: str, count: int) -> None:
        self._tensor = tensor
        self._dtype = dtype
        self._count = count

    def blocks(self, elements: int) -> Iterator[Any]:
        tensor = self._flat()
        found = coding(self._dtype)
        assert found is not None
        if not found.stored or self._dtype == "bfloat16":
            width = max(elements // found.elements, 1)
            for at in range(0, tensor.numel(), width):
                yield found.decode(_bytes(tensor[at : at + width]))[: self._count]
            return
        for at in range(0, tensor.numel(), elements):
            yield from Loaded(tensor[at : at + elements].cpu().numpy).blocks(elements)

    def raw(self) -> Any:
        tensor, found = self._tensor.detach(), coding(self._dtype)
        plain = tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_quantized
        if not plain or found is None or not found.stored or tensor.is_conj() or tensor.is_neg():
            return None
        return Loaded(lambda: _bytes(tensor.reshape(-1)).view(found.stored), flat=True).raw()

    def _flat(self) -> Any:
        tensor = self._tensor.detach()
        if tensor.is_meta:
            raise ModelError("the tensors are on the meta device, which has no elements")
        if tensor.is_quantized:
            tensor = tensor.int_repr()
        return tensor.resolve_conj().resolve_neg().reshape(-1)


def _bytes(tensor: Any) -> Any:
    import torch

    plain = tensor.contiguous().cpu()
    return plain.view(torch.uint8).numpy() if plain.numel() else plain.to(torch.uint8).numpy()


def payload_of(name: str, tensor: Any, role: str, op: str = "") -> Payload | None:
    """A tensor as a payload; None for a sparse or nested one, and for one whose type holds no numbers."""
    import torch

    if tensor.layout is not torch.strided or tensor.is_nested:
        return None
    dtype = str(tensor.dtype).removeprefix("torch.")
    dtype = _NAMES.get(dtype, dtype)
    if dtype not in BITS or coding(dtype) is None:
        return None
    shape = tuple(tensor.shape)
    count = tensor.numel()
    if dtype == "float4e2m1" and shape:  # PyTorch's shape counts bytes
        shape, count = (*shape[:-1], shape[-1] * 2), count * 2
    held = _Tensor(tensor, dtype, count)
    return Payload(name, shape, dtype, length(count, dtype), parted(name)[0], op, role, elements=held)


def of_module(model: Any, name: str = "") -> Stored:
    """The parameters and buffers of a module; shared ones once.

    Raises:
        ModelError: it is no module.
    """
    import torch

    title = name or f"{type(model).__module__}.{type(model).__qualname__}"
    if not isinstance(model, torch.nn.Module):  # an exported program
        return _of_tensors(title, dict(model.state_dict), set(model.graph_signature.buffers), ())
    kinds = {path: type(module).__name__ for path, module in model.named_modules()}
    tensors: dict[str, Any] = dict(model.named_parameters())
    buffers = dict(model.named_buffers())
    return _of_tensors(title, {**tensors, **buffers}, set(buffers), (), kinds)


def _of_tensors(
    title: str,
    tensors: Mapping[str, Any],
    buffers: set[str] | None,
    notes: tuple[str, ...],
    kinds: Mapping[str, str] | None = None,
) -> Stored:
    found: list[Payload] = []
    strange: list[str] = []
    for name, tensor in tensors.items():
        role = "weight"
        if buffers is None or name in buffers:
            role = role_of(name, str(tensor.dtype).removeprefix("torch."))
            role = "buffer" if buffers is not None and role == "weight" else role
        payload = payload_of(name, tensor, role, (kinds or {}).get(parted(name)[0], ""))
        if payload is None:
            strange.append(name)
        else:
            found.append(payload)
    if strange:
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        notes = (*notes, f"tensor {strange[0]!r}{more} is sparse, nested or of a type that holds no numbers; left out")
    return Stored(title, "torch", in_slots(found), notes)


def of_checkpoint(source: Source) -> Stored:
    """The tensors of a checkpoint, an exported program or a TorchScript file.

    Raises:
        ModelError: it is damaged, needs more than tensors and plain containers, or PyTorch is missing.
    """
    name = shown(source.name)
    if not isinstance(source, FileSource):
        raise ModelError(f"{name}: PyTorch reads checkpoints from local files only; download it first")
    try:
        import torch
    except ImportError:
        raise ModelError(f"{name}: PyTorch is needed for that: pip install torch") from None
    path = source.name
    source.close()
    zipped = zipfile.is_zipfile(path)
    if zipped and _is_model(path):
        from flopwise.readers import torch_load

        return of_module(torch_load.loaded(path), name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what a pickle looks like; what matters is an error
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except Exception as error:  # whatever PyTorch says about a damaged file
        raise ModelError(f"{name}: {_why(error)}") from error
    tensors = dict(_tensors(loaded, torch.Tensor))
    if not tensors:
        raise ModelError(f"{name}: holds no tensors")
    return _of_tensors(name, tensors, None, ())


def _is_model(path: str) -> bool:
    """Whether an archive is an exported program or a TorchScript file."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
    except Exception:  # a damaged archive, whatever the library says; PyTorch says it too
        return False
    exported = any(m.endswith(("models/model.json", "serialized_exported_program.json")) for m in members)
    return exported or (any("/code/" in m for m in members) and any(m.endswith("/constants.pkl") for m in members))


def _why(error: Exception) -> str:
    """What PyTorch says, without its advice to load the pickle all the same."""
    text = " ".join(str(error).split())
    if "Unsupported global" in text or "WeightsUnpickler" in text or "weights_only" in text.lower():
        what = text.partition("GLOBAL ")[2].split(" ")[0] or text.partition("WeightsUnpickler error: ")[2][:80]
        named = f" ({what})" if what else ""
        return f"its pickle wants more than tensors{named}, and is not loaded; save its state_dict() instead"
    return f"no checkpoint of PyTorch's, or damaged ({text[:150]})"


def _tensors(value: Any, kind: type[Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors in nested containers by their dotted paths; only the weights of a checkpoint of training."""
    if isinstance(value, kind):
        yield prefix or "tensor", value
    elif depth > DEEPEST:
        raise ModelError(f"containers nest deeper than {DEEPEST}")
    elif isinstance(value, Mapping):
        if depth == 0:
            inner = next((value[k] for k in _WEIGHTS if isinstance(value.get(k), Mapping)), None)
            if inner is not None and not any(isinstance(v, kind) for v in value.values()):
                yield from _tensors(inner, kind, "", depth + 1)
                return
        for key, item in value.items():
            yield from _tensors(item, kind, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from _tensors(item, kind, f"{prefix}.{place}" if prefix else str(place), depth + 1)
