"""Differences of two conventions on a model: the causes in words, the largest first, which add up to the difference.

What a cause says is a fact about the two counts (one of them is 0, a ratio, so much for each output element), never a
guess at what a tool had in mind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from flopwise._results import Json
from flopwise.errors import InputError
from flopwise.graph import Graph, Node
from flopwise.graph.names import layer_kind
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

# Layers of an operator in a sentence: convolutions, linear layers, attention's projections.


class Layers(NamedTuple):
    """A name for several layers, and the module in which they lie."""

    words: str
    #: The module that several of them are one of; "" where each is a layer of its own.
    place: str = ""
    #: The multi-head attention that they are a part of; "" outside of one.
    attention: str = ""


#: Operator -> what its layers are called; any other by the name that its rows show.
PLURALS = {
    "Add": "additions",
    "Attention": "scaled dot-product attention",
    "AveragePool": "average pooling",
    "BatchNormalization": "batch norm",
    "Clip": "clipping (ReLU6 and the like)",
    "Concat": "concatenation",
    "Conv": "convolutions",
    "ConvTranspose": "transposed convolutions",
    "Div": "divisions",
    "Dropout": "dropout",
    "Einsum": "einsum products",
    "Elu": "ELU",
    "Erf": "erf (in GELU)",
    "Exp": "exponentials",
    "GRU": "GRUs",
    "Gather": "look-ups (embeddings and indexing)",
    "Gelu": "GELU",
    "Gemm": "linear layers",
    "GlobalAveragePool": "global average pooling",
    "GlobalMaxPool": "global max pooling",
    "GroupNormalization": "group norm",
    "HardSigmoid": "hard sigmoid",
    "HardSwish": "hard swish",
    "InstanceNormalization": "instance norm",
    "LRN": "local response norm",
    "LSTM": "LSTMs",
    "LayerNormalization": "layer norm",
    "LeakyRelu": "leaky ReLU",
    "MatMul": "matrix products",
    "MaxPool": "max pooling",
    "Mul": "multiplications",
    "PRelu": "PReLU",
    "Pow": "powers",
    "RMSNormalization": "RMS norm",
    "RNN": "RNNs",
    "ReduceMean": "means",
    "ReduceSum": "sums over axes",
    "Relu": "ReLU",
    "Resize": "resizing (interpolation)",
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "Sqrt": "square roots",
    "Sub": "subtractions",
    "Sum": "sums",
    "Swish": "SiLU (swish)",
    "Tanh": "tanh",
}

#: The public function of PyTorch that an attention with packed projections runs in.
ATTENTION = "torch.nn.functional.multi_head_attention_forward"


def layers_of(node: Node, graph: Graph) -> Layers:
    """The name of the layers that a node is one of, for a sentence; projections in an attention are set apart."""
    words = PLURALS.get(node.op) or layer_kind(node, graph)
    if not (ATTENTION in node.via or (node.scope and node.scope[-1].kind.endswith("MultiheadAttention"))):
        return Layers(words)
    if node.op in ("Gemm", "MatMul"):
        return Layers("attention's in and out projections", node.module, node.module)
    return Layers(words, "", node.module)


#: How a layer's two counts differ; "here" is a layer that the convention sees elsewhere but not at this place.
Way: TypeAlias = Literal["alone", "here", "unknown", "bias", "product", "element", "less", "other"]

#: So many operations for an element are said as such; more say less than a ratio.
FEW = 64

#: Ways in which both conventions count a layer; several of them in layers of one name become one ratio.
COUNTED = ("element", "less", "product", "other")

#: Operators with a bias: an addition for each output element.
BIASED = ("Conv", "ConvTranspose", "Gemm")

#: FLOP that one unit of a count is worth.
FLOPS = {"FLOP": 1, "MAC": 2}


class _Reason(NamedTuple):
    """A difference between the counts of a layer: the way, which of the two has less (0 or 1), and its numbers."""

    way: Way
    less: int = 0
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why two conventions differ: which layers, how, and by how much."""

    #: The layers in words ("attention's in and out projections").
    what: str
    #: What the conventions do with them ("thop does not see them").
    why: str
    #: How many layers; of the projections in an attention, how many attentions.
    layers: int
    #: What each convention counts in these layers, in the unit of the difference; 0 for what it cannot count.
    first: int
    other: int
    #: Name and operator of each layer.
    rows: tuple[tuple[str, str], ...]
    #: Which of the two cannot count some of these layers, so that the difference may be anything.
    missing: tuple[bool, bool] = (False, False)

    @property
    def counts(self) -> tuple[int, int]:
        """The counts of both conventions for these layers."""
        return self.first, self.other

    @property
    def unknown(self) -> bool:
        """True where one of the conventions cannot count some of these layers."""
        return any(self.missing)

    @property
    def difference(self) -> int:
        """The excess of the other convention's count over the first's, on what both can count."""
        return self.other - self.first


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two conventions on one model: their totals in one unit, and the causes."""

    first: Profile
    other: Profile
    #: The unit of all figures: that of the conventions if they share one, else FLOP, a MAC being 2.
    unit: str
    totals: tuple[int, int]
    causes: tuple[Cause, ...]

    @property
    def factor_of_two(self) -> Cause | None:
        """The cause that one convention counts FLOPs and the other MACs, in their own units; None where both count one.

        With it the causes add up to the difference of the two numbers as they are printed.
        """
        units = self.first.convention.unit, self.other.convention.unit
        if units[0] == units[1]:
            return None
        flops, macs = (self.first, self.other) if units[0] == self.unit else (self.other, self.first)
        rows = [row for row in macs.rows if row.count]
        return Cause(
            "factor of two",
            f"{flops.convention.name} counts FLOPs, {macs.convention.name} MACs: 1 MAC = 2 FLOP",
            len({id(row.node) for row in rows}),
            self.first.sum.count if macs is self.first else self.totals[1],
            self.other.sum.count if macs is self.other else self.totals[0],
            tuple((row.name, row.node.op) for row in rows),
            (bool(macs.sum.unknown),) * 2,
        )

    @property
    def printed_difference(self) -> int:
        """The difference of the two numbers as they are printed, each in its own unit."""
        return self.difference + (self.factor_of_two.difference if self.factor_of_two else 0)

    @property
    def difference(self) -> int:
        """The excess of the other convention, on what both can count: the sum over the causes."""
        return self.totals[1] - self.totals[0]

    @property
    def exact(self) -> bool:
        """True where both totals are exact; the difference of lower bounds says nothing about the true one."""
        return not (self.first.sum.unknown or self.other.sum.unknown)

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two conventions."""
        return self.first.convention.name, self.other.convention.name

    def to_dict(self) -> Json:
        """The difference as plain values: integers, and None for what one of the conventions cannot count."""
        return {
            "conventions": list(self.names),
            "unit": self.unit,
            "totals": list(self.totals),
            "difference": self.difference if self.exact else None,
            "factor_of_two": self.factor_of_two.difference if self.factor_of_two else None,
            "causes": [
                {
                    "layers": cause.what,
                    "reason": cause.why,
                    "number": cause.layers,
                    "counts": [None if gone else n for n, gone in zip(cause.counts, cause.missing, strict=True)],
                    "difference": None if cause.unknown else cause.difference,
                    "unknown": cause.unknown,
                    "names": [name for name, _ in cause.rows],
                }
                for cause in self.causes
            ],
        }


