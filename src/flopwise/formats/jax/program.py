"""Programs of JAX, given as a function, a module, a pair of init and apply, a traced program, or a name."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from flopwise.errors import InputError, ModelError, with_article
from flopwise.formats.jax.arguments import Call
from flopwise.formats.jax.kinds import PREFIX, is_tree_module
from flopwise.formats.options import JaxOptions
from flopwise.formats.torch.load import argument_values, looked_up, model_errors

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr


# The modules that run while a function is traced: their classes, and scopes for those whose library gives none.


@contextlib.contextmanager
def record_linen_classes(kinds: dict[str, str]) -> Iterator[None]:
    """In the block, each flax.linen module that is called adds its dotted path -> its class's name to ``kinds``.

    Nothing is recorded where flax.linen is not imported.
    """
    linen = sys.modules.get("flax.linen")
    if linen is None:
        yield
        return
    roots: list[str] = []

    def watched(
        call: Callable[..., object], args: Iterable[object], kwargs: Mapping[str, object], context: Any
    ) -> object:
        module = context.module
        path = tuple(map(str, module.path or ()))
        if not path:
            roots.append(module.name or type(module).__name__)
        kinds.setdefault(".".join((*roots[-1:], *path)), type(module).__name__)
        try:
            return call(*args, **kwargs)
        finally:
            if not path:
                roots.pop()

    with linen.intercept_methods(watched):
        yield


@contextlib.contextmanager
def named_scopes(roots: Sequence[object], kinds: dict[str, str]) -> Iterator[None]:
    """In the block, the flax.nnx and equinox modules among some arguments run in ``jax.named_scope`` of their paths.

    Args:
        roots: the arguments.
        kinds: dotted path of a module -> its class's name; these modules are added.
    """
    paths: dict[int, str] = {}
    modules: list[Any] = []
    for root in roots:
        if is_tree_module(root):
            _walk(root, type(root).__name__, paths, modules)
    kinds.update((paths[id(module)], type(module).__name__) for module in modules)
    around: list[str] = []
    patched: dict[type, Any] = {}
    for kind in dict.fromkeys(type(module) for module in modules):
        if callable(getattr(kind, "__call__", None)):  # noqa: B004 # the method is wanted
            patched[kind] = vars(kind).get("__call__")
            kind.__call__ = _scoped(kind.__call__, paths, modules, around)
    try:
        yield
    finally:
        for kind, own in patched.items():
            if own is None:
                del kind.__call__
            else:
                kind.__call__ = own


def _walk(value: object, path: str, paths: dict[int, str], modules: list[Any]) -> None:
    """Add the modules of a tree of modules, lists and mappings to ``paths`` (id -> path) and ``modules``.

    A module that is in the tree several times has the path at which it is met first.
    """
    if id(value) in paths:
        return
    parts: Mapping[Any, object] = {}
    if is_tree_module(value):
        paths[id(value)] = path
        modules.append(value)
        parts = vars(value)
    elif isinstance(value, Mapping):
        parts = value
    elif isinstance(value, list | tuple):
        parts = dict(enumerate(value))
    for name, part in parts.items():
        _walk(part, f"{path}.{name}", paths, modules)


def _scoped(
    original: Callable[..., object], paths: dict[int, str], modules: list[Any], around: list[str]
) -> Callable[..., object]:
    """A method that runs in the scope of its module; a copy that a transformation made has the path of its class."""

    @functools.wraps(original)
    def call(self: object, *args: object, **kwargs: object) -> object:
        outer = f"{around[-1]}." if around else ""
        _walk(self, f"{outer}{type(self).__name__}", paths, modules)
        path = paths[id(self)]
        around.append(path)
        try:
            with jax.named_scope(path.removeprefix(outer).replace(".", "/")):
                return original(self, *args, **kwargs)
        finally:
            around.pop()

    return call


@dataclass(frozen=True)
class Program:
    """A function that can be traced."""

    name: str
    source: str
    #: Called with the prepared arguments.
    function: Callable[..., object] = lambda: None
    #: The parameters that a user gives, and those of them that have no default.
    names: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    #: Those of them that are taken by name alone.
    keywords: frozenset[str] = frozenset()
    #: What stands before the arguments of the user: the weights, and a key of random numbers.
    prepared: Callable[[Call], Call] = lambda call: call
    before: tuple[str, ...] = ()
    #: The name of the key of random numbers that is handed over unasked.
    key: str = ""
    jaxpr: ClosedJaxpr | None = None
    #: Whether it takes any number of arguments.
    open_ended: bool = False
    #: A context in which modules of another library name their scopes; their classes are added by path.
    scopes: Callable[[dict[str, str]], AbstractContextManager[None]] = lambda kinds: nullcontext()

    @property
    def all_names(self) -> tuple[str, ...]:
        """The parameters of the function that is traced."""
        return (*self.before, *self.names)


def program_of(model: object, options: JaxOptions) -> Program:
    """The function that a model stands for.

    Args:
        model: as in ``flopwise.formats.jax.read.read_jax``.
        options: the arguments of a callable. One that needs none is called: it may make what is to be traced.

    Raises:
        ModelError: there is no such callable, or it is nothing that can be traced.
        InputError: there are arguments for what is not a callable by name.
    """
    if not isinstance(model, str):
        if options.arguments:
            raise InputError("arguments are for a model that is given as package.module:callable")
        return _of_object(model, _source(model))
    name = model.removeprefix(PREFIX)
    thing = looked_up(name)
    if options.arguments or isinstance(thing, type) or _makes(thing):
        with model_errors(name, "it made the function"):
            made = thing(**argument_values(name, options.arguments or {}))
        if isinstance(made, tuple) and made and callable(made[0]) and not hasattr(made, "_fields"):
            return _with(made[0], made[1:], name)
        if _is_program(made):
            return _of_object(made, name)
        if options.arguments:
            what = with_article(type(made).__name__)
            raise ModelError(f"{name}: returned {what}, not a function of JAX's, nor one with its arguments")
    if not _is_program(thing):
        raise ModelError(f"{name}: is {with_article(type(thing).__name__)}, not a function of JAX's")
    return _of_object(thing, name)


def _is_program(thing: object) -> bool:
    return callable(thing) or _jaxpr(thing) is not None or _is_transformed(thing)


def _makes(thing: object) -> bool:
    """True for a plain function that needs no arguments and takes no number of them: it makes what is to be traced."""
    return inspect.isfunction(thing) and not _parameters(thing)[1] and not _takes_any(thing)


def _with(function: object, arguments: tuple[object, ...], source: str) -> Program:
    """A function with its arguments, both from a callable by name."""
    from dataclasses import replace

    program = _of_object(function, source)
    given = Call(arguments, {})
    prepared = program.prepared
    return replace(
        program, required=(), prepared=lambda call: prepared(given if not call.args and not call.kwargs else call)
    )


def _source(model: object) -> str:
    inner = model
    while isinstance(inner, functools.partial):
        inner = inner.func
    home = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{getattr(home, '__module__', '')}.{getattr(home, '__qualname__', '')}".replace("<locals>.", "").lstrip(".")


def _of_object(model: object, source: str) -> Program:
    name = source.rpartition(":")[2].rpartition(".")[2]
    jaxpr = _jaxpr(model)
    if jaxpr is not None:
        return Program(name, source, jaxpr=jaxpr)
    if _is_transformed(model):
        return _of_transformed(model, name, source)
    if _is_linen(model):
        return _of_linen(model, type(model).__name__, source)
    if is_tree_module(model):
        return _of_module(model, type(model).__name__, source)
    if not callable(model):
        raise ModelError(f"{source}: is {with_article(type(model).__name__)}, not a function of JAX's")
    names, required = _parameters(model)
    return Program(name, source, model, names, required, _keywords(model), open_ended=not names or _takes_any(model))


def _jaxpr(model: Any) -> ClosedJaxpr | None:
    """The closed jaxpr that a traced program is or holds; None for anything else."""
    inner = getattr(model, "jaxpr", None)
    if inner is None or isinstance(model, type):
        return None
    return model if hasattr(inner, "eqns") and hasattr(model, "consts") else inner if hasattr(inner, "consts") else None


def _is_transformed(model: object) -> bool:
    return (
        isinstance(model, tuple) and callable(getattr(model, "init", None)) and callable(getattr(model, "apply", None))
    )


def _is_linen(model: object) -> bool:
    return any((base.__module__, base.__name__) == ("flax.linen.module", "Module") for base in type(model).__mro__)


def _parameters(function: Callable[..., object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parameters of a function, and those that have no default."""
    try:
        parameters = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return (), ()
    return tuple(p.name for p in parameters), tuple(p.name for p in parameters if p.default is p.empty)


