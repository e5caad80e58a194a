"""One export per case, made when it is first asked for and deleted after the last test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.exports.exporting import Exported


#: They import torch, which must not be needed to look for tests; they hold no doctests.
collect_ignore = ["exporting.py", "models.py"]


@pytest.fixture(scope="session")
def exports() -> Iterator[dict[str, Exported]]:
    """The files that were made so far, by case."""
    made: dict[str, Exported] = {}
    yield made
    for one in made.values():
        one.path.unlink()  # some are hundreds of megabytes


@pytest.fixture(scope="session")
def exported(
    request: pytest.FixtureRequest, exports: dict[str, Exported], tmp_path_factory: pytest.TempPathFactory
) -> Exported:
    """The file of ``request.param``, a Case, and the facts about its module."""
    for name in ("torch", "torchvision", "transformers", "onnxscript"):
        if not _installed(name):
            pytest.skip(f"{name} is not installed")
    from tests.exports.exporting import export

    name = str(request.param)
    if name not in exports:
        exports[name] = export(request.param, tmp_path_factory.mktemp("exports"))
    return exports[name]


def _installed(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None