def common_unit(profiles: Sequence[Profile]) -> str:
    """The unit in which counts of several conventions are compared: theirs if they share it, else FLOP."""
    units = {p.convention.unit for p in profiles}
    return units.pop() if len(units) == 1 else "FLOP"


def factor(profile: Profile, unit: str) -> int:
    """The factor from the profile's unit to another: 2 FLOP for each MAC.

    Raises:
        InputError: it is unknown how many.
    """
    own = profile.convention.unit
    if own == unit:
        return 1
    if own not in FLOPS or unit != "FLOP":
        raise InputError(f"counts of {profile.convention.name} are in {own}, which is not converted to {unit}")
    return FLOPS[own]


def why(first: Profile, other: Profile) -> Difference:
    """The difference of two conventions on a model, with its causes.

    Args:
        first: the model in one convention.
        other: the same graph in another.

    Raises:
        InputError: the units cannot be converted into each other.
    """
    unit = common_unit((first, other))
    scales = factor(first, unit), factor(other, unit)
    totals = first.sum.count * scales[0], other.sum.count * scales[1]
    pairs = _merge_attentions(list(_pairs(first, other, scales)))
    ops = tuple({pair.node.op for pair in pairs if pair.counts[side]} for side in (0, 1))
    names = first.convention.name, other.convention.name
    groups: _Groups = {}
    for pair in pairs:
        if pair.differs:
            groups.setdefault((pair.layers.words, _reason(pair, ops, 2 if unit == "FLOP" else 1)), []).append(pair)
    causes = [_cause(words, ways, names) for words, ways in _by_words(groups).items()]
    return Difference(first, other, unit, totals, tuple(sorted(causes, key=_size)))


