"""Rules about work that gives nothing new: the results stay the same."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import (
    Subject,
    argument,
    bare,
    chain,
    moved_in_type,
    moves_alone,
    pointwise_in,
    replaced,
)
from flopwise.errors import counted
from flopwise.graph import STORED, Node, Tensor
from flopwise.graph.dtypes import is_float
from flopwise.operators.tables import row


def dead_work(subject: Subject) -> Iterator[Change]:
    """The operators that no output depends on, those that hang together as one change."""
    dead = sorted(subject.dead - subject.folding.positions)
    groups: dict[int, list[int]] = {}
    leader: dict[int, int] = {}
    for position in reversed(dead):  # the last of a chain leads it
        for tensor in subject.nodes[position].known_inputs:
            maker = subject.maker(tensor)
            if maker is not None and maker[0] in subject.dead:
                leader.setdefault(maker[0], leader.get(position, position))
        groups.setdefault(leader.get(position, position), []).append(position)
    for group in groups.values():
        yield Change(tuple(sorted(group)), f"no output depends on {_these(len(group))}")


def _these(number: int) -> str:
    return "it" if number == 1 else f"these {counted(number, 'operator')}"


DEAD_WORK = Rule(
    name="dead-work",
    about="Leave out operators whose results no output depends on.",
    exactness="same",
    source="arithmetic; onnxruntime 1.31 executes dead operators at every level that its own clean-up does not reach",
    find=dead_work,
)


# Operators that compute what another one has computed.


#: Effects of operators that may differ, or that engines repeat on purpose, as they do with what dequantises.
_KEPT = frozenset({"random", "bodies", "updates", "dequantizes"})


def repeated_work(subject: Subject) -> Iterator[Change]:
    """Operators with equal inputs and attributes, all but the first; what follows from equal results is equal, too."""
    first: dict[Hashable, int] = {}
    same: dict[str, str] = {}
    for position, node in subject.live():
        if not row(node.op).effects.isdisjoint(_KEPT) or _writes(node):
            continue
        if not node.known_inputs or not node.known_outputs:
            continue
        key = _key(node, same)
        original = first.setdefault(key, position)
        if original == position:
            continue
        results = dict(zip(_names(node.known_outputs), _names(subject.nodes[original].known_outputs), strict=False))
        if subject.outputs.isdisjoint(results):
            same |= results
            yield Change((position,), f"computed before, by {subject.nodes[original].name}", same=results)


def _names(tensors: tuple[Tensor, ...]) -> list[str]:
    return [tensor.name for tensor in tensors]


def _writes(node: Node) -> bool:
    return bool(node.attrs.get("writes")) or (node.origin.endswith("_") and not node.origin.endswith("__"))


def _key(node: Node, same: dict[str, str]) -> Hashable:
    inputs = tuple(None if t is None else same.get(t.name, t.name) for t in node.inputs)
    outputs = tuple(None if t is None else (t.shape, t.dtype) for t in node.outputs)
    attributes = sorted((key, repr(value)) for key, value in node.attrs.items())
    plain = sorted((key, repr(v)) for key, v in node.arguments.items() if not _holds_tensors(v))
    return node.op, node.origin, inputs, outputs, repr(attributes), repr(plain)


def _holds_tensors(value: object) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_holds_tensors, value)) and not isinstance(value, str)
    return isinstance(value, Tensor) or "Tensor(" in repr(value)


REPEATED_WORK = Rule(
    name="repeated-work",
    about="Compute equal results once: the same operator, inputs and attributes.",
    exactness="same",
    source="arithmetic (common subexpressions); onnxruntime does it from level basic on",
    find=repeated_work,
)


# Arithmetic on weights alone, done in every inference.


def constant_work(subject: Subject) -> Iterator[Change]:
    """Operators that depend on stored tensors alone, up to the result that others take.

    Weights that are dequantised or widened stay as they are: to store the result would move more bytes, not fewer.
    """
    groups: dict[str, list[int]] = {}
    behind: dict[str, list[int]] = {}
    folded = subject.folding.positions
    for position, node in _arithmetic(subject):
        before = [p for t in node.known_inputs for p in behind.get(t.name, ())]
        for tensor in node.known_outputs:
            behind[tensor.name] = [*dict.fromkeys([*before, position])]
            if any(taker not in folded for taker in subject.takers(tensor)) or tensor.name in subject.outputs:
                groups[tensor.name] = behind[tensor.name]
    seen: set[int] = set()
    for positions in groups.values():
        new = tuple(p for p in positions if p not in seen)
        seen.update(new)
        if new:
            yield Change(new, "it depends on stored tensors alone: store the result", stored=True)


def _arithmetic(subject: Subject) -> Iterator[tuple[int, Node]]:
    """The operators on stored tensors alone, with their positions, but for what widens them or asks for a shape."""
    wide: set[str] = set()
    for position, node in enumerate(subject.nodes):
        if position not in subject.folding.positions or node.within:
            continue
        if all(t.kind in STORED for t in node.known_outputs):
            continue
        effects = row(node.op).effects
        if "dequantizes" in effects or not wide.isdisjoint(t.name for t in node.known_inputs) or _widens(node):
            wide.update(t.name for t in node.known_outputs)
        elif "shape query" not in effects:
            yield position, node


def _widens(node: Node) -> bool:
    """True for an operator that gives the elements of its one tensor in a wider type."""
    inputs, outputs = node.known_inputs, node.known_outputs
    if len(inputs) != 1 or len(outputs) != 1 or inputs[0].dtype == outputs[0].dtype:
        return False
    before, after = inputs[0], outputs[0]
    if not (before.resolved and after.resolved):
        return False
    return before.numel == after.numel and after.nbytes > before.nbytes


CONSTANT_WORK = Rule(
    name="constant-work",
    about="Store what is computed from weights and constants alone, in place of computing it in every inference.",
    exactness="same",
    source="arithmetic (constant folding); onnxruntime does it from level basic on, PyTorch without a compiler never",
    find=constant_work,
    trained=False,
)


# Rows that were multiplied by the same weights before: keys and values of earlier tokens, computed again.


def recomputed_rows(subject: Subject) -> Iterator[Change]:
    """Products of a Concat of rows, one of which was multiplied by the same stored matrix before."""
    products = {
        (node.input(0).name, node.input(1).name): (position, node)
        for position, node in reversed(subject.live("MatMul"))
        if node.has_input(1) and subject.stored(node.input(1)) and len(node.input(1).dims) == 2
    }
    for (_, weight), (position, node) in reversed(products.items()):
        joined = subject.maker(node.input(0))
        if joined is not None and _joins_rows(joined[1]):
            parts = joined[1].known_inputs
            earlier = {part.name: products[part.name, weight] for part in parts if (part.name, weight) in products}
            if earlier and len(earlier) < len(parts):
                yield _change(subject, position, joined, earlier)


def _joins_rows(node: Node) -> bool:
    """True for a Concat along another axis than the last one."""
    return node.op == "Concat" and _axis(node) != len(node.output().dims) - 1


def _axis(node: Node) -> int:
    """The axis of a Concat, which a program leaves out for the first one."""
    axis = node.attrs.get("axis", argument(node, "dim", argument(node, "arg1", 0)))
    return int(axis) % len(node.output().dims)


def _change(subject: Subject, position: int, joined: tuple[int, Node], earlier: dict[str, tuple[int, Node]]) -> Change:
    """The product of the new rows alone, and a Concat of products."""
    node, (place, concat) = subject.nodes[position], joined
    end, width = node.output(), node.output().dims[-1]
    results: list[Tensor] = []
    after: list[Node] = []
    for number, part in enumerate(concat.known_inputs):
        if part.name in earlier:
            results.append(earlier[part.name][1].output())
            continue
        made = Tensor(f"{end.name}.part{number}", (*part.dims[:-1], width), end.dtype)
        tensors = {node.input(0).name: part, end.name: made}
        after.append(replaced(node, tensors, f"{node.name}.part{number}"))
        results.append(made)
    after.append(
        Node(
            "Concat",
            f"{end.name}.join",
            tuple(results),
            (end,),
            concat.attrs,
            version=concat.version,
            invocation=concat.invocation,
        )
    )
    alone = subject.is_private(place, (position,))
    rows = sum(t.numel // int(t.dims[-1]) for t in concat.known_inputs if t.name in earlier)
    every = node.input(0).numel // int(node.input(0).dims[-1])
    text = f"{rows:,} of {every:,} rows were multiplied by the same weights before, by {_row_names(earlier)}"
    return Change((place, position) if alone else (position,), text, tuple(after))


def _row_names(earlier: dict[str, tuple[int, Node]]) -> str:
    """Names of the earlier products."""
    return ", ".join(dict.fromkeys(node.name or bare(node.op) for _, node in earlier.values()))


def _recomputed_rows_code(change: Change) -> str:
    """The product of the new rows alone in PyTorch, for two parts."""
    axis = _axis(change.after[-1])
    return f"torch.cat((old, new @ weight), {axis}) in place of torch.cat((rows, new), {axis}) @ weight"


RECOMPUTED_ROWS = Rule(
    name="recomputed-rows",
    about="Keep products of rows by weights, such as keys of earlier tokens, in place of computing them again.",
    exactness="same",
    source="arithmetic: each row of a product depends on its own row alone",
    find=recomputed_rows,
    code=_recomputed_rows_code,
)


# Conversions of element types that are taken back.


def cast_pairs(subject: Subject) -> Iterator[Change]:
    """Two Casts with nothing but moves between them, the second to the type before the first."""
    for position, node in subject.live("Cast"):
        source, result = node.input(0), node.output()
        if source.dtype is None or not is_float(source.dtype) or not is_float(result.dtype):  # integers may be cut off
            continue
        moved, last = chain(subject, result, moves_alone)
        if last is None or last[1].op != "Cast" or last[1].output().dtype != source.dtype:
            continue
        end = last[1].output()
        if end.name in subject.outputs and not moved:
            continue
        after = moved_in_type(subject, moved, source, end)
        same = {} if moved else {end.name: source.name}
        text = f"{source.dtype} → {result.dtype} → {source.dtype}, and nothing computes in {result.dtype}"
        yield Change((position, *moved, last[0]), text, after, same)


def _cast_pairs_code(change: Change) -> str:
    """The moves alone, if any, in PyTorch."""
    return (
        "moved(x) in place of moved(x.to(other)).to(x.dtype)"
        if change.after
        else "x in place of x.to(other).to(x.dtype)"
    )


CAST_PAIRS = Rule(
    name="cast-pairs",
    about="Leave out conversions of element types that are taken back.",
    exactness="same",
    source="arithmetic: equal up to the rounding of the type between, exact where that is the wider one",
    find=cast_pairs,
    code=_cast_pairs_code,
)


# Numbers that are dequantised, moved, and quantised again with the same scale.


def quantized_moves(subject: Subject) -> Iterator[Change]:
    """A DequantizeLinear and a QuantizeLinear of equal scale and zero point, with nothing but moves between them."""
    for position, node in subject.live("DequantizeLinear"):
        moved, last = chain(subject, node.output(), moves_alone)
        if last is None or last[1].op != "QuantizeLinear" or not _as_before(subject, node, last[1]):
            continue
        source, end = node.input(0), last[1].output()
        if end.dtype != source.dtype or (end.name in subject.outputs and not moved):
            continue
        after = moved_in_type(subject, moved, source, end)
        same = {} if moved else {end.name: source.name}
        text = f"{source.numel:,} numbers are widened to {node.output().dtype}, moved, and quantised as they were"
        yield Change((position, *moved, last[0]), text, after, same)


def _as_before(subject: Subject, one: Node, other: Node) -> bool:
    """True where one scale and one zero point, for the whole tensor, are equal in both."""
    for place in (1, 2):
        mine, theirs = (n.input(place) if n.has_input(place) else None for n in (one, other))
        values = [subject.setting(t) if t is not None else [0.0] for t in (mine, theirs)]
        if values[0] is None or values[0] != values[1] or len(values[0]) != 1:
            return False
    return True


QUANTIZED_MOVES = Rule(
    name="quantized-moves",
    about="Move quantised numbers as they are, in place of dequantising and quantising them around the move.",
    exactness="same",
    source="arithmetic: the same scale and zero point give the same numbers back",
    find=quantized_moves,
)


# Transposes that are taken back, and those that move only axes of extent 1.


def layout(subject: Subject) -> Iterator[Change]:
    """Two Transposes with nothing but element-wise operators between them, which make one or none."""
    used: set[int] = set()
    for position, node in () if subject.of_program else subject.live("Transpose"):
        if position in used:
            continue
        source = node.input(0)
        between, last = chain(subject, node.output(), pointwise_in)
        if last is None or last[1].op != "Transpose":
            continue
        first, second = permutation(node), permutation(last[1])
        whole = [first[axis] for axis in second]
        positions = (position, *between, last[0])
        used.update(positions)
        end = last[1].output()
        identity = whole == sorted(whole)
        if identity and not between and end.name in subject.outputs:
            continue
        after = _after(subject, between, source, end, None if identity else whole)
        same = {end.name: source.name} if identity and not between else {}
        text = "the second Transpose takes the first back" if identity else "two Transposes make one"
        yield Change(positions, text, after, same)


def permutation(node: Node) -> list[int]:
    """Axis of the input at each axis of the result."""
    rank = len(node.input(0).dims)
    return [int(axis) % rank for axis in node.attrs.get("perm") or range(rank - 1, -1, -1)]


def _after(
    subject: Subject, between: Sequence[int], source: Tensor, end: Tensor, perm: list[int] | None
) -> tuple[Node, ...]:
    """The element-wise operators on the elements as they lie, and the Transpose that is left, if any."""
    after, before = [], source
    for position in between:
        node = subject.nodes[position]
        old = node.output()
        last = perm is None and position == between[-1]
        result = end if last else Tensor(old.name, source.shape, old.dtype)
        taken = next(t for t in node.known_inputs if t.shape == old.shape)
        after.append(replaced(node, {taken.name: before, old.name: result}))
        before = result
    if perm is not None:
        after.append(Node("Transpose", f"{end.name}.transpose", (before,), (end,), {"perm": perm}))
    return tuple(after)


LAYOUT = Rule(
    name="layout",
    about="Leave out Transposes that are taken back, and make one of two.",
    exactness="same",
    source="arithmetic; onnxruntime cancels neighbours from level basic on",
    find=layout,
)


# Products of each step of an unrolled loop with the same weights, which do not wait for each other.


#: What takes a step out of a sequence.
_PARTS = frozenset({"Gather", "Slice", "Split", "Squeeze", "Unsqueeze", "Reshape", "Identity"})

#: Steps from which it is a loop.
STEPS = 3


def unrolled(subject: Subject) -> Iterator[Change]:
    """Products of parts of one tensor with one stored matrix, against one product of all parts."""
    groups: dict[tuple[str, str], list[int]] = {}
    for position, node in subject.live("MatMul", "Gemm"):
        if node.has_input(1) and subject.stored(node.input(1)) and not node.has_input(2):
            whole = _whole(subject, node.input(0))
            if whole is not None:
                groups.setdefault((whole, node.input(1).name), []).append(position)
    for positions in groups.values():
        if len(positions) < STEPS:
            continue
        nodes = [subject.nodes[p] for p in positions]
        first = nodes[0]
        rows = sum(math.prod(node.output().dims[:-1]) for node in nodes)
        taken = Tensor(f"{first.name}.steps", (rows, first.input(0).dims[-1]), first.input(0).dtype)
        made = Tensor(f"{first.name}.products", (rows, first.output().dims[-1]), first.output().dtype)
        after = Node(bare(first.op), f"{first.name}.all", (taken, first.input(1)), (made,), first.attrs)
        text = f"{len(nodes)} products with the same {first.input(1).nbytes:,} bytes of weights wait for nothing"
        yield Change(tuple(positions), text, (after,))


def _whole(subject: Subject, tensor: Tensor) -> str | None:
    """Name of the tensor that one is a part of; None where it is no part."""
    maker, parts = subject.maker(tensor), False
    while maker is not None and maker[1].op in _PARTS and not subject.stored(maker[1].input(0)):
        parts |= maker[1].op in ("Gather", "Slice", "Split")
        tensor = maker[1].input(0)
        maker = subject.maker(tensor)
    return tensor.name if parts else None


UNROLLED = Rule(
    name="unrolled",
    about="Multiply all steps of a sequence by the same weights at once, or use LSTM, GRU or RNN for the loop.",
    exactness="same",
    source="arithmetic: the weights are read once; cuDNN and onnxruntime's recurrent operators do so",
    find=unrolled,
    code=lambda change: "(x @ weight).unbind(dim) in place of [part @ weight for part in x.unbind(dim)]",
)
