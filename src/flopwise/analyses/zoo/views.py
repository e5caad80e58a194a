"""The views of a data set in SQL, by DuckDB."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from flopwise.analyses.zoo.dataset import check
from flopwise.errors import InputError

if TYPE_CHECKING:
    import duckdb

#: Longest chain of layers in the view ``chains``.
LONGEST = 5

#: What makes two layers the same.
_SAME = "op, attributes, inputs, outputs, weights, dtypes"

#: View -> its query; they come in this order, because later ones use earlier ones.
VIEWS: dict[str, str] = {
    "all_models": "SELECT * FROM read_parquet('{folder}/models/*.parquet')",
    "models": "SELECT * FROM all_models WHERE status = 'ok'",
    "failures": "SELECT name, model, error, seconds FROM all_models WHERE status <> 'ok'",
    "layers": "SELECT * FROM read_parquet('{folder}/layers/*.parquet')",
    "unique_layers": f"""
        SELECT {_SAME}, count(*) AS layers, count(DISTINCT model) AS models, any_value(macs) AS macs_each,
               sum(macs * coalesce(times, 1)) AS macs,
               100.0 * sum(macs * coalesce(times, 1)) / nullif((SELECT sum(macs * coalesce(times, 1)) FROM layers), 0)
                   AS macs_percent
        FROM layers GROUP BY {_SAME} ORDER BY layers DESC, macs DESC""",
    "census": """
        SELECT op, l.family, m.year, count(*) AS layers, count(DISTINCT l.model) AS models, sum(l.macs) AS macs,
               sum(l.params) AS params
        FROM layers l JOIN models m ON m.name = l.model GROUP BY op, l.family, m.year ORDER BY layers DESC""",
    "chains": f"""
        WITH RECURSIVE runs(model, first, last, length, ops, saved_bytes) AS (
            SELECT model, position, position, 1, op, 0::HUGEINT FROM layers
            UNION ALL
            SELECT r.model, r.first, n.position, r.length + 1, r.ops || ' ' || n.op,
                   r.saved_bytes + 2 * coalesce(p.output_bytes, 0)
            FROM runs r
            JOIN layers p ON p.model = r.model AND p.position = r.last
            JOIN layers n ON n.model = r.model AND n.position = p.follower
            WHERE r.length < {LONGEST})
        SELECT ops, length, count(*) AS times, count(DISTINCT model) AS models, sum(saved_bytes) AS saved_bytes
        FROM runs WHERE length > 1 GROUP BY ops, length ORDER BY times DESC, length DESC""",
}


def connect(folder: str | os.PathLike[str]) -> duckdb.DuckDBPyConnection:
    """An embedded database with the views over the files of a data set; nothing but these files is read.

    Raises:
        InputError: there is no data set, or DuckDB is missing.
    """
    path = check(folder)
    try:
        import duckdb
    except ImportError:
        raise InputError("queries need DuckDB: pip install 'flopwise[zoo]'") from None
    connection = duckdb.connect(":memory:")
    place = str(path.resolve()).replace("'", "''").replace("*", "[*]").replace("?", "[?]")
    for name, query in VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {query.replace('{folder}', place)}")
    connection.execute(f"SET allowed_directories = ['{place}']")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def query(folder: str | os.PathLike[str], sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows of a query over the views.

    Raises:
        InputError: there is no data set, DuckDB is missing, or the query fails.
    """
    import duckdb

    with connect(folder) as connection:
        try:
            result = connection.execute(sql)
        except duckdb.Error as error:
            raise InputError(f"the query fails: {' '.join(str(error).split())}; views: {', '.join(VIEWS)}") from error
        columns = [column[0] for column in result.description or ()]
        return columns, result.fetchall() if columns else []
