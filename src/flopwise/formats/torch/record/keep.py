"""The caller's program is after a run what it was before: a model's attributes, containers, modes, hooks and elements,
and what its code can reach beside it: names of Python modules, attributes of classes, variables of closures.

The program keeps tables and results there. Most of that belongs to others and changes for reasons of its own, so that
only what holds a tensor of the run is put back. Such a tensor has no elements, and whoever met it later would fail; one
whose elements are known, such as a table of positions, gets them, as if the program had run.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import operator
import random
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from types import CellType, CodeType, FrameType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor as TorchTensor
from torch import nn

from flopwise.formats.torch.containers import ATOMS
from flopwise.formats.torch.kinds import Namespace

#: Values without an inside that a program could change.
_PLAIN = frozenset(ATOMS)

#: How far from a module or a name its containers are looked into, entries of one that are, and values in all.
_DEPTH, _ENTRIES, _VALUES = 6, 10_000, 20_000

#: Packages whose code keeps nothing of a program's but in caches, and those whose objects are not looked into.
_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy", "flopwise"} | {
    "torchvision", "timm", "transformers", "diffusers",
}  # fmt: skip
_CLOSED = frozenset({"torch", "numpy", "flopwise", "logging"})

#: What ``functools.lru_cache`` and ``functools.cache`` make of a function.
_CACHED = type(functools.lru_cache(len))

#: What wraps a function -> its attributes that hold what it wraps.
_WRAPPERS: dict[type, tuple[str, ...]] = {
    MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget",),
    functools.cached_property: ("func",),
    _CACHED: ("__wrapped__",),
}

_EMPTY = object()

#: Containers of elements; what their subclasses make of operators is code of somebody else's.
_CONTAINERS = (list, deque, bytearray, set, tuple, frozenset)


# --- what is in a container, and how it is put back


def inside(value: Any) -> tuple[list[Callable[[], None]], list[Any]]:
    """Functions that put back the contents of a container, a generator or a plain object, and those contents.

    No code of the object's class runs.
    """
    kind = type(value)
    restores: list[Callable[[], None]] = []
    parts: list[Any] = []
    if issubclass(kind, dict):
        restores.append(functools.partial(put_back, value, dict.copy(value)))
        parts += dict.values(value)
    elif issubclass(kind, _CONTAINERS):
        owner: Any = next(owner for owner in _CONTAINERS if issubclass(kind, owner))
        elements = list(owner.__iter__(value))
        if not issubclass(kind, (tuple, frozenset)):
            restores.append(functools.partial(_put_back_elements, value, owner, elements))
        if not issubclass(kind, (bytearray, set)):
            parts += elements
    elif isinstance(value, torch.Generator):
        set_state: Any = value.set_state  # which returns the generator
        restores.append(functools.partial(set_state, value.get_state()))
    elif isinstance(value, random.Random):
        restores.append(functools.partial(value.setstate, value.getstate()))
    elif (numpy := sys.modules.get("numpy")) and isinstance(value, numpy.random.Generator):
        restores.append(functools.partial(setattr, value.bit_generator, "state", value.bit_generator.state))
    elif numpy and isinstance(value, numpy.random.RandomState):
        restores.append(functools.partial(value.set_state, value.get_state(legacy=False)))
    attributes = _attributes_of(value)
    if attributes is not None:
        restores.append(functools.partial(put_back, attributes, dict(attributes)))
        parts += attributes.values()
    for base in kind.__mro__:
        for member in vars(base).values() if "__slots__" in vars(base) else ():
            if type(member) is MemberDescriptorType:
                part = _in_slot(member, value)
                restores.append(functools.partial(_put_back_in_slot, member, value, part))
                parts.append(part)
    return restores, parts


def _attributes_of(value: object) -> Namespace | None:
    """The attributes of an object; None where its class gives it none."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return attributes if type(attributes) is dict else None


