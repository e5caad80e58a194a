"""The store of measurements: one SQLite file, to which sessions only add.

A bound takes the least time over all sessions of one environment: a floor can only fall. Several processes may write.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeAlias

from flopwise._results import Json
from flopwise.analyses.timing.benchmark import Executed, Session
from flopwise.analyses.timing.device import Peak
from flopwise.analyses.timing.machine import Environment, canonical, digest
from flopwise.errors import InputError

# The values of texts in a store. Anybody may have written into it: each is checked before it is believed.


class PoisonedError(ValueError):
    """A text is none that flopwise writes; the message names its column and says why."""


def environment_of(text: str) -> Environment:
    """The environment of ``environment.facts``.

    Raises:
        PoisonedError: it is none.
    """
    facts = _decoded("environment.facts", text)
    if not (isinstance(facts, Mapping) and all(isinstance(facts.get(part), Mapping) for part in ("machine", "engine"))):
        raise PoisonedError("environment.facts: names no machine and engine")
    return Environment(facts)


def nodes_of(text: str) -> tuple[Executed, ...]:
    """The executed nodes of ``program.nodes``.

    Raises:
        PoisonedError: they are none.
    """
    try:
        return tuple(map(Executed.from_dict, _decoded("program.nodes", text)))
    except TypeError as error:
        raise PoisonedError(f"program.nodes: {error}") from error


def notes_of(text: str) -> tuple[str, ...]:
    """The notes of ``program.notes``.

    Raises:
        PoisonedError: they are none.
    """
    notes = _decoded("program.notes", text)
    if not (isinstance(notes, list) and all(isinstance(note, str) for note in notes)):
        raise PoisonedError("program.notes: is no list of texts")
    return tuple(notes)


def _decoded(column: str, text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise PoisonedError(f"{column}: is no JSON, {type(error).__name__}") from error


#: The variable that names another file.
VARIABLE = "FLOPWISE_STORE"

#: Seconds to wait for another process that writes.
WAIT = 5.0

#: Version of the tables.
VERSION = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS environment (id TEXT PRIMARY KEY, facts TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS benchmark (
  id TEXT PRIMARY KEY, op TEXT NOT NULL, dtype TEXT NOT NULL, macs INT, flops INT, bytes INT) STRICT;
CREATE TABLE IF NOT EXISTS session (
  id INTEGER PRIMARY KEY, environment TEXT NOT NULL REFERENCES environment, started TEXT NOT NULL, seconds REAL,
  flopwise TEXT NOT NULL, noise REAL, cpu_share REAL, verdict TEXT, rounds INT, facts TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS measurement (
  benchmark TEXT NOT NULL REFERENCES benchmark, session INT NOT NULL REFERENCES session, mode TEXT NOT NULL,
  status TEXT NOT NULL, best_ns REAL, median_ns REAL, spread REAL, runs INT, null_ns REAL, cpu_ns REAL, note TEXT,
  PRIMARY KEY (benchmark, session, mode)) STRICT;
CREATE TABLE IF NOT EXISTS whole (
  model TEXT NOT NULL, inputs TEXT NOT NULL, session INT NOT NULL REFERENCES session, best_ns REAL, other_ns REAL,
  median_ns REAL, cpu_ns REAL, PRIMARY KEY (model, inputs, session)) STRICT;
CREATE TABLE IF NOT EXISTS program (
  model TEXT NOT NULL, inputs TEXT NOT NULL, environment TEXT NOT NULL REFERENCES environment, nodes TEXT NOT NULL,
  notes TEXT NOT NULL, PRIMARY KEY (model, inputs, environment)) STRICT;
CREATE TABLE IF NOT EXISTS peak (
  machine TEXT NOT NULL, what TEXT NOT NULL, dtype TEXT, value REAL NOT NULL, core REAL, unit TEXT NOT NULL,
  source TEXT NOT NULL, started TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS by_session ON measurement (session);
CREATE VIEW IF NOT EXISTS best AS
  SELECT m.benchmark, s.environment, m.mode, min(m.best_ns) AS best_ns, count(*) AS sessions, max(s.started) AS last
  FROM measurement m JOIN session s ON s.id = m.session WHERE m.status IN ('ok', 'noisy') GROUP BY 1, 2, 3;
"""


#: Whether SQLite checks the types of columns; older ones do not know the word.
_STRICT = sqlite3.sqlite_version_info >= (3, 37)


