"""Single faults in the functions of the sources, for ``python -m tests.mutate --sources FILE``.

A fault is one comparison, operation, number, condition, return or raise that is another one. It is made in memory: the
changed module is compiled, and living functions get its code. The tests that reach the function (a file that
``tests/reach.py`` wrote says which) are run, quick ones first, until one fails. The operator tables are left out: their
facts are changed by ``tests/mutate.py`` itself.
"""

from __future__ import annotations

import ast
import copy
import gc
import importlib
import random
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.reach import ROOT, SOURCES, Reached, functions

#: Files whose facts the other mutations change.
TABLES = tuple(
    f"src/flopwise/operators/{name}/" for name in ("onnx", "onnxruntime", "aten", "caffe", "gradients", "elements")
)

Change = Callable[[Any], None]

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATIONS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
}


class Fault(NamedTuple):
    """A changed function: its file, name and line, the change in words, and the changed module."""

    path: str
    function: str
    line: int
    what: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {self.what}"

    def apply(self) -> None:
        """Give the living functions of the module the changed code.

        Raises:
            RuntimeError: no living function has the code.
        """
        file = ROOT / self.path
        importlib.import_module(".".join(file.relative_to(SOURCES).with_suffix("").parts))
        changed = {(code.co_name, code.co_firstlineno): code for code in _codes(compile(self.tree, str(file), "exec"))}
        done = False
        gc.unfreeze()  # what a run of the tests set aside is in no list
        for function in [f for f in gc.get_objects() if type(f) is types.FunctionType]:
            code = function.__code__
            new = changed.get((code.co_name, code.co_firstlineno)) if Path(code.co_filename) == file else None
            if new is not None and new != code and new.co_freevars == code.co_freevars:
                function.__code__ = new
                done = True
        if not done:
            raise RuntimeError(f"{self.path}: {self.function} is not alive")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def faults(number: int, seed: int, reached: list[Reached]) -> list[Fault]:
    """So many faults, drawn evenly from all places of functions that a test reaches."""
    known = {name for test in reached for name in test.functions}
    places: list[tuple[str, str, int]] = []
    for file in sorted(SOURCES.rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if not path.startswith(TABLES):
            tree = ast.parse(file.read_bytes())
            for node, name in functions(tree):
                if f"{path}:{name}" in known:
                    places += [(path, name, place) for place in range(len(list(_changes(node))))]
    chosen = random.Random(seed).sample(places, min(number, len(places)))
    return [_fault(*place) for place in chosen]


def _fault(path: str, name: str, place: int) -> Fault:
    """The fault at a place of a function."""
    tree = ast.parse((ROOT / path).read_bytes())
    function = next(node for node, other in functions(tree) if other == name)
    node, make = list(_changes(function))[place]
    old = ast.unparse(node).partition("\n")[0]
    make(node)
    ast.fix_missing_locations(tree)
    return Fault(path, name, node.lineno, f"{old} -> {ast.unparse(node).partition(chr(10))[0]}", tree)


def _changes(function: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, Change]]:
    """The nodes of a function that can be changed, without those of functions inside it, each with its change."""
    for node in _parts(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.JoinedStr):
            continue
        if isinstance(node, ast.expr | ast.stmt):
            change = next((change for kind, change in _KINDS.items() if isinstance(node, kind)), None)
            if change is not None and ast.dump(node) != ast.dump(_changed(node, change)):
                yield node, change
        yield from _changes(node)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes inside a node, without annotations, defaults and decorators."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from node.body
    elif isinstance(node, ast.AnnAssign):
        yield from [node.value] if node.value else []
    else:
        yield from ast.iter_child_nodes(node)


def _changed(node: ast.AST, change: Change) -> ast.AST:
    """A changed copy."""
    other = copy.deepcopy(node)
    change(other)
    return other


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr) or _is_constant(side, str) for side in (node.left, node.right))


def _is_constant(node: ast.expr, kind: type = object) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, kind)


def _compare(node: Any) -> None:
    node.ops[0] = _COMPARISONS.get(type(node.ops[0]), type(node.ops[0]))()


def _operate(node: Any) -> None:
    if not _is_text(node):
        node.op = _OPERATIONS.get(type(node.op), type(node.op))()


def _connect(node: Any) -> None:
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _renumber(node: Any) -> None:
    if type(node.value) in (int, bool):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1


def _return_none(node: Any) -> None:
    if node.value is not None and not _is_constant(node.value):
        node.value = ast.Constant(None)


def _pass(node: Any) -> None:
    """A raise becomes a statement that does nothing; its node stays where its parent has it."""
    node.__class__ = ast.Pass
    node.__dict__.pop("exc", None)
    node.__dict__.pop("cause", None)


def _negate(node: Any) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test)


_KINDS: dict[type[ast.AST], Change] = {
    ast.Compare: _compare,
    ast.BinOp: _operate,
    ast.BoolOp: _connect,
    ast.Constant: _renumber,
    ast.Return: _return_none,
    ast.Raise: _pass,
    ast.If: _negate,
    ast.IfExp: _negate,
}
