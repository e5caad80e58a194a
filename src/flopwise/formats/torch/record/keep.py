"""The caller's program and PyTorch's settings are after a run what they were before it.

The program keeps tables and results in names of Python modules, attributes of classes and variables of closures. Most
of that belongs to others and changes for reasons of its own, so that only what holds a tensor of the run is put back.
Such a tensor has no elements, and whoever met it later would fail; one whose elements are known, such as a table of
positions, gets them, as if the program had run.
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
from typing import Any, TypeVar
from weakref import ReferenceType, ref

import torch
from torch import Tensor as TorchTensor
from torch import nn
from torch.utils import _device as default_device
from torch.utils import _python_dispatch as python_dispatch

from flopwise.formats.torch.containers import ATOMS
from flopwise.formats.torch.kinds import Namespace

T = TypeVar("T")

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
    numpy = sys.modules.get("numpy")
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
        restores.append(functools.partial(value.set_state, value.get_state()))  # type: ignore[arg-type] # it returns itself
    elif isinstance(value, random.Random):
        restores.append(functools.partial(value.setstate, value.getstate()))
    elif numpy and isinstance(value, numpy.random.Generator):
        restores.append(functools.partial(setattr, value.bit_generator, "state", value.bit_generator.state))
    elif numpy and isinstance(value, numpy.random.RandomState):
        restores.append(functools.partial(value.set_state, value.get_state(legacy=False)))
    if (attributes := _attributes_of(value)) is not None:
        restores.append(functools.partial(put_back, attributes, dict(attributes)))
        parts += attributes.values()
    for base in kind.__mro__:
        for slot in vars(base).values() if "__slots__" in vars(base) else ():
            if type(slot) is MemberDescriptorType:
                parts.append(_content(slot, value))
                restores.append(functools.partial(_put_back_content, slot, value, parts[-1]))
    return restores, parts


def _attributes_of(value: object) -> Namespace | None:
    """The attributes of an object; None where its class gives it none."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return attributes if type(attributes) is dict else None


def put_back(held: dict[Any, object], before: dict[Any, Any]) -> None:
    """Give a dict, of attributes or names too, the entries that it had: one by one, because others may read it."""
    same = len(held) == len(before) and all(map(operator.is_, dict.values(held), before.values()))
    if same and list(dict.keys(held)) == list(before):
        return
    kind: Any = OrderedDict if isinstance(held, OrderedDict) else dict  # not what a subclass makes of it
    for key in dict.keys(held) - before.keys():
        kind.pop(held, key, None)
    for key, value in before.items():
        if dict.get(held, key, _EMPTY) is not value:
            kind.__setitem__(held, key, value)
    if list(dict.keys(held)) != list(before):
        kind.clear(held)
        kind.update(held, before)


def _put_back_elements(held: Any, owner: Any, before: list[Any]) -> None:
    now = list(owner.__iter__(held))
    if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
        owner.clear(held)
        (owner.update if owner is set else owner.extend)(held, before)


def _content(slot: Any, holder: object) -> object:
    """What is in a slot of an object, or in the variable of a closure."""
    try:
        return slot.__get__(holder)
    except (AttributeError, ValueError):  # nothing yet
        return _EMPTY


def _put_back_content(slot: Any, holder: object, before: object) -> None:
    if _content(slot, holder) is not before:
        slot.__delete__(holder) if before is _EMPTY else slot.__set__(holder, before)


def _put_back_attributes(kind: type, before: Namespace) -> None:
    now = dict(vars(kind))
    for name in now.keys() - before.keys():
        type.__delattr__(kind, name)
    for name, value in before.items():
        if now.get(name, _EMPTY) is not value:
            type.__setattr__(kind, name, value)


