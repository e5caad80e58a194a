"""torchstat 0.0.7: multiply-adds of leaf modules, which it calls Flops, and operations, which it calls MAdd.

Source: https://github.com/Swall0w/torchstat, ``torchstat/compute_flops.py``, ``compute_madd.py``,
``compute_memory.py`` and ``model_hook.py`` of the release 0.0.7 on the Python package index. The tool goes by the class
or a class above it, has one figure for each module however often it is called (the last call's), and looks only at
modules that hold no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from flopwise.conventions.calls import Layer, children, layers
from flopwise.conventions.convention import attempt
from flopwise.conventions.emulation import Tool, convention, elements, results
from flopwise.graph import Graph
from flopwise.graph.dtypes import BITS
from flopwise.operators.extents import product

T = TypeVar("T")
Rule: TypeAlias = Callable[[Layer], int]


def _check_rank(layer: Layer, rank: int) -> None:
    """Raise ValueError unless X and Y have ``rank`` dimensions, as the tool asserts."""
    if not len(layer.x.dims) == len(layer.y.dims) == rank:
        raise ValueError(f"the tool asks for {rank} dimensions")


def _image(layer: Layer) -> tuple[int, ...]:
    """Channels, height and width of Y."""
    _check_rank(layer, 4)
    return layer.y_shape[1:]


def _window(layer: Layer) -> int:
    kernel = layer.options["kernel_size"]
    return kernel * kernel if isinstance(kernel, int) else product(kernel)


def _conv_flops(layer: Layer) -> int:
    """MAC, + numel(Y) with bias."""
    outs, height, width = _image(layer)
    batch, ins, *_ = layer.x_shape
    cells = _window(layer) * ins * (outs // layer.size("groups"))
    return (cells + ("bias" in layer.tensors) * outs) * batch * height * width


def _conv_madd(layer: Layer, of_input: bool = False) -> int:
    """(2n - 1) per element of Y for n products, + 1 with bias, of one image."""
    outs, *spread = _image(layer)
    groups = layer.size("groups")
    each = 2 * _window(layer) * (layer.x_shape[1] // groups) - 1 + ("bias" in layer.tensors)
    return each * product(layer.x.dims[2:] if of_input else spread) * (outs // groups) * groups


def _transposed_madd(layer: Layer) -> int:
    """As a convolution, by the positions of X."""
    return _conv_madd(layer, of_input=True)


def _norm_flops(layer: Layer) -> int:
    """numel(X), with scale 2 numel(X)."""
    _check_rank(layer, 4)
    return layer.x.numel * (2 if layer.options["affine"] else 1)


def _norm_madd(layer: Layer) -> int:
    """4 per element of one image."""
    _check_rank(layer, 4)
    return 4 * product(layer.x.dims[1:])


def _elements_of_one(layer: Layer) -> int:
    """numel(X) of one image."""
    return product(layer.x.dims[1:])


def _pool_flops(layer: Layer) -> int:
    """numel(X)."""
    _check_rank(layer, 4)
    return layer.x.numel


def _max_madd(layer: Layer) -> int:
    """(k² - 1) per element of Y of one image."""
    return (_window(layer) - 1) * product(_image(layer))


def _average_madd(layer: Layer) -> int:
    """k² per element of Y of one image."""
    return _window(layer) * product(_image(layer))


def _softmax_madd(layer: Layer) -> int:
    """3n - 1 for the n elements of one image."""
    if len(layer.x.dims) < 2:
        raise ValueError("the tool asks for two dimensions")
    return 3 * product(layer.x.dims[1:]) - 1


def _linear_flops(layer: Layer) -> int:
    """MAC; two dimensions only."""
    _check_rank(layer, 2)
    return product((*layer.x.dims, layer.y.dims[1]))


def _linear_madd(layer: Layer) -> int:
    """(2n - 1) per output feature, of one row."""
    _check_rank(layer, 2)
    return product((layer.y.dims[1], 2 * layer.x.dims[1] - 1))


def _upsampled(layer: Layer) -> int:
    """Batch × channels × positions of Y, the first element of the result standing for the result."""
    return product((layer.x.dims[0], *layer.y.dims[2:]))


#: A class and what a subclass of it counts as: the first that fits.
_Table: TypeAlias = "Sequence[tuple[str, Rule]]"

FLOPS: _Table = (
    ("Conv2d", _conv_flops),
    ("BatchNorm2d", _norm_flops),
    ("AvgPool2d", _pool_flops),
    ("MaxPool2d", _pool_flops),
    *((kind, elements) for kind in ("ReLU", "ReLU6", "PReLU", "ELU", "LeakyReLU")),
    ("Upsample", _upsampled),
    ("Linear", _linear_flops),
)

MADD: _Table = (
    ("Conv2d", _conv_madd),
    ("ConvTranspose2d", _transposed_madd),
    ("BatchNorm2d", _norm_madd),
    ("MaxPool2d", _max_madd),
    ("AvgPool2d", _average_madd),
    ("ReLU", _elements_of_one),
    ("ReLU6", _elements_of_one),
    ("Softmax", _softmax_madd),
    ("Linear", _linear_madd),
)


def _read_weights(layer: Layer) -> int:
    """Elements of X, and for each image those of the trained weights."""
    trained = sum([t.numel for t in layer.tensors.values() if t.kind == "weight" and t.grad])
    return layer.x.numel + product((layer.x.dims[0], trained))


def _read_norm(layer: Layer) -> int:
    """Elements of X, and for each image two for each channel."""
    _check_rank(layer, 4)
    return layer.x.numel + product((*layer.x.dims[:2], 2))


#: Class -> elements read and elements written.
MEMORY: Sequence[tuple[str, tuple[Rule, Rule]]] = (
    *((kind, (elements, elements)) for kind in ("ReLU", "ReLU6", "ELU", "LeakyReLU")),
    ("PReLU", (_read_weights, elements)),
    ("Conv2d", (_read_weights, results)),
    ("BatchNorm2d", (_read_norm, elements)),
    ("Linear", (_read_weights, results)),
    ("AvgPool2d", (elements, results)),
    ("MaxPool2d", (elements, results)),
)


class Line(NamedTuple):
    """The tool's figures of one leaf module."""

    path: str
    layer: Layer | None
    params: int = 0
    #: MB of 2^20 bytes, four for each element of the result of one image.
    memory: float = 0
    madd: int = 0
    flops: int = 0
    read: int = 0
    written: int = 0


