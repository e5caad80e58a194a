"""Rules about other networks: the results change, and training decides."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise.analyses.advice.patterns import Convolution, as_modules, convolution, convolutions
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, bare
from flopwise.analyses.timing.quantities import TILE, product_of, tiles_of
from flopwise.graph import Node, Tensor
from flopwise.operators.tables import row

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Roof


def two_kernels(subject: Subject) -> Iterator[Change]:
    """Dense 5x5 convolutions: 25 weights for each pair of channels, where 18 see as far."""
    for each in convolutions(subject):
        if each.kernel != (5, 5) or each.groups != 1:
            continue
        first = convolution(each.source, f"{each.node.name}.first", each.made, (3, 3), each.grid)
        second = convolution(first.output(), each.node.name, each.made, (3, 3), each.grid, result=each.result)
        text = f"5x5 of {each.taken} to {each.made} channels on {each.grid[0]}x{each.grid[1]}: two 3x3 see as far"
        yield Change((each.position,), text, (first, second))


TWO_KERNELS = Rule(
    name="two-kernels",
    about="Use two 3x3 convolutions for one of 5x5.",
    exactness="other",
    source="Szegedy et al., Rethinking the Inception Architecture, 2016, section 3.1",
    find=two_kernels,
    code=as_modules,
)


# A kxk convolution as one of 1xk and one of kx1.


#: Grids on which the paper has it work.
GRIDS = range(12, 21)


def asymmetric_kernels(subject: Subject) -> Iterator[Change]:
    """Dense square kernels of 3x3 and more on medium grids."""
    for each in convolutions(subject):
        k = each.kernel[0]
        if each.kernel != (k, k) or k < 3 or each.groups != 1 or any(extent not in GRIDS for extent in each.grid):
            continue
        narrow = (int(each.source.dims[2]), each.grid[1])
        first = convolution(each.source, f"{each.node.name}.first", each.made, (1, k), narrow)
        second = convolution(first.output(), each.node.name, each.made, (k, 1), each.grid, result=each.result)
        text = f"{k}x{k} of {each.taken} to {each.made} channels on {each.grid[0]}x{each.grid[1]}: 1x{k}, then {k}x1"
        yield Change((each.position,), text, (first, second))


ASYMMETRIC_KERNELS = Rule(
    name="asymmetric-kernels",
    about="Use a 1xk and a kx1 convolution for one of kxk, on grids of 12 to 20.",
    exactness="other",
    source="Szegedy et al., Rethinking the Inception Architecture, 2016, section 3.2",
    find=asymmetric_kernels,
    code=as_modules,
)


# A dense convolution as a depthwise one and a 1x1.


#: Channels of an input that is an image: its first layer is no candidate.
IMAGE = 4


def separable(subject: Subject) -> Iterator[Change]:
    """Dense convolutions of 3x3 and more over more channels than an image has."""
    for each in convolutions(subject):
        if min(each.kernel) < 3 or each.groups != 1 or each.taken <= IMAGE:
            continue
        deep = convolution(
            each.source, f"{each.node.name}.depthwise", each.taken, each.kernel, each.grid, groups=each.taken
        )
        point = convolution(deep.output(), each.node.name, each.made, (1, 1), each.grid, result=each.result)
        k = f"{each.kernel[0]}x{each.kernel[1]}"
        text = f"{k} of {each.taken} to {each.made} channels: depthwise {k}, then 1x1"
        yield Change((each.position,), text, (deep, point))


SEPARABLE = Rule(
    name="separable",
    about="Use a depthwise and a 1x1 convolution for a dense one.",
    exactness="other",
    source="Howard et al., MobileNets, 2017, section 3.1",
    find=separable,
    code=as_modules,
)


# A dense convolution between 1x1 convolutions that take channels away and give them back.


#: Channels from which ResNets have bottlenecks, and the share that is left in them.
WIDE, SHARE = 256, 4


def reduction(subject: Subject) -> Iterator[Change]:
    """Dense convolutions of 3x3 and more from as many channels to as many, 256 or more."""
    for each in convolutions(subject):
        if min(each.kernel) < 3 or each.groups != 1 or min(each.taken, each.made) < WIDE:
            continue
        name, inner = each.node.name, each.made // SHARE
        height, width = (int(extent) for extent in each.source.dims[2:])
        first = convolution(each.source, f"{name}.reduce", inner, (1, 1), (height, width))
        second = convolution(first.output(), f"{name}.narrow", inner, each.kernel, each.grid)
        third = convolution(second.output(), name, each.made, (1, 1), each.grid, result=each.result)
        text = f"{each.kernel[0]}x{each.kernel[1]} of {each.taken} to {each.made} channels: by way of {inner}"
        yield Change((each.position,), text, (first, second, third))


REDUCTION = Rule(
    name="reduction",
    about="Reduce channels by a 1x1 convolution before a dense one of 256 and more, and expand them behind it.",
    exactness="other",
    source="He et al., Deep Residual Learning, 2016, figure 5 (bottleneck to a quarter)",
    find=reduction,
    code=as_modules,
)


# A fully connected layer over a grid, where the mean over the grid would do.


def global_pooling(subject: Subject) -> Iterator[Change]:
    """Gemm or MatMul by stored weights of what was flattened from a grid of more than one place."""
    for position, node in subject.live("Gemm", "MatMul"):
        if not node.has_input(1) or not subject.stored(node.input(1)) or len(node.output().dims) != 2:
            continue
        flat = subject.maker(node.input(0))
        skipped = []
        while flat is not None and flat[1].op in ("Dropout", "Identity"):
            skipped.append(flat[0])
            flat = subject.maker(flat[1].input(0))
        if flat is None or flat[1].op not in ("Flatten", "Reshape"):
            continue
        grid = flat[1].input(0)
        if len(grid.dims) != 4 or grid.dims[0] != node.output().dims[0] or int(grid.dims[2] * grid.dims[3]) == 1:
            continue
        if grid.dims[1] == 1 or grid.dims[1] * grid.dims[2] * grid.dims[3] != node.input(0).dims[-1]:
            continue
        channels, units = int(grid.dims[1]), int(node.output().dims[1])
        pooled = Tensor(f"{node.name}.pooled", (grid.dims[0], channels, 1, 1), grid.dtype)
        row = Tensor(f"{node.name}.row", (grid.dims[0], channels), grid.dtype)
        weight = Tensor(f"{node.name}.weight", (channels, units), grid.dtype, "weight")
        after = (
            Node("GlobalAveragePool", f"{node.name}.pool", (grid,), (pooled,)),
            Node("Flatten", f"{node.name}.flatten", (pooled,), (row,), {"axis": 1}),
            Node(bare(node.op), node.name, (row, weight, *node.inputs[2:]), node.outputs),
        )
        text = (
            f"{int(node.input(0).dims[-1]):,} inputs from a {grid.dims[2]}x{grid.dims[3]} grid of {channels} channels"
        )
        yield Change((flat[0], *skipped, position), text, after)


def _global_pooling_code(change: Change) -> str:
    """The mean and a linear layer as modules of PyTorch."""
    channels, units = change.after[-1].input(1).dims
    return f"nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear({channels}, {units}))"


GLOBAL_POOLING = Rule(
    name="global-pooling",
    about="Take the mean over the grid before a fully connected layer.",
    exactness="other",
    source="Lin et al., Network In Network, 2014, section 3.2",
    find=global_pooling,
    code=_global_pooling_code,
)


# 1x1 convolutions from few channels to many, or the reverse.


#: Ratio of channels from which the paper measured a clear loss.
UNEQUAL = 6


def equal_channels(subject: Subject) -> Iterator[Change]:
    """1x1 convolutions whose channels differ by six times and more, against one of equal channels and as many products.

    Bytes of h·w·(c1 + c2) + c1·c2 are least for a product c1·c2 where c1 = c2. What widens for a depthwise convolution
    or narrows behind one is left alone, because the depthwise one is why it is wide; so is a single place, whose bytes
    are weights.
    """
    every = list(convolutions(subject))
    depthwise = {each.position for each in every if each.groups == each.taken == each.made > 1}
    for each in every:
        most, least = max(each.taken, each.made), min(each.taken, each.made)
        if each.kernel != (1, 1) or each.groups != 1 or most < UNEQUAL * least or each.grid == (1, 1):
            continue
        if not depthwise.isdisjoint(_around(subject, each)):
            continue
        equal = math.isqrt(most * least)
        batch, _, *grid = each.source.dims
        source = Tensor(f"{each.node.name}.source", (batch, equal, *grid), each.source.dtype)
        after = convolution(source, each.node.name, equal, (1, 1), each.grid)
        text = f"{each.taken} to {each.made} channels: {equal} to {equal} are as many products and fewer bytes"
        yield Change((each.position,), text, (after,))


def _around(subject: Subject, each: Convolution) -> Iterator[int]:
    """Positions of the convolutions before and behind one, with nothing but element-wise operators between."""
    reached, tensors = [each.source], [each.result]
    while reached:
        maker = subject.maker(reached.pop())
        if maker is not None and bare(maker[1].op) == "Conv":
            yield maker[0]
        elif maker is not None and row(maker[1].op).in_place:
            reached.append(maker[1].input(0))
    while tensors:
        for position in subject.takers(tensors.pop()):
            node = subject.nodes[position]
            if bare(node.op) == "Conv":
                yield position
            elif row(node.op).in_place and node.output().shape == each.result.shape:
                tensors.append(node.output())


def _equal_channels_applies(roof: Roof) -> bool:
    """True where bytes bind: where arithmetic does, the same products take the same time."""
    return roof == "memory"


EQUAL_CHANNELS = Rule(
    name="equal-channels",
    about="Give a 1x1 convolution as many channels before as behind (G1), where memory binds it.",
    exactness="other",
    source="Ma et al., ShuffleNet V2, 2018, guideline G1 and table 1; does not hold on a CPU that arithmetic binds",
    find=equal_channels,
    applies=_equal_channels_applies,
    code=as_modules,
)


# Convolutions in groups, whose bytes grow with the channels that they pay for.


def groups(subject: Subject) -> Iterator[Change]:
    """Convolutions in groups that are not depthwise, against a dense one of as many products."""
    for each in convolutions(subject):
        if each.groups == 1 or each.groups in (each.taken, each.made):
            continue
        root = math.sqrt(each.groups)
        taken, made = round(each.taken / root), round(each.made / root)
        batch, _, *grid = each.source.dims
        source = Tensor(f"{each.node.name}.source", (batch, taken, *grid), each.source.dtype)
        after = convolution(source, each.node.name, made, each.kernel, each.grid)
        text = (
            f"{each.groups} groups of {each.taken} to {each.made} channels: dense, {taken} to {made} multiply as much"
        )
        yield Change((each.position,), text, (after,))


def _groups_applies(roof: Roof) -> bool:
    """True where bytes bind."""
    return roof == "memory"


GROUPS = Rule(
    name="groups",
    about="Use fewer channels without groups in place of more in groups (G2), where memory binds.",
    exactness="other",
    source="Ma et al., ShuffleNet V2, 2018, guideline G2 and table 2",
    find=groups,
    applies=_groups_applies,
    code=as_modules,
)


# Element-wise operators that take passes of their own.


#: The paper measures what goes with ReLU and shortcut: 20 % of a bottleneck. Below half of that it is no advice.
LEAST = 0.1

#: Operators that are named, those that move most.
NAMED = 3

#: What the paper leaves out to measure them: ReLU, and sums of tensors. Other activations are a network's own choice.
ACTIVATIONS, SUMS = frozenset({"Relu", "Clip"}), frozenset({"Add", "Sum"})


def element_wise(subject: Subject) -> Iterator[Change]:
    """ReLUs and shortcuts, all together, where they move a tenth of a convolutional network's bytes."""
    products = {each.node.op: 0 for each in subject.profile.rows}
    for each in subject.profile.rows:
        products[each.node.op] += each.macs or 0
    if not products or bare(max(products, key=lambda op: products[op])) != "Conv":
        return
    rows = {id(each.node): (each.read_bytes or 0) + (each.written_bytes or 0) for each in subject.profile.rows}
    positions = tuple(p for p, node in subject.live(*ACTIVATIONS, *SUMS) if _is_measured(subject, node))
    moved, whole = sum(rows.get(id(subject.nodes[p]), 0) for p in positions), sum(rows.values())
    if whole and moved >= LEAST * whole:
        by_operator: Counter[str] = Counter()
        for p in positions:
            by_operator[bare(subject.nodes[p].op)] += rows.get(id(subject.nodes[p]), 0)
        names = ", ".join(op for op, _ in by_operator.most_common(NAMED))
        yield Change(positions, f"{len(positions)} element-wise passes ({names}) move {moved / whole:.0%} of all bytes")


