"""Facts about operators stand in their rows: a list of operator names elsewhere drifts when an operator is added."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import flopwise
from flopwise.operators.tables import ROWS

SOURCE = Path(flopwise.__file__).parent

#: Rooms whose subject is operators one by one: their rows, and each tool's own view of them.
ROOMS = ("operators", "conventions", "compat")

#: Names from which on a collection is a list of operators.
LIST = 4

#: File -> why it names operators all the same.
REASONS = {
    "analyses/compare/causes.py": "words of a report for layers of a kind; an operator without one is shown by name",
    "formats/torch/graph.py": "naming rows after modules: a matter of taste, not of what an operator does; products "
    "with a stack of experts, as programs write them",
    "analyses/advice/rules/work.py": "what programs take a step out of a sequence with: a pattern to look for",
    "sizes/control.py": "what runs the bodies of control flow, which no rule of a row can do",
    "sizes/turns.py": "how bodies count and compare, which no rule of a row can see",
    "formats/torch/lower/operators.py": "what PyTorch's modules consist of",
}


def collections(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """Line and texts of each literal collection, and the words of each text with several."""
    for node in ast.walk(tree):
        match node:
            case ast.Set(elts=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                yield node.lineno, [str(p.value) for p in parts if isinstance(p, ast.Constant)]
            case ast.Dict(keys=keys):
                yield node.lineno, [str(k.value) for k in keys if isinstance(k, ast.Constant)]
            case ast.Constant(value=str(text)) if " " in text:
                yield node.lineno, text.replace(",", " ").split()
            case _:
                pass


def lists(path: Path) -> Iterator[int]:
    """The lines where a file lists operators: most of a collection's texts are names of rows."""
    for line, texts in collections(ast.parse(path.read_text(encoding="utf-8"))):
        names = [text for text in texts if text in ROWS]
        if len(set(names)) >= LIST and len(names) >= 0.6 * len(texts):
            yield line


def test_no_list_of_operators_stands_outside_their_rows() -> None:
    listed: dict[str, list[int]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith(ROOMS) and (lines := list(lists(path))):
            listed[place] = lines
    assert not listed.keys() - REASONS.keys(), "make it a fact of the rows, or say here why it is none"
    assert not REASONS.keys() - listed.keys(), "the list is gone: take its reason away"
    assert sum(map(len, listed.values())) <= 15


def test_a_list_of_operators_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "drift.py"
    file.write_text("KINDS = {'Conv', 'Gemm', 'MatMul', 'Relu'}\nWORDS = 'Conv Gemm MatMul Relu'.split()\n")
    assert list(lists(file)) == [1, 2]
