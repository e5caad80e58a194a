"""An ONNX model with resolved shapes -> the same model in a file, with every shape written in.

What an operator costs can be noted as metadata of the operator.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flopwise.errors import InputError, ModelError, counted
from flopwise.formats.kit.program import TensorType
from flopwise.formats.kit.read import Resolved
from flopwise.formats.kit.tensors import CODES, RAW, Skeleton, Stored, external_bytes, kept
from flopwise.formats.onnx.decode import MARK, Decoder
from flopwise.formats.onnx.memory import is_message
from flopwise.formats.onnx.tensors import Tensor, TensorWalk
from flopwise.formats.sources.source import Source
from flopwise.formats.sources.wire import BYTES, VARINT, Field, message, number_field, varint
from flopwise.profiles.profile import Profile
from flopwise.rows import Row
from flopwise.writers.atomic import atomic_file
from flopwise.writers.onnx.plan import Ends, GraphPlan, plan, put

# The files beside an ONNX model that hold its weights, where the model is written to another folder.


def files(skeleton: Skeleton) -> list[str]:
    """The files that a model needs beside it, in the order in which it names them."""
    stored = [*skeleton.initializers.values(), *skeleton.inner.values()]
    return list(dict.fromkeys(location for tensor in stored for location in _locations(tensor)))


def _locations(tensor: Stored) -> Iterator[str]:
    if "location" in tensor.external:
        yield tensor.external["location"]
    for part in tensor.sparse or ():
        yield from _locations(part)


def copies(locations: Iterable[str], old: Path | None, new: Path, copy: bool) -> dict[Path, Path]:
    """The files to copy: file -> copy; {} where the new model lies in the folder of the files.

    Args:
        locations: the files, from the folder of the model.
        old: the folder of the model; None when it did not come from a file.
        new: the folder of the model that is written.
        copy: whether files may be copied.

    Raises:
        InputError: they may not, or cannot, or another file of the same name is in the way.
    """
    targets: dict[Path, Path] = {}
    for location in locations:
        if old is None:
            raise InputError(
                f"its data is in {location!r} beside the model, which was not given as a path; "
                "give the path, or leave the weights out (--no-weights)"
            )
        source, target = old / location, new / location
        if not os.path.realpath(source).startswith(os.path.join(os.path.realpath(old), "")):
            raise InputError(f"its data {location!r} is outside the model's folder; refused")
        if not source.is_file():
            if old.samefile(new):
                continue
            raise InputError(f"{source}: no such file, so the data cannot be copied; leave it out with --no-weights")
        if target.exists() and source.samefile(target):
            continue
        if target.exists():
            raise InputError(f"{target}: exists already and is not the model's data; choose another folder")
        if not copy:
            raise InputError(
                f"its data is in {location!r} beside the model, which must be beside the new one as well; write to "
                f"that folder, or add --copy-data, or leave the weights out with --no-weights"
            )
        targets[source] = target
    return targets


@contextlib.contextmanager
def copied(files: Mapping[Path, Path]) -> Iterator[None]:
    """Copy files, and take the copies away again when the context ends with an error.

    Raises:
        InputError: a file cannot be copied.
    """
    with contextlib.ExitStack() as undo:
        for source, target in files.items():
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(source, "rb") as read, atomic_file(str(target)) as write:
                    shutil.copyfileobj(read, write)
            except OSError as error:
                raise InputError(f"{target}: cannot be written ({error.strerror})") from error
            undo.callback(lambda path=target: path.unlink(missing_ok=True))  # type: ignore[misc] # mypy sees no default
        yield
        undo.pop_all()


# Tensors written without their elements, so that the file keeps their names, shapes and types and stays valid.
#
# ONNX has no initialiser without elements. A Constant operator with a sparse tensor in which every element is zero
# takes its place: it needs no data, and onnx, onnxruntime and Netron read it. Our reader takes it back for an
# initialiser.


#: The type of an attribute that is a sparse tensor.
_SPARSE_TENSOR = 11

#: First operator set in which a Constant may be sparse.
SPARSE = 11


class Hollow:
    """Tensors of one model as messages without elements; small ones, which may steer shapes, keep theirs."""

    def __init__(self, version: int, name: str, reopen: Callable[[], Source]) -> None:
        """
        Args:
            version: of the standard operators.
            name: the model, for messages.
            reopen: opens its source, for small tensors whose data lies beside the model.
        """
        self.version = version
        self.name = name
        self.reopen = reopen

    def inline(self, tensor: Tensor) -> bytes | None:
        """A small tensor whose data lies beside the model, with its elements; None for any other."""
        if not tensor.external or not kept(tensor.code, tensor.dims):
            return None
        stored = tensor.stored()
        try:
            data = external_bytes(stored, self.name, self.reopen)
        except ModelError:  # the data is not there
            return None
        if len(data) != stored.nbytes:
            return None
        head = [*(number_field(1, d) for d in tensor.dims), number_field(2, tensor.code)]
        return b"".join([*head, message(8, [tensor.name.encode()]), message(RAW, [data])])

    def initializer(self, tensor: Tensor) -> bytes | None:
        """The operator that stands for an initialiser; None for one that stays as it is.

        Raises:
            InputError: the operator set has no such operator.
        """
        return None if _stays(tensor) else self._constant(tensor.name, tensor.code, tensor.dims)

    def sparse(self, values: Tensor, dims: Sequence[int]) -> bytes:
        """The operator that stands for a sparse initialiser."""
        return self._constant(values.name, values.code, dims)

    def attribute(self, tensor: Tensor) -> bytes | None:
        """The attribute of a Constant operator in place of the one that holds the tensor; None if that stays."""
        return None if _stays(tensor) else self.zeros(tensor.code, tensor.dims)

    def _constant(self, name: str, code: int, dims: Sequence[int]) -> bytes:
        parts = [message(2, [name.encode()]), message(4, [b"Constant"]), message(5, [self.zeros(code, dims)])]
        return b"".join([*parts, message(9, [message(1, [MARK.encode()])])])

    def zeros(self, code: int, dims: Sequence[int]) -> bytes:
        """The attribute of a Constant operator for a tensor of zeros.

        Raises:
            InputError: the operator set has none.
        """
        if self.version < SPARSE:
            raise InputError(
                f"operator set {self.version} cannot write a tensor without its elements; "
                f"convert the model to {SPARSE} or later first (onnx.version_converter does it)"
            )
        values, indices = (number_field(1, 0) + number_field(2, kind) for kind in (code, CODES["int64"]))
        sparse = [message(1, [values]), message(2, [indices]), *(number_field(3, d) for d in dims)]
        return message(1, [b"sparse_value"]) + number_field(20, _SPARSE_TENSOR) + message(22, sparse)


def _stays(tensor: Tensor) -> bool:
    """True where a tensor keeps its elements: words are not weights, and small tensors steer shapes."""
    return tensor.code == CODES["string"] or kept(tensor.code, tensor.dims)


# The bytes of an ONNX file with its plan carried out: one walk over the file, in which what stays is copied by place.
#
# Lengths of nested messages are summed, never measured by building the message: the ranges that are copied may be
# larger than memory, and than the 2 GB that protobuf can parse or write. Field numbers: see
# https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.


#: Keys of metadata that begin so are written by flopwise.
OURS = "flopwise."

#: Positions in ``Graph.nodes`` -> metadata of the operator that stands for these; empty for none.
NoteOf = Callable[[Sequence[int]], Mapping[str, str]]


class Rewrite(TensorWalk):
    """A walk over a file that gives its bytes with new shapes, outputs and notes, and without weights if so wished."""

    def __init__(self, source: Source, note: NoteOf | None, hollow: Hollow | None, outputs: Sequence[str]) -> None:
        """
        Args:
            source: the file, or other bytes of a model.
            note: metadata for operators; None to leave operators as they are.
            hollow: what writes tensors without their elements; None to keep the elements.
            outputs: names of tensors that become outputs of the model.
        """
        super().__init__(source)
        self.decoder = Decoder({}, source.name)
        self.note = note
        self.hollow = hollow
        self.outputs = outputs

    def parts(self, start: int, end: int) -> list[Field]:
        """All that is in a message, so that nothing is lost."""
        return list(self.window.fields(start, end, with_groups=True))

    def model(self, plan: GraphPlan) -> Pieces:
        """The whole file."""
        fields = self.parts(0, self.source.size)
        graphs = [f for f in fields if f.number == 7 and f.wire == BYTES]
        out = Pieces()
        for field in fields:
            if field.number == 7 and field.wire == BYTES:
                if field is graphs[0]:  # protobuf reads several as one
                    out.field(7, self.graph(graphs, plan))
            elif field.number == 25 and field.wire == BYTES and self.hollow:
                out.field(25, self.function(field))
            elif field.number == 20 and field.wire == BYTES and self.hollow:
                training = self.parts(field.start, field.end)
                out.field(20, self.with_graphs(training, (1, 2), GraphPlan()))
            else:
                out.copy(field.tag, field.end)
        return out

    def graph(self, messages: Sequence[Field], plan: GraphPlan) -> Pieces:
        """A graph, given as one message or more."""
        fields = [f for m in messages for f in self.parts(m.start, m.end)]
        constants, stored = self.constants(fields)
        ends = Ends(plan, self.outputs if plan.main else ())
        others = Pieces()
        for field in fields:
            if field.wire != BYTES:
                others.copy(field.tag, field.end)
            elif field.number == 1:
                self.node(others, field, 1, plan)
            elif field.number in (5, 15) and field.start in stored:
                others.add(stored[field.start])
            elif field.number in (11, 12, 13):
                content = self.window.bytes(field.start, field.end)
                value = self.decoder.value(content)
                if field.number == 11 and value.name in constants:
                    continue  # in old files every initialiser is an input as well
                changed = put(ends, field.number, value, content)
                if changed is None:
                    others.copy(field.tag, field.end)
                elif changed:
                    others.add(message(field.number, [changed]))
            else:
                others.copy(field.tag, field.end)
        for number, entry in ends.new():
            others.add(message(number, [entry]))
        if not constants:
            return others
        out = Pieces()
        for constant in constants.values():  # before the operators that use them
            out.add(constant)
        out.extend(others)
        return out

    def constants(self, fields: Sequence[Field]) -> tuple[dict[str, bytes], dict[int, bytes]]:
        """Initialisers that lose their elements, as operators by name; and what is written in place of each field."""
        constants: dict[str, bytes] = {}
        places: dict[int, bytes] = {}
        if not self.hollow:
            return constants, places
        for field in fields:
            if field.wire != BYTES or field.number not in (5, 15):
                continue
            constant: bytes | None
            if field.number == 15:
                dims, values, _, _ = self.sparse(field)
                name, constant = values.name, self.hollow.sparse(values, dims)
            else:
                tensor = self.take_apart(field)
                name, inline, constant = tensor.name, self.hollow.inline(tensor), self.hollow.initializer(tensor)
                if inline is not None:
                    places[field.start] = message(5, [inline])
            if constant is not None:
                constants[name], places[field.start] = message(1, [constant]), b""
        return constants, places

    def node(self, out: Pieces, field: Field, number: int, plan: GraphPlan) -> None:
        """Append an operator."""
        if not (self.note or self.hollow or plan.bodies):
            out.copy(field.tag, field.end)
            return
        fields = self.parts(field.start, field.end)
        first = self.first_text(fields, 2)
        note = self.note(plan.positions.get(first, ())) if self.note else {}
        constant = self.hollow is not None and self.first_text(fields, 4) == "Constant"
        content = Pieces()
        changed = bool(note)
        for part in fields:
            is_attribute, is_note = part.wire == BYTES and part.number == 5, part.wire == BYTES and part.number == 9
            if is_attribute and (rewritten := self.attribute(part, first, plan, constant)) is not None:
                content.field(5, rewritten)
                changed = True
            elif is_note and self.note and self.is_ours(part):
                changed = True
            else:
                content.copy(part.tag, part.end)
        if not changed:
            out.copy(field.tag, field.end)
            return
        for key, text in note.items():
            content.add(message(9, [message(1, [key.encode()]), message(2, [text.encode()])]))
        out.field(number, content)

    def attribute(self, field: Field, first: str, plan: GraphPlan, constant: bool) -> Pieces | None:
        """An attribute of the operator that makes ``first``; None when it stays."""
        fields = self.parts(field.start, field.end)
        if constant:
            return self.held(fields)
        if not any(f.number in (6, 11) and f.wire == BYTES for f in fields):
            return None
        body = plan.bodies.get((first, self.first_text(fields, 1)))
        return self.with_graphs(fields, (6, 11), body or GraphPlan(stale=plan.stale))

    def with_graphs(self, fields: Iterable[Field], numbers: tuple[int, ...], plan: GraphPlan) -> Pieces:
        """A message whose fields of these numbers are graphs."""
        content = Pieces()
        for part in fields:
            if part.wire == BYTES and part.number in numbers:
                content.field(part.number, self.graph([part], plan))
            else:
                content.copy(part.tag, part.end)
        return content

    def held(self, fields: Sequence[Field]) -> Pieces | None:
        """The attribute of a Constant operator without the elements of its tensor; None when it stays."""
        assert self.hollow is not None
        changed = None
        for part in fields:
            if part.number == 5 and part.wire == BYTES:
                changed = self.hollow.attribute(self.take_apart(part))
            elif part.number == 22 and part.wire == BYTES:
                dims, values, _, _ = self.sparse(part)
                changed = self.hollow.zeros(values.code, dims)
        if changed is None:
            return None
        content = Pieces()
        content.add(changed)
        return content

    def function(self, field: Field) -> Pieces:
        """A local function without weights."""
        assert self.hollow is not None
        fields = self.parts(field.start, field.end)
        content = Pieces()
        version = max((self.opset(f) for f in fields if f.number == 9), default=0)
        outside, self.hollow.version = self.hollow.version, version
        for part in fields:
            if part.number == 7 and part.wire == BYTES:
                self.node(content, part, 7, GraphPlan())
            else:
                content.copy(part.tag, part.end)
        self.hollow.version = outside
        return content

    def opset(self, field: Field) -> int:
        """The version of the standard operators that an import of operators names; 0 for other operators."""
        parts = list(self.window.fields(field.start, field.end))
        version = next((f.value for f in parts if f.number == 2 and f.wire == VARINT), 0)
        return version if self.first_text(parts, 1) in ("", "ai.onnx") else 0

    def is_ours(self, field: Field) -> bool:
        """True where an entry of metadata was written by flopwise as a note."""
        key = self.first_text(self.window.fields(field.start, field.end), 1)
        return key.startswith(OURS) and key != MARK

    def first_text(self, fields: Iterable[Field], number: int) -> str:
        """The first text under a number that is not empty; "" if there is none."""
        texts = (self.text(f) for f in fields if f.number == number and f.wire == BYTES and f.end > f.start)
        return next(texts, "")


#: Bytes that are copied at a time.
CHUNK = 1 << 20


class Pieces:
    """Bytes one after the other, some of them in a source."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        #: Length of the whole in bytes.
        self.size = 0
        self._parts: list[bytes | tuple[int, int]] = []

    def add(self, data: bytes) -> None:
        """Append new bytes."""
        self._parts.append(data)
        self.size += len(data)

    def copy(self, start: int, end: int) -> None:
        """Append the bytes [start, end) of the source."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, tuple) and last[1] == start:
            self._parts[-1] = (last[0], end)
        else:
            self._parts.append((start, end))
        self.size += end - start

    def field(self, number: int, content: Pieces) -> None:
        """Append a length-delimited field with this content."""
        self.add(varint(number << 3 | BYTES) + varint(content.size))
        self.extend(content)

    def extend(self, other: Pieces) -> None:
        """Append all of another."""
        for part in other._parts:
            if isinstance(part, bytes):
                self.add(part)
            else:
                self.copy(*part)

    def write(self, source: Source, sink: Callable[[bytes], object]) -> None:
        """Hand the bytes over in order, a chunk at a time.

        Args:
            source: what the ranges are ranges of.
            sink: takes bytes, as the ``write`` of a file does.

        Raises:
            ModelError: the source cannot be read.
        """
        for part in self._parts:
            if isinstance(part, bytes):
                sink(part)
                continue
            for start in range(part[0], part[1], CHUNK):
                sink(source.read(start, min(CHUNK, part[1] - start)))


#: Ending of the files that are written.
ENDING = ".onnx"


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing a model."""

    path: str
    #: How many tensors that operators make have their shape in the file now.
    shapes: int
    #: Names of those whose shape could not be resolved.
    unresolved: tuple[str, ...]
    #: Names of those, and of inputs, that stay as the file has them. A branch that does not run contradicts their
    #: shape, and onnxruntime would refuse the model for it.
    left: tuple[str, ...]
    #: Operators inlined from functions, whose call is unknown, so that no note counts them.
    unannotated: int
    #: What the reader of the model has to say.
    warnings: tuple[str, ...]

    @property
    def messages(self) -> tuple[str, ...]:
        """Notes for the user, one line each."""
        lines = list(self.warnings)
        if self.unresolved:
            number = len(self.unresolved)
            those = f"{number} tensors have" if number > 1 else "1 tensor has"
            lines.append(f"unresolved: {those} no known shape in the file; the first is {self.unresolved[0]!r}")
        if self.left:
            lines.append(
                f"unchanged: {counted(len(self.left), 'tensor')}, the first is {self.left[0]!r}; a branch that "
                "does not run contradicts their shapes, and onnxruntime would refuse the model"
            )
        if self.unannotated:
            number = self.unannotated
            those = f"{number} operators in functions are" if number > 1 else "1 operator in a function is"
            lines.append(f"unannotated: {those} shared by several calls")
        return tuple(lines)