def put_back(held: dict[Any, object], before: dict[Any, Any]) -> None:
    """Give a dict the entries that it had."""
    same = len(held) == len(before) and all(map(operator.is_, dict.values(held), before.values()))
    if not (same and list(dict.keys(held)) == list(before)):
        kind: Any = OrderedDict if isinstance(held, OrderedDict) else dict  # not what a subclass makes of it
        kind.clear(held)
        kind.update(held, before)


def _put_back_elements(held: Any, owner: Any, before: list[Any]) -> None:
    now = list(owner.__iter__(held))
    if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
        owner.clear(held)
        (owner.update if owner is set else owner.extend)(held, before)


def _in_slot(member: MemberDescriptorType, value: object) -> object:
    try:
        return member.__get__(value)
    except AttributeError:
        return _EMPTY


def _put_back_in_slot(member: MemberDescriptorType, value: object, before: object) -> None:
    if _in_slot(member, value) is not before:
        if before is _EMPTY:
            member.__delete__(value)
        else:
            member.__set__(value, before)


def _put_back_names(held: Namespace, before: Namespace) -> None:
    """Give a Python module the names that it had, one by one: others may be reading them."""
    for name in held.keys() - before.keys():
        held.pop(name, None)
    for name, value in before.items():
        if held.get(name, _EMPTY) is not value:
            held[name] = value


def _put_back_attributes(kind: type, before: Namespace) -> None:
    now = dict(vars(kind))
    for name in now.keys() - before.keys():
        type.__delattr__(kind, name)
    for name, value in before.items():
        if now.get(name, _EMPTY) is not value:
            type.__setattr__(kind, name, value)