def _is_measured(subject: Subject, node: Node) -> bool:
    """True for a ReLU, and for a sum of tensors that vary: a stored one is a bias."""
    return bare(node.op) in ACTIVATIONS or not any(subject.stored(tensor) for tensor in node.known_inputs)


def _element_wise_applies(roof: Roof) -> bool:
    """True where bytes bind, or nothing does."""
    return roof in ("memory", "none")


ELEMENT_WISE = Rule(
    name="element-wise",
    about="Leave out ReLUs and shortcuts where they cost passes of their own (G4).",
    exactness="other",
    source="Ma et al., ShuffleNet V2, 2018, guideline G4 and table 4",
    find=element_wise,
    applies=_element_wise_applies,
    executed=True,
)


# Channels that are no multiple of what the engine or the device computes at a time.


#: The share of padding from which it is advice.
UNIT_WASTE = 0.05


def channel_unit(subject: Subject) -> Iterator[Change]:
    """Dense convolutions whose results are padded, against the next smaller number of channels that fills its units."""
    if subject.unit is None:
        return
    for each in convolutions(subject):
        unit = subject.unit.of(each.result.dtype)
        padded = -(-each.made // unit) * unit
        waste = 1 - each.made / padded
        if each.groups != 1 or each.made < unit or waste < UNIT_WASTE or _is_quantized(subject, each.source):
            continue
        fewer = each.made // unit * unit
        before = convolution(each.source, f"{each.node.name}.padded", padded, each.kernel, each.grid)
        after = convolution(each.source, each.node.name, fewer, each.kernel, each.grid)
        text = f"{each.made} channels are computed as {padded}, {waste:.1%} of it padding ({subject.unit.source})"
        yield Change((each.position,), text, (after,), before=(before,))


def _is_quantized(subject: Subject, source: Tensor) -> bool:
    """True where an engine multiplies integers, which it keeps in another layout."""
    maker = subject.maker(source)
    return maker is not None and "dequantizes" in row(maker[1].op).effects


def _channel_unit_applies(roof: Roof) -> bool:
    """True where arithmetic binds."""
    return roof == "compute"


CHANNEL_UNIT = Rule(
    name="channel-unit",
    about="Use a number of channels that fills the engine's or the device's units.",
    exactness="other",
    source="arithmetic on the unit; on onnxruntime 1.31 56 channels took 1.35 of the time per product",
    find=channel_unit,
    applies=_channel_unit_applies,
    code=as_modules,
)


# Products whose last wave of tiles leaves most of a GPU idle.


#: The share of idle time from which it is advice, and waves beyond which the last one is a small part.
WAVE_WASTE, WAVES = 0.1, 8


def waves(subject: Subject) -> Iterator[Change]:
    """Products of more than one wave of tiles, the last of which is not full."""
    if subject.multiprocessors is None:
        return
    for position, node in subject.live("MatMul", "Gemm"):
        product = product_of(node)
        if product is None:
            continue
        tiles = tiles_of(product)
        waves = tiles / subject.multiprocessors
        waste = 1 - waves / math.ceil(waves) if waves else 0.0
        if 1 < waves < WAVES and waste >= WAVE_WASTE:
            text = (
                f"{tiles} tiles of {TILE[0]}x{TILE[1]} on {subject.multiprocessors} multiprocessors: "
                f"{waves:.2f} waves take {math.ceil(waves)}, {waste:.1%} of it idle"
            )
            yield Change((position,), text, idle=waste)


def _waves_applies(roof: Roof) -> bool:
    """True where arithmetic binds."""
    return roof == "compute"


WHOLE_WAVES = Rule(
    name="waves",
    about="Choose sizes whose tiles fill the multiprocessors of a GPU (wave quantisation).",
    exactness="other",
    source="NVIDIA, Matrix Multiplication Background User's Guide: wave quantization, tiles of 256x128",
    find=waves,
    applies=_waves_applies,
)
