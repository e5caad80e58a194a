"""Advice on a model: what rules find in it, with what each change saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from flopwise._results import Json, Printed
from flopwise.analyses.advice.figures import Figures, Place, of_nodes, of_profile, total
from flopwise.analyses.advice.rule import Change, Exactness, Rule
from flopwise.analyses.advice.runs import RUN_RULES, Run, RunRule
from flopwise.analyses.advice.subject import Subject
from flopwise.formats.sources.text import JsonObject
from flopwise.graph import Node

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Roof
    from flopwise.profiles.profile import Profile

#: The share of a model's time (without a device: of its multiply-adds or its bytes) that advice saves at least, and
#: what another network saves, which is to be trained again: less than 5 % is what two equal runs differ by on a machine
#: that ``bench`` calls noisy, and no hotspot in NVIDIA's trt-perf-analysis (a892d222).
LEAST, LEAST_OF_ANOTHER = 0.001, 0.05


@dataclass(frozen=True)
class Suggestion:
    """A change that is worth making, or several of one rule together."""

    rule: Rule | RunRule
    #: Why, with its figure; of several changes, that of the one that saves most.
    text: str
    #: Names of the layers that go; of several changes, of that one.
    place: tuple[str, ...]
    saved: Figures
    #: The figures of the whole model.
    whole: Figures
    #: Measured share of the time of the piece that goes; None where nothing was measured.
    measured_share: float | None = None
    #: What was found, for whoever carries it out; None for several.
    change: Change | None = field(default=None, repr=False)
    #: How many changes it is.
    number: int = 1
    #: The operators that go; () for several changes.
    gone: tuple[Node, ...] = field(default=(), repr=False)

    @property
    def kind(self) -> Exactness | Literal["run"]:
        """ "same" result, "other" network, or "run": how it is run changes."""
        return self.rule.exactness

    @property
    def time_share(self) -> float | None:
        """Share of the whole model's time by the roofline; None without a device."""
        return _share(self.saved.ns, self.whole.ns)

    @property
    def macs_share(self) -> float | None:
        """Share of the whole model's multiply-adds; None where there are none."""
        return _share(self.saved.macs, self.whole.macs)

    @property
    def bytes_share(self) -> float | None:
        """Share of the bytes that all operators read and write; None where there are none."""
        return _share(self.saved.nbytes, self.whole.nbytes)

    @property
    def kept_share(self) -> float | None:
        """Share of the bytes that are kept for the backward pass; None where there are none."""
        return _share(self.saved.kept, self.whole.kept)

    @property
    def share(self) -> float:
        """Share that it is ranked by: of the time; without a device the largest one of multiply-adds and bytes."""
        if self.whole.ns:
            return self.time_share or 0.0
        return max(self.macs_share or 0.0, self.bytes_share or 0.0, self.kept_share or 0.0)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True)
class Advice(Printed):
    """Advice on a model, what saves most first."""

    profile: Profile
    suggestions: tuple[Suggestion, ...]
    #: Device, engine and level that times are computed for; empty without any.
    environment: JsonObject
    notes: tuple[str, ...] = ()

    def to_dict(self) -> Json:
        """The advice in the JSON schema ``flopwise.advice/1``."""
        model = self.profile.graph
        return {
            "schema": "flopwise.advice/1",
            "model": {"name": model.name, "source": model.source, "format": model.format},
            "environment": dict(self.environment),
            "advice": [_plain(each) for each in self.suggestions],
            "notes": list(self.notes),
        }


def _plain(each: Suggestion) -> Json:
    return {
        "rule": each.rule.name,
        "layers": list(each.place),
        "kind": each.kind,
        "macs_saved": each.saved.macs,
        "bytes_saved": each.saved.nbytes,
        "kept_bytes_saved": each.saved.kept if each.whole.kept else None,
        "time_saved_ns": round(each.saved.ns) if each.whole.ns else None,
        "time_share": each.time_share,
        "measured_share": each.measured_share,
        "source": each.rule.source,
        "text": each.text,
    }


def suggestions_of(
    subject: Subject,
    rules: Sequence[Rule],
    place: Place | None = None,
    names: Mapping[int, Sequence[str]] | None = None,
    whole: Figures | None = None,
) -> list[Suggestion]:
    """Findings of rules in a model, each place by itself, what saves most first; small things included.

    Args:
        subject: the model.
        rules: the rules to ask.
        place: the device that times are computed for; None for counts alone.
        names: position of an operator -> the layers it stands for; None: its own name.
        whole: figures that shares refer to; None: those of the model.
    """
    each_figure = of_profile(subject.profile, place)
    roofs = _roofs(subject, place)
    whole = total(each_figure.values()) if whole is None else whole
    found = []
    for rule in rules:
        for change in rule.changes(subject):
            binding = [roofs[p] for p in change.positions if p in roofs] or ["unknown"]
            gone = total(each_figure.get(p, Figures()) for p in change.positions)
            saved = _saved(subject, change, gone, binding, place)
            if not _saves(saved, place) or not all(map(rule.applies, binding)):
                continue
            operators = tuple(subject.nodes[p] for p in change.positions)
            layers = _layers(subject, change.positions, names or {})
            found.append(Suggestion(rule, change.text, layers, saved, whole, change=change, gone=operators))
    return sorted(found, key=lambda each: -each.share)


