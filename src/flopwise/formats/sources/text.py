"""Small files of text, and what stands in them: what an option names (budgets, rules, lists of models), settings."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from flopwise._limits import current
from flopwise.errors import InputError

#: An object in a JSON file: a configuration, a graph.
JsonObject: TypeAlias = Mapping[str, Any]


def text_of_file(path: str | os.PathLike[str]) -> str:
    """The text of a regular file of no more bytes than the limit.

    Raises:
        InputError: it is another thing, such as a device or a pipe, is too long, or is not UTF-8.
        FileNotFoundError: there is no such file.
    """
    name, most = os.fsdecode(path), current().text_bytes
    try:
        facts = os.stat(name)
        if not stat.S_ISREG(facts.st_mode):
            raise InputError(f"{name}: not a regular file")
        if facts.st_size > most:
            raise InputError(f"{name}: has {facts.st_size:,} bytes, more than the limit text_bytes of {most:,}")
        return Path(name).read_bytes().decode()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError:
        raise InputError(f"{name}: is not text in UTF-8") from None
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{name!r}: no such file ({error})") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a text in TOML.

    Raises:
        ValueError: it is not TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    content: dict[str, Any] = tomllib.loads(text)
    return content


def json_object(path: str) -> dict[str, Any]:
    """The object in a JSON file of up to a megabyte; empty where there is no such file, or it holds something else."""
    try:
        small = os.path.isfile(path) and os.path.getsize(path) <= 1 << 20
        content = json.loads(Path(path).read_text("utf-8")) if small else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
