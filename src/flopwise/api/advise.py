"""``flopwise.advise``: what to change in a model, and what it saves."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flopwise._arguments import Arguments, checked
from flopwise.analyses.advice.advice import (
    Advice,
    Suggestion,
    by_rule,
    suggestions_of,
    suggestions_of_run,
    worth,
)
from flopwise.analyses.advice.figures import Place, of_profile, total
from flopwise.analyses.advice.patterns import unpadded_inputs
from flopwise.analyses.advice.rule import Rule
from flopwise.analyses.advice.rules import RULES
from flopwise.analyses.advice.runs import Run
from flopwise.analyses.advice.subject import Subject, unit_of
from flopwise.analyses.timing.device import Device
from flopwise.analyses.traces.trace import Trace
from flopwise.api import places
from flopwise.api.bound import device_with, engine_options, measured_device
from flopwise.api.profile import profile
from flopwise.api.runnable import check_runnable, file_of
from flopwise.api.trace import trace as recorded
from flopwise.errors import InputError
from flopwise.errors import counted as counted_places
from flopwise.formats.inputs import input_specs
from flopwise.formats.options import Keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.profiles.profile import Profile


@checked
def advise(
    model: object,
    inputs: object = None,
    *,
    trace: str | os.PathLike[str] | Trace | None = None,
    device: str | Device | None = None,
    optimization: str | None = None,
    threads: int | None = None,
    keep_network: bool = False,
    measure: bool = False,
    train: bool = False,
    rules: Sequence[Rule] = (),
    output: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] = lambda step: None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    **keywords: Unpack[Keywords],
) -> Advice:
    """Changes to a model, the one that saves most first: each with the multiply-adds, bytes and time that it saves.

    Args:
        model: as in ``flopwise.profile``.
        inputs: as in ``flopwise.read``.
        trace: a run of the model, as in ``flopwise.trace``: what its time was spent on beside the network's own work.
        device: a device of ``flopwise devices``, for times by its roofline; None: the one that the trace names; else
            counts alone, and with an engine's level this machine's CPU.
        optimization: level of onnxruntime ("off", "basic", "extended", "all"): advice is on the graph that it executes
            at this level, so that what it does by itself is left out; None: on the model as it is.
        threads: cores of a CPU that are used; None means all, and with an engine one.
        keep_network: whether only changes count after which the result is the same.
        measure: whether the largest change of each rule with the same result is built, before and after, and both
            pieces run here in turns with onnxruntime; for an ONNX file, or with a level.
        train: whether it is about a training step: multiply-adds of both passes, and bytes that are kept for the
            backward pass. Rules that need weights or statistics that stay, or the last position alone, are left out.
        rules: rules of your own, beside those of flopwise.
        output: an ONNX file to write, with the changes after which the result is the same; the model must be one, too.
        progress: called with the name of each step.
        dims: as in ``flopwise.read``.
        batch_size: as in ``flopwise.read``.
        keywords: as in ``flopwise.read``.

    Raises:
        ModelError: the model cannot be read, or the engine refuses it.
        InputError: the device, the level or the engine is unknown or not installed.
    """
    run = (
        None
        if trace is None
        else _run(model, inputs, trace, device, progress, {**keywords, "dims": dims, "batch_size": batch_size})
    )
    runs = {"level": optimization, "measuring": measure or None, "written model": output}
    if train:
        _refuse({"device": device, **runs}, "a training step has multiply-adds and bytes alone")
    elif run is not None and device is None and optimization is None:
        device = run.device
    if keywords.get("element_type") is not None:
        _refuse(runs, "the engine runs the model in its own element types, and not in that of --dtype (element_type=)")
    trains = run is not None and run.trains
    chosen = _chosen(rules, keep_network, train or trains)
    place = _place(device, optimization, threads)
    if optimization is not None:
        check_runnable(model)
    if output is not None:
        places.check({"output=": output}, model, inputs)
    counting: Arguments = {"fold": False, "train": train, **keywords}
    counted = profile(model, inputs, progress=progress, dims=dims, batch_size=batch_size, **counting)
    environment: dict[str, object] = {"train": "a training step"} if train else {}
    environment |= {} if place is None else {"device": place.device.name}
    progress("looking for what to change")
    unpadded = _unpadded(model, inputs, counted, progress, counting)
    subject = _subject(counted, place, optimization, unpadded)
    if optimization is None:
        candidates, notes = suggestions_of(subject, chosen, place), [_convention(place, train)]
        if measure:
            candidates, more = _measured(_onnx_file(model, counted), subject, candidates, 1, progress)
            notes += more
    else:
        assert place is not None  # _place sees to it
        environment |= {"engine": "onnxruntime", "level": optimization}
        environment |= {} if place.threads is None else {"threads": place.threads}
        notes = [f"the same result: on the graph that onnxruntime executes at level {optimization}", _convention(place)]
        cores = (threads or 1) if measure else 0
        candidates, more = _executed(model, subject, chosen, place, optimization, keywords, progress, cores)
        notes += more
    suggestions, left = worth(candidates)
    if run is not None:
        suggestions = sorted([*suggestions, *suggestions_of_run(run)], key=lambda each: -each.share)
        notes.append(f"of the run: recorded time, at most, as a share of step {run.trace.step}")
        notes += ["the run trains: rules of an inference alone are left out"] if trains else []
    if output is not None:
        progress("writing")
        notes += _write(model, counted, chosen, os.fspath(output))
    return Advice(counted, tuple(suggestions), environment, (*notes, *left))


def _chosen(own: Sequence[Rule], keep_network: bool, train: bool) -> list[Rule]:
    """The rules that are asked: of an inference or of a training step, and perhaps of the same result alone.

    Raises:
        InputError: two have one name.
    """
    every = (*RULES, *own)
    names = [rule.name for rule in every]
    for rule in own:
        if names.count(rule.name) > 1:
            raise InputError(f"there are two rules {rule.name}: give yours a name of its own")
    return [r for r in every if not (keep_network and r.exactness == "other") and (r.trained or not train)]


def _refuse(asked: Mapping[str, object], why: str) -> None:
    """Raise InputError where anything is asked for, and say why it does not apply."""
    given = [name for name, value in asked.items() if value is not None]
    if given:
        raise InputError(f"{why}: leave the {given[0]} out")


def _subject(counted: Profile, place: Place | None, level: str | None, unpadded: Profile | None) -> Subject:
    """The model as it is, with what is known of the device that it runs on."""
    if place is None:
        return Subject(counted, unpadded=unpadded)
    device = place.device
    return Subject(counted, unit_of(device, level), device.multiprocessors, unpadded, device.kind)


def _unpadded(
    model: object, inputs: object, counted: Profile, progress: Callable[[str], None], counting: Any
) -> Profile | None:
    """The model without the tokens that a given mask takes out of every sequence; None where there are none."""
    if inputs is None or isinstance(inputs, str):
        return None
    tensors = counted.graph.inputs
    try:
        specs = input_specs(inputs, [tensor.name for tensor in tensors])
    except InputError:  # arguments of a module, whose mask has no name
        return None
    texts = unpadded_inputs(specs, tensors)
    return profile(model, texts, progress=progress, **counting) if texts else None


def _run(
    model: object,
    inputs: object,
    trace: str | os.PathLike[str] | Trace,
    device: str | Device | None,
    progress: Callable[[str], None],
    reading: Mapping[str, Any],
) -> Run:
    """A recorded step of a model, and its device."""
    from flopwise.analyses.timing import catalog, machine

    if not isinstance(trace, Trace):
        trace = recorded(model, trace, inputs, device=device, progress=progress, **reading)
    if device is None:
        known = trace.device not in ("", "CPU")
        return Run(trace, catalog.nearest_gpu(trace.device, 0) if known else None)
    return Run(trace, device if isinstance(device, Device) else machine.named(device))


def _write(model: object, counted: Profile, chosen: Sequence[Rule], output: str) -> list[str]:
    """Write the model with the same result, and say what was done.

    Raises:
        InputError: it is no local ONNX file, or the output cannot be written.
        ModelError: onnxruntime does not run it.
    """
    from flopwise.analyses.advice.edited import rewritten
    from flopwise.writers.atomic import write

    path = _onnx_file(model, counted)
    subject = Subject(counted)
    same = suggestions_of(subject, [rule for rule in chosen if rule.exactness == "same"])
    content, done, notes = rewritten(path, subject, same)
    rules = ", ".join(f"{each.rule.name} {each.number}" for each in by_rule(done)) or "nothing"
    write(content, output)
    return [
        f"{output}: changed at {counted_places(len(done), 'place')} ({rules}); the outputs agree in onnxruntime",
        *notes,
    ]


def _onnx_file(model: object, counted: Profile) -> str:
    """The path of a model whose operators are changed.

    Raises:
        InputError: it is no local ONNX file, or onnxruntime is not installed.
    """
    if counted.graph.format != "onnx" or not isinstance(model, str | os.PathLike) or not os.path.isfile(model):
        raise InputError(
            "operators are changed in a local ONNX file: give the path of one; to measure, a level will do"
        )
    engine_options("onnxruntime", "off", 1)
    return os.fspath(model)


def _measured(
    path: str, subject: Subject, found: Sequence[Suggestion], threads: int, progress: Callable[[str], None]
) -> tuple[list[Suggestion], list[str]]:
    """The suggestions, the first same result of each rule with its measured share, and notes."""
    from flopwise.analyses.advice.edited import Edited, loaded
    from flopwise.analyses.advice.measured import measured

    progress("measuring")
    same = [each for each in found if each.kind == "same"]
    if not same:
        return list(found), []
    others = [each for each in found if each.kind != "same"]
    timed, notes = measured(Edited(loaded(path), subject), same, threads)
    about = (
        "measured: share of the time of the operators that go, in turns with those that come; largest place of a rule"
    )
    return sorted([*timed, *others], key=lambda each: -each.share), [about, *notes]


def _place(device: str | Device | None, level: str | None, threads: int | None) -> Place | None:
    """The device that is meant; None for counts alone.

    Raises:
        InputError: it is unknown, or an engine does not run on it.
    """
    if device is None and level is None:
        if threads is not None:
            raise InputError("a number of threads needs a device or a level: without one there are no times")
        return None
    chosen = device_with(device, threads)
    return Place(measured_device(chosen, None), threads or (None if level is None or chosen.cores is None else 1))


def _executed(
    model: object,
    own: Subject,
    chosen: Sequence[Rule],
    place: Place,
    level: str,
    keywords: object,
    progress: Callable[[str], None],
    threads: int,
) -> tuple[list[Suggestion], list[str]]:
    """The same result on the graph that the engine executes, what is left on the model's own layers; and notes.

    With a number of threads, changes of the same result are measured.
    """
    from flopwise.analyses.advice.measured import executed

    options = engine_options("onnxruntime", level, 1)
    with file_of(model, own.profile, keywords, progress) as path:
        progress("optimising with onnxruntime")
        with executed(path, own.profile, options) as (subject, saved, names):
            whole = total(of_profile(subject.profile, place).values())
            suggestions = suggestions_of(subject, [r for r in chosen if r.of_executed], place, names, whole)
            notes: list[str] = []
            if threads:
                suggestions, notes = _measured(saved, subject, suggestions, threads, progress)
            for kind, base in (("other", whole), ("same", None)):
                asked = [r for r in chosen if not r.of_executed and r.exactness == kind]
                suggestions += suggestions_of(own, asked, place, whole=base)
    return sorted(suggestions, key=lambda each: -each.share), notes


def _convention(place: Place | None, train: bool = False) -> str:
    """In a line, what the figures mean."""
    counts = "bytes: what each operator reads and writes"
    if train:
        return f"MACs: of both passes; {counts} in the forward pass; kept: activations for the backward pass"
    if place is None:
        return f"{counts}; times need --device or --level"
    return f"{counts}; times: by the roofline of {place.device.name}, row by row, an estimate"