def _variable(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a variable without a value yet
        return _EMPTY


def _put_back_variable(cell: CellType, before: object) -> None:
    if before is _EMPTY:
        del cell.cell_contents
    else:
        cell.cell_contents = before


class Before:
    """The state of a model, and of all that its code can reach, before a run."""

    def __init__(self) -> None:
        #: Tensors that the model holds beside its parameters and buffers.
        self.tensors: list[TorchTensor] = []
        self._restores: list[Callable[[], None]] = []
        #: What code can reach that holds something, and what puts that back.
        self._places: list[tuple[Any, Sequence[Callable[[], None]]]] = []
        self._seen: set[int] = set()
        self._unread: list[FunctionType] = []

    def hold(self, value: object) -> None:
        """Remember what is in a value that the model holds; it is put back by ``restore``."""
        self._follow(value, 0, True)

    def restore(self) -> None:
        """Put back what the model held."""
        for restore in self._restores:
            restore()

    def reach(self, code: Iterable[object]) -> None:
        """Remember what functions and the methods of classes can reach."""
        for each in code:
            for part in each.__mro__ if isinstance(each, type) else (each,):
                self._follow(part, 0, False)
        while self._unread:
            self._read(self._unread.pop())

    def reach_module(self, module: nn.Module) -> None:
        """Remember what a module that is no part of the model holds, and what its methods can reach."""
        if id(module) not in self._seen:
            self._seen.add(id(module))
            self._inside(module, 0, False)
            self.reach([type(module)])

    def _follow(self, value: Any, depth: int, owned: bool) -> None:
        kind = type(value)
        if (kind in _PLAIN and kind is not type) or depth > _DEPTH or id(value) in self._seen:
            return
        code = kind is FunctionType or kind in _WRAPPERS or issubclass(kind, (type, ModuleType))
        if len(self._seen) >= _VALUES or (depth and code and not owned):  # a table of functions that others call
            return
        if owned and isinstance(value, TorchTensor):
            self._seen.add(id(value))
            self.tensors.append(value)
        elif kind in _WRAPPERS:
            self._seen.add(id(value))
            for name in _WRAPPERS[kind]:
                self._follow(getattr(value, name), depth, False)
        elif code:
            if not _is_library(value.__name__ if issubclass(kind, ModuleType) else value.__module__):
                self._seen.add(id(value))
                if kind is FunctionType:
                    self._unread.append(value)
                elif issubclass(kind, ModuleType):
                    self._names(vars(value))
                elif not issubclass(value, Enum):
                    attributes = dict(vars(value))
                    self._places.append((value, (functools.partial(_put_back_attributes, value, attributes),)))
                    for part in attributes.values():
                        self._follow(part, 0, False)
        elif not (isinstance(value, (TorchTensor, nn.Module, Enum)) or (not owned and _root(kind) in _CLOSED)):
            self._seen.add(id(value))
            self._inside(value, depth, owned)

    def _inside(self, value: object, depth: int, owned: bool) -> None:
        restores, parts = inside(value)
        if owned:
            self._restores += restores
        elif restores:
            self._places.append((value, restores))
        for part in parts if len(parts) <= _ENTRIES else ():
            self._follow(part, depth if type(value) is tuple else depth + 1, owned)
        self._follow(type(value), 0, False)

    def _read(self, function: FunctionType) -> None:
        cells = [(cell, _variable(cell)) for cell in function.__closure__ or ()]
        restores = [functools.partial(_put_back_variable, cell, before) for cell, before in cells]
        attributes = function.__dict__
        self._places += [(cell, restores) for cell, _ in cells]
        self._places.append((attributes, (functools.partial(put_back, attributes, dict(attributes)),)))
        names = function.__globals__
        self._names(names)
        held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *attributes.values()]
        held += [names[name] for name in sorted(_names_in(function.__code__) & names.keys())]
        for value in (*[before for _, before in cells], *held):
            self._follow(value, 0, False)

    def _names(self, names: Namespace) -> None:
        """Remember the names of a Python module, and what is in its containers."""
        if id(names) not in self._seen:
            self._seen.add(id(names))
            self._places.append((names, (functools.partial(_put_back_names, names, dict(names)),)))
            for name, value in [*names.items()]:
                if name[:2] != "__" and not (type(value) is FunctionType or isinstance(value, (type, ModuleType))):
                    self._follow(value, 0, False)

    def empty(self, tensors: list[Any]) -> None:
        """Put back what holds some tensors, with all that it belongs to, and empty the caches of functions that do."""
        places = {holder: restores for held, restores in self._places for holder in _as_holders(held)}
        inner = [part for entry in self._places for part in (entry, entry[1], *entry[1])]
        values = [v for one in inner if isinstance(one, functools.partial) for v in gc.get_referents(one)]
        own = {id(self._places), *map(id, inner), *map(id, values)} - places.keys()
        restores: list[Callable[[], None]] = []
        for holder, *_ in _holders(tensors, own):
            if type(holder) is _CACHED:
                restores.append(holder.cache_clear)
            restores += places.get(id(holder), ())
        for restore in restores:
            restore()


