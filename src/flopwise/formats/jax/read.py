"""A function of JAX's -> Graph: traced with shapes alone, numbers or symbols."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
from jax import export

from flopwise.errors import InputError, ModelError, counted, message, with_article
from flopwise.formats.inputs import InputSpec
from flopwise.formats.jax.arguments import Leaf, is_array, leaves_of, open_specs, settle
from flopwise.formats.jax.kinds import is_tree_module
from flopwise.formats.jax.nodes import Place, tensor_of
from flopwise.formats.jax.program import Program, named_scopes, program_of, record_linen_classes
from flopwise.formats.jax.table import SYMBOLS
from flopwise.formats.jax.walk import Walk, is_backward
from flopwise.formats.limits import refuse_unknown_loops
from flopwise.formats.options import JaxOptions
from flopwise.formats.torch.load import model_errors
from flopwise.formats.weights.tensor import in_memory
from flopwise.graph import Graph, StoredTensor, Tensor
from flopwise.graph.graph import FILE

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr


# A function of JAX's in any form -> Graph. It is traced on abstract values: nothing is compiled, nothing computed.


def read_jax(
    model: object,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    options: JaxOptions = JaxOptions(),  # noqa: B008 - it cannot be changed
) -> Graph:
    """The graph of a function's operations on some arguments.

    Args:
        model: a function, a module of flax, haiku or equinox, what ``jax.make_jaxpr`` or ``jax.jit(...).trace``
            returns, or ``file.py:callable``.
        inputs: as in ``flopwise.formats.jax.arguments.settle``.
        dims: values of names that stand for sizes in shapes.
        batch_size: first dimension of every input that is given as a shape.
        progress: called with the name of each step.
        options: trips of loops, whether one of many devices counts, and the arguments of a callable.

    Raises:
        ModelError: the function fails with these arguments.
        InputError: inputs are missing or not understood.
    """
    progress("importing the model")
    program = program_of(model, options)
    progress("tracing")
    return graph_of(program, inputs, dims, batch_size, options)


def graph_of(
    program: Program, inputs: object, dims: Mapping[str, int] | None, batch_size: int | None, options: JaxOptions
) -> Graph:
    """The graph of a program's operations on some arguments; they and the errors are as in ``read_jax``."""
    return _Reading(program, options).graph(inputs, dims, batch_size)


