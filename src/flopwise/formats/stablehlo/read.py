"""A StableHLO module -> Graph: decoded in a child process, then walked operation by operation."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flopwise._child import Child, EndedError, LargeError, LateError, LostError
from flopwise._limits import native_seconds
from flopwise._results import Json
from flopwise.errors import InputError, ModelError
from flopwise.formats.inputs import InputSpec, input_specs
from flopwise.formats.jax.kinds import KINDS
from flopwise.formats.jax.nodes import tensor_of
from flopwise.formats.limits import refuse_huge, refuse_unknown_loops
from flopwise.formats.options import StablehloOptions
from flopwise.formats.sources.location import naming
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import BytesSource, FileSource, Source
from flopwise.formats.stablehlo.lower import Module, main_of
from flopwise.formats.stablehlo.program import Constant, type_of
from flopwise.formats.weights.storage import SourceStorage
from flopwise.formats.weights.tensor import in_storage
from flopwise.graph import Graph, Kind, StoredTensor, Tensor
from flopwise.graph.dtypes import BITS

#: How many times as long decoding may take on a processor that others use, or where the system sets no limit, and the
#: bytes that it may have in use.
_WAIT, _MEMORY = 10.0, 448 << 20

#: Steps of an argument's name as JAX prints it: v['params']['Dense_0'].kernel[0].
_STEP = re.compile(r"\['([^']*)'\]|\.(\w+)|\[(\d+)\]|^(\w+)")


def read_stablehlo(
    model: object,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    options: StablehloOptions = StablehloOptions(),  # noqa: B008 - it cannot be changed
) -> Graph:
    """The graph of a StableHLO module.

    Args:
        model: a file with a module as text or bytecode, or with what ``jax.export`` serializes; bytes; or what
            ``jax.export.export(...)(...)`` or ``jax.jit(...).lower(...)`` return.
        inputs: shapes of inputs whose sizes the module leaves open.
        dims: its dimensions have no names; any that is given is refused.
        batch_size: first dimension of all inputs whose first dimension is open.
        progress: called with the name of each step.
        options: trips of loops, and whether one of many devices counts.

    Raises:
        ModelError: jaxlib is missing or cannot read the module.
        InputError: a shape is missing or does not fit.
    """
    progress("reading the module")
    name = str(getattr(model, "fun_name", "")) if not isinstance(model, (str, os.PathLike)) else ""
    source = open_source(_bytes_of(model))
    try:
        with naming(name or source.name):
            if not source.size:
                raise ModelError("the file is empty")
            module, arguments = _decoded(source, inputs, batch_size)
            progress("following the program")
            return Reading(source, name, module, arguments, options).graph()
    finally:
        source.close()


def _bytes_of(model: object) -> object:
    """The bytes of an object of JAX's; anything else as it is."""
    if hasattr(model, "mlir_module_serialized"):
        return bytes(model.mlir_module_serialized)
    if hasattr(model, "as_text") and hasattr(model, "compile"):
        return str(model.as_text(debug_info=True)).encode()
    return model


@contextlib.contextmanager
def _on_disk(source: Source) -> Iterator[str]:
    """The path of a file with the bytes of a source."""
    if isinstance(source, FileSource):
        yield os.path.abspath(source.name)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "module")
        with open(path, "wb") as file:
            file.write(source.read(0, source.size))
        yield path


def _decoded(source: Source, inputs: object, batch_size: int | None) -> tuple[Json, list[Argument]]:
    """The module at the sizes that are chosen for its inputs, and these as the file names them."""
    try:
        with _on_disk(source) as path:
            child = Child("flopwise.formats.stablehlo.decode:serve")
            try:
                module = _answer(child, path, None, source.size)
                arguments = arguments_of(module)
                chosen = _shapes(arguments, inputs, batch_size)
                return _answer(child, path, chosen, source.size) if chosen else module, arguments
            finally:
                child.end()
    except LargeError as error:
        raise ModelError("decoding the module takes more memory than a file of its size may") from error
    except LateError as error:
        raise ModelError("decoding the module takes longer than a file of its size may") from error
    except EndedError as error:
        if error.late:
            raise ModelError("decoding the module takes longer than a file of its size may") from error
        if "No module named" in error.words:
            raise ModelError("jaxlib is needed to read StableHLO: pip install 'flopwise[jax]'") from error
        raise ModelError("truncated or damaged StableHLO (MLIR's decoder ended on it)") from error
    except LostError as error:
        raise ModelError(f"cannot be decoded ({error})") from error