def _size(cause: Cause) -> tuple[int, bool, str]:
    """The largest difference stands first; layers that one cannot count weigh as much as the other counts in them."""
    return -abs(cause.difference), not cause.unknown, cause.what


class _Pair(NamedTuple):
    """A layer in both conventions, or layers that one of them counts as a whole."""

    node: Node
    layers: Layers
    #: The layer's rows; a convention that does not list it has none.
    rows: tuple[Row, ...]
    #: In the common unit; 0 where the convention cannot count the layer, or does not list it.
    counts: tuple[int, int]
    unknown: tuple[bool, bool]
    whole: bool = False

    @property
    def differs(self) -> bool:
        return self.counts[0] != self.counts[1] or self.unknown[0] != self.unknown[1]


_Groups: TypeAlias = "dict[tuple[str, _Reason], list[_Pair]]"


def _pairs(first: Profile, other: Profile, scales: tuple[int, int]) -> Iterator[_Pair]:
    """Each node that a convention lists, with what both make of it; a node may have several rows."""
    rows: dict[int, tuple[list[Row], list[Row]]] = {}
    for side, profile in enumerate((first, other)):
        for row in profile.rows:
            rows.setdefault(id(row.node), ([], []))[side].append(row)
    for both in rows.values():
        counts = [sum(row.count or 0 for row in side) * scale for side, scale in zip(both, scales, strict=True)]
        unknown = [any(row.count is None for row in side) for side in both]
        every = (*both[0], *both[1])
        node = every[0].node
        yield _Pair(node, layers_of(node, first.graph), every, (counts[0], counts[1]), (unknown[0], unknown[1]))


def _merge_attentions(pairs: list[_Pair]) -> list[_Pair]:
    """The pairs, those of an attention as one where a convention counts the whole attention at one of its layers."""
    attentions: dict[str, list[_Pair]] = {}
    for pair in pairs:
        if pair.layers.attention:
            attentions.setdefault(pair.layers.attention, []).append(pair)
    merged_pairs: dict[int, _Pair | None] = {}
    for place, members in attentions.items():
        counted = [sum(1 for pair in members if pair.counts[side]) for side in (0, 1)]
        if min(counted) != 1 or max(counted) == 1:
            continue
        layers = Layers("multi-head attention", place, place)
        rows = tuple(row for pair in members for row in pair.rows)
        merged_pairs.update({id(pair.node): None for pair in members})
        merged_pairs[id(members[0].node)] = _Pair(members[0].node, layers, rows, *_joint_counts(members), True)
    return [merged for pair in pairs if (merged := merged_pairs.get(id(pair.node), pair)) is not None]


def _joint_counts(members: Sequence[_Pair]) -> tuple[tuple[int, int], tuple[bool, bool]]:
    """The counts of layers together in both conventions, and whether one of them is unknown."""
    first, other = (sum(pair.counts[side] for pair in members) for side in (0, 1))
    return (first, other), (any(pair.unknown[0] for pair in members), any(pair.unknown[1] for pair in members))


