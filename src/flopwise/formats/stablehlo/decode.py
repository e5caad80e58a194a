"""A module of MLIR as plain values. It runs in a child process: the decoder is native code, and the file anybody's.

Sources: https://openxla.org/stablehlo/spec, https://openxla.org/shardy/sdy_dialect
"""

from __future__ import annotations

import base64
import io
import math
import os
import re
import struct
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from flopwise._child import Parent, limit_memory, limit_processor
from flopwise._results import Json

if TYPE_CHECKING:
    from jaxlib.mlir import ir as mlir

#: Bytes that the decoder may take, and how many for each byte of the file.
_MEMORY, _PER_BYTE = 256 << 20, 8

#: Regions in each other at most, operations with their attributes, and characters of an attribute that nothing here
#: understands.
_DEEPEST, _MOST, _LONGEST = 64, 2_000_000, 200

#: Bytes up to which elements are handed on as they are, and by which the others are sought in the file.
_SHORT = 256

#: What bytecode begins with.
_BYTECODE = b"ML\xefR"

_PLACE = re.compile(r'^(?:loc\()?"-":(\d+):\d+\)?: (?:error: )?')
_HEX = re.compile(r'dense<"0x([0-9A-Fa-f]*)">')
_PAIR = re.compile(r"\(([^(),]+),\s*([^(),]+)\)")

#: Attributes of JAX, of the compiler and of layouts, which decide no count.
_IGNORED = frozenset({"precision_config", "precision", "backend_config", "mhlo.sharding", "sdy.sharding", "value"})


#: Attributes of a module that say how many devices run it.
_DEVICES = ("mhlo.num_partitions", "mhlo.num_replicas")


class RefusedError(Exception):
    """A module that is not followed, and why."""


def serve() -> None:
    """Answer requests of the parent: the module in a file, at sizes of its inputs."""
    parent = Parent()
    for request in parent.requests():
        try:
            limit_memory(_MEMORY + _PER_BYTE * os.path.getsize(request["path"]))
            limit_processor(request["seconds"])
            parent.tell({"module": module_of(request["path"], request["shapes"])})
        except MemoryError:
            parent.tell({"refused": "takes more memory than a file of its size may"})
        except RefusedError as error:
            parent.tell({"refused": str(error)})
        except Exception as error:
            parent.tell({"refused": _line(error)})


def _line(error: Exception) -> str:
    """The first line of an error that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = next((line for line in lines if not line.endswith((":", "parse assembly"))), lines[0] if lines else "")
    words = words.partition(". If this is intended")[0]
    return _PLACE.sub(r"line \1: ", words.removeprefix("error: "))[:_LONGEST] or type(error).__name__


def module_of(path: str, shapes: dict[str, list[int]] | None) -> Json:
    """The module in a file.

    Args:
        path: of the file.
        shapes: place of an argument of its main function -> its shape, from which all open sizes follow.

    Raises:
        RefusedError: it is not followed. MLIR raises errors of its own for what it cannot read.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

    try:
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext as dialects
    except ImportError:  # its name before JAX 0.8
        from jaxlib.mlir._mlir_libs import (  # type: ignore[attr-defined, no-redef]
            register_jax_dialects as dialects,
        )

    with open(path, "rb") as file:
        data = file.read()
    context = ir.Context()
    context.enable_multithreading(False)
    registry = ir.DialectRegistry()
    dialects.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    sdy.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    chlo.register_dialect(context)
    stablehlo.register_dialect(context)
    code = _bytecode(data)
    if b"quant" in data:  # nothing but reading a portable module brings the dialect of quantised types
        empty = stablehlo.serialize_portable_artifact_str("module {}", stablehlo.get_minimum_version())
        stablehlo.deserialize_portable_artifact(context, empty)
    with context, ir.Location.unknown(context):
        if code is None:
            module = ir.Module.parse(data.decode("utf-8", "replace"), context)
        elif b"StableHLO_v" in code[:64]:
            module = stablehlo.deserialize_portable_artifact(context, code)
        else:
            module = ir.Module.parse(code, context)
        if shapes:
            module = _refined(ir, module, shapes)
        return _Walk(ir, stablehlo, sdy, data, code is None).module(module)


