"""Advice in every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flopwise.analyses.advice.advice import Advice, Suggestion, by_rule, dominated
from flopwise.analyses.advice.rule import Rule
from flopwise.analyses.advice.runs import RunRule
from flopwise.errors import InputError
from flopwise.graph import Node, Tensor
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.listing import model_name
from flopwise.report.sheet.sheet import Field, Head, Line, Look, Sheet, duration

#: In words, what changes.
KINDS = {"same": "same result", "other": "other network", "run": "of the run"}


def _place(each: Suggestion) -> str:
    more = f" +{len(each.place) - 1}" if len(each.place) > 1 else ""
    return f"{each.place[0]}{more}" + (f" ×{each.number}" if each.number > 1 else "")


def _nanoseconds(each: Suggestion) -> int | None:
    return round(each.saved.ns) if each.whole.ns else None


def _time(each: Suggestion) -> str | None:
    return duration(each.saved.ns / 1e9) if each.whole.ns else None


COLUMNS: dict[str, Field[Suggestion]] = {
    field.head.key: field
    for field in (
        Field(Head("place", "place", "text", 0), _place, "first layer that goes, how many with it, how many places"),
        Field(Head("rule", "rule", "text", 1), lambda each: each.rule.name, "name of the rule"),
        Field(Head("text", "why", "text", 2, prose=True), lambda each: each.text, "why, with its figure"),
        Field(Head("macs", "MACs", "number", 3), lambda each: each.saved.macs, "multiply-adds that it saves"),
        Field(Head("bytes", "bytes", "bytes", 3), lambda each: each.saved.nbytes, "bytes read or written less"),
        Field(Head("kept", "kept", "bytes", 3), lambda each: each.saved.kept, "bytes kept less for the backward pass"),
        Field(Head("time_ns", "ns", "number", 3), _nanoseconds, "nanoseconds by the roofline"),
        Field(Head("time", "time", "text", 3), _time, "the same, to be read"),
        Field(
            Head("share", "%", "percent", 1), lambda each: 100 * each.share, "share of the whole: what it is ranked by"
        ),
        Field(
            Head("measured", "measured %", "percent", 2),
            lambda each: "" if each.measured_share is None else 100 * each.measured_share,
            "share of the time of what goes, measured here (--measure)",
        ),
        Field(Head("kind", "kind", "text", 4), lambda each: KINDS[each.kind], "whether the result stays the same"),
        Field(Head("source", "source", "text", 9, prose=True), lambda each: each.rule.source, "who says so"),
    )
}


def _environment(environment: Mapping[str, object]) -> list[str]:
    """Device, engine, level and threads, in words."""
    words = {"level": "level {}", "threads": "{} thread" if environment.get("threads") == 1 else "{} threads"}
    return [words.get(key, "{}").format(value) for key, value in environment.items()]


def advise_report(
    advice: Advice, by: str = "rule", columns: Sequence[str] | None = None, top: int | None = None
) -> Report:
    """Advice as a table, what saves most first; its JSON always holds each place.

    Args:
        advice: what to write.
        by: one line for each "rule" or "place".
        columns: keys of columns; None for those that people read, and all for programs.
        top: how many lines to show.

    Raises:
        InputError: a column is unknown.
    """
    from flopwise.errors import entry

    for key in columns or ():
        entry(COLUMNS, key)

    def shown(format: Format) -> list[Field[Suggestion]]:
        if columns:
            return [COLUMNS[key] for key in columns]
        timed = any(each.whole.ns for each in advice.suggestions)
        measured = any(each.measured_share is not None for each in advice.suggestions)
        trained = any(each.whole.kept for each in advice.suggestions)
        absent = {"time": not timed, "measured": not measured, "kept": not trained}
        left = {"source", "time_ns", *(key for key, missing in absent.items() if missing)}
        return [field for key, field in COLUMNS.items() if key not in ({"time"} if format.data else left)]

    def sheet(format: Format, look: Look) -> Sheet:
        better = {} if by == "place" or format.data else dominated(advice.suggestions)
        every = advice.suggestions if by == "place" else by_rule(advice.suggestions)
        shorter = [each for each in every if each.rule.name not in better]
        lines = shorter[:top]
        hidden = len(shorter) - len(lines)
        others = [
            f"instead of {better[each.rule.name]}: {each.rule.name}, {100 * each.share:.1f} % (--by place lists it)"
            for each in every
            if each.rule.name in better
        ]
        notes = [*others, *([f"{hidden} more without --top"] if hidden else []), *advice.notes]
        overlap = ["savings overlap, so the lines do not add up"] if len(lines) > 1 else []
        return Sheet.of(
            shown(format) if lines or format.data else [],
            lines,
            verdict="" if lines else "nothing to advise",
            about=(model_name(advice.profile, look), *look.texts(_environment(advice.environment))),
            notes=look.texts([*overlap, *notes]),
        )

    return Report(lambda format, look: [sheet(format, look)], advice.to_dict)


# One change as operators: those that go, and those that come in their place.


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


# The rules of advice in every format.


def rules_report(rules: Sequence[Rule | RunRule]) -> Report:
    """The rules of advice, one line each."""
    fields: list[Field[Rule | RunRule]] = [
        Field(Head("rule", "rule", "text", 0), lambda rule: rule.name),
        Field(Head("kind", "kind", "text", 1), lambda rule: KINDS[rule.exactness]),
        Field(Head("about", "change", "text", 1, prose=True), lambda rule: rule.about),
        Field(Head("source", "source", "text", 2, prose=True), lambda rule: rule.source),
    ]
    names = ("name", "about", "exactness", "source")
    plain = [{name: getattr(rule, name) for name in names} for rule in rules]
    content = {"schema": "flopwise.advice-rules/1", "rules": plain}
    return Report(lambda format, look: [Sheet.of(fields, rules)], lambda: content)
