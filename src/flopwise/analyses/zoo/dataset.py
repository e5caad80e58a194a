"""The data set on disk: Parquet files of models and layers, written model by model and gathered at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flopwise.analyses.zoo.records import LAYERS, MODELS
from flopwise.errors import InputError

if TYPE_CHECKING:
    import pyarrow

#: Rows of layers in one file.
ROWS = 1_000_000


class Dataset:
    """A folder ``DIR`` with ``models/*.parquet``, ``layers/*.parquet`` and, while it is built, ``parts/``."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._parts = self.folder / "parts"

    def done(self) -> dict[str, str]:
        """Key -> status of the models that are in the data set or in its parts."""
        import pyarrow.parquet as pq

        known: dict[str, str] = {}
        for path in (
            *sorted((self.folder / "models").glob("*.parquet")),
            *sorted(self._parts.glob("*.models.parquet")),
        ):
            table = pq.read_table(path, columns=["key", "status"])
            known.update(zip(table["key"].to_pylist(), table["status"].to_pylist(), strict=True))
        return known

    def put(self, model: Mapping[str, Any], layers: Sequence[Mapping[str, Any]]) -> None:
        """Keep the rows of one model; they count once the model's own row is there."""
        self._parts.mkdir(parents=True, exist_ok=True)
        key = model["key"]
        _write(_table(layers, LAYERS), self._parts / f"{key}.layers.parquet")
        _write(_table([model], MODELS), self._parts / f"{key}.models.parquet")

    def gather(self, keys: Iterable[str]) -> None:
        """Put the parts and what was there before into few files, in the order of the models' names.

        Args:
            keys: the models that the data set is to hold.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        wanted = pa.array(sorted(keys), pa.string())
        tables = [pq.read_table(path) for path in self._files("models")]
        models = pa.concat_tables(tables) if tables else _table([], MODELS)
        models = models.filter(pc.is_in(models["key"], wanted)).sort_by("name")
        names = models["name"]
        layers = [pq.read_table(path) for path in self._files("layers")]
        all_layers = pa.concat_tables(layers) if layers else _table([], LAYERS)
        all_layers = all_layers.filter(pc.is_in(all_layers["model"], names)).sort_by(
            [("model", "ascending"), ("position", "ascending")]
        )
        fresh = self.folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        for name, table in (("models", models), ("layers", all_layers)):
            (fresh / name).mkdir(parents=True)
            for number in range(max(-(-table.num_rows // ROWS), 1)):
                _write(table.slice(number * ROWS, ROWS), fresh / name / f"{number:05d}.parquet")
        for name in ("models", "layers"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            os.replace(fresh / name, self.folder / name)
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(self._parts, ignore_errors=True)

    def _files(self, name: str) -> list[Path]:
        return [*sorted((self.folder / name).glob("*.parquet")), *sorted(self._parts.glob(f"*.{name}.parquet"))]


def _table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> pyarrow.Table:
    """Rows as a table of Arrow."""
    import pyarrow as pa

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])
    return pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows], schema)


def _write(table: pyarrow.Table, path: Path) -> None:
    """A file that appears only when it is complete."""
    import pyarrow.parquet as pq

    partial = path.with_suffix(".partial")
    pq.write_table(table, partial, compression="zstd")
    os.replace(partial, path)


def check(folder: str | os.PathLike[str]) -> Path:
    """The folder of a data set.

    Raises:
        InputError: there is none.
    """
    path = Path(folder)
    if not (path / "models").is_dir():
        raise InputError(f"{path}: is not a data set of models; make one with flopwise zoo build SOURCE -o {path}")
    return path