def _bytecode(data: bytes) -> bytes | None:
    """The bytecode that a file is, or that one of jax.export holds; None for text."""
    if data.startswith(_BYTECODE):
        return data
    place = data.find(_BYTECODE)
    if place < 4 or data[:1] in b"#/\"' \tmb":
        return None
    length = int.from_bytes(data[place - 4 : place], "little")
    return data[place : place + length]


def _refined(ir: ModuleType, module: mlir.Module, shapes: dict[str, list[int]]) -> mlir.Module:
    """The module at sizes of its inputs, which all others follow from."""
    from jaxlib import _jax

    function = next((op for op in module.body.operations if _symbol(op) == "main"), None)
    if function is None:
        raise RefusedError("has no function main")
    (block,) = function.regions[0].blocks
    for place, argument in enumerate(block.arguments):
        if str(place) in shapes:
            open_type = ir.RankedTensorType(argument.type)
            with ir.InsertionPoint.at_block_begin(block):  # refinement follows a conversion into a call
                convert = ir.Operation.create("stablehlo.convert", results=[open_type], operands=[argument])
            argument.replace_all_uses_except(convert.results[0], [convert])
            argument.set_type(ir.RankedTensorType.get(shapes[str(place)], open_type.element_type))
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    types = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, kind.results))
    code = io.BytesIO()
    module.operation.write_bytecode(code)
    refined: mlir.Module = ir.Module.parse(
        _jax.mlir.refine_polymorphic_shapes(code.getvalue(), True, True, True), module.context
    )
    return refined


def _symbol(op: mlir.Operation | mlir.OpView) -> str:
    return str(op.attributes["sym_name"]).strip('"') if "sym_name" in op.attributes else ""