@functools.lru_cache(4096)
def _names_in(code: CodeType) -> frozenset[str]:
    """The names in the code of a function and of those that are written inside it."""
    inner = [_names_in(constant) for constant in code.co_consts if type(constant) is CodeType]
    return frozenset(code.co_names).union(*inner)


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _is_library(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES and module != "__main__"


def _as_holders(held: object) -> tuple[int, ...]:
    """The objects, by id, through which the garbage collector sees what something holds."""
    if isinstance(held, type):
        return (id(held), *map(id, gc.get_referents(vars(held))))
    attributes = _attributes_of(held)
    return (id(held),) if attributes is None else (id(held), id(attributes))


#: How far up from a tensor its holders are looked for, and up to how many of them.
_FAR, _MOST = 8, 5_000


def _holders(things: list[Any], apart: set[int], first: bool = False) -> list[tuple[Any, ...]]:
    """All that holds some things, step by step upwards: each with the way down to one of them.

    Args:
        things: what is held.
        apart: holders that are not the program's, by id.
        first: whether to end at the first name of a Python module, a function or a class.
    """
    ways: list[tuple[Any, ...]] = []
    level: list[tuple[Any, ...]] = [(thing,) for thing in things]
    seen = {*apart, id(things), id(ways)}
    for _ in range(_FAR):
        below = {id(path[0]): path for path in level}
        firsts = [path[0] for path in level]
        seen |= {id(level), id(below), id(firsts), *map(id, level)}
        above: list[tuple[Any, ...]] = []
        for holder in gc.get_referrers(*firsts):
            if id(holder) in seen or holder is above or isinstance(holder, FrameType):
                continue
            seen.add(id(holder))
            path = next((below[id(part)] for part in gc.get_referents(holder) if id(part) in below), None)
            if path is None:
                continue
            ways.append((holder, *path))
            if not (_is_namespace(holder) or isinstance(holder, (FunctionType, ModuleType, type))):
                above.append(ways[-1])
            elif first and not isinstance(holder, ModuleType):
                return ways
        level = above
        if not 0 < len(level) <= _MOST:
            break
    return ways


def _is_namespace(holder: object) -> bool:
    """True if an object is the namespace of a Python module, to which everything leads."""
    return type(holder) is dict and "__name__" in holder and "__builtins__" in holder


# --- a model and its tensors


class Elements:
    """The elements of a model's tensors on a run that computes with them."""

    def __init__(self, model: nn.Module, others: list[TorchTensor]) -> None:
        """
        Args:
            model: its buffers are copied at once, its parameters when an operation is about to write into one.
            others: tensors of the model that are neither, copied at once.
        """
        plain = [t for t in (*model.buffers(), *others) if not t.is_meta and t.layout is torch.strided]
        self._copies = [(t, t.detach().clone()) for t in plain]
        self._parameters: dict[int, TorchTensor] = {}
        self._data: list[tuple[TorchTensor, TorchTensor]] = []
        for parameter in model.parameters():
            if not parameter.is_meta and parameter.layout is torch.strided and type(parameter.data) is TorchTensor:
                self._parameters.setdefault(parameter.untyped_storage().data_ptr(), parameter)

    def before_write(self, tensor: TorchTensor) -> None:
        """Copy the parameter whose storage an operation is about to write into."""
        if self._parameters and not tensor.is_meta and tensor.layout is torch.strided:
            parameter = self._parameters.pop(tensor.untyped_storage().data_ptr(), None)
            if parameter is not None:
                self._copies.append((parameter, parameter.detach().clone()))

    def before_set(self, tensor: TorchTensor) -> None:
        """Keep the elements of a tensor of the model that is about to be given others."""
        if not any(tensor is held for held, _ in self._data):
            self._data.append((tensor, tensor.detach()))

    def restore(self) -> None:
        """Put back the elements; kernels that keep statistics do not say that they wrote, so all are compared."""
        for tensor, before in self._data:
            tensor.data = before
        with torch.no_grad():
            for tensor, before in self._copies:
                if not torch.equal(tensor.detach(), before):
                    tensor.detach().copy_(before)


#: Attributes that every module has; what stands in them is a module, a tensor or a function.
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


@contextlib.contextmanager
def restored(
    model: nn.Module, training: bool | None, real: bool, before: Before | None = None
) -> Iterator[Elements | None]:
    """Whatever happens inside, the model is afterwards as it was before; yields what keeps elements on a real run.

    Args:
        model: the model.
        training: the mode to put its modules into meanwhile; None leaves them.
        real: whether elements of its tensors may change.
        before: remembers what the model's code can reach beside the model as well.
    """
    modules = list(model.modules())
    attributes = [(vars(m), dict(vars(m))) for m in modules]
    unregistered: list[Any] = []
    hooks: list[object] = []
    held = before or Before()
    for own, _ in [*attributes]:
        for name, value in own.items():
            kind = value.__class__
            if kind in _PLAIN or (kind is tuple and _PLAIN.issuperset(map(type, value))):
                continue
            if name not in _OF_EVERY_MODULE or kind is set:
                held.hold(value)
            elif kind is dict or kind is OrderedDict:
                if not value:  # most of them: hooks that nobody has
                    unregistered.append(value)
                else:
                    attributes.append((value, dict(value)))
                    hooks += value.values() if name.endswith("hooks") else ()
    parameters = [p for m in modules for p in m._parameters.values() if p is not None]
    gradients = [(p, p.grad, p.requires_grad, p._backward_hooks) for p in parameters]
    buffers = [b for m in modules for b in m._buffers.values() if b is not None]
    attributes += [(vars(tensor), dict(vars(tensor))) for tensor in (*parameters, *buffers)]
    if before is not None:
        before.reach({*map(type, modules)})
        before.reach(hooks)
    elements = Elements(model, held.tensors) if real else None
    if training is not None:
        for module in modules:
            vars(module)["training"] = training
    try:
        with _random_state():
            yield elements
    finally:
        for now, then in attributes:
            put_back(now, then)
        for empty in unregistered:
            if empty:
                empty.clear()
        held.restore()
        for parameter, gradient, asked, own_hooks in gradients:
            if parameter.grad is not gradient:
                parameter.grad = gradient
            if parameter.requires_grad is not asked:
                parameter.requires_grad_(asked)
            if parameter._backward_hooks is not own_hooks:
                parameter._backward_hooks = own_hooks
        if elements is not None:
            elements.restore()


@contextlib.contextmanager
def _random_state() -> Iterator[None]:
    """Python's, numpy's and PyTorch's generators, and the default element type, are afterwards as they were."""
    python, default = random.getstate(), torch.get_default_dtype()
    generator = torch.get_rng_state()
    cuda: Any = torch.cuda
    devices = cuda.get_rng_state_all() if cuda.is_initialized() else []
    numpy = sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(python)
        torch.set_default_dtype(default)
        torch.set_rng_state(generator)
        if devices:
            cuda.set_rng_state_all(devices)
        if numpy:
            numpy.random.set_state(legacy)


# --- tensors of a run that the program still holds when it is over


def take_back(
    made: list[ReferenceType[TorchTensor]],
    before: Before,
    elements: Callable[[TorchTensor], TorchTensor | None],
    exact: bool,
) -> list[str]:
    """Notes on the tensors of a run that the program holds and that could not be taken back.

    Args:
        made: every tensor that the run handed to the program; empty afterwards.
        before: what could hold one, as it was before.
        elements: the tensor that one of the run stands for; None where its elements are not known.
        exact: whether the program would compute the very same elements.
    """
    gc.collect(0)  # what the run made is young
    if exact:
        made = _without_elements(made, elements)
    if not _alive(made):
        return []
    before.empty(_alive(made))
    if _alive(made):
        gc.collect()
    left = _alive(_without_elements(made, elements))
    return list(dict.fromkeys([note for tensor in left if (note := _note(tensor, left))]))


def _without_elements(
    made: list[ReferenceType[TorchTensor]], elements: Callable[[TorchTensor], TorchTensor | None]
) -> list[ReferenceType[TorchTensor]]:
    """The tensors that did not become what they stand for."""
    alive = _alive(made)
    made.clear()  # PyTorch gives no elements to a tensor that has weak references
    return [ref(t) for t in reversed(alive) if not _become(t, elements(t))]  # views before what they are views of


def _alive(made: Sequence[ReferenceType[TorchTensor]]) -> list[TorchTensor]:
    return [tensor for reference in made if (tensor := reference()) is not None]


def _become(tensor: TorchTensor, own: TorchTensor | None) -> bool:
    """Give a tensor the elements of another, for whoever holds it; False where there are none, or C++ holds it."""
    if own is None:
        return False
    own = own.detach()
    if isinstance(tensor, nn.Parameter):
        own = nn.Parameter(own, tensor.requires_grad)
    elif tensor.requires_grad:
        own.requires_grad_()
    own.__dict__.update({name: value for name, value in vars(tensor).items() if not name.startswith("_flopwise")})
    try:
        swap: Any = torch.utils.swap_tensors
        swap(tensor, own)
    except RuntimeError:  # something in C++ holds it
        return False
    return True


def _note(tensor: TorchTensor, left: list[TorchTensor]) -> str:
    """Where the program holds a tensor, as in ``package.module.TABLE['key']``; "" where only running code does."""
    ways = _holders([tensor], {id(left)}, first=True)
    if not ways:
        return ""
    kind = f"{'×'.join(map(str, tensor.shape)) or 'scalar'} {str(tensor.dtype).removeprefix('torch.')}"
    return f"{_in_words(ways[-1])} holds a {kind} tensor of this run, which has no elements: set it anew before use"


def _in_words(path: tuple[Any, ...]) -> str:
    """The names and keys that lead from a holder down to a tensor."""
    top = path[0]
    if _is_namespace(top):
        words = str(top["__name__"])
    else:
        named = top if isinstance(top, (type, FunctionType)) else type(top)
        words = f"{named.__module__}.{named.__qualname__}"
    around: Any = None
    for holder, part in itertools.pairwise(path):
        if isinstance(holder, dict):
            key = next((key for key, value in holder.items() if value is part), None)
            plain = not (_is_namespace(holder) or (around is not None and id(holder) in _as_holders(around)[1:]))
            words += f"[{key!r}]" if plain else f".{key}"
        elif isinstance(holder, (list, tuple)) and not isinstance(part, CellType):
            words += f"[{next((i for i, value in enumerate(holder) if value is part), '')}]"
        else:
            attributes = _attributes_of(holder) or {}
            words += "".join([f".{name}" for name, value in attributes.items() if value is part][:1])
        around = holder
    return words


# --- models that are made on the meta device, or exported


def constructed(maker: object, make: Callable[[], object], device: torch.device | None) -> Any:
    """The object that ``make`` makes; the program keeps no tensor on the meta device in caches, names and classes,
    where models that it makes later would find it.

    Args:
        maker: the function or class that makes it.
        make: calls it.
        device: where tensors are made; None: where the program wants them.
    """
    before = Before()
    before.reach([maker])
    enabled = gc.isenabled()
    gc.collect(0)  # what is young afterwards was made meanwhile
    gc.disable()
    model = None
    try:
        with device or contextlib.nullcontext():
            model = make()
    finally:
        young = [thing for thing in gc.get_objects(0) if issubclass(type(thing), TorchTensor) and thing.is_meta]
        if enabled:
            gc.enable()
        modules = model.modules() if isinstance(model, nn.Module) else ()
        own = Counter(id(t) for m in modules for held in (m._parameters, m._buffers, vars(m)) for t in held.values())
        own.update({id(tensor._base) for tensor in young if tensor._base is not None})  # which a view holds in C++
        beside: list[Any] = [tensor for tensor in young if sys.getrefcount(tensor) - own[id(tensor)] > _OWN + 1]
        if young and sys.getrefcount(model) > _OWN:
            beside.append(model)
        del young
        if beside:
            before.empty(beside)
    return model


#: References to an object that a variable and the question for their number make.
_OWN = 2


@contextlib.contextmanager
def exporting(model: nn.Module) -> Iterator[None]:
    """The model is in eval mode meanwhile and afterwards as it was; the program keeps none of the fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensor

    def fake() -> list[TorchTensor]:
        return [thing for thing in gc.get_objects() if issubclass(type(thing), FakeTensor)]

    before = Before()
    known = {id(tensor) for tensor in fake()}
    try:
        with restored(model, False, real=True, before=before):
            yield
    finally:
        held = [tensor for tensor in fake() if id(tensor) not in known]
        if held:
            before.empty(held)