def write_onnx(
    model: object,
    resolved: Resolved,
    path: str | os.PathLike[str],
    tensors: Sequence[str] = (),
    weights: bool = True,
    profile: Profile | None = None,
    copy_data: bool = False,
) -> Written:
    """Write a model with all shapes that are known; the file appears only when it is complete.

    Args:
        model: where ``resolved`` was read from.
        resolved: the model with its shapes.
        path: the file.
        tensors: names of hidden tensors that become outputs.
        weights: whether the stored tensors keep their elements.
        profile: figures to note on each operator.
        copy_data: whether files with weights that lie beside the model are copied to another folder.

    Raises:
        InputError: a tensor is unknown, or the file cannot be written as asked.
        ModelError: the model cannot be read.
    """
    path = os.fspath(path)
    if not path.lower().endswith(ENDING):
        raise InputError(f"{path}: models are written as {ENDING} files")
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or "."):
        raise InputError(f"{path}: {'is a directory' if os.path.isdir(path) else 'there is no such directory'}")
    changes = plan(resolved)
    outputs = _outputs(tensors, changes)
    hollow = None if weights else Hollow(resolved.model.opsets.get("", 0), resolved.name, resolved.reopen)
    with contextlib.closing(resolved.reopen()) as source:
        pieces = Rewrite(source, noting(profile) if profile else None, hollow, outputs).model(changes)
        beside = files(resolved.skeleton) if weights and not is_message(model) else []
        needed = copies(beside, source.folder, Path(path).parent, copy_data)
        with copied(needed):
            try:
                with atomic_file(path) as file:
                    pieces.write(source, file.write)
            except OSError as error:
                raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    return _written(path, changes, profile is not None, resolved.warnings)


