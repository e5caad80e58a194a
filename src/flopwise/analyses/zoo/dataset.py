"""The data set: Parquet files of models and layers, written model by model and gathered when a build ends.

``parts/KEY.layers.parquet`` and then ``parts/KEY.models.parquet`` are what is finished; whoever profiled the model
wrote them. Gathering puts them with what was there into few sorted files. It writes these to ``fresh/``, then the mark
``fresh/COMPLETE``, and only then takes the old ones away, so that at no moment, however it ends, a row is lost or
there twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from flopwise.analyses.zoo.place import Place, parquet
from flopwise.analyses.zoo.records import LAYERS, MODELS, SAME
from flopwise.errors import InputError
from flopwise.profiles.arrow import printable

if TYPE_CHECKING:
    import pyarrow

#: Rows in one file, and in one group of rows, at least; the rows of one model are never parted.
ROWS = 1_000_000
GROUP = 100_000

#: The tables: of models, of layers, and of the layers that differ.
TABLES = ("models", "layers", "unique")

#: Column -> its type in Arrow, of the table of layers that differ: what a signature stands for.
UNIQUE: dict[str, str] = {"signature": "int64", **{name: LAYERS[name] for name in SAME}}

_COLUMNS = {"models": MODELS, "layers": LAYERS, "unique": UNIQUE}
_MARK = "fresh/COMPLETE"


#: Column -> value.
Row: TypeAlias = Mapping[str, Any]


class Recorded(NamedTuple):
    """A model that the data set has rows of."""

    name: str
    source: str
    hash: str
    status: str
    error: str


class Dataset:
    """A folder with ``models/``, ``layers/``, ``unique/`` and, while it is built, ``parts/``."""

    def __init__(self, folder: str | os.PathLike[str] | Place) -> None:
        self.place = folder if isinstance(folder, Place) else Place(folder)

    def records(self) -> dict[str, Recorded]:
        """The models that are in the data set or in its parts, by their keys."""
        columns = ["key", *Recorded._fields]
        rows = (row for file in self._files("models") for row in self._read(file, "models", columns).to_pylist())
        return {row.pop("key"): Recorded(**row) for row in rows}

    def put(self, model: Row, layers: Sequence[Row]) -> None:
        """Keep the rows of one model; they count once the model's own row is there."""
        key = model["key"]
        self.place.write(f"parts/{key}.layers.parquet", parquet(table(layers, LAYERS)))
        self.place.write(f"parts/{key}.models.parquet", parquet(table([model], MODELS)))

    def settle(self) -> None:
        """Finish a gathering that was interrupted after its files were complete."""
        if self._is_gathered():
            self._take_place()

    def _is_gathered(self) -> bool:
        """True where the fresh files are complete.

        Raises:
            InputError: something says so that no build has written.
        """
        if not self.place.list("fresh"):
            return False
        if not all(self.place.list(f"fresh/{name}") for name in TABLES):
            raise InputError(f"{self.place.path(_MARK)}: no build has written that, as files are missing; delete it")
        return True

    def gather(self) -> None:
        """Put the parts and what was there before into few files, in the order of the models' names.

        Of two models of one name the part is kept, and of two parts the one that was written last.
        """
        self.settle()
        parts = self.place.list("parts")
        if not parts and self.place.list("models"):
            return
        self._clear_fresh()
        homes = self._homes()
        writers = {name: _Writer(self.place, name) for name in TABLES}
        signatures: set[int] = set()
        source = _Source(self)
        for name in sorted(homes):
            model, layers = source.rows(homes[name], name)
            writers["models"].add(model)
            writers["layers"].add(layers)
            writers["unique"].add(_new(layers, signatures))
        for writer in writers.values():
            writer.close()
        self.place.write(_MARK, "\n".join(parts).encode())
        self._take_place()

    def _take_place(self) -> None:
        """Put the fresh files in the place of the old ones; it may be interrupted and done again."""
        gathered = set(self.place.read(_MARK).decode("utf-8", "replace").split("\n"))
        for name in TABLES:
            fresh = [file.removeprefix("fresh/") for file in self.place.list(f"fresh/{name}")]
            for file in fresh:
                self.place.write(file, self.place.read(f"fresh/{file}"))
            self.place.remove(*(file for file in self.place.list(name) if file not in fresh))
            self.place.sweep(name)
        self.place.remove(*(part for part in self.place.list("parts") if part in gathered))
        self.place.remove(_MARK)
        self._clear_fresh()
        if not self.place.list("parts"):
            self.place.clear("parts")

    def _clear_fresh(self) -> None:
        for name in TABLES:
            self.place.clear(f"fresh/{name}")
        self.place.clear("fresh")

    def files(self) -> dict[str, list[str]]:
        """The files of each table as they are now, those of a gathering that was interrupted, and parts.

        Raises:
            InputError: there is no data set.
        """
        fresh = "fresh/" if self._is_gathered() else ""
        tables = {name: self.place.list(fresh + name) for name in TABLES}
        if not fresh:
            tables |= {f"{name} parts": self._parts(name) for name in ("models", "layers")}
        if not any(tables.values()):
            raise InputError(
                f"{self.place.name}: is not a data set of models; make one with "
                f"flopwise zoo build SOURCE -o {self.place.name}"
            )
        return tables

    def check(self) -> None:
        """Look whether every file can be opened.

        Raises:
            InputError: one is damaged; the message names it, and how to go on.
        """
        import pyarrow.parquet as pq

        for name in (name for names in self.files().values() for name in names):
            with self.place.open(name) as file:
                pq.read_metadata(file)

    def count_layers(self) -> int:
        """Rows of layers in the gathered files."""
        import pyarrow.parquet as pq

        total = 0
        for name in self.place.list("layers"):
            with self.place.open(name) as file:
                total += pq.read_metadata(file).num_rows
        return total

    def _parts(self, name: str) -> list[str]:
        """The parts of a table; for layers, those whose model is finished."""
        finished = [file for file in self.place.list("parts") if file.endswith(".models.parquet")]
        return finished if name == "models" else [f.replace(".models.parquet", ".layers.parquet") for f in finished]

    def _files(self, name: str) -> list[str]:
        return [*self.place.list(name), *self._parts(name)]

    def _read(self, file: str, table: str, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """A file of a table, with its columns as this version has them.

        Raises:
            InputError: it is damaged, or of another version of flopwise.
        """
        import pyarrow.parquet as pq

        with self.place.open(file) as opened:
            content = pq.ParquetFile(opened).read(columns=list(columns) if columns else None)
        return self.checked(content, file, table, columns)

    def checked(self, content: pyarrow.Table, file: str, table: str, columns: Sequence[str] | None) -> pyarrow.Table:
        """The content of a file, its columns in order.

        Raises:
            InputError: it lacks a column.
        """
        expected = schema({name: _COLUMNS[table][name] for name in columns or _COLUMNS[table]})
        lacking = [name for name in expected.names if name not in content.column_names]
        if lacking:
            raise InputError(
                f"{self.place.path(file)}: has no column {lacking[0]!r}: another version of flopwise made the data "
                "set; build it anew in another folder"
            )
        return content.select(expected.names).cast(expected)

    def _homes(self) -> dict[str, str]:
        """Name of each model -> the file with its rows."""
        homes: dict[str, str] = {}
        for file in self._files("models"):  # parts come last
            for name in self._read(file, "models", ["name"])["name"].to_pylist():
                homes[name] = file
        return homes


class _Source:
    """The rows of models, from parts and from files that are read group by group."""

    def __init__(self, data: Dataset) -> None:
        self._data = data
        self._models: dict[str, pyarrow.Table] = {}
        self._layers = self._groups()
        self._group: pyarrow.Table | None = None

    def rows(self, home: str, name: str) -> tuple[pyarrow.Table, pyarrow.Table]:
        """The row of a model and those of its layers; models come in the order of their names."""
        import pyarrow.compute as pc

        if home.startswith("parts/"):
            model = self._data._read(home, "models")
            return model, self._data._read(home.replace(".models.parquet", ".layers.parquet"), "layers")
        if home not in self._models:
            self._models = {home: self._data._read(home, "models")}
        models = self._models[home]
        model = models.filter(pc.equal(models["name"], name))
        return model, self._layers_of(name, model["layers"][0].as_py() or 0)

    def _layers_of(self, name: str, count: int) -> pyarrow.Table:
        """The rows of a model's layers, which follow each other in the files."""
        import pyarrow.compute as pc

        while count:
            if self._group is not None:
                layers = self._group.filter(pc.equal(self._group["model"], name))
                if layers.num_rows:
                    return layers.combine_chunks()
            self._group = next(self._layers, None)
            if self._group is None:
                raise InputError(f"{self._data.place.name}: is damaged: the layers of {name} are missing")
        return table([], LAYERS)

    def _groups(self) -> Iterator[pyarrow.Table]:
        import pyarrow.parquet as pq

        for file in self._data.place.list("layers"):
            with self._data.place.open(file) as opened:
                parquet_file = pq.ParquetFile(opened)
                for number in range(parquet_file.num_row_groups):
                    yield self._data.checked(parquet_file.read_row_group(number), file, "layers", None)


class _Writer:
    """Tables one after the other, written into files of at least ROWS rows."""

    def __init__(self, place: Place, name: str) -> None:
        import pyarrow as pa

        self._place, self._name = place, name
        self._waiting: list[pyarrow.Table] = []
        self._rows = self._in_group = self._number = 0
        self._sink: Any = None
        self._file: Any = None
        self._schema = schema(_COLUMNS[name])
        self._arrow = pa

    def add(self, content: pyarrow.Table) -> None:
        self._waiting.append(content)
        self._in_group += content.num_rows
        if self._in_group >= GROUP:
            self._flush()
            if self._rows >= ROWS:
                self._end_file()

    def close(self) -> None:
        self._flush()
        if self._file is not None or not self._number:
            self._begin_file()
            self._end_file()

    def _flush(self) -> None:
        if self._waiting and self._in_group:
            self._begin_file()
            group = self._arrow.concat_tables(self._waiting)
            self._file.write_table(group, row_group_size=max(group.num_rows, 1))
            self._rows += group.num_rows
        self._waiting, self._in_group = [], 0

    def _begin_file(self) -> None:
        import pyarrow.parquet as pq

        if self._file is None:
            self._sink = self._arrow.BufferOutputStream()
            self._file = pq.ParquetWriter(self._sink, self._schema, compression="zstd")

    def _end_file(self) -> None:
        self._file.close()
        self._place.write(f"fresh/{self._name}/{self._number:05d}.parquet", memoryview(self._sink.getvalue()))
        self._number, self._rows, self._file, self._sink = self._number + 1, 0, None, None


def _new(layers: pyarrow.Table, signatures: set[int]) -> pyarrow.Table:
    """The layers whose signatures have not been seen before, one of each; then they have."""
    import pyarrow as pa

    fresh: list[int] = []
    for position, signature in enumerate(layers["signature"].to_pylist()):
        if signature not in signatures:
            signatures.add(signature)
            fresh.append(position)
    return layers.select(list(UNIQUE)).take(pa.array(fresh, pa.int64()))


def schema(columns: Mapping[str, str]) -> pyarrow.Schema:
    """The schema in Arrow of columns and their types."""
    import pyarrow as pa

    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])


def table(rows: Sequence[Row], columns: Mapping[str, str]) -> pyarrow.Table:
    """Rows as a table of Arrow."""
    import pyarrow as pa

    return pa.Table.from_pylist([{name: printable(row.get(name)) for name in columns} for row in rows], schema(columns))
