"""What a run knows of tensors beside their shapes: elements of meta tensors, as far as they follow from constants,
computed beside on small tensors only; and sizes that a program may be handed in place of plain numbers, which carry an
expression along.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any, Protocol

import torch
from torch import Tensor as TorchTensor

from flopwise.errors import InputError
from flopwise.formats.inputs import dtype_of
from flopwise.formats.torch.kinds import Function, Kwargs
from flopwise.graph import Tensor

# --- tensors of PyTorch's: their types and shapes, and those inside others

#: How PyTorch's element types are called here.
DTYPES: dict[torch.dtype, str] = {d: dtype_of(str(d)) for d in vars(torch).values() if isinstance(d, torch.dtype)}


def flat(things: Sequence[object]) -> Iterator[TorchTensor]:
    """The tensors among some results, nested ones in a row."""
    for thing in things:
        if isinstance(thing, TorchTensor):
            yield thing
        elif isinstance(thing, (tuple, list)):
            yield from flat(thing)


def in_order(tensor: TorchTensor) -> bool:
    """True if the elements are stored in row-major order without gaps."""
    return tensor.layout is torch.strided and tensor.is_contiguous()


def like_meta(tensor: TorchTensor) -> TorchTensor:
    """A meta tensor of the same shape, strides and type."""
    try:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    except (RuntimeError, NotImplementedError):  # sparse and nested tensors have no strides
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def shape_of(tensor: TorchTensor) -> tuple[int, ...] | None:
    """The shape of a tensor; of a nested one with one ragged axis that of its elements in a row; None for other nested
    ones.
    """
    values = elements_in_a_row(tensor) if tensor.is_nested else tensor
    return None if values is None else tuple(values.shape)


def shape_of_input(name: str, tensor: TorchTensor) -> tuple[int, ...]:
    """The shape of an input, as ``shape_of`` has it.

    Raises:
        InputError: it is a nested tensor that has none.
    """
    shape = shape_of(tensor)
    if shape is None:
        raise InputError(
            f"input {name!r} is a nested tensor of the layout torch.strided, which has no shape; make it with "
            "layout=torch.jagged, or pad it with torch.nested.to_padded_tensor"
        )
    return shape


def elements_in_a_row(tensor: TorchTensor) -> TorchTensor | None:
    """The elements of a nested tensor with one ragged axis, which is a view of them; None for any other tensor."""
    values: Any = getattr(tensor, "_values", None) if tensor.is_nested else None
    return values if isinstance(values, TorchTensor) and tensor.dim() == values.dim() + 1 else None


# --- elements

#: Elements up to which a whole or logical tensor is computed beside, one of flags (a mask over 8,192 tokens), and one
#: of real numbers.
LARGEST, LARGEST_FLAGS, LARGEST_REAL = 1 << 24, 1 << 26, 1 << 20


class NeedsValues(BaseException):
    """The program asks for elements that are unknown.

    No ordinary exception, so that no program mistakes it for its own.
    """

    def __init__(self, function: str) -> None:
        super().__init__(function)
        self.function = function


class NeedsLower(BaseException):
    """The program transforms or differentiates functions: what then runs is seen one level lower only."""


_NONE: frozenset[str] = frozenset()

#: Functions whose result has the type or shape of a second tensor, and elements of the first alone.
_SHAPED_LIKE = frozenset({"to", "type_as", "expand_as", "view_as", "reshape_as"})

_FLAGS = (torch.bool, torch.uint8)
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

#: What an operator raises that meta tensors cannot run.
FAILURES = (NotImplementedError, RuntimeError, TypeError, ValueError)

#: Operators whose result has as many elements as the elements of their arguments say.
_NAMES = """
    nonzero argwhere masked_select unique _unique2 unique_dim unique_consecutive bincount one_hot repeat_interleave