def _layers(subject: Subject, positions: Sequence[int], names: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    """The names of the layers that operators stand for."""
    own = {id(row.node): row.name for row in subject.profile.rows}
    nodes = [(p, subject.nodes[p]) for p in positions]
    return tuple(dict.fromkeys(name for p, node in nodes for name in names.get(p) or (own.get(id(node), node.name),)))


def suggestions_of_run(run: Run) -> list[Suggestion]:
    """Findings of rules in a recorded step: times as they were measured, of which each suggestion may save so much."""
    whole = Figures(ns=run.trace.window_ns)
    found = [
        Suggestion(rule, each.text, each.place, Figures(ns=each.ns), whole)
        for rule in RUN_RULES
        for each in rule.find(run, rule.threshold)
    ]
    return sorted(found, key=lambda each: -each.share)


def _saved(subject: Subject, change: Change, gone: Figures, binding: Sequence[Roof], place: Place | None) -> Figures:
    """Figures that a change saves of those of its operators."""
    if change.vain:
        bound = all(roof == "compute" for roof in binding)
        nodes = {id(subject.nodes[p]) for p in change.positions}
        forward = sum(row.macs or 0 for row in subject.profile.rows if id(row.node) in nodes)
        vain = change.vain * gone.macs // forward if forward else 0  # of both passes, where there are two
        return Figures(vain, 0, gone.ns * vain / gone.macs if bound and gone.macs else 0.0)
    if change.idle:
        return Figures(0, 0, gone.ns * change.idle)
    before = of_nodes(change.before, place, subject.asks) if change.before else gone
    return before - of_nodes(change.after, place, subject.asks)


def _roofs(subject: Subject, place: Place | None) -> dict[int, Roof]:
    """Position of an operator -> what binds it on the device; empty without one."""
    if place is None:
        return {}
    from flopwise.analyses.timing.quantities import works

    positions = {id(node): position for position, node in enumerate(subject.nodes)}
    rows = zip(subject.profile.rows, works(subject.profile), strict=True)
    return {positions[id(row.node)]: place.row(row.name, row.node.op, work).roof for row, work in rows}


def _saves(saved: Figures, place: Place | None) -> bool:
    """True where there is something to win: time on the device, or multiply-adds or bytes without one."""
    if place is not None:
        return saved.ns > 0
    return saved.macs > 0 or (max(saved.nbytes, saved.kept) > 0 and saved.macs >= 0)


def by_rule(found: Sequence[Suggestion]) -> list[Suggestion]:
    """The suggestions of each rule together, what saves most first."""
    groups: dict[str, list[Suggestion]] = {}
    for each in found:
        groups.setdefault(each.rule.name, []).append(each)
    together = []
    for group in groups.values():
        first, measured = group[0], [each.measured_share for each in group if each.measured_share is not None]
        share = measured[0] if measured else None
        saved = total(each.saved for each in group)
        change = first.change if len(group) == 1 else None
        text, place, whole = first.text, first.place, first.whole
        together.append(Suggestion(first.rule, text, place, saved, whole, share, change, len(group)))
    return sorted(together, key=lambda each: -each.share)


def worth(found: Sequence[Suggestion]) -> tuple[list[Suggestion], list[str]]:
    """The suggestions of rules that save at least a share of the whole, and notes on the others."""
    small: dict[float, list[str]] = {LEAST: [], LEAST_OF_ANOTHER: []}
    for each in by_rule(found):
        least = LEAST_OF_ANOTHER if each.kind == "other" else LEAST
        if each.share < least:
            small[least].append(each.rule.name)
    notes = [
        f"each saves less than {100 * least:g} % of the whole, and is left out: {', '.join(sorted(names))}"
        for least, names in small.items()
        if names
    ]
    left_out = {name for names in small.values() for name in names}
    return [each for each in found if each.rule.name not in left_out], notes


def dominated(found: Sequence[Suggestion]) -> dict[str, str]:
    """Rule that changes the network -> another one that saves more on the same layers, and perhaps on more of them."""
    rules = [each for each in by_rule(found) if each.kind == "other"]
    layers = {each.rule.name: {s.place for s in found if s.rule is each.rule} for each in rules}
    better: dict[str, str] = {}
    for number, each in enumerate(rules):
        name = each.rule.name
        larger = (r.rule.name for r in rules[:number] if r.rule.name not in better)
        other = next((r for r in larger if layers[name] <= layers[r]), None)
        if other is not None:
            better[name] = other
    return better
