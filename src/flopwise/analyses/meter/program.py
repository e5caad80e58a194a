"""A model as the meter asks it: its graph and its profile for a batch, and remarks on what was found."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from flopwise.analyses.formula.rows import Counting
from flopwise.analyses.meter.batch import called_with, replaced
from flopwise.analyses.meter.cost import figures_of_profile
from flopwise.conventions import get
from flopwise.errors import InputError
from flopwise.formats.inputs import Value
from flopwise.formats.torch.arguments import parameters_of
from flopwise.formats.torch.read import REAL, read_torch
from flopwise.graph import Graph

_TRAINED = operator.attrgetter("requires_grad")


@dataclass
class Program:
    """A model whose batches are counted."""

    model: nn.Module
    #: Whether a batch costs a backward pass, too.
    train: bool
    #: Whether formulas are kept on disk, and taken from there.
    keeps: bool
    #: Arguments whose numbers change nothing in the cost, as the user says.
    ignored: Container[str]
    #: Called with each step of a derivation, and with each note.
    progress: Callable[[str], None]
    notes: list[str] = field(default_factory=list)
    #: How many formulas were derived.
    formulas: int = 0
    #: Whether the module was seen to call itself.
    recursive: bool = False

    def __post_init__(self) -> None:
        self.counting = Counting(get("flops"), train=self.train)
        #: The parameters of ``forward``.
        self.names = parameters_of(self.model)
        self._weights: list[nn.Parameter] = []
        self.renew()

    def renew(self) -> None:
        """Take the weights that the model has now."""
        self._weights = [*self.model.parameters()] if self.train else []

    def trained(self) -> bytes:
        """A byte for each weight, 1 if it has a gradient; without a backward pass none counts as trained."""
        return bytes(map(_TRAINED, self._weights))

    def graph(self, inputs: Any) -> Graph:
        """The model's graph on some inputs."""
        return read_torch(self.model, inputs, mode="train" if self.train else "eval", grad=self.train)

    def profiled(self, batch: Any) -> tuple[dict[str, int], bool]:
        """The figures of a batch from a profile, and whether they are exact.

        Raises:
            ModelError: the model fails with it.
        """
        args, kwargs = called_with(batch)
        inputs = [_as_it_is(value) for value in args], {name: _as_it_is(value) for name, value in kwargs.items()}
        with self._recursion():
            profile = self.counting.profile(self.graph(inputs))
        ran = any(note.startswith(REAL) for note in profile.graph.warnings)  # it asked for elements
        return figures_of_profile(profile), profile.exact and not ran

    @contextlib.contextmanager
    def _recursion(self) -> Iterator[None]:
        """Look whether the module calls itself."""
        depth = 0

        def enters(*_: object) -> None:
            nonlocal depth
            self.recursive |= depth > 0
            depth += 1

        def leaves(*_: object) -> None:
            nonlocal depth
            depth -= 1

        enter = self.model.register_forward_pre_hook(enters)
        leave = self.model.register_forward_hook(leaves, always_call=True)
        try:
            yield
        finally:
            enter.remove()
            leave.remove()

    def remark(self, note: str) -> None:
        """Add a note, once."""
        if note not in self.notes:
            self.notes.append(note)
            self.progress(note)


def _as_it_is(value: Any) -> Any:
    """An argument in which no list of whole numbers is taken for a shape."""
    try:
        return replaced(value, "", lambda name, part: part)
    except InputError:
        return Value(value)