"""
_COUNTING = frozenset(f"aten.{name}" for name in _NAMES.split())

#: Those of them whose elements say which ones of a tensor are chosen, and not how often.
_CHOOSING = frozenset(f"aten.{name}" for name in ("nonzero", "argwhere", "masked_select", "where"))

#: Operators -> the position and the name of an argument whose elements change no shape.
_FREE = {
    "aten.getitem": (1, ""),
    "aten.setitem_": (1, ""),
    "aten.full": (1, "fill_value"),
    "aten.full_like": (1, "fill_value"),
    "aten.new_full": (2, "fill_value"),
}

#: What PyTorch says when a meta tensor is asked for elements.
_WORDS = ("cannot be called on meta tensors", "torch.nonzero()", "_local_scalar_dense")


def made_up(values: object) -> frozenset[str]:
    """The inputs whose elements were made up and decide those of a tensor, by name; none where constants do."""
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

    def ask(self, elements: object, function: str, asker: Callable[[], FrameType | None] = lambda: None) -> None:
        """The program reads elements; the truth of a mask that is made up is what it is for one that hides nothing.

        Args:
            elements: the elements.
            function: what reads them.
            asker: gives the code of the program that asks, which may do nothing more than warn.

        Raises:
            NeedsValues: they were made up, and count as unknown.
        """
        names = made_up(elements)
        if not names or not isinstance(elements, TorchTensor):
            return
        truth = elements.dtype is torch.bool and elements.numel() == 1
        if all(map(is_mask, names)):
            if not truth:
                self.chosen |= names
        elif truth and (frame := asker()) is not None and only_warns(frame.f_code, frame.f_lasti):
            return
        elif self.strict:
            raise NeedsValues(function)
        elif truth:
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

    def keep(self, result: object, values: Any) -> None:
        """Keep elements at the results that they belong to."""
        if isinstance(result, TorchTensor):
            if isinstance(values, TorchTensor):
                result._flopwise_values = values  # type: ignore[attr-defined]
        elif isinstance(result, (tuple, list)):
            for part, own in zip(result, values, strict=False):
                self.keep(part, own)

    def settled_index(self, index: object, stand_in: Callable[[TorchTensor], TorchTensor], chooses: bool) -> object:
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
            return slice(*map(self._bound, (index.start, index.stop, index.step)))
        value = self.of(index) if isinstance(index, TorchTensor) and index.dtype in _FLAGS else None
        if value is None:
            return index
        positions = (self.all_of(value) if chooses else value).nonzero(as_tuple=True)
        places = tuple([stand_in(one) for one in positions])
        for place in places:
            mark_made_up(self.of(place), made_up(value))
        return places

    def _bound(self, bound: object) -> object:
        """A bound of a slice as a number."""
        if not isinstance(bound, TorchTensor):
            return bound
        value = self.of(bound)
        if value is None:
            raise NeedsValues("torch.Tensor.__index__")
        self.ask(value, "torch.Tensor.__index__")
        return int(value)

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

    def beside(
        self, func: Function, args: Sequence[object], kwargs: Kwargs, targets: Sequence[TorchTensor], result: object
    ) -> Any:
        """The elements of a result; None when they do not follow from constants, or are too many.

        Args:
            func: what computes it.
            args: with meta tensors.
            kwargs: likewise.
            targets: the arguments that it writes into; their elements are known afterwards if those of the result are.
            result: on meta tensors, where that is known before, so that nothing large is computed.
        """
        tensors = list(flat((*args, *kwargs.values()) if kwargs else args))
        elements: Any = None
        if tensors and all(self.of(tensor) is not None for tensor in tensors) and not _too_large(result):
            try:
                elements = func(*map(self._elements_in, args), **{k: self._elements_in(v) for k, v in kwargs.items()})
                elements = () if elements is None else None if _too_large(elements) else elements
            except (IndexError, *FAILURES):
                elements = None
        if elements is None:
            for target in targets:
                self.lose(target)
        elif self.guesses:
            like = getattr(func, "__name__", "") in _SHAPED_LIKE
            names = self.made_up_in(args[:1] if like else (*args, *kwargs.values()))
            mark_made_up((elements, *map(self.of, targets)), names)
        return elements

    def _elements_in(self, thing: object) -> object:
        if isinstance(thing, TorchTensor):
            return self.of(thing)
        if thing.__class__ in (tuple, list):
            return thing.__class__([self._elements_in(part) for part in thing])
        return torch.device("cpu") if thing.__class__ is torch.device else thing

    def made_up_in(self, things: Sequence[object]) -> frozenset[str]:
        """The inputs whose made-up elements decide those of the tensors among some arguments."""
        return _NONE.union(*[made_up(self.of(tensor)) for tensor in flat(things)]) if self.guesses else _NONE

    def lose(self, tensor: TorchTensor) -> None:
        """Forget the elements of a meta tensor, and those of all that share its memory."""
        values = tensor.__dict__.get("_flopwise_values")
        if values is not None:
            self._lost.add(values.untyped_storage().data_ptr())

    def shaped(
        self,
        name: str,
        func: Callable[..., object],
        args: Sequence[Any],
        kwargs: Kwargs,
        targets: Sequence[TorchTensor],
        follows: bool,
    ) -> tuple[Any, Any]:
        """The result of an operator that failed on meta tensors, and its elements; None for what is unknown.

        Its shape may follow from elements that are known; where those were made up, all that can be chosen are. Else
        it is asked once more with numbers in place of tensors.

        Args:
            name: what the operator is called ("aten.nonzero").
            func: what computes it.
            args: its arguments, tensors on meta.
            kwargs: likewise.
            targets: the arguments that it writes into.
            follows: whether its elements may follow from those of its arguments.
        """
        beside = self.beside(func, args, kwargs, targets, None) if follows else None
        names = self.made_up_in((*args, *kwargs.values()))
        if beside is None:
            return self._second(name, func, args, kwargs), None
        if names and name in _CHOOSING:
            own = [self.of(a) if isinstance(a, TorchTensor) else None for a in args]
            every = [a if value is None else self.all_of(value) for a, value in zip(args, own, strict=True)]
            with torch._C.DisableTorchFunction():
                beside = func(*every, **kwargs)
            mark_made_up(beside, names)
        elif names:
            self.ask(next(flat((beside,)), None), name)
        return _shaped_as(beside), beside

    def _second(self, name: str, func: Callable[..., object], args: Sequence[Any], kwargs: Kwargs) -> object:
        """The result of an operator with numbers in place of tensors; None if it fails again."""
        if name in ("aten._grouped_mm", "aten.grouped_mm"):
            return grouped_mm(*args, **kwargs)
        if name == "aten.masked_select" and len(args) == 2 and (flags := self.of(args[1])) is not None:
            shape = torch.broadcast_shapes(args[0].shape, flags.shape)  # type: ignore[no-untyped-call] # it has no types
            return args[0].new_empty(int(self.all_of(flags).broadcast_to(shape).count_nonzero()))
        if name == "aten.repeat_interleave" and "output_size" not in kwargs:
            repeats = kwargs.get("repeats", args[1] if len(args) > 1 else args[0])
            counts = self.of(repeats) if isinstance(repeats, TorchTensor) else None
            if counts is not None:
                self.ask(counts, "torch.repeat_interleave")
                times, dim = int(counts.sum()), kwargs.get("dim", args[2] if len(args) > 2 else None)
                if counts.numel() == 1 and len(args) > 1:  # one number for all
                    times *= args[0].numel() if dim is None else args[0].shape[dim]
                kwargs = {**kwargs, "output_size": times}
        position, free = _FREE.get(name, (-1, ""))
        numbers = [self._number_of(a, i == position) for i, a in enumerate(args)]
        try:
            result = func(*numbers, **{key: self._number_of(a, key == free) for key, a in kwargs.items()})
        except FAILURES:
            return None
        return like_meta(result) if isinstance(result, TorchTensor) and not result.is_meta else result

    def _number_of(self, thing: object, any_will_do: bool) -> object:
        """The argument with numbers in place of tensors without axes, in tuples and lists too, that hold a known
        integer; with ``any_will_do``, where the number changes no shape, any known one, and 0 where it is unknown.
        """
        if isinstance(thing, TorchTensor):
            if thing.dim():
                return thing
            value = self.of(thing)
            if value is not None and (any_will_do or thing.dtype in _WHOLE):
                if not any_will_do:
                    self.ask(value, "torch.Tensor.__index__")
                return value.item()
            return 0 if any_will_do and thing.dtype is not torch.bool else thing
        if thing.__class__ in (tuple, list, torch.Size):
            return tuple([self._number_of(part, any_will_do) for part in thing])
        return thing


def asks_for_elements(name: str, error: Exception) -> bool:
    """True if an operator failed because meta tensors have no elements."""
    return name in _COUNTING or any(words in str(error) for words in _WORDS)


def grouped_mm(
    mat_a: TorchTensor, mat_b: TorchTensor, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> TorchTensor:
    """An empty result of a grouped matmul, on the device of ``mat_a``.

    (T, K) × (G, K, N) is (T, N); (M, K) × (K, N) with K split into G groups is (G, M, N); (G, M, K) × (K, N) with N
    split is (M, N); (G, M, K) × (G, K, N) is (G, M, N).
    """
    rows, columns = mat_a.shape[:-1], mat_b.shape[-1:]
    both = mat_a.dim() == mat_b.dim() == 2
    groups = (1 if offs is None else offs.shape[0],) if both else ()
    result = mat_a.new_empty(
        (*groups, *(rows[1:] if mat_b.dim() < mat_a.dim() else rows), *columns), dtype=out_dtype or mat_a.dtype
    )
    grad = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (mat_a, mat_b, bias))
    return result.requires_grad_() if grad else result


def _shaped_as(values: object) -> Any:
    """Meta tensors of the shapes of the values."""
    if isinstance(values, TorchTensor):
        return like_meta(values)
    if isinstance(values, (tuple, list)):
        parts = map(_shaped_as, values)
        return type(values)(*parts) if hasattr(values, "_fields") else type(values)(parts)
    return values


def count_of(result: object) -> int:
    """The number of elements of all tensors in a result."""
    return sum(tensor.numel() for tensor in flat((result,)))


def _too_large(result: object) -> bool:
    flags = isinstance(result, TorchTensor) and result.dtype is torch.bool
    return count_of(result) > (LARGEST_FLAGS if flags else LARGEST)


#: Functions that say something to whoever reads the log, and those without effects that make the words.
_SAYS = """
    warn warning warning_once info info_once debug error print getattr hasattr isinstance len str format join type item
    tolist getLogger