def _written(path: str, changes: GraphPlan, annotated: bool, warnings: tuple[str, ...]) -> Written:
    """The result of writing a model by a plan."""
    plans = [p for p in changes.all() if p.runs]
    written = [name for p in plans for name in p.results if p.resolves(name)]
    left = [name for p in plans for name in (*p.inputs, *p.results) if name in p.untouched]
    missing = [name for p in plans for name in p.results if name not in p.untouched and not p.resolves(name)]
    return Written(
        path=path,
        shapes=len(written),
        unresolved=tuple(missing),
        left=tuple(left),
        unannotated=sum(p.lost for p in plans) if annotated else 0,
        warnings=warnings,
    )


def _outputs(tensors: Sequence[str], changes: GraphPlan) -> list[str]:
    """The names of tensors that become outputs, each once.

    Raises:
        InputError: there is no such tensor, or its type is unknown.
    """
    inside = {name for body in changes.bodies.values() for p in body.all() for name in p.results}
    for name in tensors:
        if name in changes.results:
            value = changes.values.get(name)
            if value is None or (type(value.type) is TensorType and value.type.dtype is None):
                raise InputError(f"tensor {name!r} cannot be an output: its element type is unknown")
            continue
        if name in inside:
            raise InputError(f"tensor {name!r} is inside control flow; only tensors of the main graph can be outputs")
        near = difflib.get_close_matches(name, changes.results, 3)
        hint = f"; did you mean {', '.join(map(repr, near))}?" if near else "; flopwise shapes lists them"
        raise InputError(f"no operator produces a tensor {name!r}{hint}")
    return list(dict.fromkeys(tensors))