def _answer(child: Child, path: str, shapes: Mapping[str, list[int]] | None, size: int) -> Json:
    seconds = native_seconds(size)
    child.send({"path": path, "shapes": shapes, "seconds": seconds}, _WAIT * seconds)
    answer: Json = child.receive(_WAIT * seconds, _MEMORY + 16 * size)
    if "refused" in answer:
        words = answer["refused"]
        if "No module named" in words:
            raise ModelError("jaxlib is needed to read StableHLO: pip install 'flopwise[jax]'")
        if shapes:
            raise InputError(f"the module does not hold at these shapes ({words})")
        raise ModelError(f"no StableHLO that MLIR can read ({words})")
    return dict(answer["module"])


class Argument(NamedTuple):
    """An input of a module; its shape has -1 for open sizes, and is None for what is no tensor."""

    name: str
    kind: Kind
    shape: list[int] | None


def arguments_of(module: Json) -> list[Argument]:
    """The inputs of a module."""
    functions = module["functions"]
    known = [name for name, function in functions.items() if function["region"]]
    main = functions.get("main") or (functions[known[0]] if len(known) == 1 else None)
    if main is None or not main["region"]:
        return []
    arguments, operations = main["region"]
    handed: dict[int, str] = {}
    for operation in operations:
        callee = functions.get(operation[3].get("callee", "")) if operation[0] == "func.call" else None
        if callee and callee["region"]:
            handed.update((number, own[2]) for number, own in zip(operation[1], callee["region"][0], strict=False))
    found: list[Argument] = []
    seen: set[str] = set()
    for place, (number, said, text) in enumerate(arguments):
        name, kind = named(text or handed.get(number, "") or f"arg{place}")
        name = name if name not in seen else f"{name}:{place}"
        seen.add(name)
        found.append(Argument(name, kind, said[0]))
    return found


def named(text: str) -> tuple[str, Kind]:
    """The name and the kind of an argument that JAX has printed.

    >>> named("v['params']['Dense_0']['kernel']"), named("x")
    (('Dense_0.kernel', 'weight'), ('x', 'input'))
    """
    keys = ["".join(step) for step in _STEP.findall(text)]
    kind: Kind = "input"
    for key in keys:
        kind = KINDS.get(key, kind)
        if kind == "state":
            break
    if not keys or kind == "input":
        return text, kind
    rest = [key for key in (keys[1:] if len(keys) > 1 else keys) if key not in ("params", "value")]
    return ".".join(rest or keys), kind


def _shapes(arguments: Sequence[Argument], inputs: object, batch_size: int | None) -> dict[str, list[int]]:
    """Place of an input whose sizes are open -> the shape that is chosen for it."""
    specs: dict[str, InputSpec] = {spec.name: spec for spec in input_specs(inputs, [name for name, *_ in arguments])}
    chosen: dict[str, list[int]] = {}
    applied = batch_size is None
    for place, (name, _, stated) in enumerate(arguments):
        if stated is None:
            continue
        shape, spec = list(stated), specs.get(name)
        if spec is not None:
            if not all(isinstance(size, int) for size in spec.shape):
                raise InputError(f"dimensions of StableHLO are numbers; the shape of {name!r} has symbols")
            shape = [int(size) for size in spec.shape]
            if len(shape) != len(stated) or any(own not in (-1, n) for own, n in zip(stated, shape, strict=True)):
                raise InputError(f"input {name!r} is {_text(stated)} (?: any size), not {_text(shape)}")
        elif shape and shape[0] == -1:
            shape[0], applied = 1 if batch_size is None else batch_size, True
        if -1 in shape:
            raise InputError(f"sizes of input {name!r} are open ({_text(stated)}); give -i {name}:SHAPE")
        if shape != stated:
            chosen[str(place)] = shape
    if not applied:
        raise InputError("the batch is fixed in the module: no input begins with an open size")
    return chosen


def _text(shape: list[int]) -> str:
    return "x".join("?" if size == -1 else str(size) for size in shape)