class _Walk:
    """The operations of one module."""

    def __init__(self, ir: ModuleType, stablehlo: ModuleType, sdy: ModuleType, data: bytes, text: bool) -> None:
        self.ir, self.stablehlo, self.sdy, self.data, self.text = ir, stablehlo, sdy, data, text
        self.ids: dict[mlir.Value[Any], int] = {}
        self.types: dict[mlir.Type, list[Any]] = {}
        self.attributes: dict[mlir.Attribute, object] = {}
        self.count = self.place = 0

    def module(self, module: mlir.Module) -> Json:
        """The functions and meshes of a module."""
        functions: Json = {}
        meshes: Json = {}
        for op in module.body.operations:
            name = op.operation.name
            if name == "func.func":
                functions[_symbol(op)] = self.function(op.operation)
            elif name == "sdy.mesh":
                axes = self.sdy.MeshAttr(op.attributes["mesh"]).axes
                meshes[_symbol(op)] = {axis.name: axis.size for axis in map(self.sdy.MeshAxisAttr, axes)}
        attrs = module.operation.attributes
        counts = [self.attribute(attrs[name]) for name in _DEVICES if name in attrs]
        devices = math.prod(count for count in counts if isinstance(count, int))
        return {"name": _symbol(module.operation), "functions": functions, "meshes": meshes, "devices": devices}

    def function(self, op: mlir.Operation) -> Json:
        region = self.region(op.regions[0], 0) if len(op.regions[0].blocks) else None
        return {"region": region, "info": self.attribute(op.attributes["arg_attrs"])
                if "arg_attrs" in op.attributes else []}  # fmt: skip

    def region(self, region: mlir.Region, depth: int) -> list[object]:
        """Arguments with the names of their places, and operations."""
        blocks = list(region.blocks)
        if len(blocks) > 1:
            raise RefusedError("jumps from block to block (the dialect cf), which is not followed")
        if depth > _DEEPEST:
            raise RefusedError(f"has regions in each other deeper than {_DEEPEST}")
        if not blocks:
            return [[], []]
        arguments = [[self.id(a), self.type(a.type), _place(a.location)] for a in blocks[0].arguments]
        return [arguments, [self.operation(op.operation, depth) for op in blocks[0].operations]]

    def operation(self, op: mlir.Operation, depth: int) -> list[object]:
        self.step()
        attrs = {}
        for entry in op.attributes:
            name = getattr(entry, "name", entry)  # an entry with its attribute before JAX 0.8
            if name not in _IGNORED:
                attrs[name] = self.attribute(op.attributes[name])
        if op.name == "stablehlo.constant":
            attrs["value"] = self.constant(op)
        return [
            op.name,
            [self.id(value) for value in op.operands],
            [[self.id(value), self.type(value.type)] for value in op.results],
            attrs,
            [self.region(region, depth + 1) for region in op.regions],
            _place(op.location),
        ]

    def step(self, number: int = 1) -> None:
        """Count operations and attributes: a text says one often with a short name."""
        self.count += number
        if self.count > _MOST:
            raise RefusedError(f"has more than {_MOST:,} operations and attributes")

    def id(self, value: mlir.Value[Any]) -> int:
        return self.ids.setdefault(value, len(self.ids))

    def type(self, kind: mlir.Type) -> list[Any]:
        """Shape with -1 for what is open, and element type; the shape is None for what is no tensor."""
        known = self.types.get(kind)
        if known is None:
            known = [None, str(kind)[:_LONGEST]]
            if _is(kind, self.ir.RankedTensorType):
                tensor = self.ir.RankedTensorType(kind)
                sizes = [-1 if tensor.is_dynamic_dim(i) else tensor.get_dim_size(i) for i in range(tensor.rank)]
                known = [sizes, str(tensor.element_type)[:_LONGEST]]
            self.types[kind] = known
        self.step(len(known[0] or ()))
        return known

    def attribute(self, attr: mlir.Attribute) -> object:
        """An attribute as JSON says it; the text of one of any other kind."""
        ir = self.ir
        self.step()
        if _is(attr, ir.ArrayAttr):
            return [self.attribute(one) for one in ir.ArrayAttr(attr)]
        if _is(attr, ir.DictAttr):
            return {one.name: self.attribute(one.attr) for one in ir.DictAttr(attr)}
        if attr not in self.attributes:
            self.attributes[attr] = self.leaf(attr)
        known = self.attributes[attr]
        self.step(len(known.get("values", ()) if isinstance(known, dict) else known if isinstance(known, list) else ()))
        return known

    def leaf(self, attr: mlir.Attribute) -> object:
        """An attribute that holds no others."""
        ir = self.ir
        for kind in (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr, ir.FlatSymbolRefAttr):
            if _is(attr, kind):
                value = kind(attr).value
                return value if isinstance(value, (bool, int, float)) else str(value)[:_LONGEST]
        for kind in (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr):
            if _is(attr, kind):
                return list(kind(attr))
        if _is(attr, ir.DenseIntElementsAttr):
            dense = ir.DenseIntElementsAttr(attr)
            sizes = list(ir.RankedTensorType(dense.type).shape)
            return {"shape": sizes, "values": [] if dense.is_splat else list(map(int, dense)),
                    "splat": int(dense.get_splat_value().value) if dense.is_splat else None}  # fmt: skip
        return self.numbers(attr)

    def numbers(self, attr: mlir.Attribute) -> Json | str:
        """Numbers of the dimensions of a product or a convolution, by name; the text of anything else."""
        lists = {
            "DotDimensionNumbers": ("lhs_contracting_dimensions", "rhs_contracting_dimensions",
                                    "lhs_batching_dimensions", "rhs_batching_dimensions"),
            "ConvDimensionNumbers": ("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
                                     "kernel_input_feature_dimension", "kernel_output_feature_dimension",
                                     "kernel_spatial_dimensions", "output_batch_dimension",
                                     "output_feature_dimension", "output_spatial_dimensions"),
        }  # fmt: skip
        for kind, names in lists.items():
            if _is(attr, getattr(self.stablehlo, kind)):
                typed = getattr(self.stablehlo, kind)(attr)
                values = {name: getattr(typed, name) for name in names}
                return {name: value if isinstance(value, int) else list(value) for name, value in values.items()}
        return str(attr)[:_LONGEST]

    def constant(self, op: mlir.Operation) -> Json:
        """One number for all elements, the elements where they are few, else their place in the file."""
        ir = self.ir
        try:
            attr = op.attributes["value"]
        except TypeError:  # the bindings have no class for complex elements
            return _complex(str(op), str(op.results[0].type), self.held)
        if not _is(attr, ir.DenseElementsAttr):
            return {}
        dense = ir.DenseElementsAttr(attr)
        if dense.is_splat:
            value = dense.get_splat_value()
            return {"splat": getattr(value, "value", None)}
        elements = self.elements(dense)
        return {} if elements is None else self.held(elements)

    def held(self, elements: bytes) -> Json:
        """Elements as they are where they are few, else their place in the file."""
        place = -1 if len(elements) < _SHORT else self.find(elements.hex().upper().encode() if self.text else elements)
        if place < 0:
            return {"data": base64.b64encode(elements).decode()}
        self.place = place + len(elements) * (1 + self.text)
        return {"start": place, "end": self.place, "hex": self.text}

    def elements(self, dense: Any) -> bytes | None:
        """The elements of a constant; None where the bindings do not tell those of its type."""
        try:
            return bytes(memoryview(dense))
        except BufferError:  # of a type that Python does not have
            digits = _HEX.match(str(dense))
            return bytes.fromhex(digits[1]) if digits else None

    def find(self, wanted: bytes) -> int:
        """The place of bytes in the file, the constants of which mostly come in order; -1 where they are not."""
        place = self.data.find(wanted[:_SHORT], self.place)
        return place if self.data.startswith(wanted, place) else self.data.find(wanted)


