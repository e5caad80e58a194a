"""The store of measured figures, as the public functions open it, and what identifies a model and an engine in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from flopwise.errors import InputError
from flopwise.profiles.profile import Profile

if TYPE_CHECKING:
    from flopwise.analyses.timing.engines import Options
    from flopwise.analyses.timing.environment import Environment
    from flopwise.analyses.timing.store import Store


def engine_options(engine: str, level: str, threads: int) -> Options:
    """The options of an engine.

    Raises:
        InputError: the engine or the level is unknown, or the engine is not installed.
    """
    from flopwise.analyses.timing.engines import LEVELS, Options, known_version

    known_version(engine)
    if level not in LEVELS:
        raise InputError(f"unknown level {level!r}; choose {', '.join(LEVELS)}")
    if threads < 1:
        raise InputError(f"{threads} threads: give 1 or more")
    return Options(level, threads)


def this_environment(engine: str, options: Options) -> Environment:
    """The environment of an engine on this machine, as far as it is known before the engine runs."""
    from flopwise.analyses.timing.engines import early_facts
    from flopwise.analyses.timing.environment import environment

    return environment(early_facts(engine, options))


def digests(counted: Profile) -> tuple[str, str]:
    """What identifies a model and its inputs in the store."""
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
