"""The views of a data set in SQL, by DuckDB."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


# An overview of a whole data set: its models, which of them nothing beats, its operators, how layers repeat.


#: Models that are shown one by one; of a larger data set those with the most MACs.
SHOWN = 5_000

#: Lines of the tables of unique layers, chains and operators.
LINES = 300

#: Points of a curve.
POINTS = 400

#: Columns of the models that are shown.
MODELS = (
    "name",
    "family",
    "year",
    "tags",
    "format",
    "layers",
    "macs",
    "flops",
    "params",
    "weight_bytes",
    "peak_activation_bytes",
    "exact",
)

#: Counts of a data set: title -> the query of it.
_TOTALS = {
    "models": "SELECT count(*) FROM models",
    "failed": "SELECT count(*) FROM failures",
    "families": "SELECT count(DISTINCT family) FROM models WHERE family <> ''",
    "layers": "SELECT count(*) FROM layers",
    "unique layers": "SELECT count(DISTINCT signature) FROM layers",
    "operators": "SELECT count(DISTINCT op) FROM layers",
    "MACs": "SELECT sum(macs) FROM models",
    "parameters": "SELECT sum(params) FROM models",
}

#: Tables of the page: name -> its query.
_TABLES = {
    "unique": f"""SELECT op, inputs, weights, outputs, dtypes, attributes, layers, models, macs, macs_percent
                  FROM unique_layers LIMIT {LINES}""",
    "chains": f"SELECT ops, length, times, models, saved_bytes FROM chains LIMIT {LINES}",
    "census": """SELECT op, sum(layers) AS layers, sum(models) AS models, sum(macs) AS macs, sum(flops) AS flops,
                        sum(params) AS params FROM census GROUP BY op ORDER BY layers DESC""",
    "failures": "SELECT name, source, error, seconds FROM failures ORDER BY name",
}

#: A model's rank when they come by year and name, and the rank of the first model that has each layer.
_GROWTH = """
    WITH ranks AS (SELECT name, layers, row_number() OVER (ORDER BY year NULLS LAST, name) AS rank FROM models),
         firsts AS (SELECT min(rank) AS rank FROM layers JOIN ranks ON ranks.name = layers.model GROUP BY signature),
         fresh AS (SELECT rank, count(*) AS fresh FROM firsts GROUP BY rank)
    SELECT rank, sum(layers) OVER w AS layers, sum(coalesce(fresh, 0)) OVER w AS unique_layers
    FROM ranks LEFT JOIN fresh USING (rank) WINDOW w AS (ORDER BY rank) ORDER BY rank"""

#: How much of all layers and MACs the most frequent, and the most expensive, unique layers make.
_COVERAGE = """
    SELECT row_number() OVER (ORDER BY {by} DESC NULLS LAST) AS rank,
           100.0 * sum({by}) OVER (ORDER BY {by} DESC NULLS LAST ROWS UNBOUNDED PRECEDING)
               / nullif(sum({by}) OVER (), 0) AS share
    FROM unique_layers ORDER BY rank"""


@dataclass(frozen=True)
class Table:
    """Lines under named columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class Overview:
    """A data set as a report shows it."""

    name: str
    #: Title -> count, of the whole data set.
    totals: dict[str, int]
    #: The models that are shown, the most expensive first, with the columns of MODELS.
    models: Table
    #: Operators by family and by year: key, operator, layers, MACs, FLOPs, parameters.
    by_family: Table
    by_year: Table
    #: Layers and unique layers of the first so many models: rank, layers, unique layers.
    growth: Table
    #: Percent of all layers, and of all MACs, that so many unique layers make: rank, share.
    layers_covered: Table
    macs_covered: Table
    unique: Table
    chains: Table
    census: Table
    failures: Table


def overview(folder: str | os.PathLike[str]) -> Overview:
    """The overview of a data set.

    Raises:
        InputError: there is none, or it is damaged.
    """
    with Zoo(folder) as zoo:

        def table(query: str) -> Table:
            columns, rows = zoo.rows(query)
            return Table(tuple(columns), tuple(rows))

        def shares(key: str) -> Table:
            return table(
                f"SELECT {key}, op, sum(layers) AS layers, sum(macs) AS macs, sum(flops) AS flops, "
                f"sum(params) AS params FROM census WHERE {key} IS NOT NULL GROUP BY {key}, op ORDER BY {key}, op"
            )

        return Overview(
            name=zoo.name,
            totals={title: int(zoo.rows(query)[1][0][0] or 0) for title, query in _TOTALS.items()},
            models=table(f"SELECT {', '.join(MODELS)} FROM models ORDER BY macs DESC NULLS LAST, name LIMIT {SHOWN}"),
            by_family=shares("family"),
            by_year=shares("year"),
            growth=_thinned(table(_GROWTH)),
            layers_covered=_thinned(table(_COVERAGE.format(by="layers"))),
            macs_covered=_thinned(table(_COVERAGE.format(by="macs"))),
            **{name: table(query) for name, query in _TABLES.items()},
        )


def _thinned(curve: Table) -> Table:
    """A curve with fewer points; the first and the last stay, and between them the steps grow with the rank."""
    count = len(curve.rows)
    if count <= POINTS:
        return curve
    places = {round(count ** (step / (POINTS - 1))) - 1 for step in range(POINTS)}
    return Table(curve.columns, tuple(curve.rows[place] for place in sorted(places)))


def front(points: Sequence[tuple[float, float]], most: bool = False) -> list[int]:
    """Positions of the points that no other beats, from left to right: less of both is better.

    Args:
        points: two figures of each model; those that are not positive are on no front.
        most: whether more of the first figure is better, and less of the second.

    >>> front([(1, 5), (2, 2), (3, 3), (4, 1)]), front([(1, 1), (2, 3), (3, 2)], most=True)
    ([0, 1, 3], [0, 2])
    """
    order = sorted(
        (i for i, (x, y) in enumerate(points) if x > 0 and y > 0),
        key=lambda i: (-points[i][0] if most else points[i][0], points[i][1]),
    )
    best, positions = float("inf"), []
    for position in order:
        if points[position][1] < best:
            best = points[position][1]
            positions.append(position)
    return sorted(positions, key=lambda i: points[i][0])
