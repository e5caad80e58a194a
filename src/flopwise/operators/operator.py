"""The row of an operator: all that flopwise knows about it, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypedDict

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators import shape as shapes
from flopwise.operators.complex import Complex
from flopwise.operators.counts import Counts, Note, first_paragraph, text, words
from flopwise.operators.inputs import NO_ROLES, Inputs
from flopwise.operators.shape import Dtypes, ShapeRule, ValueRule

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.operators.gradient import Gradient

#: What one application of an operator executes, from the shapes of its inputs and outputs and its attributes.
#: Raises ShapeError when a shape it needs is unresolved.
Rule: TypeAlias = Callable[[Node], Counts]

#: ``exact``: the number of operations of the plain definition. ``bound``: an upper bound, because the work depends on
#: the data. ``nothing``: moves, selects or converts data and computes nothing, for the reason that the formula gives.
#: ``unknown``: nobody can say what it executes, for the reason that the formula gives.
Claim: TypeAlias = Literal["exact", "bound", "nothing", "unknown"]

#: ``random``: gives something new each time although nothing flows in. ``shape query``: reads shapes, not data, so its
#: result is a constant once the input shapes are fixed. ``bodies``: runs graphs of its own, which may take tensors that
#: are not among its inputs. ``no gradient``: its results do not change with small changes of its inputs.
#: ``quantizes`` and ``dequantizes``: converts floating point to integers, or back; ``picks quantized``: dequantises the
#: elements that it picks. ``strided``: in PyTorch the result reads the storage of the first input, in steps. ``picks``:
#: reads as many elements of the first input as it writes. ``updates``: writes some elements of a copy of the first
#: input, which an engine does in place. ``experts``: a mixture of experts, k (an attribute) of them for each token.
Effect: TypeAlias = Literal[
    "random",
    "shape query",
    "bodies",
    "no gradient",
    "quantizes",
    "dequantizes",
    "picks quantized",
    "strided",
    "picks",
    "updates",
    "experts",
]

#: What the first result holds of the first input: ``same``, each element at its place, perhaps in another type;
#: ``moved``, all elements once under another shape or in another order; ``broadcast``, all elements, some more than
#: once; ``some`` of its elements, or all of them among others. "" for an operator that computes.
Carries: TypeAlias = Literal["", "same", "moved", "broadcast", "some"]

#: Whether the first result is the first input, element by element; asked only where both take the same bytes in the
#: same type.
View: TypeAlias = Callable[[Node], bool]


class Facts(TypedDict, total=False):
    """The facts of a row beside the count."""

    gradient: Gradient | None
    inputs: Inputs
    view: View | None
    in_place: bool
    carries: Carries
    effects: frozenset[Effect]
    #: A rule, or "module:function" of ``operators/shapes``, which is loaded at the first use.
    shape: ShapeRule | str | None
    #: In place of ``shape``: a rule that says types, where it gives up the element types are not known either.
    types: str
    needed: Rule | None
    complex: Complex | None
    #: A rule, or "module:function" of ``operators/elements``, asked where the elements of all inputs are known.
    value: ValueRule | str | None
    dtype: Dtypes


_NONE: frozenset[Effect] = frozenset()

#: What most operators that pick elements do, and nothing else.
PICKS: frozenset[Effect] = frozenset({"picks"})

_NO_COUNTS = Counts()


class Operator(NamedTuple):
    """One row of an operator table."""

    rule: Rule
    #: The count in the operator's own letters, for ``nothing`` and ``unknown`` the reason; "" when the docstring of the
    #: rule begins with it.
    note: Note = ""
    claim: Claim = "exact"
    #: What its backward pass executes, and what the forward pass keeps for it; None when nobody wrote it down.
    gradient: Gradient | None = None
    #: What each of its inputs is for.
    inputs: Inputs = NO_ROLES
    #: Where its first result needs no storage of its own, because it is the first input.
    view: View | None = None
    #: Whether each element of the result is computed from the elements at the same place: then the result may overwrite
    #: an input of its size that nobody needs any more.
    in_place: bool = False
    carries: Carries = ""
    effects: frozenset[Effect] = _NONE
    #: The shapes of its results, or their types; None where nobody knows them.
    shape: ShapeRule | None = None
    #: Of an attention: the count of the pairs of queries and keys that its masks leave; None: as ``rule``.
    needed: Rule | None = None
    #: The elements of small results.
    value: ValueRule | None = None
    #: The element types of results of which the shape rule says the shape alone; by default that of the first input.
    dtype: Dtypes = 0
    #: What it computes of complex numbers; None: as many real operations as its count of them takes, class by class.
    complex: Complex | None = None

    @property
    def formula(self) -> str:
        """The count in the operator's own letters; for ``nothing`` and ``unknown`` the reason."""
        return text(self.note) or first_paragraph(self.rule)

    @property
    def moves(self) -> bool:
        """True where the operator only moves elements, so that an engine may do without a pass of its own."""
        return self.claim == "nothing" and not self.in_place and "bodies" not in self.effects

    @property
    def counted(self) -> bool:
        """True where the operator has a count."""
        return self.claim != "unknown"


