"""The arguments that a function of JAX's is traced with: arrays by their shapes alone, everything else as it is."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, cast

import jax
import numpy
from jax import tree_util

from flopwise.errors import InputError
from flopwise.formats.inputs import FORM, VALUE, Dims, InputSpec, Value, dtype_of, parse
from flopwise.formats.jax.kinds import KINDS, is_tree_module
from flopwise.graph import Kind

if TYPE_CHECKING:
    from jax.typing import DTypeLike

#: Parameters of functions that hold whole numbers.
_WHOLE = frozenset({"ids", "input_ids", "tokens", "token_ids", "idx", "indices", "labels", "positions", "position_ids"})


class Leaf(NamedTuple):
    """An array among the arguments: its name, what it is for, its shape and type, and itself where it was given."""

    name: str
    kind: Kind
    spec: jax.ShapeDtypeStruct | None
    value: jax.Array | None = None


class Call(NamedTuple):
    """The arguments of a call."""

    args: tuple[object, ...]
    kwargs: dict[str, object]


def settle(
    names: Sequence[str],
    inputs: object,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    source: str,
    keywords: frozenset[str] = frozenset(),
) -> Call:
    """The arguments of a call, from what a user says of them.

    Args:
        names: the parameters of the function.
        inputs: a shape, an array or a ``ShapeDtypeStruct``; a sequence of arguments, which may be trees of arrays; a
            mapping from parameters to arguments; a pair of both; or texts of the form ``name:dtype:shape``.
        dims: values of names that stand for sizes in shapes.
        batch_size: the first dimension of every input that is given as a shape.
        source: where the function comes from, for messages.
        keywords: the parameters that are taken by name alone.

    Raises:
        InputError: the inputs are not understood, or a size applies to none of them.
    """
    making = _Making(names, Dims(dims), batch_size)
    args: list[object] = []
    kwargs: dict[str, object] = {}
    texts = [inputs] if isinstance(inputs, str) else inputs
    if isinstance(texts, list | tuple) and texts and all(isinstance(text, str) for text in texts):
        for place, text in enumerate(texts):
            name, value = making.text(text, place)
            kwargs[name] = value
        while (name := _name(names, len(args))) in kwargs and name not in keywords:
            args.append(kwargs.pop(name))
    else:
        positional, named = _parts(inputs, names)
        args = [making.one(_name(names, i), value) for i, value in enumerate(positional)]
        kwargs = {name: making.one(name, value) for name, value in named.items()}
    making.dims.check()
    if batch_size is not None and not making.batched:
        raise InputError(f"{source}: the batch size {batch_size} applies to none of the inputs; give shapes")
    return Call(tuple(args), kwargs)


def open_specs(names: Sequence[str], inputs: object) -> tuple[list[InputSpec], dict[str, object]]:
    """The inputs that are given by shapes, which may have names for sizes, and the other arguments by name."""
    making = _Making(names, Dims(), None)
    texts = [inputs] if isinstance(inputs, str) else inputs
    named: dict[str, object]
    if isinstance(texts, list | tuple) and texts and all(isinstance(text, str) for text in texts):
        named = {}
        for place, text in enumerate(texts):
            name, value = making.described(text, place)
            named[name] = value
    else:
        positional, keywords = _parts(inputs, names)
        named = {**{_name(names, i): value for i, value in enumerate(positional)}, **keywords}
    specs = [value for value in named.values() if isinstance(value, InputSpec)]
    shapes = {name: value for name, value in named.items() if is_shape(value)}
    specs += [InputSpec(name, tuple(shape)) for name, shape in shapes.items()]
    given = {spec.name for spec in specs}
    specs = [replace(spec, dtype=spec.dtype or default_type(spec.name)) for spec in specs]
    return specs, {name: value for name, value in named.items() if name not in given}


def _name(names: Sequence[str], place: int) -> str:
    """The parameter at a place, or a name for what takes any number."""
    return names[place] if place < len(names) else f"input{place}"


def _parts(inputs: object, names: Sequence[str]) -> tuple[Sequence[object], Mapping[str, object]]:
    """Arguments by position, and by name."""
    if inputs is None:
        return (), {}
    if _is_named(inputs, names):
        return (), inputs
    if not isinstance(inputs, list | tuple) or hasattr(inputs, "_fields") or is_shape(inputs):
        return (inputs,), {}
    if len(inputs) == 2 and isinstance(inputs[0], list | tuple) and _is_named(inputs[1], names):
        return inputs[0], inputs[1]
    return inputs, {}


def _is_named(value: object, names: Sequence[str]) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping) and bool(value) and all(name in names for name in value)


def is_shape(value: object) -> TypeGuard[Sequence[int | str]]:
    """True where a value is a sequence of sizes, one at least, some of them perhaps by name."""
    if not isinstance(value, list | tuple) or hasattr(value, "_fields") or not value:
        return False
    return all(isinstance(n, int | str | numpy.integer) and not isinstance(n, bool) for n in value)


class _Making:
    """Arguments made of what the caller says of them."""

    def __init__(self, names: Sequence[str], dims: Dims, batch: int | None) -> None:
        self.names, self.dims, self.batch = names, dims, batch
        self.batched = False

    def text(self, text: str, place: int) -> tuple[str, object]:
        """The name and the value of an argument that a text describes."""
        name, value = self.described(text, place)
        return name, self.spec(value) if isinstance(value, InputSpec) else value

    def described(self, text: str, place: int) -> tuple[str, object]:
        """The name of an argument that a text describes, and its shape or its value."""
        head, colon, rest = text.partition(":")
        if colon and rest.startswith(VALUE):
            try:
                return head, ast.literal_eval(rest[len(VALUE) :])
            except (ValueError, SyntaxError):
                raise InputError(
                    f"cannot understand {text!r}; a value is a Python literal, as in {head}:value:True"
                ) from None
        names = self.names if head in self.names else [_name(self.names, place)]
        spec = parse(text, names)
        return spec.name, spec

    def one(self, name: str, value: object) -> object:
        """An argument: a shape becomes an array of it."""
        if isinstance(value, Value):
            return value.value
        if isinstance(value, str):
            return self.text(value if value.startswith(f"{name}:") else f"{name}:{value}", 0)[1]
        if isinstance(value, InputSpec):
            return self.spec(value)
        if is_shape(value):
            return self.spec(InputSpec(name, tuple(value)))
        return value

    def spec(self, spec: InputSpec) -> jax.ShapeDtypeStruct:
        """The array of a shape.

        Raises:
            InputError: a name in it has no value, or the type is not one of JAX's.
        """
        extents: list[Any] = []
        for extent in spec.shape:
            if hasattr(extent, "_sorted_terms"):
                extents.append(extent)
                continue
            size = self.dims.find(extent) if isinstance(extent, str) else operator.index(extent)
            if size is None or size < 0:
                raise InputError(f"input {spec.name!r}: {extent!r} has no size; give --dim {extent}=NUMBER")
            extents.append(size)
        if self.batch is not None and extents:
            extents[0], self.batched = self.batch, True
        return abstract(extents, jax_dtype(spec.dtype or default_type(spec.name)))


def default_type(name: str) -> str:
    """The element type of an input of which only the shape is given."""
    return "int32" if name in _WHOLE else "float32"


def jax_dtype(name: str) -> DTypeLike:
    """An element type as JAX takes it; 64 bits become 32 unless they are enabled.

    Raises:
        InputError: JAX has no such type.
    """
    plain = dtype_of(name)
    names = {dtype_of(known): known for known in dir(jax.numpy) if not known.startswith("_")}
    try:
        return jax.dtypes.canonicalize_dtype(numpy.dtype(getattr(jax.numpy, names[plain])))
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"JAX has no element type {name!r}; write {FORM}") from None


def abstract(shape: Sequence[int], dtype: DTypeLike) -> jax.ShapeDtypeStruct:
    """An array of which nobody knows the elements."""
    make: Any = jax.ShapeDtypeStruct
    return cast("jax.ShapeDtypeStruct", make(tuple(shape), dtype))


def is_array(value: object) -> bool:
    """True where a value is an array, or says the shape and the type of one."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type)


