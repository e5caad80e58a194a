"""Functions of PyTorch and Python that others stand in for during a run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def substituted(owner: object, name: str, substitute: object) -> Iterator[None]:
    """An attribute of a class or Python module is another meanwhile.

    Python modules that are imported meanwhile may have taken it over under a name of their own, as ``torch._dynamo``
    does with ``nn.Module._call_impl``, to see whether somebody has replaced it; afterwards they have the original.
    """
    original, known = vars(owner)[name], len(sys.modules)
    setattr(owner, name, substitute)
    try:
        yield
    finally:
        setattr(owner, name, original)
        for module in [*sys.modules.values()][known:] if len(sys.modules) > known else ():
            names = getattr(module, "__dict__", {})
            for key in [key for key, value in names.items() if value is substitute]:
                names[key] = original