def row_of(rule: Rule, note: Note = "", claim: Claim = "exact", **facts: Unpack[Facts]) -> Operator:
    """A row with its facts; rules that are named are loaded at the first use."""
    shape, value = facts.pop("shape", None), facts.pop("value", None)
    if "types" in facts:
        shape = shapes.typed(facts.pop("types"))
    return Operator(
        rule,
        note,
        claim,
        shape=shapes.by(shape) if isinstance(shape, str) else shape,
        value=shapes.elements(value) if isinstance(value, str) else value,
        **facts,  # type: ignore[misc,arg-type] # these are taken out
    )


def each(
    note: str = "",
    basis: Counts = _NO_COUNTS,
    /,
    *,
    gradient: Gradient | None = None,
    inputs: Inputs = NO_ROLES,
    view: View | None = None,
    in_place: bool = False,
    carries: Carries = "",
    effects: frozenset[Effect] = _NONE,
    shape: ShapeRule | str | None = shapes.common,
    value: ValueRule | str | None = None,
    dtype: Dtypes = 0,
    complex: Complex | None = None,
    **classes: int,
) -> Operator:
    """A row for a pointwise operator: the given operations for each element of output 0, and a remark if one is due.

    Its result has the shape that its inputs are broadcast to, unless ``shape`` says otherwise.

    >>> each(mul=1, add=2).formula
    'numel(Y) × (2 add + 1 mul)'

    Args:
        note: the remark.
        basis: what the operations given by class come on top of, such as a sigmoid.
        classes: operations by class; the others are facts of the row.
    """
    once = basis + Counts(**classes) if classes else basis
    rule = lambda node: once * node.output().numel  # noqa: E731 # a function of its own is one more name
    formula = lambda: f"numel(Y) × {words(once)}" + (f": {note}" if note else "")  # noqa: E731
    return row_of(
        rule,
        formula,
        "exact",
        gradient=gradient,
        inputs=inputs,
        view=view,
        in_place=in_place,
        carries=carries,
        effects=effects,
        shape=shape,
        value=value,
        dtype=dtype,
        complex=complex,
    )


def each_input(
    per_element: Counts,
    per_result: Counts | None = None,
    note: str = "",
    claim: Claim = "exact",
    **facts: Unpack[Facts],
) -> Operator:
    """A row for the given operations for each element of input 0 and of output 0, and a remark if one is due.

    >>> each_input(Counts(add=1), Counts(div=1), "the sum, divided").formula
    'numel(X) × 1 add + numel(Y) × 1 div: the sum, divided'
    """

    def rule(node: Node) -> Counts:
        counts = per_element * node.input(0).numel
        return counts + per_result * node.output().numel if per_result else counts

    def formula() -> str:
        closing = f" + numel(Y) × {words(per_result)}" if per_result else ""
        return f"numel(X) × {words(per_element)}{closing}" + (f": {note}" if note else "")

    return row_of(rule, formula, claim, **facts)


def nothing(reason: str, **facts: Unpack[Facts]) -> Operator:
    """A row for an operator that computes nothing, with the reason."""
    return row_of(_no_counts, reason, "nothing", **facts)


def unknown(reason: str, **facts: Unpack[Facts]) -> Operator:
    """A row for an operator that stays without a count on purpose, with the reason."""
    return row_of(_unknown, reason, "unknown", **facts)


def by(rule: Rule, claim: Claim = "exact", **facts: Unpack[Facts]) -> Operator:
    """A row for a rule function; the first paragraph of its docstring is the formula."""
    return row_of(rule, "", claim, **facts)


def counted_as(row: Operator, **facts: Unpack[Facts]) -> Operator:
    """A row for an operator that counts as another does, with other facts."""
    return row_of(row.rule, row.note, row.claim, **facts)


def _no_counts(node: Node) -> Counts:
    return Counts()


def _unknown(node: Node) -> Counts:
    raise ShapeError(f"{node.op} {node.name!r}: it is not counted")
