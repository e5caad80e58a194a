"""The views of a data set in SQL, by DuckDB."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flopwise.analyses.zoo.chains import LONGEST
from flopwise.analyses.zoo.dataset import UNIQUE, Dataset
from flopwise.analyses.zoo.records import SAME
from flopwise.errors import InputError, message

if TYPE_CHECKING:
    import duckdb

#: Memory of a query; what needs more goes to the disk, or fails.
MEMORY = "3GiB"

_SAME = ", ".join(SAME)

#: Lengths of the chains that each layer's row has counted.
_LENGTHS = range(2, LONGEST + 1)

#: View -> its query; they come in this order, because later ones use earlier ones.
VIEWS: dict[str, str] = {
    "models": "SELECT * FROM all_models WHERE status = 'ok'",
    "failures": "SELECT name, source, error, seconds FROM all_models WHERE status <> 'ok'",
    "unique_layers": f"""
        SELECT {_SAME}, c.layers, c.models, c.macs // nullif(c.times, 0) AS macs_each, c.macs,
               100.0 * c.macs / nullif(sum(c.macs) OVER (), 0) AS macs_percent, signature
        FROM (SELECT signature, count(*) AS layers, sum((firsts >> 1) & 1) AS models,
                     sum(coalesce(times, 1)) AS times, sum(macs) AS macs
              FROM layers GROUP BY signature) c
        JOIN signatures USING (signature) ORDER BY layers DESC, macs DESC""",
    "census": """
        SELECT op, family, year, count(*) AS layers, sum(firsts & 1) AS models, sum(macs) AS macs,
               sum(flops) AS flops, sum(params) AS params
        FROM layers GROUP BY op, family, year ORDER BY layers DESC""",
    "chains": f"""
        SELECT array_to_string(ops[:length], ' ') AS ops, length, sum(times) AS times,
               sum(models[length - 1]) AS models, sum(saved[length - 1]) AS saved_bytes
        FROM (SELECT string_split(chain, ' ') AS ops, count(*) AS times,
                     [{", ".join(f"sum((firsts >> {n}) & 1)" for n in _LENGTHS)}] AS models,
                     [{", ".join(f"sum(saved_{n})" for n in _LENGTHS)}] AS saved
              FROM layers WHERE saved_2 IS NOT NULL GROUP BY chain), range(2, {LONGEST + 1}) lengths(length)
        WHERE len(ops) >= length GROUP BY ALL ORDER BY times DESC, length DESC""",
}

#: Chains of any length, ``FROM chains_of(8)``: they follow ``follower`` from layer to layer, which takes its time.
CHAINS_OF = """
    CREATE TEMP MACRO chains_of(longest) AS TABLE
    WITH RECURSIVE runs(model, follower, length, ops, saved_bytes, between) AS (
        SELECT model, follower, 1, op, 0::HUGEINT, 2 * coalesce(written, 0) FROM layers
        UNION ALL
        SELECT r.model, n.follower, r.length + 1, r.ops || ' ' || n.op,
               CASE WHEN n.view THEN r.saved_bytes ELSE r.saved_bytes + r.between END,
               CASE WHEN n.view THEN r.between ELSE 2 * coalesce(n.written, 0) END
        FROM runs r JOIN layers n ON n.model = r.model AND n.position = r.follower
        WHERE r.length < longest)
    SELECT ops, length, count(*) AS times, count(DISTINCT model) AS models, sum(saved_bytes) AS saved_bytes
    FROM runs WHERE length > 1 GROUP BY ops, length ORDER BY times DESC, length DESC"""

#: What can be asked.
NAMES = (*VIEWS, "layers", "all_models")


class Zoo:
    """A data set in an embedded database: its views, and queries over them, as relations of DuckDB.

    A relation has ``arrow()``, ``df()``, ``pl()`` and ``fetchall()``. Nothing but the files of the data set is read,
    and nothing is written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open a data set.

        Raises:
            InputError: there is none, or it is damaged.
        """
        import tempfile

        data = Dataset(folder)
        self.name, self._data = data.place.name, data
        files = data.files()
        self._spill = tempfile.TemporaryDirectory(prefix="flopwise-", ignore_cleanup_errors=True)
        with contextlib.ExitStack() as unless_open:
            unless_open.callback(self._spill.cleanup)
            self._open(data, files)
            unless_open.pop_all()

    def _open(self, data: Dataset, files: dict[str, list[str]]) -> None:
        """Make the views of the files, and close every other way to data."""
        import duckdb

        catalog = os.path.join(self._spill.name, "catalog.duckdb")
        duckdb.connect(catalog).close()  # empty, and from here on it is only read: views are temporary
        self.connection = duckdb.connect(catalog, read_only=True, config={"temp_directory": self._spill.name})
        try:
            for name, query in {**_tables(self.connection, data, files), **VIEWS}.items():
                self.connection.execute(f"CREATE TEMP VIEW {name} AS {query}")
        except duckdb.Error as error:
            self.close()
            data.check()
            raise InputError(
                f"{self.name}: is damaged, or of another version of flopwise: {' '.join(str(error).split())}"
            ) from error
        self.connection.execute(CHAINS_OF)
        if data.place.local:  # these files, and no others that lie beside them or behind a link
            paths = (data.place.path(file) for names in files.values() for file in names)
            self.connection.execute(f"SET allowed_paths = [{', '.join(map(_quoted, paths))}]")
        self.connection.execute("SET enable_progress_bar = false")  # it would stand among the rows
        self.connection.execute(f"SET memory_limit = '{MEMORY}'")
        self.connection.execute("SET python_enable_replacements = false")  # a name is no variable of the program
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def __enter__(self) -> Zoo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """One line: where the data set is, and what can be queried."""
        return f"<Zoo {self.name!r}: {', '.join(NAMES)}>"

    def close(self) -> None:
        """Close the database."""
        self.connection.close()
        self._spill.cleanup()

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """The result of a query over the views.

        Raises:
            InputError: it is no query that DuckDB understands.
        """
        with self._explained():
            return self.connection.sql(self._statement(query))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what DuckDB refuses into one line.

        Raises:
            InputError: a query fails, or the data set is damaged.
        """
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            self._data.check()
            reason = message(error)
            raise InputError(f"the query fails: {reason}; views: {', '.join(NAMES)}") from error

    def _statement(self, query: str) -> duckdb.Statement:
        """The one query in a text.

        Raises:
            InputError: there is none, or anything else.
        """
        import duckdb

        statements = self.connection.extract_statements(query)
        if not statements:
            raise InputError("the query is empty")
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise InputError(
                "only one query is run: a SELECT, or FROM with the name of a view (PIVOT with the values IN which ...)"
            )
        return statements[0]

    def view(self, name: str) -> duckdb.DuckDBPyRelation:
        """One of the views: models, layers, unique_layers, chains, census, failures, all_models.

        Raises:
            InputError: there is no such view.
        """
        if name not in NAMES:
            raise InputError(f"no view {name!r}; views: {', '.join(NAMES)}")
        return self.connection.view(name)

    def rows(self, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Columns and rows of a query.

        Raises:
            InputError: it fails.
        """
        with self._explained():
            result = self.connection.execute(self._statement(query))
            columns = [column[0] for column in result.description or ()]
            return columns, result.fetchall() if columns else []


def _tables(connection: duckdb.DuckDBPyConnection, data: Dataset, files: dict[str, list[str]]) -> dict[str, str]:
    """The queries over the files: all_models, layers, signatures.

    While a build goes on, or after it was cut off, what is finished lies in parts; a part counts and not what was
    gathered before of a model of the same name.
    """
    read = {name: _reader(connection, data, name, paths) for name, paths in files.items() if paths}
    models, layers = read.get("models"), read.get("layers")
    signatures = ", ".join(UNIQUE)
    if "models parts" not in read:
        return {
            "all_models": f"SELECT * FROM {models}",
            "layers": f"SELECT * FROM {layers}",
            "signatures": f"SELECT {signatures} FROM {read.get('unique')}",
        }
    fresh, fresh_layers = read["models parts"], read["layers parts"]
    old = f"UNION ALL SELECT * FROM {models} WHERE name NOT IN (SELECT name FROM {fresh})" if models else ""
    old_layers = f"UNION ALL SELECT * FROM {layers} WHERE model NOT IN (SELECT name FROM {fresh})" if layers else ""
    return {
        "all_models": f"SELECT * FROM {fresh} {old}",
        "layers": f"SELECT * FROM {fresh_layers} {old_layers}",
        "signatures": f"SELECT DISTINCT ON (signature) {signatures} FROM layers",
    }


def _reader(connection: duckdb.DuckDBPyConnection, data: Dataset, name: str, files: list[str]) -> str:
    """The SQL after FROM for Parquet files; those on remote file systems are read by Arrow."""
    paths = [data.place.path(file) for file in files]
    if data.place.local:
        return f"read_parquet([{', '.join(map(_quoted, paths))}])"
    import pyarrow
    import pyarrow.dataset
    import pyarrow.fs

    try:
        system = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(data.place.system))
        content = pyarrow.dataset.dataset(paths, filesystem=system, format="parquet")
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{data.place.name}: is damaged: {' '.join(str(error).split())}") from error
    view = f"remote_{name.replace(' ', '_')}"
    connection.register(view, content)
    return view


def _quoted(text: str) -> str:
    """A text in SQL; a path has no wildcards."""
    return "'" + text.replace("'", "''") + "'"
