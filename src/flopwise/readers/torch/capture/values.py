"""The values that a run knows beside shapes: elements of meta tensors, as far as they follow from constants, computed
beside on small tensors only; and sizes that a program may be handed in place of plain numbers, which carry an
expression along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.kinds import Function
from flopwise.graph import Tensor
from flopwise.readers.torch.capture.tensors import flat, like_meta

#: Elements up to which a whole or logical tensor is computed beside.
LARGEST = 1 << 24

#: Elements up to which a tensor of flags is: a mask over 8,192 tokens.
LARGEST_FLAGS = 1 << 26

#: Elements up to which a tensor of real numbers is.
LARGEST_REAL = 1 << 20


class NeedsValues(BaseException):
    """The program asks for elements that are unknown.

    No ordinary exception, so that no program mistakes it for its own.
    """

    def __init__(self, function: str) -> None:
        super().__init__(function)
        self.function = function


#: No inputs.
_NONE: frozenset[str] = frozenset()

#: Functions whose result has the type or shape of a second tensor, and elements of the first alone.
_SHAPED_LIKE = frozenset({"to", "type_as", "expand_as", "view_as", "reshape_as"})


def made_up(values: object) -> frozenset[str]:
    """The inputs whose elements were made up and decide those of a tensor, by name; none where constants do.

    Args:
        values: the elements.
    """
    if not isinstance(values, TorchTensor):
        return _NONE
    own: frozenset[str] = values.__dict__.get("_flopwise_made_up", _NONE)
    return own if values._base is None else own | values._base.__dict__.get("_flopwise_made_up", _NONE)


def mark_made_up(values: object, names: frozenset[str]) -> None:
    """Remember at elements that they follow from those made up for inputs."""
    for tensor in flat((values,)) if names else ():
        for part in (tensor, tensor._base):
            if part is not None:
                part._flopwise_made_up = names | made_up(part)  # type: ignore[attr-defined]


def is_mask(name: str) -> bool:
    """True for an input that is made up of ones, because its name says that it is a mask: it hides nothing."""
    return "mask" in name


class NeedsLower(BaseException):
    """The program transforms or differentiates functions: what then runs is seen one level lower only."""


def sized_by(tensor: TorchTensor) -> TorchTensor:
    """A tensor with memory of the size and type of another.

    Raises:
        NeedsValues: it would be large.
    """
    if tensor.numel() > LARGEST:
        raise NeedsValues("")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


class Values:
    """The elements that are known, each kept at its meta tensor."""

    def __init__(self) -> None:
        #: Memory whose contents stopped being known.
        self._lost: set[int] = set()
        #: Whether the elements of any input were made up.
        self.guesses = False
        #: Inputs whose made-up elements the program has asked for: they may decide what runs. And those of which it has
        #: asked whether something is so.
        self.asked: set[str] = set()
        self.tested: set[str] = set()
        #: How many such questions are yet to be answered the other way round, to see whether it does other work then.
        self.denials = 0
        #: Inputs whose made-up elements have chosen some of a tensor's: all were taken.
        self.chosen: set[str] = set()
        #: Whether elements that were made up are as unknown as others that follow from an input.
        self.strict = False

    def of(self, tensor: TorchTensor) -> TorchTensor | None:
        """The elements of a meta tensor, None when they are unknown."""
        values: TorchTensor | None = tensor.__dict__.get("_flopwise_values")
        if values is not None and self._lost and values.untyped_storage().data_ptr() in self._lost:
            return None
        return values

    def ask(self, elements: object, function: str) -> None:
        """The program reads elements.

        The truth of a mask that is made up is what it is for one that hides nothing.

        Raises:
            NeedsValues: they were made up, and count as unknown.
        """
        names = made_up(elements)
        if not names or not isinstance(elements, TorchTensor):
            return
        if all(map(is_mask, names)):
            if elements.dtype is not torch.bool or elements.numel() > 1:
                self.chosen |= names
        elif self.strict:
            raise NeedsValues(function)
        elif elements.dtype is torch.bool and elements.numel() == 1:
            self.tested |= names
            if self.denials:
                self.denials -= 1
                with torch._C.DisableTorchFunction():
                    elements.logical_not_()
        else:
            self.asked |= names

    def all_of(self, flags: TorchTensor) -> TorchTensor:
        """Flags that choose; where they were made up, all of them are set, which is the most that they can choose."""
        names = made_up(flags)
        if not names:
            return flags
        self.chosen |= names
        every = torch.ones_like(flags)
        mark_made_up(every, names)
        return every

    def hold(self, stand_in: TorchTensor, tensor: TorchTensor) -> None:
        """Keep the elements of a tensor of the program's, as far as they may be needed."""
        if tensor.is_meta or tensor.layout is not torch.strided or type(tensor) not in _PLAIN:
            return
        if tensor.numel() <= (LARGEST_REAL >> 4 if tensor.is_floating_point() else LARGEST):
            stand_in._flopwise_values = tensor.detach().cpu().clone()  # type: ignore[attr-defined]

    def made(self, result: object, value: Callable[[], object]) -> Any:
        """The elements of a tensor that is made from numbers alone, None when they are many."""
        if _elements(result) > LARGEST_REAL:
            return None
        try:
            return value()
        except (NeedsValues, RuntimeError, TypeError, ValueError, NotImplementedError):
            return None

    def keep(self, result: object, values: Any) -> None:
        """Keep elements at the results that they belong to."""
        if isinstance(result, TorchTensor):
            if isinstance(values, TorchTensor):
                result._flopwise_values = values  # type: ignore[attr-defined]
        elif isinstance(result, (tuple, list)):
            for part, own in zip(result, values, strict=False):
                self.keep(part, own)

    def shaped_as(self, values: object) -> Any:
        """Meta tensors of the shapes of the values."""
        if isinstance(values, TorchTensor):
            return like_meta(values)
        if isinstance(values, tuple) and hasattr(values, "_fields"):
            return type(values)(*map(self.shaped_as, values))
        if isinstance(values, (tuple, list)):
            return type(values)(map(self.shaped_as, values))
        return values

    def settled_index(
        self, index: object, stand_in: Callable[[TorchTensor], TorchTensor], chooses: bool = True
    ) -> object:
        """An index in which flags whose elements are known have become positions, as many as there are.

        Args:
            index: what stands in the brackets.
            stand_in: what makes the meta tensor for positions.
            chooses: whether it matters how many there are; False where they are set to one number.
        """
        if isinstance(index, tuple):
            parts: list[Any] = []
            for part in index:
                settled = self.settled_index(part, stand_in, chooses)
                flags = isinstance(part, TorchTensor) and part.dtype in _FLAGS
                parts.extend(settled) if flags and isinstance(settled, tuple) else parts.append(settled)
            return tuple(parts)
        if isinstance(index, slice):
            return slice(*[self._number(part) for part in (index.start, index.stop, index.step)])
        if isinstance(index, TorchTensor) and index.dtype in _FLAGS:
            value = self.of(index)
            if value is None:
                return index
            every = self.all_of(value) if chooses else value
            return tuple([self._marked(stand_in(p), made_up(value)) for p in every.nonzero(as_tuple=True)])
        return index

    def _marked(self, tensor: TorchTensor, names: frozenset[str]) -> TorchTensor:
        mark_made_up(self.of(tensor), names)
        return tensor

    def in_numbers(self, data: Sequence[object]) -> tuple[list[Any], bool]:
        """Numbers in place of the tensors in nested lists, any where they are unknown; and whether all are known."""
        parts, complete = [], True
        for part in data:
            exact: Any = True
            if isinstance(part, TorchTensor):
                exact = self.of(part)
                part = (torch.zeros(part.shape) if exact is None else exact).tolist()
            elif part.__class__ in (list, tuple):
                part, exact = self.in_numbers(part)
            parts.append(part)
            complete = complete and exact is not None and exact is not False
        return parts, complete

    def _number(self, bound: object) -> object:
        """A bound of a slice as a number."""
        if not isinstance(bound, TorchTensor):
            return bound
        value = self.of(bound)
        if value is None:
            raise NeedsValues("torch.Tensor.__index__")
        self.ask(value, "torch.Tensor.__index__")
        return int(value)

    def beside(
        self,
        func: Function,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        targets: Sequence[TorchTensor] = (),
        result: object = None,
    ) -> Any:
        """The elements of a result; None when they do not follow from constants, or are too many.

        Args:
            func: what computes it.
            args: with meta tensors.
            kwargs: likewise.
            targets: the arguments that it writes into; their elements are known afterwards if those of the result are.
            result: on meta tensors, where that is known before, so that nothing large is computed.
        """
        elements = self._computed(func, args, kwargs, result)
        if elements is None:
            for target in targets:
                self.lose(target)
        elif names := self._made_up(func, args, kwargs):
            mark_made_up(elements, names)
            for target in targets:
                mark_made_up(self.of(target), names)
        return elements

    def _made_up(self, func: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> frozenset[str]:
        """The inputs whose made-up elements decide those of a result."""
        if not self.guesses:
            return _NONE
        like = getattr(func, "__name__", "") in _SHAPED_LIKE
        return self.made_up_in(args[:1] if like else (*args, *kwargs.values()))

    def made_up_in(self, things: Sequence[object]) -> frozenset[str]:
        """The inputs whose made-up elements decide those of the tensors among some arguments."""
        return _NONE.union(*[made_up(self.of(tensor)) for tensor in flat(things)]) if self.guesses else _NONE

    def lose(self, tensor: TorchTensor) -> None:
        """Forget the elements of a meta tensor, and those of all that share its memory."""
        values = tensor.__dict__.get("_flopwise_values")
        if values is not None:
            self._lost.add(values.untyped_storage().data_ptr())

    def _computed(self, func: Function, args: Sequence[object], kwargs: Mapping[str, object], result: object) -> object:
        tensors = list(flat((*args, *kwargs.values()) if kwargs else args))
        if not tensors or any(self.of(tensor) is None for tensor in tensors):
            return None
        if result is not None and _too_large(result):
            return None
        try:
            values = func(
                *[self._with_elements(a) for a in args], **{k: self._with_elements(v) for k, v in kwargs.items()}
            )
        except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError):
            return None
        if values is None:  # it gives nothing, and wrote
            return ()
        return None if _too_large(values) else values

    def _with_elements(self, thing: object) -> object:
        if isinstance(thing, TorchTensor):
            return self.of(thing)
        if thing.__class__ in (tuple, list):
            return thing.__class__([self._with_elements(part) for part in thing])
        return torch.device("cpu") if thing.__class__ is torch.device else thing