"""
_HARMLESS = frozenset(_SAYS.split())

#: Instructions by which a function leaves something behind, or goes back to what stands before.
_STORES = ("STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "STORE_DEREF", "STORE_SLICE", "DELETE_")
_LEAVES = (*_STORES, "YIELD", "SEND", "JUMP_BACKWARD", "JUMP_ABSOLUTE")


@functools.lru_cache(1024)
def only_warns(code: CodeType, place: int) -> bool:
    """True if a function does nothing after a place in its code but say something or raise, and returns None."""
    calls, names = 0, list[object]()
    before, chain = None, False  # whether what is called is an attribute of what was loaded: ``warnings.warn``
    for step in dis.get_instructions(code):
        name = step.opname
        if step.offset > place:
            if name.startswith(_LEAVES) or (name == "RETURN_CONST" and step.argval is not None):
                return False
            if name == "RETURN_VALUE" and not (before and before.opname == "LOAD_CONST" and before.argval is None):
                return False
            calls += name.startswith("CALL") and not name.startswith("CALL_INTRINSIC")
            if name == "LOAD_METHOD" or "NULL" in step.argrepr:
                names.append(step.argval)
                chain = name != "LOAD_METHOD"
            elif name == "PUSH_NULL" and before is not None:  # behind what is called, since Python 3.13
                names.append(before.argval)
            elif chain and name == "LOAD_ATTR":
                names[-1] = step.argval
            else:
                chain = False
        before = step
    return calls <= len(names) and _HARMLESS.issuperset(names)


# --- sizes that carry expressions


class Sizes(Protocol):
    """A source of sizes with expressions, which learns them from the operations of a run."""

    def start(self) -> None:
        """A run begins; what is known of an earlier one is forgotten."""

    def shape(self, tensor: Tensor) -> tuple[int, ...] | None:
        """The extents that a program gets to see; None where they are plain numbers."""

    def made(self, name: str, args: Sequence[object], kwargs: Mapping[str, object], outputs: Sequence[Tensor]) -> None:
        """An operation was recorded, called with graph tensors, and with sizes as the program passed them."""


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
