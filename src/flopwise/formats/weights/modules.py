"""The tensors of PyTorch's modules as stored tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from flopwise.errors import ModelError
from flopwise.formats.inputs import dtype_of
from flopwise.formats.weights.tensor import ArrayElements, StoredTensors, encoding, in_slots, length, parted, role_of
from flopwise.graph import StoredTensor
from flopwise.graph.dtypes import BITS
from flopwise.graph.stored import Array, Elements

if TYPE_CHECKING:
    import torch

#: What finds the elements of a tensor: the tensor, its type, and how many elements it has.
Finder: TypeAlias = "Callable[[torch.Tensor, str, int], Elements]"


class TorchElements(Elements):
    """The elements of a PyTorch tensor on any device; those on the CPU are views."""

    def __init__(self, tensor: torch.Tensor, dtype: str, count: int) -> None:
        self._tensor = tensor
        self._dtype = dtype
        self._count = count

    def blocks(self, elements: int) -> Iterator[Array]:
        tensor = self._flat()
        stored = encoding(self._dtype)
        assert stored is not None
        if not stored.stored or self._dtype == "bfloat16":
            width = max(elements // stored.elements, 1)
            for at in range(0, tensor.numel(), width):
                yield stored.decode(_bytes(tensor[at : at + width]))[: self._count]
            return
        for at in range(0, tensor.numel(), elements):
            yield from ArrayElements(tensor[at : at + elements].cpu().numpy).blocks(elements)

    def raw(self) -> Array | None:
        tensor, stored = self._tensor.detach(), encoding(self._dtype)
        plain = tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_quantized
        if not plain or stored is None or not stored.stored or tensor.is_conj() or tensor.is_neg():
            return None
        return ArrayElements(lambda: _bytes(tensor.reshape(-1)).view(stored.stored), flat=True).raw()

    def _flat(self) -> torch.Tensor:
        tensor = self._tensor.detach()
        if tensor.is_meta:
            raise ModelError("the tensors are on the meta device, which has no elements")
        if tensor.is_quantized:
            tensor = tensor.int_repr()
        return tensor.resolve_conj().resolve_neg().reshape(-1)


def _bytes(tensor: torch.Tensor) -> Array:
    import torch

    plain = tensor.contiguous().cpu()
    return plain.view(torch.uint8).numpy() if plain.numel() else plain.to(torch.uint8).numpy()


def stored_tensor(
    name: str, tensor: torch.Tensor, role: str, op: str = "", find: Finder = TorchElements
) -> StoredTensor | None:
    """A tensor as a stored one; None for a sparse or nested one, and for one whose type holds no numbers.

    Args:
        name: what to call it.
        tensor: the tensor.
        role: what it is for.
        op: the class of its module.
        find: gives its elements, from the tensor, its type, and how many there are.
    """
    import torch

    if tensor.layout is not torch.strided or tensor.is_nested:
        return None
    dtype = dtype_of(str(tensor.dtype))
    if dtype not in BITS or encoding(dtype) is None:
        return None
    shape = tuple(tensor.shape)
    count = tensor.numel()
    if dtype == "float4e2m1" and shape:  # PyTorch's shape counts bytes
        shape, count = (*shape[:-1], shape[-1] * 2), count * 2
    elements = find(tensor, dtype, count)
    return StoredTensor(name, shape, dtype, length(count, dtype), parted(name)[0], op, role, elements=elements)


def stored_in_module(model: torch.nn.Module, name: str = "") -> StoredTensors:
    """The parameters and buffers of a module; shared ones once.

    Raises:
        ModelError: it is not a module.
    """
    import torch

    title = name or f"{type(model).__module__}.{type(model).__qualname__}"
    if not isinstance(model, torch.nn.Module):  # an exported program
        return stored_by_name(title, dict(model.state_dict), (), set(model.graph_signature.buffers))
    kinds = {path: type(module).__name__ for path, module in model.named_modules()}
    tensors: dict[str, torch.Tensor] = dict(model.named_parameters())
    buffers = dict(model.named_buffers())
    return stored_by_name(title, {**tensors, **buffers}, (), set(buffers), kinds)


def stored_by_name(
    title: str,
    tensors: Mapping[str, torch.Tensor],
    notes: tuple[str, ...] = (),
    buffers: set[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    find: Finder = TorchElements,
) -> StoredTensors:
    """Tensors by name as stored tensors.

    Args:
        title: what to call the model.
        tensors: the tensors.
        notes: what the user should know.
        buffers: names of those that are not parameters; None: as names and types tell.
        kinds: classes of modules by path.
        find: as for ``stored_tensor``.
    """
    stored: list[StoredTensor] = []
    strange: list[str] = []
    for name, tensor in tensors.items():
        role = "weight"
        if buffers is None or name in buffers:
            role = role_of(name, str(tensor.dtype).removeprefix("torch."))
            role = "buffer" if buffers is not None and role == "weight" else role
        one = stored_tensor(name, tensor, role, (kinds or {}).get(parted(name)[0], ""), find)
        if one is None:
            strange.append(name)
        else:
            stored.append(one)
    if strange:
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        notes = (*notes, f"tensor {strange[0]!r}{more} is sparse, nested or of a type that holds no numbers; left out")
    return StoredTensors(title, "torch", in_slots(stored), notes)
