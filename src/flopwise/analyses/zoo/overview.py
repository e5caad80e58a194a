"""An overview of a whole data set: its models, which of them nothing beats, its operators, how layers repeat."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from flopwise.analyses.zoo.views import Zoo

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