@dataclass(frozen=True, slots=True)
class Whole:
    """Times of a whole model in one session."""

    session: int
    best_ns: float
    noise: float
    verdict: str
    started: str


@dataclass(frozen=True, slots=True)
class Record:
    """A model in one environment, as the store knows it."""

    environment: Environment
    nodes: tuple[Executed, ...]
    #: (key, mode) -> least time in nanoseconds, and of how many sessions.
    best: Mapping[tuple[str, str], tuple[float, int]]
    #: Key -> why there is no time: "timeout", "memory", "unsupported", "crashed".
    failed: Mapping[str, str]
    wholes: tuple[Whole, ...]
    notes: tuple[str, ...]
    #: Other environments of the same machine: what they are, and the least time of the whole.
    others: tuple[tuple[str, float], ...] = ()


def default_path() -> Path:
    """Where the store is: FLOPWISE_STORE, or the user's data folder."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    elif os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home()))
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "flopwise" / "times.sqlite"


class Store:
    """An open store; a context manager that closes it.

    Raises:
        InputError: the file is not a store, is of a newer version, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, create: bool = True) -> None:
        self.path = Path(path) if path is not None else default_path()
        try:
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            uri = f"{self.path.resolve().as_uri()}?mode={'rwc' if create else 'ro'}"
            self.database = sqlite3.connect(uri, timeout=WAIT, uri=True)
            with self.guarded():
                version = self.database.execute("PRAGMA user_version").fetchone()[0]
                if version > VERSION:
                    raise InputError(f"{self.path}: was written by a newer flopwise (version {version} of the store)")
                if create:
                    self.database.execute("PRAGMA journal_mode = WAL")
                    self.database.executescript(_TABLES if _STRICT else _TABLES.replace(" STRICT;", ";"))
                    self.database.execute(f"PRAGMA user_version = {VERSION}")
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{self.path}: {_why(error)}") from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def put(self, session: Session) -> int:
        """Add a session; its number.

        Raises:
            InputError: the store is locked, or the disk is full.
        """
        environment = Environment(session.environment)
        from flopwise._version import __version__

        of_model = {"model": session.model, "inputs": session.inputs}
        one, other = session.whole_ns
        times = {"best_ns": one, "other_ns": other, "median_ns": session.median_ns, "cpu_ns": session.cpu_ns}
        own = ("started", "seconds", "noise", "cpu_share", "verdict", "rounds")
        program = {
            "environment": environment.id,
            "nodes": canonical([asdict(n) for n in session.executed]),
            "notes": canonical(list(session.notes)),
        }
        with self.guarded(), self.database:
            self.insert("environment", {"id": environment.id, "facts": canonical(environment.facts)}, "OR IGNORE")
            for node in {n.key: n for n in session.executed if not n.alias}.values():
                work = {"dtype": "×".join(node.dtypes), "macs": node.macs, "flops": node.flops, "bytes": node.nbytes}
                self.insert("benchmark", {"id": node.key, "op": node.op, **work}, "OR IGNORE")
            facts: Json = {"flopwise": __version__, "facts": canonical(dict(session.facts))}
            facts |= {"id": None, "environment": environment.id, **{name: getattr(session, name) for name in own}}
            number = self.insert("session", facts)
            for measurement in session.measurements:
                figures = asdict(measurement)
                self.insert("measurement", {"benchmark": figures.pop("key"), "session": number, **figures})
            self.insert("whole", {**of_model, "session": number, **times})
            self.insert("program", {**of_model, **program}, "OR REPLACE")
        return number

    def insert(self, table: str, row: Mapping[str, object], how: str = "") -> int:
        """Add a row, which has every column of its table; its number.

        Raises:
            KeyError: it lacks one, or has another.
        """
        columns = [column[1] for column in self.database.execute(f"PRAGMA table_info({table})")]
        if {*row} != {*columns}:
            raise KeyError(f"{table} has the columns {', '.join(columns)}")
        marks = ",".join("?" * len(columns))
        values = [row[column] for column in columns]
        return int(self.database.execute(f"INSERT {how} INTO {table} VALUES ({marks})", values).lastrowid or 0)

    def find(self, model: str, inputs: str, target: Environment) -> Record | None:
        """The record of a model in an environment; None when it was never measured there."""
        with self.guarded():
            rows = self.database.execute(
                "SELECT p.environment, e.facts, p.nodes, p.notes FROM program p JOIN environment e"
                " ON e.id = p.environment WHERE p.model = ? AND p.inputs = ? ORDER BY p.rowid DESC",
                (model, inputs),
            ).fetchall()
            for identity, facts, nodes, notes in rows:
                environment = environment_of(facts)
                if environment.matches(target):
                    executed = nodes_of(nodes)
                    keys = {n.key for n in executed}
                    failed = self._statuses(identity, "NOT IN ('ok', 'noisy')")
                    return Record(
                        environment,
                        executed,
                        self._best(identity, keys),
                        {key: status for key, status in failed.items() if key in keys},
                        self._wholes(model, inputs, identity),
                        notes_of(notes),
                        self._others(model, inputs, environment),
                    )
        return None

    def failures(self, environment: str) -> dict[str, str]:
        """Keys that failed in an environment in a way that costs time or memory to see again, and how."""
        with self.guarded():
            return self._statuses(environment, "IN ('timeout', 'memory', 'crashed')")

    def put_peaks(self, machine: str, peaks: Iterable[Peak]) -> None:
        """Add measured figures of a machine.

        Raises:
            InputError: the store is locked, or the disk is full.
        """
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with self.guarded(), self.database:
            for peak in peaks:
                figures = {name: getattr(peak, name) for name in ("what", "dtype", "value", "core", "unit", "source")}
                self.insert("peak", {"machine": machine, **figures, "started": started})

    def peaks(self, machine: str) -> tuple[Peak, ...]:
        """The highest measured figure of each kind of a machine."""
        with self.guarded():
            rows = self.database.execute(
                "SELECT what, dtype, max(value), core, unit, source FROM peak WHERE machine = ? GROUP BY what, dtype",
                (machine,),
            ).fetchall()
        return tuple(
            Peak(what, dtype, value, unit, "measured", source, core=core)
            for what, dtype, value, core, unit, source in rows
        )

    def rates(self, environments: Sequence[str]) -> dict[str, tuple[float, str]]:
        """Element type -> the highest FLOP/s that a benchmark reached in some environments, and its operator."""
        marks = ",".join("?" * len(environments))
        with self.guarded():
            rows = self.database.execute(
                "SELECT b.dtype, max(2e9 * b.macs / v.best_ns), b.op FROM best v JOIN benchmark b ON b.id = v.benchmark"
                " WHERE v.mode = 'hot' AND b.macs > 0 AND v.best_ns > 0 AND b.dtype NOT LIKE '%×%' AND b.dtype != ''"
                f" AND v.environment IN ({marks}) GROUP BY b.dtype",
                list(environments),
            )
            return {dtype: (float(rate), str(op)) for dtype, rate, op in rows}

    def environments(self) -> dict[str, Environment]:
        """Every environment by its identity."""
        with self.guarded():
            rows = self.database.execute("SELECT id, facts FROM environment").fetchall()
            return {identity: environment_of(facts) for identity, facts in rows}

    def _best(self, environment: str, keys: set[str]) -> dict[tuple[str, str], tuple[float, int]]:
        rows = self.database.execute(
            "SELECT benchmark, mode, best_ns, sessions FROM best WHERE environment = ?", (environment,)
        )
        return {(key, mode): (ns, count) for key, mode, ns, count in rows if key in keys and ns is not None}

    def _statuses(self, environment: str, which: str) -> dict[str, str]:
        return dict(
            self.database.execute(
                "SELECT m.benchmark, m.status FROM measurement m JOIN session s ON s.id = m.session"
                f" WHERE s.environment = ? AND m.status {which}",
                (environment,),
            ).fetchall()
        )

    def _wholes(self, model: str, inputs: str, environment: str) -> tuple[Whole, ...]:
        rows = self.database.execute(
            "SELECT w.session, min(w.best_ns, w.other_ns), s.noise, s.verdict, s.started FROM whole w JOIN session s"
            " ON s.id = w.session WHERE w.model = ? AND w.inputs = ? AND s.environment = ? ORDER BY s.started",
            (model, inputs, environment),
        )
        return tuple(Whole(*row) for row in rows if row[1])

    def _others(self, model: str, inputs: str, own: Environment) -> tuple[tuple[str, float], ...]:
        rows = self.database.execute(
            "SELECT e.facts, min(min(w.best_ns, w.other_ns)) FROM whole w JOIN session s ON s.id = w.session"
            " JOIN environment e ON e.id = s.environment WHERE w.model = ? AND w.inputs = ? GROUP BY e.id ORDER BY 2",
            (model, inputs),
        )
        others = []
        for facts, best in rows:
            other = environment_of(facts)
            if other.facts["machine"] == own.facts["machine"] and other.id != own.id and best:
                engine = other.facts["engine"]
                plural = "" if engine.get("threads") == 1 else "s"
                label = f"{engine.get('name')} {engine.get('version')}, {engine.get('level')}"
                others.append((f"{label}, {engine.get('threads')} thread{plural}", float(best)))
        return tuple(others)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Turns what SQLite refuses, and what nobody of flopwise has written, into one clear line.

        Raises:
            InputError: the store is locked, the disk is full, or the file is not a store or holds a poisoned row.
        """
        try:
            yield
        except PoisonedError as error:
            what = f"holds a row that no flopwise has written ({error}); move the file away and measure again"
            raise InputError(f"{self.path}: {what}") from error
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: {_why(error)}") from error


def _why(error: Exception) -> str:
    """The trouble with a store, in words."""
    if isinstance(error, OSError):
        return f"cannot be opened ({error.strerror})"
    text = str(error)
    if "locked" in text or "busy" in text:
        return "another process is writing to this store; try again"
    if "not a database" in text:
        return "is not a store of measurements"
    if "full" in text:
        return "the disk is full"
    if "unable to open" in text:
        return "cannot be opened"
    return f"the store cannot be used ({text})"


# Measurements from one store to another: every row as a plain value, and refused where its facts are not its own.


#: Column -> value.
Row: TypeAlias = dict[str, Any]

#: Tables in the order in which an export writes and an import reads them.
_ORDER = ("environment", "benchmark", "session", "measurement", "whole", "program")


def export(store: Store) -> list[Row]:
    """Every row of every table as a plain value, with its table under "table"."""
    rows = []
    with store.guarded():
        for table in _ORDER:
            cursor = store.database.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            rows += [{"table": table, **dict(zip(names, row, strict=True))} for row in cursor]
    return rows


def take(store: Store, rows: Iterable[Row]) -> int:
    """Add exported rows; how many sessions were new.

    Raises:
        InputError: an environment does not match its digest, a row is damaged, or the store is locked.
    """
    tables: dict[str, list[Row]] = {table: [] for table in _ORDER}
    for row in rows:
        if row.get("table") not in tables:
            raise InputError(f"no table is named {row.get('table')!r}")
        tables[row["table"]].append({k: v for k, v in row.items() if k != "table"})
    try:
        environments = _checked_environments(tables["environment"])
        if any(row["environment"] not in environments for row in tables["session"]):
            raise InputError("a session belongs to an environment that the file does not contain")
        for row in tables["program"]:
            nodes_of(row["nodes"])
            notes_of(row["notes"])
        with store.guarded(), store.database:
            return _insert(store, tables, environments)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"a row is damaged: {type(error).__name__} {error}") from error


def _checked_environments(rows: Sequence[Row]) -> set[object]:
    """The identities of environments.

    Raises:
        InputError: the facts of one are not its own.
    """
    for row in rows:
        if _digest_of(row.get("facts")) != row.get("id"):
            raise InputError(f"the environment {str(row.get('id'))[:12]} does not match its digest")
        environment_of(row["facts"])
    return {row["id"] for row in rows}


def _insert(store: Store, tables: Mapping[str, Iterable[Row]], environments: set[object]) -> int:
    """Add the rows that the store lacks; the number of sessions among them."""
    for table in ("environment", "benchmark"):
        for row in tables[table]:
            store.insert(table, row, "OR IGNORE")
    sessions = [row for row in tables["session"] if not _has(store, row)]
    numbers = {row["id"]: store.insert("session", {**row, "id": None}) for row in sessions}
    for table in ("measurement", "whole"):
        for row in tables[table]:
            if row["session"] in numbers:
                store.insert(table, {**row, "session": numbers[row["session"]]})
    for row in tables["program"]:
        if row["environment"] in environments:
            store.insert("program", row, "OR IGNORE")
    return len(numbers)


def _has(store: Store, row: Row) -> bool:
    same = "SELECT 1 FROM session WHERE environment = ? AND started = ? AND seconds IS ? AND noise IS ?"
    values = (row["environment"], row["started"], row["seconds"], row["noise"])
    return store.database.execute(same, values).fetchone() is not None


def _digest_of(facts: Any) -> str | None:
    try:
        return digest(json.loads(facts))
    except (TypeError, ValueError, RecursionError):
        return None
