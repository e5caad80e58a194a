"""``flopwise.bound`` and ``flopwise.devices``: the least time of a model on a device, and the devices there are.

Here the public functions also open the store of measured figures, and identify a model and an engine in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flopwise._arguments import Arguments, checked
from flopwise.analyses.timing.bound import Bound, physical_bound
from flopwise.analyses.timing.device import Device
from flopwise.api.profile import given_profile, profile
from flopwise.errors import InputError
from flopwise.formats.options import Keywords
from flopwise.graph.dtypes import BITS, canonical
from flopwise.graph.typed import in_type
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.analyses.timing.engines import Options
    from flopwise.analyses.timing.machine import Environment
    from flopwise.analyses.timing.store import Record, Store


#: Types that ``dtype`` gives all floating-point tensors; in others, such as tfloat32, only products are computed.
STORED_AS = frozenset(("float16", "bfloat16", "float32", "float64"))


@checked
def bound(
    model: object,
    inputs: object = None,
    *,
    device: str | Device | None = None,
    threads: int | None = None,
    winograd: bool = False,
    dtype: str | None = None,
    engine: str | None = None,
    optimization: str = "all",
    store: str | os.PathLike[str] | None = None,
    tries: Sequence[str] = (),
    progress: Callable[[str], None] = lambda step: None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    **keywords: Unpack[Keywords],
) -> Bound:
    """The least time that a model takes on a device, row by row and in all; nothing runs, unless something is tried.

    Of this machine's CPU the store may hold what an engine's own nodes took: then the bound also has that engine's
    floor and the measured whole (see ``flopwise.bench``).

    Args:
        model: as in ``flopwise.profile``, or a Profile.
        inputs: as in ``flopwise.read``.
        device: a device of ``flopwise devices``, by name; None for this machine's CPU.
        threads: cores of a CPU that are used; None means all.
        winograd: whether 3x3 convolutions of stride 1 may take 2.25 times fewer multiplications.
        dtype: element type of all floating-point tensors, such as "float16"; one that products alone are computed in,
            such as "tfloat32" and "float8", leaves the tensors as they are. None: the model's own.
        engine: an engine whose measurements are wanted; None: onnxruntime, where there are any and no device is named.
        optimization: the engine's optimisation level.
        store: file of the store; None: FLOPWISE_STORE or the user's data folder.
        tries: changes such as "level=off", "threads=2", "layout=nchw", "batch=8" and "dtype=int8", each of which is run
            here with onnxruntime in turns with the model as it is; batches and types are estimated, too.
        progress: as in ``flopwise.read``.
        dims: as in ``flopwise.read``.
        batch_size: as in ``flopwise.read``.
        keywords: as in ``flopwise.read``.

    Raises:
        ModelError: the model cannot be read.
        InputError: the device or the element type is unknown, or the device has no rates.
    """
    from flopwise.analyses.timing.engine import with_engine
    from flopwise.analyses.timing.whatif import tries_of

    chosen = device_with(device, threads)
    changes = tries_of(tries, ("level", "threads", "layout", "batch", "dtype"))
    if changes and chosen.id != "cpu":
        raise InputError(f"--try runs on this machine's CPU, not on {chosen.name}: leave --device out")
    reading: Arguments = {"inputs": inputs, "dims": dims, "batch_size": batch_size, **keywords}
    counted = (
        given_profile(model, reading) if isinstance(model, Profile) else profile(model, progress=progress, **reading)
    )
    computed = products_dtype(dtype)
    if computed is not None and computed in STORED_AS:
        as_of = in_type(counted.graph, computed)
        counted = profile_graph(as_of, counted.convention, counted.rules, counted.folding)
    progress("comparing with the device")
    if engine is not None and chosen.id != "cpu":
        raise InputError(f"--engine measures this machine's CPU and not {chosen.name}: leave --device out")
    check_level(optimization)
    record, note = None, ""
    if engine is not None or (chosen.id == "cpu" and dtype is None and not winograd):
        record, note = _record(counted, engine or "onnxruntime", optimization, threads or 1, store, engine is not None)
    if record is not None:
        result = with_engine(physical_bound(counted, measured_device(chosen, store), threads or 1), record)
    else:
        result = physical_bound(counted, measured_device(chosen, store), threads, winograd, computed)
    notes = [*result.notes, *filter(None, [note])]
    if changes:
        from flopwise.api.tries import tried

        options = engine_options("onnxruntime", optimization, threads or 1)
        found, more = tried(model, counted, changes, result.device, options, reading, progress)
        result, notes = replace(result, tried=tuple(found)), [*notes, *more]
    return replace(result, notes=tuple(notes))


def device_with(device: str | Device | None, threads: int | None) -> Device:
    """The device of a name, else this machine's CPU.

    Raises:
        InputError: there is none of that name, it has not so many threads, or it is a microcontroller.
    """
    from flopwise.analyses.timing import machine

    chosen = device if isinstance(device, Device) else machine.named(device)
    if chosen.kind == "mcu":
        raise InputError(
            f"{chosen.name} has no rates, so no time follows; "
            f"flopwise memory --device {chosen.id} holds a model against its memory"
        )
    if threads is not None and chosen.kind != "cpu":
        raise InputError(f"{threads} threads are of a CPU, which {chosen.name} is not")
    if threads is not None and (threads < 1 or (chosen.cores is not None and threads > chosen.cores)):
        raise InputError(f"{threads} threads: {chosen.name} has {chosen.cores or 'no known number of'} cores")
    return chosen


def check_level(level: str) -> None:
    """Refuse a level of optimisation that engines do not have.

    Raises:
        InputError: it is unknown.
    """
    from flopwise.analyses.timing.engines import LEVELS

    if level not in LEVELS:
        raise InputError(f"unknown level {level!r}; choose {', '.join(LEVELS)}")


def measured_device(device: Device, path: str | os.PathLike[str] | None) -> Device:
    """This machine's CPU with the figures that were measured on it; another device as it is."""
    if device.id != "cpu":
        return device
    try:
        records = open_store(path)
    except InputError:
        return device
    if records is None:
        return device
    from flopwise.analyses.timing.peaks import machine_id

    with records:
        return device.with_peaks(records.peaks(machine_id()))