def _complex(text: str, kind: str, held: Callable[[bytes], Json]) -> Json:
    """A constant of complex elements by the text of its operation: as pairs of numbers, or as digits of their bytes."""
    if digits := _HEX.search(text):
        return held(bytes.fromhex(digits[1]))
    code = "d" if "complex<f64>" in kind else "f"
    numbers = [_float(part, code) for pair in _PAIR.findall(text.partition("dense<")[2]) for part in pair]
    if not numbers or len(numbers) == 2:
        return {"splat": numbers} if numbers else {}
    return held(struct.pack(f"<{len(numbers)}{code}", *numbers))


def _float(text: str, code: str) -> float:
    """A number as MLIR prints it: the digits of its bits where it is not finite."""
    if not text.startswith("0x"):
        return float(text)
    return float(struct.unpack(f">{code}", bytes.fromhex(text[2:]))[0])


def _is(attr: object, kind: Any) -> bool:
    """True for an attribute of a kind, as bindings before and after JAX 0.8 say it."""
    return isinstance(attr, kind) or (hasattr(kind, "isinstance") and kind.isinstance(attr))


def _place(location: Any) -> str:
    """The name of a location, without the lines of a program."""
    for _ in range(16):
        if _has(location, "name"):
            return str(location.name_str)
        if _has(location, "callsite"):
            location = location.callee
        elif _has(location, "fused") and location.locations:
            location = location.locations[0]
        else:
            break
    return ""


#: Kind of a location -> what its class has, where the bindings have a class for each.
_KINDS = {"name": "name_str", "callsite": "callee", "fused": "locations"}


def _has(location: object, kind: str) -> bool:
    asked = getattr(location, f"is_a_{kind}", None)
    return bool(asked()) if asked is not None else hasattr(location, _KINDS[kind])
