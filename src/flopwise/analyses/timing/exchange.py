"""Measurements from one store to another: every row as a plain value, and refused where its facts are not its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from flopwise.analyses.timing.environment import digest
from flopwise.analyses.timing.store import Store
from flopwise.analyses.timing.stored import environment_of, nodes_of, notes_of
from flopwise.errors import InputError

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
