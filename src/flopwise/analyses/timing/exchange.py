"""Measurements from one store to another: every row as a plain value, and refused where its facts are not its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.environment import digest
from flopwise.analyses.timing.store import Store
from flopwise.errors import InputError

#: Tables in the order in which an export writes and an import reads them.
_ORDER = ("environment", "benchmark", "session", "measurement", "whole", "program")


def export(store: Store) -> list[dict[str, Any]]:
    """Every row of every table as a plain value, with its table under "table"."""
    rows = []
    with store.guarded():
        for table in _ORDER:
            cursor = store.database.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            rows += [{"table": table, **dict(zip(names, row, strict=True))} for row in cursor]
    return rows


def take(store: Store, rows: Iterable[Mapping[str, Any]]) -> int:
    """Add exported rows; how many sessions were new.

    Raises:
        InputError: an environment does not match its digest, a row is damaged, or the store is locked.
    """
    tables: dict[str, list[dict[str, Any]]] = {table: [] for table in _ORDER}
    for row in rows:
        if row.get("table") not in tables:
            raise InputError(f"no table is named {row.get('table')!r}")
        tables[row["table"]].append({k: v for k, v in row.items() if k != "table"})
    for row in tables["environment"]:
        if _digest_of(row.get("facts")) != row.get("id"):
            raise InputError(f"the environment {str(row.get('id'))[:12]} does not match its digest")
    ids = {row["id"] for row in tables["environment"]}
    numbers: dict[Any, int] = {}
    try:
        with store.guarded(), store.database:
            for table in ("environment", "benchmark"):
                for row in tables[table]:
                    store.insert(table, row, "OR IGNORE")
            for row in tables["session"]:
                if row["environment"] not in ids:
                    raise InputError("a session belongs to an environment that the file does not contain")
                if _has(store, row):
                    continue
                numbers[row["id"]] = store.insert("session", {**row, "id": None})
            for table in ("measurement", "whole"):
                for row in tables[table]:
                    if row["session"] in numbers:
                        store.insert(table, {**row, "session": numbers[row["session"]]})
            for row in tables["program"]:
                if row["environment"] in ids:
                    [Executed.from_dict(node) for node in json.loads(row["nodes"])]
                    store.insert("program", row, "OR IGNORE")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"a row is damaged: {type(error).__name__} {error}") from error
    return len(numbers)


def _has(store: Store, row: Mapping[str, Any]) -> bool:
    same = "SELECT 1 FROM session WHERE environment = ? AND started = ? AND seconds IS ? AND noise IS ?"
    values = (row["environment"], row["started"], row["seconds"], row["noise"])
    return store.database.execute(same, values).fetchone() is not None


def _digest_of(facts: Any) -> str | None:
    try:
        return digest(json.loads(facts))
    except (TypeError, ValueError):
        return None
