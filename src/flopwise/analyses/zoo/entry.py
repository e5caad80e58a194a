"""One model of a zoo, and how it is called."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Entry:
    """One model of a zoo, and how to call it."""

    #: What it is called in the data set; no two entries share one.
    name: str
    #: A path, a URL or ``package.module:callable``.
    model: str
    #: Texts as for ``-i``; () where the model says them itself.
    inputs: tuple[str, ...] = ()
    #: Keyword arguments of a callable.
    arguments: Mapping[str, str] = field(default_factory=dict)
    family: str = ""
    year: int | None = None
    tags: tuple[str, ...] = ()
    #: Sizes of symbolic dimensions; a model takes those of the dimensions that it has.
    dims: Mapping[str, int] = field(default_factory=dict)
    #: First dimension of the inputs; None: as they are.
    batch_size: int | None = None
    #: Sizes of dimensions of ONNX models that nothing else says.
    assume: Mapping[str, int] = field(default_factory=dict)
    #: Whether a program in its file may run.
    trust_code: bool = False
    #: Why there is nothing to profile; "" where there is.
    problem: str = ""

    @property
    def call(self) -> str:
        """The inputs and sizes that it is called with, as on the command line."""
        parts = [*self.inputs, *(f"--dim {name}={size}" for name, size in self.dims.items())]
        parts += [] if self.batch_size is None else [f"-b {self.batch_size}"]
        parts += [f"--assume {','.join(f'{name}={size}' for name, size in self.assume.items())}"] if self.assume else []
        return " ".join(parts)

    def key(self, content: str, version: str) -> str:
        """A key of what decides the model's rows: its content, how it is called, and the version of flopwise.

        Args:
            content: the hash of the model's content.
            version: of flopwise.
        """
        text = json.dumps({**asdict(self), "model": content, "flopwise": version}, sort_keys=True)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
