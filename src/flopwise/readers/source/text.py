"""Small files of text that an option names: budgets, rules, lists of models."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from flopwise._limits import current
from flopwise.errors import InputError


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
        raise InputError(f"{name!r}: no file is called that ({error})") from None