@dataclass(slots=True)
class _Reading:
    """One function on its way to a graph."""

    program: Program
    options: JaxOptions
    weights: dict[str, StoredTensor] = field(default_factory=dict)
    captured: dict[int, Tensor] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def graph(self, inputs: object, dims: Mapping[str, int] | None, batch_size: int | None) -> Graph:
        """The graph at some inputs."""
        program = self.program
        closed, leaves, kinds = self.traced(inputs, dims, batch_size)
        arguments = [
            tensor_of(leaf.name, var.aval, leaf.kind) for leaf, var in zip(leaves, closed.jaxpr.invars, strict=True)
        ]
        arguments = _apart(arguments)
        for leaf, tensor in zip(leaves, arguments, strict=True):
            if leaf.value is not None and tensor.kind in ("weight", "buffer"):
                self.hold(tensor, leaf.value)
        changing = is_backward(closed.jaxpr) or _changes(arguments, [tensor_of("", aval) for aval in closed.out_avals])
        walk = Walk(kinds, self.options.trips or {}, changing, self.options.per_device, self.stored)
        with errors(program.source):
            results = walk.run(closed.jaxpr, closed.consts, arguments, Place())
        refuse_unknown_loops(self.options.trips or {}, [node.name for node in walk.nodes if node.op == "Loop"])
        self.note(walk)
        used = {t.name for node in walk.nodes for t in node.known_inputs} | {t.name for t in results}
        return Graph(
            name=program.name,
            format="jax",
            source=program.source,
            inputs=tuple(
                t for t, leaf in zip(arguments, leaves, strict=True)
                if t.kind in ("input", "state") and (t.name in used or leaf.name != program.key)
            ),
            outputs=tuple(results),
            nodes=tuple(walk.nodes),
            weights=self.weights,
            warnings=tuple(self.notes),
            program=FILE._replace(each_call=True),
        )  # fmt: skip

    def traced(
        self, inputs: object, dims: Mapping[str, int] | None, batch_size: int | None
    ) -> tuple[ClosedJaxpr, list[Leaf], dict[str, str]]:
        """The jaxpr, the arrays that it takes, and the classes of the modules."""
        program = self.program
        if program.jaxpr is not None:
            if inputs is not None or dims or batch_size is not None:
                raise InputError(f"{program.source}: a traced program has its sizes; trace it with others")
            closed = program.jaxpr
            texts = getattr(closed.jaxpr.debug_info, "arg_names", None) or ()
            paths = [str(text) for text in texts] if len(texts) == len(closed.jaxpr.invars) else []
            names = paths or [f"input{i}" for i in range(len(closed.jaxpr.invars))]
            return closed, [Leaf(name, "input", None) for name in names], {}
        call = settle(program.names, inputs, dims, batch_size, program.source, program.keywords)
        number = len(call.args) + sum(name not in program.names for name in call.kwargs)
        if number > len(program.names) and not program.open_ended:
            takes = f"{counted(len(program.names), 'argument')} ({', '.join(program.names)})"
            raise InputError(f"{program.source}: takes {takes}, not {number}")
        given = {*program.names[: len(call.args)], *call.kwargs}
        missing = [name for name in program.required if name not in given]
        if missing:
            raise InputError(f"{program.source}: {_missing(missing)}")
        kinds: dict[str, str] = {}
        with errors(program.source), record_linen_classes(kinds), program.scopes(kinds):
            call = program.prepared(call)
            leaves, restored = leaves_of(call, program.all_names)

            def flat(*arrays: object) -> tuple[object, list[object]]:
                again = restored(arrays)
                with named_scopes((*again.args, *again.kwargs.values()), kinds):
                    result = program.function(*again.args, **again.kwargs)
                if not (is_tree_module(result) and any(map(is_tree_module, again.args))):  # as gradients of equinox are
                    arrays_of(program, result)
                after = filter(is_array, jax.tree_util.tree_leaves(again))  # modules of flax.nnx change in their place
                before = set(map(id, arrays))
                return result, [array for array in after if id(array) not in before]

            return jax.make_jaxpr(flat)(*[leaf.spec for leaf in leaves]), leaves, kinds

    def stored(self, value: jax.Array) -> Tensor:
        """The tensor of an array that the program holds: a weight where it has axes of floating-point numbers."""
        tensor = self.captured.get(id(value))
        if tensor is None:
            spec = tensor_of(f"captured{len(self.captured)}", value)
            trained = bool(spec.shape) and jax.numpy.issubdtype(value.dtype, jax.numpy.inexact)
            tensor = Tensor(spec.name, spec.shape, spec.dtype, "weight" if trained else "constant")
            self.captured[id(value)] = tensor
            self.hold(tensor, value)
        return tensor

    def hold(self, tensor: Tensor, value: jax.Array) -> None:
        """Keep the elements of a stored tensor where somebody may ask for them."""
        import numpy

        if not hasattr(value, "__array__") or tensor.shape != tuple(value.shape):
            return

        self.weights[tensor.name] = in_memory(
            tensor.name, lambda: numpy.asarray(value), tensor.dims, tensor.dtype or "float32"
        )

    def note(self, walk: Walk) -> None:
        """Add what a reader of the figures should know."""
        weights = [t for t in self.captured.values() if t.kind == "weight"]
        if weights:
            count = "counts as a weight" if len(weights) == 1 else "count as weights"
            self.notes.append(f"{counted(len(weights), 'array')} that the function closes over {count}")
        self.notes += walk.notes()


def arrays_of(program: Program, result: object) -> object:
    """The arrays that a function returned.

    Raises:
        ModelError: it is another function, or a module.
    """
    if callable(result) and not hasattr(result, "dtype"):
        what = with_article(type(result).__name__)
        raise ModelError(f"{program.source}: returned {what}, not arrays; --arg NAME=VALUE makes one to be traced")
    return result