def _rule_of(table: Sequence[tuple[str, T]], layer: Layer) -> T | None:
    return next((rule for kind, rule in table if kind in layer.bases), None)


def line(layer: Layer) -> Line:
    """The figures of one call.

    Raises:
        ValueError, LookupError, ShapeError: the tool fails here.
    """
    flops, madd, memory = _rule_of(FLOPS, layer), _rule_of(MADD, layer), _rule_of(MEMORY, layer)
    if layer.positional != 1 and (flops or madd or memory):
        raise ValueError("the tool asks for one argument")
    width = BITS.get(layer.x.dtype or "float32", 32) // 8
    return Line(
        layer.path,
        layer,
        layer.params,
        product(layer.y.dims[1:]) * 4 / 2**20,
        madd(layer) if madd else 0,
        flops(layer) if flops else 0,
        memory[0](layer) * width if memory else 0,
        memory[1](layer) * width if memory else 0,
    )


def leaves(graph: Graph) -> dict[str, Layer | None]:
    """The modules that hold no other, in the order of definition, with their last call; None for one never called."""
    if not graph.program.modules:
        return {layer.path: layer for layer in layers(graph)}
    calls: dict[str, Layer | None] = {path: None for path, inner in children(graph).items() if not inner}
    calls.update({layer.path: layer for layer in layers(graph) if layer.path in calls})
    return calls


def _called(graph: Graph) -> list[Layer]:
    return [layer for layer in leaves(graph).values() if layer is not None]


def _flops(layer: Layer) -> int:
    return line(layer).flops


def _sum(figure: Callable[[Line], float]) -> Callable[[Graph], int]:
    """The sum of one figure of the lines that the tool can make."""

    def total(graph: Graph) -> int:
        lines = [attempt(line, layer) for layer in _called(graph)]
        return int(sum([figure(line) for line in lines if line is not None]))

    return total


#: Totals of the tool besides Flops; its memory in bytes.
TOTALS: Mapping[str, Callable[[Graph], int]] = {
    "params": _sum(lambda line: line.params),
    "madd": _sum(lambda line: line.madd),
    "memory_bytes": _sum(lambda line: line.memory * 2**20),
    "read_bytes": _sum(lambda line: line.read),
    "written_bytes": _sum(lambda line: line.written),
    "moved_bytes": _sum(lambda line: line.read + line.written),
}


def _stop(graph: Graph) -> Iterator[str]:
    """Where the tool stops."""
    layer = next((layer for layer in _called(graph) if attempt(line, layer) is None), None)
    if layer is not None:
        yield f"torchstat fails at the module {layer.path!r}; its other totals leave out where it fails"


_TOOL = Tool(
    name="torchstat",
    title="torchstat",
    summary="torchstat's Flops: multiply-adds with bias of leaf modules, and elements of norms, ReLU and poolings.",
    source="torchstat 0.0.7, torchstat/compute_flops.py, compute_madd.py and compute_memory.py",
    notes=(
        "what torchstat calls Flops are multiply-adds; its MAdd counts operations, about two for each",
        "torchstat counts a module once however often it is called, and itself takes one image: for a batch its rules "
        "for Flops multiply by the batch, those for MAdd do not (give -b 1 for what it prints)",
    ),
    hooks=dict(FLOPS),
    every=_flops,
    calls=_called,
    missing="above",
    warnings=_stop,
    totals=TOTALS,
)

CONVENTION = convention(_TOOL)