#: A figure of a row, or why there is none.
_Figure = Callable[[Row], "int | str"]


def _bytes(row: Row) -> int | str:
    """Those of the weights that are first used here, and of all outputs."""
    if row.output_bytes is not None:
        return row.weight_bytes + row.output_bytes
    return row.note if row.times is None else "a shape is missing"


_FIGURES: dict[str, _Figure] = {
    "flopwise.params": lambda row: row.params,
    "flopwise.macs": lambda row: row.note if row.macs is None else row.macs,
    "flopwise.flops": lambda row: row.note if row.flops is None else row.flops,
    "flopwise.bytes": _bytes,
}


def noting(profile: Profile) -> Callable[[Sequence[int]], dict[str, str]]:
    """A function from the positions in ``Graph.nodes`` that an operator represents to its metadata.

    The figures of several are added up. There is none for what a profile does not list: operators on weights, constants
    and shapes alone, and the branches that do not count.
    """
    position = {id(node): place for place, node in enumerate(profile.graph.nodes)}
    rows: dict[int, list[Row]] = {}
    for row in profile.rows:
        if row.times != 0:
            rows.setdefault(position[id(row.node)], []).append(row)

    def note(positions: Sequence[int]) -> dict[str, str]:
        listed = [row for place in positions for row in rows.get(place, ())]
        return {key: _sum(listed, figure) for key, figure in _FIGURES.items()} if listed else {}

    return note


def _sum(rows: Iterable[Row], figure: _Figure) -> str:
    total = 0
    for row in rows:
        value = figure(row)
        if isinstance(value, str):
            return f"unknown ({value})"
        total += value
    return str(total)
