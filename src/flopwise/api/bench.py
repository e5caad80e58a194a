"""``flopwise.bench``: measure a model with an engine on this machine, and keep the figures."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flopwise._arguments import Arguments, checked
from flopwise.analyses.timing.bound import Bound
from flopwise.api import places
from flopwise.api.bound import digests, engine_options, this_environment
from flopwise.api.profile import profile
from flopwise.api.runnable import check_runnable, file_of
from flopwise.errors import InputError
from flopwise.formats.options import Keywords
from flopwise.formats.table import format_of
from flopwise.profiles.profile import Profile

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.analyses.timing.benchmark import Session
    from flopwise.analyses.timing.engines import Options
    from flopwise.analyses.timing.store import Record


@dataclass(frozen=True, slots=True)
class Benched:
    """A session, and the bound that follows from all sessions of its environment."""

    session: Session
    bound: Bound
    #: Why the session is not in the store; "" when it is.
    unsaved: str = ""


@checked
def bench(
    model: object,
    inputs: object = None,
    *,
    engine: str = "onnxruntime",
    optimization: str = "all",
    threads: int = 1,
    seconds: float | None = None,
    missing: bool = False,
    retry: bool = False,
    only: str | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] = lambda step: None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    **keywords: Unpack[Keywords],
) -> Benched:
    """Measure a model: the whole, and each node that the engine executes, in interleaved rounds.

    Args:
        model: path of an ONNX file, or a PyTorch module or its name, which is exported first.
        inputs: as in ``flopwise.read``.
        engine: "onnxruntime".
        optimization: level of the engine: "off", "basic", "extended" or "all".
        threads: threads of the engine.
        seconds: how long rounds go on at most; None: 30.
        missing: whether nodes that the store has times of are left out.
        retry: whether nodes that timed out, crashed or ran out of memory before are run again.
        only: an operator; other nodes are left out.
        store: file of the store; None: FLOPWISE_STORE or the user's data folder.
        progress: called with the name of each step.
        dims: as in ``flopwise.read``.
        batch_size: as in ``flopwise.read``.
        keywords: as in ``flopwise.read``.

    Raises:
        ModelError: the model cannot be read, or the engine refuses it.
        InputError: the engine is not installed, or an option is unknown.
    """
    from flopwise.analyses.timing import bench as benches
    from flopwise.analyses.timing.store import Store

    places.check({"store=": store}, model, inputs)
    options = engine_options(engine, optimization, threads)
    seconds = benches.SECONDS if seconds is None else seconds
    sizes: Arguments = {"dims": dims, "batch_size": batch_size}
    check_runnable(model)
    counted = profile(model, inputs, progress=progress, **sizes, **keywords)
    with file_of(model, counted, keywords, progress) as path:
        file = counted if format_of(model).name == "onnx" else profile(path)
        records, trouble = None, ""
        try:
            records = Store(store)
        except InputError as error:  # a measurement is shown all the same
            trouble = str(error)
        with records or contextlib.nullcontext():
            environment = this_environment(engine, options)
            record = records.find(*digests(counted), environment) if records else None
            skip = dict(record.failed) if record and not retry else {}
            nodes = record.nodes if record else ()
            chosen = None
            if missing and record:
                chosen = [n.key for n in nodes if (n.key, "hot") not in record.best]
            if only is not None:
                chosen = _operator_keys(only, nodes, chosen, engine, path, file, options, progress)
            session = benches.bench(
                file, path, engine, options, seconds, skip, chosen, report=progress, identity=counted
            )
            stored = None
            if records is not None:
                try:
                    records.put(session)
                    stored = records.find(session.model, session.inputs, environment)
                except InputError as error:
                    trouble = str(error)
    return Benched(session, bound_of(counted, stored or record_of(session), threads), trouble)


def measure_device(
    store: str | os.PathLike[str] | None = None, progress: Callable[[str], None] = lambda step: None
) -> str:
    """Measure this machine's CPU and store its figures; why they could not be stored, "" when they were.

    Raises:
        InputError: the figures can neither be stored nor shown.
    """
    from flopwise.analyses.timing import peaks
    from flopwise.analyses.timing.machine import this_cpu
    from flopwise.analyses.timing.store import Store

    measured = list(peaks.measured_peaks(progress))
    try:
        with Store(store) as records:
            machine = peaks.machine_id()
            here = {i: e for i, e in records.environments().items() if peaks.is_here(e, machine)}
            single = [i for i, e in here.items() if e.facts["engine"].get("threads") == 1]
            measured += peaks.reached(records.rates(single), this_cpu().cores)
            records.put_peaks(machine, measured)
    except InputError as error:
        return str(error)
    return ""


def bound_of(counted: Profile, record: Record, threads: int) -> Bound:
    """The bound of a model from its record."""
    from flopwise.analyses.timing.bound import physical_bound
    from flopwise.analyses.timing.engine import with_engine
    from flopwise.analyses.timing.machine import this_cpu

    return with_engine(physical_bound(counted, this_cpu(), threads), record)


def record_of(session: Session) -> Record:
    """A session as the store would hand it out."""
    from flopwise.analyses.timing.machine import Environment
    from flopwise.analyses.timing.store import Record, Whole

    measured = session.measurements
    return Record(
        Environment(session.environment),
        session.executed,
        {(m.key, m.mode): (m.best_ns, 1) for m in measured if m.status == "ok" and m.best_ns is not None},
        {m.key: m.status for m in measured if m.status != "ok"},
        (Whole(0, session.best_ns, session.noise, session.verdict, session.started),),
        tuple(session.notes),
    )


def _operator_keys(
    only: str,
    nodes: Any,
    chosen: list[str] | None,
    engine: str,
    path: str,
    counted: Profile,
    options: Options,
    progress: Callable[[str], None],
) -> list[str]:
    """The keys of an operator; a model that was never measured is looked at first."""
    if not nodes:
        from flopwise.analyses.timing import bench as benches

        nodes = benches.bench(counted, path, engine, options, 0.0, {}, [], report=progress).executed
    keys = {n.key for n in nodes if only in (n.op, n.op.rpartition("::")[2])}
    if not keys:
        ops = sorted({n.op for n in nodes})
        raise InputError(f"the engine executes no {only!r}; it executes {', '.join(ops)}")
    return sorted(keys if chosen is None else keys.intersection(chosen))