def _keywords(function: Callable[..., object]) -> frozenset[str]:
    """The parameters that a function takes by name alone."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _takes_any(function: Callable[..., object]) -> bool:
    """True for a function of any number of arguments."""
    try:
        return any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return True


def _key() -> object:
    """A key of random numbers, of which nobody knows the elements."""
    return jax.eval_shape(lambda: jax.random.key(0))


def _of_linen(module: Any, name: str, source: str) -> Program:
    """A module of flax.linen: its variables are those that init makes, of which only the shapes are worked out."""
    import flax

    names, required = _parameters(module.__call__)
    changed: list[str] = []

    def prepared(call: Call) -> Call:
        arrays, restored = _split(call)

        def start(key: object, arrays: Sequence[object]) -> object:
            again = restored(arrays)
            return module.init({"params": key, "dropout": key}, *again.args, **again.kwargs)

        def run(variables: Mapping[str, object], key: object, arrays: Sequence[object]) -> object:
            again = restored(arrays)
            return applied(variables, key, *again.args, **again.kwargs)

        variables = jax.eval_shape(start, _key(), arrays)
        changed.clear()
        others = [collection for collection in variables if collection != "params"]
        if others:
            try:
                jax.eval_shape(run, variables, _key(), arrays)
            except flax.errors.ModifyScopeVariableError:
                changed.extend(others)
        return Call((variables, _key(), *call.args), call.kwargs)

    def applied(variables: Mapping[str, object], key: object, *args: object, **kwargs: object) -> object:
        return module.apply(variables, *args, rngs={"dropout": key}, mutable=changed or False, **kwargs)

    return Program(
        name,
        source,
        applied,
        names,
        required,
        _keywords(module.__call__),
        prepared,
        ("variables", "dropout key"),
        "dropout key",
        open_ended=_takes_any(module.__call__),
    )


def _split(call: Call) -> tuple[list[jax.ShapeDtypeStruct | None], Callable[[Sequence[object]], Call]]:
    """The arrays of a call, and what makes the call of as many others."""
    from flopwise.formats.jax.arguments import leaves_of

    leaves, restored = leaves_of(call, ())
    return [leaf.spec for leaf in leaves], restored


def _of_transformed(model: Any, name: str, source: str) -> Program:
    """A pair of init and apply, as haiku.transform makes it."""
    names, required = _parameters(model.apply)
    with_state = "State" in type(model).__name__
    before = ("params", "state", "rng") if with_state else ("params", "rng")
    own = tuple(name for name in names[len(before) :] if name not in ("args", "kwargs"))
    needed = tuple(name for name in own if name in required)

    def prepared(call: Call) -> Call:
        arrays, restored = _split(call)

        def start(key: object, arrays: Sequence[object]) -> object:
            again = restored(arrays)
            return model.init(key, *again.args, **again.kwargs)

        made = jax.eval_shape(start, _key(), arrays)
        variables = made if with_state else (made,)
        return Call((*variables, _key(), *call.args), call.kwargs)

    return Program(name, source, model.apply, own, needed, frozenset(), prepared, before, "rng")


def _of_module(module: Any, name: str, source: str) -> Program:
    """A module that is a tree of arrays, of equinox or flax.nnx."""
    names, required = _parameters(module.__call__)
    return Program(
        name,
        source,
        lambda model, *args, **kwargs: model(*args, **kwargs),
        names,
        required,
        _keywords(module.__call__),
        lambda call: Call((module, *call.args), call.kwargs),
        ("model",),
        open_ended=not names or _takes_any(module.__call__),
    )