@dataclass
class Reading:
    """One module on its way to a graph."""

    source: Source
    name: str
    module: Json
    inputs: Sequence[Argument]
    options: StablehloOptions
    weights: dict[str, StoredTensor] = field(default_factory=dict)
    known: dict[int, Tensor] = field(default_factory=dict)
    elided: int = 0

    def graph(self) -> Graph:
        """The graph of its main function."""
        try:
            arguments = self.arguments()
            walk = Module(self.module, self.options.trips or {}, self.options.per_device, self.stored)
            results = walk.main(arguments)
        except RecursionError as error:
            raise ModelError("regions and calls go too deep") from error
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ModelError(f"an operation is not of its form ({type(error).__name__}: {error})") from error
        refuse_unknown_loops(self.options.trips or {}, [node.name for node in walk.nodes if node.op == "Loop"])
        stem = os.path.splitext(os.path.basename(self.source.name))[0]
        return Graph(
            name=self.name or str(self.module["name"]).removeprefix("jit_") or stem,
            format="stablehlo",
            source=self.name or self.source.name,
            inputs=tuple([tensor for tensor in arguments if tensor.kind in ("input", "state")]),
            outputs=tuple(results),
            nodes=tuple(walk.nodes),
            weights=self.weights,
            warnings=(*walk.notes(), *self.notes(arguments, walk.quantized, bool(walk.meshes))),
        )

    def arguments(self) -> list[Tensor]:
        """The tensors that the program takes."""
        tensors = []
        for (name, kind, _), (_, described, _) in zip(self.inputs, main_of(self.module["functions"])[0], strict=True):
            aval = type_of(described)
            refuse_huge(name, aval.shape)
            tensors.append(tensor_of(name, aval, kind))
        return tensors

    def notes(self, arguments: list[Tensor], quantized: bool, per_device: bool) -> list[str]:
        """Notes on what the module leaves open.

        Args:
            arguments: what the program takes.
            quantized: whether operations rescale their results.
            per_device: whether it says itself what one device computes.
        """
        notes = []
        if quantized:
            notes.append("results of quantised operations are rescaled as a compiler likes, which is not counted")
        if self.module.get("devices", 1) > 1 and not per_device:
            among = f"written for {self.module['devices']} devices, among which a compiler divides the work"
            notes.append(f"{among}: figures are of all of them")
        if self.elided:
            notes.append(f"the text leaves out the elements of {self.elided} of its constants")
        if not self.weights and not any(tensor.kind == "weight" for tensor in arguments):
            notes.append("the module stores no weights: what it takes counts as inputs")
        return notes

    def stored(self, constant: Constant) -> Tensor:
        """The tensor of a constant: a weight where it has axes of floating-point numbers."""
        known = self.known.get(id(constant))
        if known is None:
            name = f"constant{len(self.known)}"
            trained = bool(constant.shape) and constant.dtype.startswith(("float", "bfloat", "complex"))
            kind: Kind = "weight" if trained else "constant"
            refuse_huge(name, constant.shape)
            known = self.known[id(constant)] = tensor_of(name, constant._replace(place={}), kind)
            if known.dtype in BITS:
                self.weights[name] = self.elements(name, constant, kind)
        return known

    def elements(self, name: str, constant: Constant, role: str) -> StoredTensor:
        """The elements of a constant, by their place."""
        place, source = constant.place, self.source
        if "data" in place:
            data = base64.b64decode(place["data"])
            storage, run = SourceStorage(BytesSource(data).later()), (0, len(data))
        elif "start" not in place:
            self.elided += 1
            return StoredTensor(name, constant.shape, constant.dtype, 0, role=role)
        elif place["hex"]:
            reopened, start, length = source.later(), place["start"], place["end"] - place["start"]

            def opened() -> Source:
                return BytesSource(bytes.fromhex(reopened().read(start, length).decode("ascii")))

            storage, run = SourceStorage(opened), (0, length // 2)
        else:
            storage, run = SourceStorage(source.later()), (place["start"], place["end"])
        try:
            return in_storage(name, constant.shape, constant.dtype, storage, (run,), role=role)
        except ModelError:  # packed in another way than tensors are elsewhere
            return StoredTensor(name, constant.shape, constant.dtype, 0, role=role)