_VARIABLE: Any = CellType.cell_contents


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
        cells = [(cell, _content(_VARIABLE, cell)) for cell in function.__closure__ or ()]
        restores = [functools.partial(_put_back_content, _VARIABLE, cell, before) for cell, before in cells]
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
            self._places.append((names, (functools.partial(put_back, names, dict(names)),)))
            for name, value in [*names.items()]:
                if name[:2] != "__" and not (type(value) is FunctionType or isinstance(value, (type, ModuleType))):
                    self._follow(value, 0, False)

    def empty(self, tensors: list[Any]) -> None:
        """Put back what holds some tensors, with all that it belongs to, and empty the caches of functions that do."""
        places = {holder: restores for held, restores in self._places for holder in _as_holders(held)}
        restores: list[Callable[[], None]] = []
        for holder, *_ in _holders(tensors, {id(self._places)}):
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
    """Whatever happens inside, the model is afterwards as it was before, and so are random numbers and the default
    element type; yields what keeps elements on a real run.

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
            empty = kind in (dict, OrderedDict, set) and not value  # most of them: hooks that nobody has
            if empty and name in _OF_EVERY_MODULE:
                unregistered.append(value)
            elif name not in _OF_EVERY_MODULE or kind is set:
                held.hold(value)
            elif kind is dict or kind is OrderedDict:
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
    numpy: Any = sys.modules.get("numpy")
    for generator in (random._inst, torch.default_generator, *torch.cuda.default_generators):
        held.hold(generator)
    held.hold(numpy.random.get_state.__self__ if numpy else None)
    default = torch.get_default_dtype()
    for module in modules if training is not None else ():
        vars(module)["training"] = training
    try:
        yield elements
    finally:
        torch.set_default_dtype(default)
        for now, then in attributes:
            put_back(now, then)
        for registry in unregistered:
            if registry:
                registry.clear()
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
    top = ways[-1][0]
    if _is_namespace(top):
        words = str(top["__name__"])
    else:
        named = top if isinstance(top, (type, FunctionType)) else type(top)
        words = f"{named.__module__}.{named.__qualname__}"
    around: Any = None
    for holder, part in itertools.pairwise(ways[-1]):
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
    kind = f"{'×'.join(map(str, tensor.shape)) or 'scalar'} {str(tensor.dtype).removeprefix('torch.')}"
    return f"{words} holds a {kind} tensor of this run, which has no elements: set it anew before use"


# --- models that are made on the meta device, or exported

#: References to an object that a variable and the question for their number make.
_OWN = 2


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


# --- PyTorch's settings during a run: nothing is fused or compiled, and modes of the caller are suspended


@contextlib.contextmanager
def substituted(owner: object, name: str, substitute: object) -> Iterator[None]:
    """An attribute of a class or Python module is another meanwhile.

    Python modules that are imported meanwhile may have taken it over under a name of their own, as ``torch._dynamo``
    does with ``nn.Module._call_impl``, to see whether somebody has replaced it; afterwards they have the original.
    """
    original, known = vars(owner).get(name, _EMPTY), len(sys.modules)
    setattr(owner, name, substitute)
    try:
        yield
    finally:
        delattr(owner, name) if original is _EMPTY else setattr(owner, name, original)
        for module in [*sys.modules.values()][known:] if len(sys.modules) > known else ():
            names = getattr(module, "__dict__", {})
            for key in [key for key, value in names.items() if value is substitute]:
                names[key] = original


@contextlib.contextmanager
def outside_of_modes() -> Iterator[None]:
    """Modes of the caller that make every tensor another (fake, functional) are suspended."""
    if not torch._C._len_torch_dispatch_stack():
        yield
        return
    modes: Any = python_dispatch
    with modes._disable_current_modes():
        yield


def uncompiled(work: Callable[[], T]) -> T:
    """The result of some work, which runs as it is written even in a function that ``torch.compile`` compiles."""
    if "torch._dynamo" not in sys.modules:
        return work()
    disable: Any = sys.modules["torch._dynamo"].disable
    result: T = disable(work)()
    return result


def without_dynamo() -> contextlib.AbstractContextManager[object]:
    """In the block, functions of PyTorch's that TorchDynamo is not to compile (for sizes, checkpoints) run at once:
    the first one would import TorchDynamo to say so, which takes longer than most readings, and be recorded with it.
    """
    # They look up what TorchDynamo made of them by ``getattr``, which torch/_compile.py finds among its own names.
    compiling = sys.modules["torch._compile"]
    unloaded = "torch._dynamo" not in sys.modules
    return substituted(compiling, "getattr", lambda function, *name: function) if unloaded else contextlib.nullcontext()


@contextlib.contextmanager
def plain_execution() -> Iterator[None]:
    """Fused paths are off, so that every operation is seen; compiled modules run as they were written; function modes
    that stand between a program and its operations (``with torch.device(...)``) are suspended, and the device of new
    tensors is afterwards as it was.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    modes: Any = torch.overrides
    suspended = _popped()
    local: Any = torch._GLOBAL_DEVICE_CONTEXT
    device: Any = default_device
    current, context = device.CURRENT_DEVICE, getattr(local, "device_context", None)
    functions: Any = torch._C._functorch
    depth = functions.maybe_current_level() or 0
    eager = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else without_dynamo()
    try:
        with substituted(torch, "compile", _uncompiled), eager:
            yield
    finally:
        device.CURRENT_DEVICE, local.device_context = current, context
        while (functions.maybe_current_level() or 0) > depth:  # an exported program steps in and out by operations
            functions.pop_dynamic_layer_stack()
        torch.backends.mha.set_fastpath_enabled(fast)
        _popped()
        while suspended:
            modes._push_mode(suspended.pop())


def _popped() -> list[Any]:
    """The function modes that were in force, the innermost first."""
    modes: Any = torch.overrides
    popped = []
    while modes._get_current_function_mode() is not None:
        popped.append(modes._pop_mode())
    return popped


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch computes in one thread: what is computed beside stand-ins is small, and waking others takes longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _uncompiled(model: object = None, **options: object) -> object:
    """The function or module itself, instead of the compiled one that ``torch.compile`` returns."""
    return (lambda function: function) if model is None else model
