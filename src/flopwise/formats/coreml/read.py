"""A MIL program in the form in which the ONNX reader holds a model: operations as operators with rules of their own."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.coreml.decode import HEADER, OTHERS, ROOT, Weights, specification
from flopwise.formats.coreml.decode import opened as opened_source
from flopwise.formats.coreml.lower import Extents, Operation, Typed, lower
from flopwise.formats.kit.build import scope_of_path
from flopwise.formats.kit.lowering import Lowered
from flopwise.formats.kit.nodes import Nodes
from flopwise.formats.kit.program import Graph, Model, Node, TensorType, Value, Values, named
from flopwise.formats.kit.program import Graph as Operations
from flopwise.formats.kit.read import Dialect, Opened, in_one_line, opened_as, refuse_large
from flopwise.formats.kit.tensors import CODES, DEEPEST, MOST_DIMS, RAW, Place, Stored, elements, kept
from flopwise.formats.onnx.normalize import in_execution_order
from flopwise.formats.options import OnnxOptions
from flopwise.formats.sources.schema import Message, Messages
from flopwise.formats.sources.wire import signed, varints
from flopwise.graph import Module
from flopwise.graph.dtypes import BITS
from flopwise.operators.shape import Element

#: Codes of element types -> their names.
DTYPES = {
    1: "bool",
    2: "string",
    10: "float16",
    11: "float32",
    12: "float64",
    13: "bfloat16",
    21: "int8",
    22: "int16",
    23: "int32",
    24: "int64",
    25: "int4",
    31: "uint8",
    32: "uint16",
    33: "uint32",
    34: "uint64",
    35: "uint4",
    36: "uint2",
    37: "uint1",
    38: "uint6",
    39: "uint3",
    40: "float8e4m3fn",
    41: "float8e5m2",
}

#: Fields of a TensorValue with numbers that are written as they are, and those with a varint for each.
_AS_THEY_ARE, _VARINTS = ("floats", "doubles", "bytes"), ("ints", "bools", "longInts")

#: Numbers that a specification may hold of one tensor, each as a varint.
_MOST_INLINE = 1 << 22

#: A constant: its type, where its elements lie, and what it holds where these are texts.
Constant = tuple[Typed, Stored, tuple[Element, ...]]


class _Block(NamedTuple):
    """The values that operations of a block can take: its own and those of the blocks around it."""

    types: ChainMap[str, Typed]
    constants: ChainMap[str, Stored]

    def inner(self) -> _Block:
        """A block in it."""
        return _Block(self.types.new_child(), self.constants.new_child())


class Program:
    """The graph of a function of a program."""

    def __init__(self, messages: Messages, weights: Weights) -> None:
        self._spec, self._weights = messages, weights
        #: Texts by the name of their constant: no operator of the house takes any.
        self._texts: dict[str, tuple[Element, ...]] = {}
        self._elements: dict[str, tuple[Element, ...] | None] = {}
        self._nodes = Nodes()
        #: The results of all operations.
        self._names: set[str] = set()
        #: The constants that something takes.
        self._used: set[str] = set()

    def graph(self, function: Message, defaults: Mapping[str, Extents]) -> Graph:
        """The graph of a function, whose inputs have these extents where it leaves them open.

        Raises:
            ModelError: the program is damaged.
        """
        blocks, opset = function.get("block_specializations", []), function.get("opset", "")
        block = next((one.get("value", {}) for one in blocks if one.get("key") == opset), None)
        if block is None:
            raise self._spec.damaged(f"there is no block for the operator set {opset[:40]!r}")
        around = _Block(ChainMap(), ChainMap())
        for one in function.get("inputs", []):
            dtype, dims = self._typed(one)
            known = defaults.get(one.get("name", ""))
            if dims is not None and known is not None and len(known) == len(dims):
                dims = tuple([default if n is None else n for n, default in zip(dims, known, strict=True)])
            around.types[one.get("name", "")] = Typed(dtype, dims)
        return self._block(block, tuple(around.types), around, 0)

    def _block(self, block: Message, inputs: tuple[str, ...], around: _Block, depth: int) -> Graph:
        """The graph of a block, with the types of its inputs in place."""
        if depth > DEEPEST:
            raise self._spec.damaged("blocks are nested too deep")
        types = around.types
        nodes: list[Node] = []
        values: list[Value] = []
        for message in block.get("operations", []):
            nodes += self._operation(message, around, depth)
            outputs = [name for node in nodes[-1:] for name in node.outputs if types[name].dims]
            values += [Value(name, TensorType(*types[name]), {}) for name in outputs]
        outputs = block.get("outputs", [])
        for name in outputs:
            if name not in types:
                raise self._spec.damaged(f"nothing makes the output {name[:60]!r}")
        self._used.update(outputs)
        taken = [Value(name, TensorType(*types[name]), {}) for name in inputs]
        stored = {name: one for name, one in around.constants.maps[0].items() if name in self._used}
        given = [Value(name, None, {}) for name in outputs]
        return Graph("", nodes, taken, given, stored, Values([], lambda data: values))

    def _operation(self, message: Message, around: _Block, depth: int) -> list[Node]:
        """The node of an operation; none for a constant."""
        kind, results = message.get("type", ""), message.get("outputs", [])
        names = tuple([one.get("name", "") for one in results])
        if len({*names}) != len(names) or not self._names.isdisjoint(names):
            raise self._spec.damaged(f"two results are named {names[0][:60]!r}")
        self._names.update(names)
        name, bound, apart = names[0] if names else "", dict[str, tuple[str, ...]](), kind.startswith("const")
        for entry in message.get("attributes", []):
            key, place = entry.get("key", ""), entry.get("value")
            if place and key == "name":
                name = str((*self._constant(name, place)[2], name)[0])
            elif place and apart:
                own = names[0] if kind == "const" and key == "val" and names else f"{name}.{key}"
                bound[key] = (self._keep(own, place, around),)
        for entry in message.get("inputs", []):
            key, bindings = entry.get("key", ""), entry.get("value", {}).get("arguments", [])
            bound[key] = tuple([self._bound(f"{name}.{key}", one, around) for one in bindings])
        types = [self._typed(one) for one in results]
        around.types.update(zip(names, types, strict=True))
        if kind == "const":
            return []
        return [
            self._node(
                message, Operation(kind, bound, self._value_of, around.types, tuple(types)), name, names, around, depth
            )
        ]

    def _bound(self, own: str, binding: Message, around: _Block) -> str:
        """The name of what is bound to a parameter."""
        if "value" in binding:
            return self._keep(own, binding["value"], around)
        name: str = binding.get("name", "")
        if name not in around.types:
            raise self._spec.damaged(f"nothing makes {name[:60]!r}")
        return name

    def _keep(self, name: str, place: tuple[int, int], around: _Block) -> str:
        """Take in a constant; its name."""
        type_, stored, texts = self._constant(name, place)
        around.types[name] = type_
        if texts or stored.dtype == "string":
            self._texts[name] = texts
        else:
            around.constants[name] = stored
        return name

    def _value_of(self, name: str) -> tuple[Element, ...] | None:
        return self._texts.get(name) or self._elements.get(name)

    def _node(
        self, message: Message, o: Operation, name: str, names: tuple[str, ...], around: _Block, depth: int
    ) -> Node:
        """The node of an operation that is no constant."""
        graphs: dict[str, object] = {}
        try:
            if blocks := message.get("blocks"):
                lowered, graphs = self._with_blocks(o, blocks, around, depth)
            else:
                _unpack(o, around)
                lowered = lower(o)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())[:100]
            raise self._spec.damaged(f"{o.type} {name[:60]!r} makes no sense: {why}") from None
        parameters = tuple(o.bound) if lowered.inputs is None else lowered.inputs
        taken: list[str] = []
        for parameter in parameters:
            taken += [one if one not in self._texts else "" for one in o.bound.get(str(parameter), ("",))]
        self._used.update(taken)
        stated = [one.dtype for one in o.results]
        lowered = lowered._replace(inputs=None)
        return self._nodes.node(o.type, name, lowered, taken, names, stated if all(stated) else (), (), graphs)

    def _with_blocks(
        self, o: Operation, blocks: list[Message], around: _Block, depth: int
    ) -> tuple[Lowered, dict[str, object]]:
        """The operator of the house for one with blocks, and these."""
        if o.type not in _CONTROL or len(blocks) != 2:
            raise ValueError(f"it has {len(blocks)} blocks")
        op, parts, parameter = _CONTROL[o.type]
        graphs: dict[str, object] = {}
        for part, block in zip(parts, blocks, strict=True):
            inner = around.inner()
            inputs = {one.get("name", ""): self._typed(one) for one in block.get("inputs", [])}
            inner.types.update(inputs)
            graphs[part] = self._block(block, tuple(inputs), inner, depth + 1)
        return Lowered(op, (parameter,)), graphs

    def _typed(self, message: Message) -> Typed:
        """The type of a named value."""
        type_ = message.get("type", {})
        for _ in range(2):
            type_ = type_.get("stateType", {}).get("wrappedType", type_)
        tensor = type_.get("tensorType")
        if tensor is None:
            return Typed(None, None)
        dims: list[int | None] = []
        for one in tensor.get("dimensions", []):
            if one.get("unknown", {}).get("variadic"):
                return Typed(DTYPES.get(tensor.get("dataType", 0)), None)
            dims.append(one["constant"].get("size", 0) if "constant" in one else None)
        if len(dims) > MOST_DIMS or any(n is not None and n < 0 for n in dims):
            raise self._spec.damaged(f"{message.get('name', 'a value')[:60]!r} has the shape {dims[:8]}")
        return Typed(DTYPES.get(tensor.get("dataType", 0)), tuple(dims))

    def _constant(self, name: str, place: tuple[int, int]) -> Constant:
        """A constant at a place; its small elements are kept by its name."""
        value = self._spec.message("Value", place)
        dtype, dims = type_ = self._typed({"name": name, "type": value.get("type", {})})
        if dtype is None or dims is None or None in dims:
            return Typed(None, None), Stored(name, (), "string"), ()
        stored = Stored(name, dims, dtype)  # type: ignore[arg-type] # none is open
        blob, tensor = value.get("blobFileValue"), value.get("immediateValue", {}).get("tensor", {})
        if dtype == "string":
            return type_, stored, tuple(tensor.get("strings", {}).get("values", ()))
        small = dtype in CODES and kept(CODES[dtype], stored.dims)
        stored = self._in_file(stored, blob, small) if blob is not None else self._inline(stored, tensor, small)
        self._elements[name] = elements(stored) if small else None
        return type_, stored, ()

    def _in_file(self, stored: Stored, blob: Message, small: bool) -> Stored:
        """A tensor whose elements lie in a file of weights."""
        file, offset = blob.get("fileName", "").removeprefix(ROOT), blob.get("offset", 0)
        place = self._weights.place(file, offset, stored.name)
        start, length = place or (max(offset, 0) + HEADER, stored.nbytes)
        if length != stored.nbytes:
            raise self._spec.damaged(f"{stored.name[:60]!r} takes {stored.nbytes} bytes, but {length} are stored")
        where = {"location": file, "offset": str(start), "length": str(length)}
        return replace(
            stored, external=where, payload=self._weights.read(file, start, length) if place and small else b""
        )

    def _inline(self, stored: Stored, tensor: Message, small: bool) -> Stored:
        """A tensor whose elements lie in the specification."""
        kind = next(iter(tensor), "")
        place: tuple[int, int] = tensor.get(kind, {}).get("values", (0, 0))
        count = stored.nbytes
        if kind in _AS_THEY_ARE:
            if place[1] - place[0] != count:
                raise self._spec.damaged(
                    f"{stored.name[:60]!r} takes {count} bytes, but {place[1] - place[0]} are there"
                )
            if small:
                return replace(stored, payload=self._spec.content(place))
            return replace(stored, lies=(Place(RAW, *place),))
        if place[1] - place[0] > _MOST_INLINE or BITS[stored.dtype] < 8:
            raise self._spec.damaged(
                f"{stored.name[:60]!r} has {place[1] - place[0]} bytes of numbers among its operations"
            )
        width = BITS[stored.dtype] // 8
        numbers = varints(self._spec.content(place))
        data = b"".join([(signed(one) & (1 << 8 * width) - 1).to_bytes(width, "little") for one in numbers])
        if len(data) != count:
            raise self._spec.damaged(f"{stored.name[:60]!r} takes {count} bytes, but {len(data)} are there")
        return replace(stored, payload=data)


#: Operations with blocks: the operator of the house, what its blocks are there, and the parameter that it takes.
_CONTROL = {
    "cond": ("If", ("then_branch", "else_branch"), "pred"),
    "while_loop": ("Loop", ("cond", "body"), "loop_vars"),
}


def _unpack(o: Operation, around: _Block) -> None:
    """Give packed indices and flags, which a file of iOS 16 keeps as bytes in a row, their shape and their bits."""
    if not o.has("shape") or not o.type.startswith("constexpr_"):
        return
    parameter, entries = ("indices", o.shape("lut")[-1:]) if o.has("lut") else ("mask", (2,))
    name, dims = o.bound[parameter][0], o.list("shape")
    bits = ((entries or (2,))[0] or 2).bit_length() - 1
    stored = around.constants.get(name)
    dtype = {8: "uint8"}.get(bits, f"uint{bits}")
    if stored is None or dtype not in BITS or any(type(n) is not int or n < 0 for n in dims):
        raise ValueError(f"{parameter} are no numbers of {bits} bits")
    unpacked = replace(stored, dims=tuple(dims), dtype=dtype)
    if unpacked.nbytes != stored.nbytes:
        raise ValueError(f"{parameter} take {stored.nbytes} bytes, not {unpacked.nbytes}")
    next(one for one in around.constants.maps if name in one)[name] = unpacked
    around.types[name] = Typed(dtype, tuple(dims))


def modules(name: str) -> tuple[Module, ...]:
    """The modules that the name of an operation says, outermost first."""
    return scope_of_path(name)


_COREML = Dialect("coreml", modules, states=False)

#: The operator sets of ONNX whose definitions the lowered operators follow.
_OPSETS = {"": 21, "coreml": 1}

#: The function that a program without another word runs.
_MAIN = "main"


def opened_coreml(
    model: object, options: OnnxOptions | None = None, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    """A Core ML model before any size is chosen.

    Args:
        model: a package, or the path, the bytes or an open binary file of a specification.
        options: how large its graph may be.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
    """
    progress("reading the model")
    with in_one_line():
        source, name = opened_source(model)
    weights = Weights(source)
    try:
        with in_one_line(name):
            refuse_large(source, options)
            graph, warnings = _graph(specification(source), weights)
            graph = named(in_execution_order(graph))
    finally:
        weights.close()
        source.close()
    remarks = [f"{file} is not there; numbers in it decide no size" for file in weights.missing]
    return opened_as(Model(9, dict(_OPSETS), {}, graph), name, source, _COREML, warnings, remarks)


def _graph(messages: Messages, weights: Weights) -> tuple[Operations, list[str]]:
    """The graph of the program in a specification, and what to warn of.

    Raises:
        ModelError: it is no program, or damaged.
    """
    kinds = [OTHERS[number] for number in sorted(messages.numbers((0, messages.size))) if number in OTHERS]
    if kinds:
        raise ModelError(
            f"{kinds[0]}, not an ML program; convert the network it was made from with coremltools 7 or newer, or give "
            "that network"
        )
    whole = messages.message("Model", (0, messages.size))
    functions = {one.get("key", ""): one.get("value", {}) for one in whole.get("mlProgram", {}).get("functions", [])}
    description = whole.get("description", {})
    chosen = description.get("defaultFunctionName") or _MAIN
    chosen = chosen if chosen in functions else next(iter(functions), "")
    if not chosen:
        raise ModelError("not a Core ML model, or one without a program")
    described = next((one for one in description.get("functions", []) if one.get("name") == chosen), description)
    shapes = {one.get("name", ""): _default(one) for one in described.get("input", [])}
    graph = Program(messages, weights).graph(functions[chosen], shapes)
    others = [name for name in functions if name != chosen]
    return graph, [f"function {chosen!r} is counted; others are {', '.join(others)}"] if others else []


def _default(feature: Message) -> tuple[int | None, ...]:
    """The extents of an input where nobody chooses others."""
    kind = feature.get("type", {})
    if "imageType" in kind:
        image = kind["imageType"]
        channels = 1 if image.get("colorSpace") in _GREY else 3
        return (1, channels, image.get("height"), image.get("width"))
    return tuple(kind.get("multiArrayType", {}).get("shape", ()))


#: Codes of images of one channel.
_GREY = (10, 40)
