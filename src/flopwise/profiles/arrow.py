"""A profile as an Arrow table and as Parquet, for programs that read data frames; pyarrow is imported when needed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flopwise._results import Json
from flopwise.errors import InputError

if TYPE_CHECKING:
    import pyarrow

#: Key in the metadata of the schema under which everything but the layers stands, as JSON.
METADATA = b"flopwise"

#: Columns of text; the others hold integers.
_TEXTS = ("name", "op", "origin", "scope")


def arrow_table(content: Json) -> pyarrow.Table:
    """One line per layer in the columns of the JSON schema; what is unknown is null.

    Args:
        content: a profile in the schema ``flopwise.profile/1``.

    Raises:
        InputError: pyarrow is missing, a figure is too large for 64 bits, or it is a formula, not a number.
    """
    pa = arrow()
    layers = content["layers"]
    shapes = pa.list_(pa.list_(pa.int64()))
    kinds: dict[str, Any] = {"inputs": shapes, "outputs": shapes, "within": pa.list_(pa.string())}
    kinds["ops"] = pa.struct([(name, pa.int64()) for name in _classes(layers, content)])
    kinds.update(dict.fromkeys(_TEXTS, pa.string()))
    keys = dict.fromkeys(key for layer in layers for key in layer) or dict.fromkeys(kinds)
    columns = {
        key: (
            [printable(layer.get(key, 1 if key == "times" else None)) for layer in layers],
            kinds.get(key, pa.int64()),
        )
        for key in keys
    }
    totals = {key: value for key, value in content.items() if key != "layers"}
    return table_of(columns, {METADATA: json.dumps(totals).encode()})


def table_of(columns: Mapping[str, tuple[Sequence[object], object]], metadata: Mapping[bytes, bytes]) -> pyarrow.Table:
    """A table of columns by name, each with its values and its Arrow type.

    Raises:
        InputError: a figure is too large for 64 bits, or it is a formula, not a number.
    """
    pa = arrow()
    arrays, fields = [], []
    for key, (values, kind) in columns.items():
        try:
            arrays.append(pa.array(values, kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            raise InputError(f"the column {key!r} does not fit into 64-bit integers; use JSON or CSV") from None
        fields.append(pa.field(key, kind))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata))


def arrow() -> Any:
    """The library that makes Arrow tables.

    Raises:
        InputError: it is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise InputError("Arrow tables and Parquet need pyarrow: pip install 'flopwise[arrow]'") from None
    return pyarrow


def parquet(content: Json) -> bytes:
    """The table of ``arrow_table`` as a Parquet file.

    Raises:
        InputError: as there.
    """
    return _written(arrow_table(content))


def as_parquet(columns: Mapping[str, tuple[Sequence[object], object]]) -> bytes:
    """The table of ``table_of`` as a Parquet file.

    Raises:
        InputError: as there.
    """
    return _written(table_of(columns, {}))


def stacked(parts: Sequence[tuple[str, bytes]]) -> bytes:
    """The layers of several models as one Parquet file: a column ``model`` says whose they are.

    Args:
        parts: the path of each model, and its file as ``parquet`` writes it.
    """
    pa = arrow()
    import pyarrow.parquet

    tables, contents = [], []
    for path, data in parts:
        table = pyarrow.parquet.read_table(io.BytesIO(data))
        contents.append(json.loads(table.schema.metadata[METADATA]))
        names = pa.array([printable(path)] * len(table), pa.string())
        tables.append(table.add_column(0, pa.field("model", pa.string()), names).replace_schema_metadata())
    if any("times" in table.column_names for table in tables):  # models without control flow lack it
        once = pa.field("times", pa.int64())
        tables = [
            table if "times" in table.column_names else table.append_column(once, pa.array([1] * len(table), once.type))
            for table in tables
        ]
    joined = pa.concat_tables(tables, promote_options="permissive")
    return _written(joined.replace_schema_metadata({METADATA: json.dumps(contents).encode()}))


def _written(table: pyarrow.Table) -> bytes:
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def _classes(layers: list[Json], content: Json) -> list[str]:
    """The operation classes, from the first figure that has them."""
    classes = next((layer["ops"] for layer in layers if layer["ops"] is not None), content["totals"]["ops"])
    return list(classes or {"mac": 0})


def printable(value: object) -> Any:
    """The value without surrogates, which no UTF-8 text can hold."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
