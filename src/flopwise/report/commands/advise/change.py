"""One change as operators: those that go, and those that come in their place."""

from __future__ import annotations

from flopwise.analyses.advice.advice import Advice
from flopwise.analyses.advice.rule import Rule
from flopwise.errors import InputError
from flopwise.graph import Node, Tensor
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Head, Line, Sheet
from flopwise.report.sheet.values import Look

HEADS = (
    Head("sign", "", "text", 0),
    Head("op", "op", "text", 0),
    Head("name", "layer", "text", 1),
    Head("inputs", "inputs", "text", 2, prose=True),
    Head("outputs", "outputs", "text", 2, prose=True),
)


def change_report(advice: Advice, number: int) -> Report:
    """The operators of a change, "-" before those that go and "+" before those that come.

    Args:
        advice: where it stands.
        number: its line among the places, from 1 on.

    Raises:
        InputError: there is no such line.
    """
    if not 1 <= number <= len(advice.suggestions):
        raise InputError(f"--show {number}: there are {len(advice.suggestions)} places (--by place)")
    chosen = advice.suggestions[number - 1]
    after = chosen.change.after if chosen.change is not None else ()
    same = chosen.change.same if chosen.change is not None else {}
    signed = [*(("-", node) for node in chosen.gone), *(("+", node) for node in after)]
    notes = [f"{old} = {new}" for old, new in same.items()]
    rule = chosen.rule
    code = rule.in_pytorch(chosen.change) if chosen.change is not None and isinstance(rule, Rule) else ""
    notes += [f"in PyTorch: {code}"] if code else []

    def sheet(format: Format, look: Look) -> Sheet:
        lines = [Line((sign, node.op, look.text(node.name), *map(look.text, _ends(node)))) for sign, node in signed]
        about = (look.text(f"{chosen.rule.name}: {chosen.text}"),)
        return Sheet(HEADS, tuple(lines), about=about, notes=look.texts(notes))

    return Report(lambda format, look: [sheet(format, look)])


def _ends(node: Node) -> tuple[str, str]:
    return ", ".join(map(_text, node.known_inputs)), ", ".join(map(_text, node.known_outputs))


def _text(tensor: Tensor) -> str:
    return f"{tensor.name} {'x'.join(map(str, tensor.shape or ()))}".rstrip()
