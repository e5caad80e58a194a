"""A rule of advice, and the changes that it finds in a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from flopwise._user_code import is_own, place_of, user_code
from flopwise.errors import FlopwiseError, RuleError
from flopwise.graph import Node

if TYPE_CHECKING:
    from flopwise.analyses.advice.subject import Subject
    from flopwise.analyses.timing.device import Roof

Argument = TypeVar("Argument")
Result = TypeVar("Result")

#: ``same``: the same result, up to rounding; ``other``: another network, which is to be trained again.
Exactness: TypeAlias = Literal["same", "other"]


@dataclass(frozen=True)
class Change:
    """Operators of a model, and what would stand in their place."""

    #: Positions in ``Graph.nodes`` of the operators that go.
    positions: tuple[int, ...]
    #: Why, with its figure.
    text: str
    #: The operators that come instead; a result that others take keeps its name.
    after: tuple[Node, ...] = ()
    #: Result of an operator that goes -> the tensor that holds the same.
    same: Mapping[str, str] = field(default_factory=dict)
    #: Whether the results of the operators that go become stored tensors, because nothing in them varies.
    stored: bool = False
    #: The operators that go as the engine executes them, where that is more than the model says (padding); () for
    #: those of the model.
    before: tuple[Node, ...] = ()
    #: Multiply-adds that the operators do in vain, where they stay and do less; 0 for operators that go.
    vain: int = 0
    #: The share of the operators' time in which a device is idle, where they stay; 0.0 for operators that go.
    idle: float = 0.0
    #: The elements of stored tensors that are new in ``after``, from a function that reads those of the model by name.
    values: Callable[[Callable[[str], Any]], Mapping[str, Any]] | None = None

    #: Names of tensors whose elements stay what they are in this reading of the model, beside those that are stored.
    fixed: tuple[str, ...] = ()

    @property
    def stays(self) -> bool:
        """True where the operators stay, and cost less."""
        return bool(self.vain or self.idle)


def everywhere(roof: Roof) -> bool:
    """True: the rule saves work whatever binds."""
    return True


@dataclass(frozen=True)
class Rule:
    """A kind of waste or of costly structure, and how to find it."""

    name: str
    #: What is changed, in a line.
    about: str
    exactness: Exactness
    #: Who says so: a paper, a tool with its version, or arithmetic.
    source: str
    find: Callable[[Subject], Iterable[Change]]
    #: Whether it helps operators that are bound by this roof on the device.
    applies: Callable[[Roof], bool] = everywhere
    #: Whether it is asked about the graph that an engine executes, where there is one; None: for the same result.
    executed: bool | None = None
    #: A change in PyTorch's words, "NEW in place of OLD" or new modules, for who wrote the model there; "" where
    #: this one has none, None where there is nothing to write.
    code: Callable[[Change], str] | None = None
    #: Whether it holds for a training step, too: weights change, and all positions and statistics count.
    trained: bool = True

    def __post_init__(self) -> None:
        """
        Raises:
            RuleError: the exactness is another word.
        """
        if self.exactness not in ("same", "other"):
            raise RuleError(f"the rule {self.name} has exactness={self.exactness!r}, neither 'same' nor 'other'")

    def changes(self, subject: Subject) -> list[Change]:
        """The changes that it finds in a model.

        Raises:
            RuleError: a rule of the user's fails, or gives something else.
        """
        changes = self._run(lambda model: list(self.find(model)), subject)
        for each in changes:
            if not isinstance(each, Change):
                raise RuleError(f"the rule {self.name} found {each!r:.60}, which is no Change")
            if wrong := [p for p in each.positions if p not in range(len(subject.nodes))]:
                raise RuleError(f"the rule {self.name} found operator {wrong[0]} of {len(subject.nodes)}")
        return changes

    def in_pytorch(self, change: Change) -> str:
        """A change in PyTorch's words; "" where there are none.

        Raises:
            RuleError: a rule of the user's fails.
        """
        return "" if self.code is None else self._run(self.code, change)

    def _run(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        """The result of one of its functions, on what may be the user's own code."""
        code = getattr(self.find, "__code__", None)
        if code is None or is_own(code.co_filename):
            return function(argument)
        file = os.path.basename(code.co_filename)
        try:
            with user_code(file, f"its rule {self.name} ran"):
                return function(argument)
        except FlopwiseError:
            raise
        except Exception as error:  # whatever the user's code raises is the user's to see, on one line
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{place_of(error)}"
            raise RuleError(f"{file}: the rule {self.name} failed with {why}") from error

    @property
    def of_executed(self) -> bool:
        """True where it is asked about the graph that an engine executes."""
        return self.exactness == "same" if self.executed is None else self.executed