def leaves_of(call: Call, names: Sequence[str]) -> tuple[list[Leaf], Callable[[Sequence[object]], Call]]:
    """The arrays among the arguments, and what makes the arguments of as many others.

    Returns:
        The arrays, and a function from a list of others to the arguments.
    """
    paths, tree = tree_util.tree_flatten_with_path((call.args, call.kwargs))
    leaves: list[Leaf] = []
    fixed: list[object] = []
    for path, value in paths:
        if not is_array(value):
            fixed.append(value)
            continue
        fixed.append(leaves)
        keys = [_key(key) for key in path[1:]]
        if path[0].idx == 0:
            keys[0] = _name(names, int(keys[0]))
        root = call.args[path[1].idx] if path[0].idx == 0 else call.kwargs[keys[0]]
        leaves.append(_leaf(keys, root, path[2:], value))

    def restored(values: Sequence[object]) -> Call:
        rest = iter(values)
        return Call(*tree_util.tree_unflatten(tree, [next(rest) if value is leaves else value for value in fixed]))

    return leaves, restored


def _key(key: object) -> str:
    """The name of a step of a path into a tree."""
    for name in ("key", "name", "idx"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def _leaf(keys: list[str], root: object, path: Sequence[object], value: Any) -> Leaf:
    kind: Kind = "input"
    for key in keys:
        kind = KINDS.get(key, kind)
        if kind == "state":
            break
    dtype = value.dtype
    if kind == "input" and len(keys) > 1 and is_tree_module(root):
        kind = "weight" if jax.numpy.issubdtype(dtype, jax.numpy.inexact) and _is_trained(root, path) else "buffer"
    if not jax.numpy.issubdtype(dtype, jax.dtypes.extended):
        dtype = jax_dtype(str(dtype))
    named = keys[1:] if kind in ("weight", "buffer") and len(keys) > 1 else keys
    named = [key for key in named if key not in ("params", "value")] or keys
    held = value if hasattr(value, "__array__") and not isinstance(value, jax.ShapeDtypeStruct) else None
    return Leaf(".".join(named), kind, abstract(value.shape, dtype), held)


def _is_trained(root: object, path: Sequence[object]) -> bool:
    """True unless a path into a module of flax.nnx leads through a variable that is no parameter, as statistics are."""
    value = root
    for key in path:
        name = getattr(key, "name", None)
        value = getattr(value, name, None) if name else _member(value, key)
        names = {base.__name__ for base in type(value).__mro__}
        if "Variable" in names:
            return "Param" in names
    return True


def _member(value: Any, key: object) -> object:
    try:
        return value[getattr(key, "idx", getattr(key, "key", None))]
    except (KeyError, IndexError, TypeError):
        return None
