"""Small modules that keep tensors beside themselves: in caches of functions, names of modules, attributes of classes,
variables of closures. Their result is the same however often they have run.

Imports torch: ask for it with ``pytest.importorskip`` first.
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

WIDTH = 16


class Positions(nn.Module):
    """A layer whose result gets positions added, which subclasses keep somewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x) + self.positions(x)

    def positions(self, x: Tensor) -> Tensor:
        """The tensor that is kept."""
        raise NotImplementedError


def table(length: int, device: Any) -> Tensor:
    """Cosines of positions."""
    return torch.arange(length, device=device).float().mul(0.1).cos()


class CachedMethod(Positions):
    @functools.lru_cache(None)  # noqa: B019 - that it keeps the module is what is looked at
    def positions(self, x: Any) -> Any:
        return self.of_length(x.shape[1], x.device)

    @functools.lru_cache(maxsize=4)  # noqa: B019 - likewise
    def of_length(self, length: int, device: Any) -> Tensor:
        return table(length, device)

    __hash__ = nn.Module.__hash__


@functools.lru_cache(maxsize=2)
def pair(length: int, device: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """A tensor, and another in a container."""
    kept = table(length, device)
    return kept, {"twice": kept[None] * 2}


class CachedFunction(Positions):
    def positions(self, x: Tensor) -> Tensor:
        once, more = pair(x.shape[1], x.device)
        return once + more["twice"]


class CachedStatic(Positions):
    @staticmethod
    @functools.cache
    def of_length(length: int, device: Any) -> Tensor:
        return table(length, device)

    @classmethod
    @functools.cache
    def twice(cls, length: int, device: Any) -> Tensor:
        return cls.of_length(length, device) * 2

    def positions(self, x: Tensor) -> Any:
        return self.twice(x.shape[1], x.device)


class CachedProperty(Positions):
    @functools.cached_property
    def kept(self) -> Tensor:
        return table(WIDTH, self.layer.weight.device)

    def positions(self, x: Tensor) -> Tensor:
        return self.kept


TABLES: dict[Any, Any] = {}


class GlobalDict(Positions):
    def positions(self, x: Tensor) -> Any:
        key = (x.shape[1], x.device)
        if key not in TABLES:
            TABLES[key] = table(*key)
        return TABLES[key]


ROTARY: Any = defaultdict(dict)


class NestedDict(Positions):
    def positions(self, x: Tensor) -> Any:
        kept = ROTARY[x.device]
        if WIDTH not in kept:
            angles = table(x.shape[1], x.device)
            kept[WIDTH] = (angles.cos(), SimpleNamespace(sin=angles.sin()))
        cos, others = kept[WIDTH]
        return cos + others.sin


LONGEST = 0
TABLE: Tensor | None = None


class GlobalNames(Positions):
    """Two names that belong together."""

    def positions(self, x: Tensor) -> Tensor:
        global LONGEST, TABLE
        if x.shape[1] > LONGEST:
            LONGEST, TABLE = x.shape[1], table(x.shape[1], x.device)
        assert TABLE is not None
        return TABLE[: x.shape[1]]


STEPS: list[Tensor] = []


class GlobalList(Positions):
    def positions(self, x: Tensor) -> Tensor:
        if not STEPS:
            STEPS.append(table(x.shape[1], x.device))
        return STEPS[0]


class ClassAttribute(Positions):
    kept: ClassVar[Tensor | None] = None
    longest: ClassVar[int] = 0

    def positions(self, x: Tensor) -> Tensor:
        if ClassAttribute.longest < x.shape[1]:
            ClassAttribute.kept, ClassAttribute.longest = table(x.shape[1], x.device), x.shape[1]
        assert ClassAttribute.kept is not None
        return ClassAttribute.kept


class ClassDict(Positions):
    kept: ClassVar[dict[Any, Tensor]] = {}

    def positions(self, x: Tensor) -> Tensor:
        return self.kept.setdefault(x.shape[1], table(x.shape[1], x.device))


class Registry:
    """A class that other classes keep things in."""

    kept: ClassVar[Any] = None


class OtherClass(Positions):
    def positions(self, x: Tensor) -> Tensor:
        if Registry.kept is None:
            Registry.kept = [table(x.shape[1], x.device)]
        kept: Tensor = Registry.kept[0]
        return kept


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes each result once."""
    results: dict[Any, Any] = {}

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        if args not in results:
            results[args] = function(*args)
        return results[args]

    return wrapper


remembered_table = remembered(table)


class Closure(Positions):
    def positions(self, x: Tensor) -> Tensor:
        kept: Tensor = remembered_table(x.shape[1], x.device)
        return kept


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes its result once, whatever it is called with."""
    result: Any = None

    def wrapper(*args: Any) -> Any:
        nonlocal result
        if result is None:
            result = function(*args)
        return result

    return wrapper


class Variable(Positions):
    positions = once(lambda self, x: table(x.shape[1], x.device))


class Default(Positions):
    def positions(self, x: Tensor, kept: dict[int, Tensor] = {}) -> Tensor:  # noqa: B006 - that it lasts is looked at
        if x.shape[1] not in kept:
            kept[x.shape[1]] = table(x.shape[1], x.device)
        return kept[x.shape[1]]


def of_function(x: Tensor) -> Tensor:
    """Positions, which are kept at the function."""
    kept: Tensor | None = getattr(of_function, "kept", None)
    if kept is None:
        kept = of_function.kept = table(x.shape[1], x.device)  # type: ignore[attr-defined]
    return kept


class FunctionAttribute(Positions):
    def positions(self, x: Tensor) -> Tensor:
        return of_function(x)


class Slots:
    """An object without a dictionary."""

    __slots__ = ("kept",)

    def get(self, x: Tensor) -> Tensor:
        """Positions, made at the first call."""
        if not hasattr(self, "kept"):
            self.kept = table(x.shape[1], x.device)
        return self.kept


SLOTS = Slots()


class GlobalObject(Positions):
    def positions(self, x: Tensor) -> Tensor:
        return SLOTS.get(x)


LOCAL = threading.local()


class ThreadLocal(Positions):
    def positions(self, x: Tensor) -> Tensor:
        if not hasattr(LOCAL, "kept"):
            LOCAL.kept = table(x.shape[1], x.device)
        kept: Tensor = LOCAL.kept
        return kept


CONTEXT: contextvars.ContextVar[Any] = contextvars.ContextVar("CONTEXT", default=None)


class ContextVariable(Positions):
    def positions(self, x: Tensor) -> Tensor:
        if CONTEXT.get() is None:
            CONTEXT.set(table(x.shape[1], x.device))
        kept: Tensor = CONTEXT.get()
        return kept


OF_MODULES: Any = WeakKeyDictionary()


class WeakKeys(Positions):
    def positions(self, x: Tensor) -> Tensor:
        if self.layer not in OF_MODULES:
            OF_MODULES[self.layer] = table(x.shape[1], x.device)
        kept: Tensor = OF_MODULES[self.layer]
        return kept


class OfTensor(Positions):
    """What is kept at a parameter and at the input."""

    def positions(self, x: Any) -> Any:
        weight: Any = self.layer.weight
        if not hasattr(weight, "kept"):
            weight.kept = table(x.shape[1], x.device)
        x.twice = weight.kept * 2
        return weight.kept + x.twice


class Rotary(nn.Module):
    """Positions in a buffer that is registered when it is first needed."""

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.length < x.shape[1]:
            self.length = x.shape[1]
            self.register_buffer("kept", table(x.shape[1], x.device), persistent=False)
        kept: Tensor = self.kept  # type: ignore[assignment] # registered above
        return kept


class LazyBuffer(Positions):
    def __init__(self) -> None:
        super().__init__()
        self.rotary = Rotary()
        self.kept: Tensor | None = None

    def positions(self, x: Tensor) -> Any:
        if self.kept is None:
            self.kept = torch.arange(x.shape[1], device=x.device)
        return self.rotary(x) + self.kept


ROTARIES: dict[int, Rotary] = {}


class ModuleElsewhere(Positions):
    """A module that is no part of the model, and one in a list of it."""

    def __init__(self) -> None:
        super().__init__()
        self.others = [Rotary()]

    def positions(self, x: Tensor) -> Any:
        rotary = ROTARIES.setdefault(x.shape[1], Rotary())
        return rotary(x) + self.others[0](x)


LARGE: dict[int, Tensor] = {}


class Large(Positions):
    """A table with more elements than are followed."""

    def positions(self, x: Tensor) -> Tensor:
        if 0 not in LARGE:
            LARGE[0] = table(1 << 21, x.device)
        return LARGE[0][: x.shape[1]]


OF_WEIGHTS: dict[int, Tensor] = {}


class OfWeights(Positions):
    """What follows from a weight: its elements are not known on a run without them."""

    @functools.lru_cache(None)  # noqa: B019 - that it keeps the module is what is looked at
    def row(self) -> Tensor:
        return self.layer.weight.detach().sum(0)

    def positions(self, x: Tensor) -> Tensor:
        key = id(self)
        if key not in OF_WEIGHTS:
            OF_WEIGHTS[key] = self.layer.weight.detach().contiguous()[0]
        return self.row() + OF_WEIGHTS[key]


class Processor:
    """Attention of diffusion models: no module, one object for all layers, with what it keeps."""

    masks: ClassVar[dict[Any, Tensor]] = {}

    def __init__(self) -> None:
        self.scales: dict[Any, Tensor] = {}

    def __call__(self, layer: nn.Linear, x: Tensor) -> Any:
        size = x.shape[-1]
        if size not in self.scales:
            self.scales[size] = torch.full((size,), size**-0.5, device=x.device)
            Processor.masks[size] = torch.ones(size, size, device=x.device).tril()
        weights = (layer(x) * self.scales[size]).softmax(-1)
        return weights @ Processor.masks[size]


@functools.lru_cache
def frequencies(width: int, device: str) -> Tensor:
    """Frequencies of an embedding of time steps."""
    return torch.exp(-torch.arange(width // 2, dtype=torch.float32, device=device) / (width // 2))


class Denoiser(Positions):
    """A step of a diffusion model: an embedding of the time, an attention processor, a state of earlier frames."""

    def __init__(self) -> None:
        super().__init__()
        self.processor = Processor()
        self.frames: list[Tensor | None] = [None, None]

    def positions(self, x: Tensor) -> Any:
        angles = torch.tensor(7.0, device=x.device) * frequencies(x.shape[1], str(x.device))
        time = torch.cat((angles.sin(), angles.cos()))
        self.frames[0] = x.detach()
        return self.processor(self.layer, x) + time


LAST: Any = None
SEEN: dict[str, Any] = {}


class Watched(Positions):
    """What a run computes is kept, for somebody to look at."""

    latest: ClassVar[Any] = None

    def positions(self, x: Tensor) -> Tensor:
        global LAST
        LAST = x
        Watched.latest = x * 2
        SEEN["x"] = {"deep": [x + 1]}
        return x


KINDS: tuple[type[Positions], ...] = tuple(
    kind for kind in list(globals().values()) if isinstance(kind, type) and issubclass(kind, Positions)
)[1:]