_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_FLAGS = (torch.bool, torch.uint8)


def _elements(result: object) -> int:
    return sum(tensor.numel() for tensor in flat((result,)))


def _too_large(result: object) -> bool:
    is_mask = isinstance(result, TorchTensor) and result.dtype is torch.bool
    return _elements(result) > (LARGEST_FLAGS if is_mask else LARGEST)


class Sizes(Protocol):
    """A source of sizes with expressions, which learns them from the operations of a run."""

    def start(self) -> None:
        """A run begins; what is known of an earlier one is forgotten."""

    def shape(self, tensor: Tensor) -> tuple[int, ...] | None:
        """The extents that a program gets to see; None where they are plain numbers."""

    def made(self, name: str, args: Sequence[object], kwargs: Mapping[str, object], outputs: Sequence[Tensor]) -> None:
        """An operation was recorded.

        Args:
            name: the ATen name with its namespace.
            args: what it was called with, with graph tensors, and with sizes as the program passed them.
            kwargs: likewise.
            outputs: its results.
        """


#: What hands out sizes in the runs of this context.
HANDED_OUT: ContextVar[Sizes | None] = ContextVar("sizes", default=None)


def plain(thing: Any) -> Any:
    """An argument with plain numbers in place of sizes."""
    kind = thing.__class__
    if kind is int or kind is float or kind is bool or kind is str:
        return thing
    if isinstance(thing, tuple):
        return kind([plain(part) for part in thing]) if not hasattr(thing, "_fields") else thing
    if kind is list:
        return [plain(part) for part in thing]
    if kind is dict:
        return {key: plain(part) for key, part in thing.items()}
    if kind is slice:
        return slice(plain(thing.start), plain(thing.stop), plain(thing.step))
    if isinstance(thing, int) and hasattr(thing, "expression"):
        return int(thing)
    return float(thing) if isinstance(thing, float) and hasattr(thing, "over") else thing