def _record(
    counted: Profile, engine: str, level: str, threads: int, path: str | os.PathLike[str] | None, file: bool
) -> tuple[Record | None, str]:
    """The stored measurements of a model, and the note for a model without any.

    Raises:
        InputError: an engine was asked for that is unknown or not installed, or whose level is unknown.
    """
    try:
        options = engine_options(engine, level, threads)
        records = open_store(path)
    except InputError as error:
        if file:
            raise
        return None, f"from the device's figures alone: {error}"
    record = None
    if records is not None:
        with records:
            record = records.find(*digests(counted), this_environment(engine, options))
    if record is None:
        return (
            None,
            f"nothing of this model was measured with {engine} ({level}, threads: {threads}): flopwise bench does",
        )
    return record, ""


@checked
def devices(name: str | None = None, *, store: str | os.PathLike[str] | None = None) -> tuple[Device, ...]:
    """This machine's devices and those of the tables; with a name, the one device of that name.

    Args:
        name: as in ``flopwise devices NAME``.
        store: file of the store, for figures that were measured here; None: FLOPWISE_STORE or the user's data folder.

    Raises:
        InputError: no device goes by that name.
    """
    from flopwise.analyses.timing import catalog, machine

    if name is not None:
        return (measured_device(machine.named(name), store),)
    return *(measured_device(device, store) for device in machine.present()), *catalog.devices()


def engine_options(engine: str, level: str, threads: int) -> Options:
    """The options of an engine.

    Raises:
        InputError: the engine or the level is unknown, or the engine is not installed.
    """
    from flopwise.analyses.timing.engines import Options, known_version

    known_version(engine)
    check_level(level)
    if threads < 1:
        raise InputError(f"{threads} threads: give 1 or more")
    return Options(level, threads)


def this_environment(engine: str, options: Options) -> Environment:
    """The environment of an engine on this machine, as far as it is known before the engine runs."""
    from flopwise.analyses.timing.engines import early_facts
    from flopwise.analyses.timing.machine import environment

    return environment(early_facts(engine, options))


def digests(counted: Profile) -> tuple[str, str]:
    """Digests of a model and of its inputs, which identify them in the store."""
    from flopwise.analyses.timing.bench import inputs_digest, model_digest

    return model_digest(counted.graph), inputs_digest(counted.graph)


def open_store(path: str | os.PathLike[str] | None) -> Store | None:
    """The store for reading; None when there is none yet.

    Raises:
        InputError: the file is not a store.
    """
    from flopwise.analyses.timing.store import Store, default_path

    if not Path(path if path is not None else default_path()).exists():
        return None
    return Store(path, create=False)


def products_dtype(name: str | None) -> str | None:
    """The canonical name of an element type of products; TF32 is one of arithmetic alone.

    Raises:
        InputError: there is no such type.
    """
    if name is None or name.lower() in ("tf32", "tfloat32"):
        return name and "tfloat32"
    if name.lower() in ("fp8", "float8"):
        return "float8e4m3fn"
    if name.lower() in ("fp4", "float4"):
        return "float4e2m1"
    dtype = canonical(name)
    if BITS[dtype] == 0:
        raise InputError(f"no device computes in {dtype}")
    return dtype