def _reason(pair: _Pair, ops: tuple[set[str], ...], product: int) -> _Reason:
    """The difference between the two counts of a layer.

    Args:
        pair: the layer.
        ops: the operators that each convention counts anywhere in the model.
        product: what a multiply-accumulate is worth in the common unit.
    """
    if pair.unknown[0] != pair.unknown[1]:
        return _Reason("unknown", int(pair.unknown[1]))
    one, two = pair.counts
    less = int(two < one)
    if 0 in (one, two):
        return _Reason("here" if pair.node.op in ops[less] else "alone", less)
    canonical, output = pair.rows[0].counts, pair.node.known_outputs[:1]
    elements = output[0].numel if output and output[0].resolved else 0
    gap = abs(two - one)
    if pair.whole or canonical is None or not isinstance(elements, int) or not elements or pair.node.within:
        return _Reason("other")
    if canonical.mac:
        if min(one, two) == product * canonical.mac:
            if pair.node.op in BIASED and gap in [times * canonical.add for times in range(1, product + 1)]:
                return _Reason("bias", less, (gap // canonical.add,))
            if gap == sum(canonical) - canonical.mac:  # the other has all their operations
                return _Reason("product", less)
        return _Reason("less", less, (gap // elements,)) if gap in (elements, 2 * elements) else _Reason("other")
    if one % elements == two % elements == 0 and max(one, two) <= FEW * elements:
        return _Reason("element", 0, (one // elements, two // elements))
    return _Reason("other")


def _by_words(groups: _Groups) -> dict[str, dict[_Reason, list[_Pair]]]:
    """The groups by what the layers are called; where both conventions count, several ways become one ratio."""
    by_words: dict[str, dict[_Reason, list[_Pair]]] = {}
    for (words, reason), members in groups.items():
        what = f"biases of {words}" if reason.way == "bias" else words
        by_words.setdefault(what, {})[reason] = members
    for what, ways in by_words.items():
        counted = [reason for reason in ways if reason.way in COUNTED]
        if len(counted) > 1:
            members = [pair for reason in counted for pair in ways[reason]]
            others = {reason: ways[reason] for reason in ways if reason not in counted}
            by_words[what] = {_Reason("other"): members, **others}
    return by_words


def _cause(what: str, ways: dict[_Reason, list[_Pair]], names: tuple[str, str]) -> Cause:
    """The cause that layers of one name have in common."""
    members = [pair for each in ways.values() for pair in each]
    (first, other), missing = _joint_counts(members)
    if any(reason.way == "bias" for reason in ways):  # the products are the same in both
        first, other = (sum(max(pair.counts[i] - pair.counts[1 - i], 0) for pair in members) for i in (0, 1))
    reasons = [(_words(reason, names, each), _number(each)) for reason, each in ways.items()]
    return Cause(
        what,
        reasons[0][0] if len(reasons) == 1 else "; ".join(f"{words} (in {number})" for words, number in reasons),
        _number(members),
        first,
        other,
        tuple(dict.fromkeys((row.name, row.node.op) for pair in members for row in pair.rows)),
        missing,
    )


def _number(members: Sequence[_Pair]) -> int:
    """The number of layers, the projections of an attention as one."""
    return len({pair.layers.place or id(pair.node) for pair in members})


def _words(reason: _Reason, names: tuple[str, str], members: Sequence[_Pair]) -> str:
    """The conventions' treatment of the layers of a cause, in words."""
    less, more = names[reason.less], names[1 - reason.less]
    one = _number(members) == 1
    if reason.way == "unknown":
        return f"{less} cannot count {'it' if one else 'them'}"
    if reason.way == "here":
        return f"{less} does not see {'it' if one else 'them'}"
    if reason.way == "alone":
        return f"counted by {more} alone"
    if reason.way == "bias":
        return f"counted by {more} alone" + (", as multiply-adds" if reason.numbers[0] == 2 else "")
    if reason.way == "product":
        return f"{less} counts {'its' if one else 'their'} multiply-adds alone"
    if reason.way == "less":
        return f"{less} counts {reason.numbers[0]} less for each output element"
    if reason.way == "element":
        return f"for each output element {names[0]} counts {reason.numbers[0]}, {names[1]} {reason.numbers[1]}"
    (first, other), _ = _joint_counts(members)
    return f"{names[1]} counts {_times(other, first)} what {names[0]} counts"


def _times(one: int, other: int) -> str:
    """The factor from the other number to the one.

    >>> _times(5, 2), _times(2, 8), _times(100001, 100000), _times(2, 50)
    ('2.5 times', '0.25 times', '1.00001 times', '1/25 of')
    >>> _times(2560000, 1281000), _times(1, 1234), _times(12345, 10), _times(7, 7)
    ('1.998 times', 'about 1/1,230 of', 'about 1,230 times', 'as much as')
    """
    if one == other:
        return "as much as"
    about, ratio = _ratio_text(other, one) if 20 * one < other else _ratio_text(one, other)
    return f"{about}1/{ratio} of" if 20 * one < other else f"{about}{ratio} times"


def _ratio_text(one: int, other: int) -> tuple[str, str]:
    """A ratio with three digits, or more where they would say a whole number below 100; "about " where it is not
    exact.
    """
    for digits in range(3, 13):
        rounded = float(f"{one / other:.{digits}g}")
        if rounded >= 100 or rounded != int(rounded) or rounded * other == one:
            break
    if rounded != int(rounded):
        return "", f"{rounded:.12g}"
    return "" if int(rounded) * other == one else "about ", f"{int(rounded):,}"