_HOME = jax.errors if hasattr(jax.errors, "InconclusiveDimensionOperation") else jax.core

#: What JAX raises where Python compares an open size; it stands in jax.core before JAX 0.8.
_INCONCLUSIVE: type[Exception] = _HOME.InconclusiveDimensionOperation


@contextlib.contextmanager
def errors(source: str) -> Iterator[None]:
    """A context in which errors of a traced function become one line; what asks for elements is said in plain words."""
    asks = (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
    )
    from flopwise._user_code import place_of

    try:
        with model_errors(source, "it was traced"):
            try:
                yield
            except asks as error:
                words = "asks for the elements of an array while it is traced, as under jax.jit"
                raise ModelError(f"{source}: {words}{place_of(error)}") from error
            except _INCONCLUSIVE as error:
                why = message(error).partition(". ")[0].partition(" This error")[0]
                raise ModelError(f"{source}: open sizes decide what runs ({why}){place_of(error)}") from error
    except ModelError as error:
        raise ModelError(" ".join(str(error).split("\n")[0].split())) from error.__cause__


def _missing(names: list[str]) -> str:
    shown = " ".join(f"-i {name}:SHAPE" for name in names)
    words = f"needs {'the shape of ' if len(names) == 1 else 'the shapes of '}{', '.join(names)}"
    return f"{words}; give {shown}, or in Python inputs=[{', '.join(names)}] of shapes, arrays or jax.ShapeDtypeStruct"


def _apart(tensors: list[Tensor]) -> list[Tensor]:
    """Tensors with names that differ."""
    from dataclasses import replace

    seen: Counter[str] = Counter()
    apart: list[Tensor] = []
    for tensor in tensors:
        seen[tensor.name] += 1
        number = seen[tensor.name]
        apart.append(tensor if number == 1 else replace(tensor, name=f"{tensor.name}:{number}"))
    return apart


def _changes(arguments: list[Tensor], results: list[Tensor]) -> bool:
    """True where a function returns a tensor for each of its weights, as new ones."""
    weights = Counter((t.shape, t.dtype) for t in arguments if t.kind == "weight")
    returned = Counter((t.shape, t.dtype) for t in results)
    return bool(weights) and all(returned[key] >= number for key, number in weights.items())


# A function of JAX's traced with symbolic dimensions, for formulas.


def open_inputs_of(model: object, inputs: object, options: JaxOptions) -> tuple[list[InputSpec], dict[str, object]]:
    """The inputs that are given by shapes, and the other arguments by name."""
    return open_specs(program_of(model, options).names, inputs)


def traced_with_symbols(
    model: object,
    specs: Sequence[InputSpec],
    sizes: Mapping[str, Sequence[int]],
    others: Mapping[str, object],
    options: JaxOptions,
) -> Graph:
    """The graph whose sizes carry expressions.

    JAX works the shapes out in symbols of its own, and each is evaluated with the sizes that stand for these.

    Args:
        model: as in ``flopwise.formats.jax.read.read_jax``.
        specs: the inputs at a point.
        sizes: their shapes with expressions.
        others: the arguments that are no shapes.
        options: as there.
    """
    by_expression = {size.identity: size for shape in sizes.values() for size in shape if hasattr(size, "identity")}
    symbols = {f"d{i}": size for i, size in enumerate(by_expression.values())}
    names = export.symbolic_shape(", ".join(symbols)) if symbols else ()
    of_jax = dict(zip(by_expression, names, strict=True))

    def shape(spec: InputSpec) -> tuple[Any, ...]:
        return tuple(of_jax.get(getattr(size, "identity", None), size) for size in sizes.get(spec.name, spec.shape))

    token = SYMBOLS.set(symbols)
    try:
        return read_jax(
            model, {**{spec.name: replace(spec, shape=shape(spec)) for spec in specs}, **others}, options=options
        )
    finally:
        SYMBOLS.reset(token)
