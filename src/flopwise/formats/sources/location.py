"""Names of models: a path, a URL, or ``package.module:callable``."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator

from flopwise.errors import FlopwiseError, ModelError, message

#: Libraries whose models have names of their own, as in ``transformers:xlm-roberta``.
LIBRARIES = ("timm", "torchvision", "transformers")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(model: object) -> bool:
    """True where a model is given by its URL."""
    return isinstance(model, str) and bool(_URL.match(model))


def shown(model: str) -> str:
    """The name of a model for messages: of a URL neither the user nor the query, which may hold secrets.

    >>> shown("https://user:secret@example.org/a.onnx?token=1"), shown("a.onnx")
    ('https://example.org/a.onnx', 'a.onnx')
    """
    if not is_url(model):
        return model
    scheme, _, address = model.partition("://")
    address = address.partition("#")[0].partition("?")[0]
    host, slash, path = address.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def ending_of(model: str) -> str:
    """The name of a model in lower case, of a URL its path: what its ending is looked up in."""
    return shown(model).lower()


def is_callable(model: object) -> bool:
    """True where a text names a callable, as ``package.module:callable``, ``file.py:callable`` or ``timm:resnet50``."""
    if not isinstance(model, str) or "://" in model or os.path.exists(model):
        return False
    where, colon, name = model.rpartition(":")
    if where in LIBRARIES:
        name = name.replace("-", "_")
    if not colon or not all(part.isidentifier() for part in name.split(".")):
        return False
    return where.endswith(".py") or all(part.isidentifier() for part in where.split("."))


def is_code(model: str) -> bool:
    """True where reading a model means running code that its name says: a callable, a Python file.

    The models that libraries have names for are none.

    >>> is_code("net.py:model"), is_code("torch.nn:ReLU"), is_code("timm:resnet50"), is_code("a.onnx")
    (True, True, False, False)
    """
    library, colon, _ = model.partition(":")
    if colon and library in LIBRARIES and not is_url(model):
        return False
    return is_callable(model) or model.startswith("jax:") or ending_of(model).endswith(".py")


@contextlib.contextmanager
def naming(model: str) -> Iterator[None]:
    """Put a model's name before the message of an error that lacks it, and the message on one line."""
    try:
        yield
    except FlopwiseError as error:
        text, name = message(error), shown(model)
        named = text if text.startswith(name) else f"{name}: {text}"
        raise error.reworded(named) from error.__cause__


def in_words(error: Exception, most: int = 200) -> str:
    """The message of an error on one line of at most ``most`` characters; its class where there is no message."""
    return message(error)[:most] or type(error).__name__


@contextlib.contextmanager
def explained(explanation: Callable[[Exception], str]) -> Iterator[None]:
    """Whatever a library raises about a damaged file becomes a ModelError of one line."""
    try:
        yield
    except FlopwiseError:
        raise
    except Exception as error:  # libraries that take damaged files apart raise all kinds
        raise ModelError(explanation(error)) from error
