"""An ONNX model with resolved shapes -> the same model in a file, with every shape written in.

What an operator costs can be noted as metadata of the operator.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flopwise.errors import InputError, counted
from flopwise.formats.onnx.file.memory import is_message
from flopwise.formats.onnx.file.model import TensorType
from flopwise.formats.onnx.read import Resolved
from flopwise.profiles.profile import Profile
from flopwise.rows import Row
from flopwise.writers.atomic import atomic_file
from flopwise.writers.onnx import external
from flopwise.writers.onnx.plan import GraphPlan, plan
from flopwise.writers.onnx.rewrite import Rewrite
from flopwise.writers.onnx.stripped import Hollow

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
        beside = external.files(resolved.skeleton) if weights and not is_message(model) else []
        needed = external.copies(beside, source.folder, Path(path).parent, copy_data)
        with external.copied(needed):
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
