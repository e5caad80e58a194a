"""``flopwise bench``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.command import Command, option
from flopwise.cli.output import Output, write, writes
from flopwise.cli.places import Model, Read, Written
from flopwise.cli.run import arguments_of
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError


@click.command(
    "bench", cls=Command, examples=["model.onnx", "model.onnx --threads 2 --time 5", "--export times.parquet"]
)
@options.engine_level
@options.shapes
@click.argument("model", required=False, type=Model())
@option("--engine", default="onnxruntime", show_default=True, help="The engine that runs MODEL.")
@option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Its threads.")
@option("--time", "seconds", type=click.FloatRange(0.1), help="Seconds of rounds at most; default: 30.")
@option("--missing", is_flag=True, help="Measure only what the store lacks.")
@option("--retry", is_flag=True, help="Run again what timed out, crashed or ran out of memory before.")
@option("--only", help="Measure only nodes of this operator.")
@options.store
@option("--export", "exported", type=Written(), metavar="FILE", help="Write the store to FILE (.parquet, .json).")
@option("--import", "imported", type=Read(), metavar="FILE", help="Add what --export wrote, here or elsewhere.")
@option("--strict", is_flag=True, help="Exit with 1 when nodes have no time, or the floor does not hold.")
@options.by("layer", "op", default="op", help="One line for each executed node or operator.")
@writes("sheet", "content", "bound")
def command(model: str | None, strict: bool, output: Output, **settings: Any) -> int:
    """Measure MODEL with an engine on this machine: the whole, and each node that the engine executes, alone.

    The whole and all nodes take turns in rounds until their least times settle. An interrupt keeps what is measured.
    flopwise bound shows the figures again.
    """
    if model is None and not (settings["exported"] or settings["imported"]):
        raise click.UsageError("give MODEL, --export or --import")
    if settings["imported"]:
        count = _import(settings["imported"], settings["store"])
        say(f"{count} new session{'' if count == 1 else 's'} in the store")
    code = 0
    if model is not None:
        code = _measure(model, output, strict, settings)
    if settings["exported"]:
        _export(settings["exported"], settings["store"])
    return code


def _measure(model: str, output: Output, strict: bool, settings: options.Values) -> int:
    """Measure a model and print its bound; return the exit code, which is 1 only with ``strict``."""
    import flopwise
    from flopwise.report.commands.bound import bound_report

    models.refuse_directory(model, "give one model")
    arguments = arguments_of(settings)
    options = {key: arguments[key] for key in arguments if key not in ("convention", "rules", "fold")}
    named = {key: settings[key] for key in ("engine", "threads", "seconds", "missing", "retry", "only", "store")}
    named["optimization"] = options.pop("level", "all")
    with Progress() as progress:
        result = flopwise.bench(model, progress=progress, **named, **options)
    output.write(bound_report(result.bound, settings["by"]))
    if result.unsaved:
        say(f"not stored: {result.unsaved}")
    engine = result.bound.engine
    failed = engine is None or not engine.complete or result.bound.verdict == "BROKEN"
    return NO if strict and failed else 0


def _import(path: str, store: str | None) -> int:
    """Add the sessions of a file that --export wrote to the store, and return how many were new.

    Raises:
        InputError: the file is no export or cannot be read, or pyarrow is missing.
    """
    import json

    from flopwise.analyses.timing.store import Store, take

    try:
        if path.lower().endswith(".parquet"):
            import pyarrow.parquet

            text = pyarrow.parquet.read_table(path).column("row").to_pylist()
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read().splitlines()
        rows = [json.loads(line) for line in text if line.strip()]
    except ImportError:
        raise InputError("Parquet needs pyarrow: pip install 'flopwise[arrow]'") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, KeyError) as error:
        raise InputError(f"{path}: is not an export of measurements") from error
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: is not an export of measurements")
    with Store(store) as records:
        try:
            return take(records, rows)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def _export(path: str, store: str | None) -> None:
    """Write every row of the store to a file: Parquet if its name ends in .parquet, else JSON, one row a line.

    Parquet has columns for data frames, and each whole row as JSON in the column "row", which --import reads.

    Raises:
        InputError: there is no store, or pyarrow is missing (for Parquet).
    """
    import json

    from flopwise.analyses.timing.store import export
    from flopwise.api.bound import open_store

    records = open_store(store)
    if records is None:
        raise InputError("there is no store yet: measure a model first")
    with records:
        rows = export(records)
    if not path.lower().endswith(".parquet"):
        write("\n".join(json.dumps(row, sort_keys=True) for row in rows), path)
        return
    try:
        import io

        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet needs pyarrow: pip install 'flopwise[arrow]'") from None
    shown = ("table", "benchmark", "session", "mode", "status", "best_ns", "median_ns", "spread", "runs", "op", "macs")
    columns = {key: [row.get(key) for row in rows] for key in shown}
    columns["row"] = [json.dumps(row, sort_keys=True) for row in rows]
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), out, compression="zstd")
    write(out.getvalue(), path)
