"""One training step: which operators run backward, what the forward pass keeps, and the optimizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from flopwise.conventions.convention import Convention
from flopwise.errors import FlopwiseError, InputError
from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.graph.dtypes import is_float
from flopwise.operators import views
from flopwise.operators.complex import takes_or_makes
from flopwise.operators.counts import Counts, total
from flopwise.operators.gradient import BackwardRule, Wrt
from flopwise.operators.gradients.movement import dropped
from flopwise.operators.gradients.reduction import in_training
from flopwise.operators.masks import KERNEL
from flopwise.operators.own import using, with_rows_of_graph
from flopwise.operators.tables import backward, backward_on_elements
from flopwise.operators.tables import row as row_of
from flopwise.profiles.count import trainable
from flopwise.profiles.profile import Profile
from flopwise.profiles.training import OPTIMIZERS, Optimizer, Training
from flopwise.rows import Row


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """The way of the gradients through a graph."""

    #: For each node the places of the inputs whose gradient it has to make; empty where it does not run backward.
    wrt: tuple[frozenset[int], ...]
    #: For each node the additions that join its gradients with those of later uses of the same tensors; None where a
    #: shape is missing.
    joins: tuple[int | None, ...]
    #: The weights that get a gradient, each once.
    trained: tuple[Tensor, ...]
    #: Whether an output of the model gets one at all.
    reached: bool


@with_rows_of_graph
def gradients(graph: Graph) -> Gradients:
    """The way of the gradients from the graph's outputs back to its trained weights."""
    asks: Callable[[Tensor], bool] = attrgetter("grad") if graph.program.recorded else _derived(graph)
    starts = [t for t in graph.outputs if asks(t)]
    owners = _owners(graph)
    arrived: set[str] = {t.name for t in starts}
    wrt: list[frozenset[int]] = [frozenset()] * len(graph.nodes)
    joins: list[int | None] = [0] * len(graph.nodes)
    trained: dict[str, Tensor] = {}
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        inside = any(t.name in arrived for owner in owners(node) for t in owner.known_outputs)
        asked = any(map(asks, node.known_outputs)) and any(t.name in arrived for t in node.known_outputs)
        if not inside and not asked:
            continue
        places = _places(node, asks)
        wrt[position] = places
        for place in sorted(places):
            tensor = node.input(place)
            if tensor.name in arrived:
                so_far = joins[position]
                joins[position] = None if so_far is None or not tensor.resolved else so_far + tensor.numel
            arrived.add(tensor.name)
            if tensor.kind == "weight":
                trained.setdefault(tensor.name, tensor)
    return Gradients(tuple(wrt), tuple(joins), tuple(reversed(trained.values())), bool(starts))


def _places(node: Node, asks: Callable[[Tensor], bool]) -> frozenset[int]:
    """The places of the inputs that get a gradient: the differentiable ones that ask for it."""
    operator = row_of(node.op)
    if "no gradient" in operator.effects:
        return frozenset()
    roles = operator.inputs.places(len(node.inputs))
    places = [place for place, one in roles if one.differentiable] if operator.inputs.first else range(len(node.inputs))
    return frozenset(place for place in places if (t := node.inputs[place]) is not None and asks(t))


def _owners(graph: Graph) -> Callable[[Node], list[Node]]:
    return lambda node: [graph.nodes[body.owner] for body in node.within]


def _derived(graph: Graph) -> Callable[[Tensor], bool]:
    """Of a file: whether a tensor is a trained weight or depends on one.

    What a body of control flow uses flows into the result of its operator, which stands before it: so the walk is
    repeated until nothing new is found.
    """
    names: set[str] = set()

    def asks(tensor: Tensor) -> bool:
        return trainable(tensor) or tensor.name in names

    owners = _owners(graph)
    again = True
    while again:
        before = len(names)
        for node in graph.nodes:
            if not _places(node, asks):
                continue
            for maker in (node, *owners(node)):
                names.update(t.name for t in maker.known_outputs if is_float(t.dtype) or t.items is not None)
        again = len(names) > before and any("bodies" in row_of(node.op).effects for node in graph.nodes)
    return asks


# Storages that the forward pass keeps for the backward pass. A tensor counts once, and so do all views of it.


#: What a program calls to get elements in a row: they are copied when they are not.
_ORDERED = frozenset({"aten.reshape", "aten.flatten", "aten.contiguous", ""})

#: Operators of a program that give a new tensor although their name in ONNX would pass the old one on.
_COPIES = frozenset({"aten.clone", "aten.tensor", "aten.narrow_copy", "aten.view_copy", "aten.squeeze_copy"})

#: Operators of a program that write into their first input without a name that says so.
_IN_PLACE = frozenset({"aten.setitem"})


class _Place(NamedTuple):
    """The storage of a tensor's elements, and their order in it."""

    base: Tensor
    #: Whether they lie in a row, in order.
    ordered: bool


class Storages:
    """The storages of a graph's tensors, and which of them have been claimed."""

    def __init__(self, graph: Graph) -> None:
        self._places: dict[str, _Place] = {}
        self._claimed: set[str] = set()
        self._program = graph.program.recorded
        #: Matrices that lie in order but for being transposed, which products take as they are.
        self._flipped: set[str] = set()
        #: Of a program: the tensors by name, so that each can say whose storage it reads.
        self._named: dict[str, Tensor] = {}
        if self._program:
            self._named.update((t.name, t) for n in graph.nodes for t in (*n.known_inputs, *n.known_outputs))
        for node in graph.nodes:
            self._follow(node)

    def _follow(self, node: Node) -> None:
        """Note which storages the results of a node share with its first input."""
        if not node.has_input(0):
            return
        place = self._place(node.input(0))
        if self._program and node.input(0).contiguous and _flips(node):
            self._flipped.update(t.name for t in node.known_outputs)
        if self._program and _writes(node):
            self._places.update((t.name, place) for t in node.known_outputs[:1])
        elif self._shares(node, place):
            ordered = place.ordered and ("strided" not in row_of(node.op).effects or _same_order(node))
            self._places.update((t.name, _Place(place.base, ordered)) for t in node.known_outputs)

    def _shares(self, node: Node, place: _Place) -> bool:
        """True where a node gives its first input, which lies at a place, under another name or shape."""
        if self._program and node.origin in _COPIES:
            return False
        if node.op == "Cast" and node.known_outputs and node.known_outputs[0].dtype == node.input(0).dtype:
            return True
        orders = node.op in ("Reshape", "Flatten", "Identity") and (not self._program or node.origin in _ORDERED)
        return _reads_first(node) and (place.ordered or not orders)

    def _place(self, tensor: Tensor) -> _Place:
        owner = self._named.get(tensor.storage) if tensor.storage else None
        if owner is not None:
            return _Place(owner, tensor.contiguous)
        return self._places.get(tensor.name) or _Place(tensor, True)

    def claim(self, node: Node, things: Iterable[Tensor | int]) -> int | None:
        """Bytes that a node is the first to keep, stored tensors left out; None when unknown."""
        total = 0
        overwritten = self._overwritten(node)
        for thing in things:
            if isinstance(thing, int):
                total += thing
                continue
            if thing.sized and (thing.name == overwritten or self._gathered(node, thing)):
                total += thing.nbytes
                continue
            base = self._place(thing).base
            if base.kind in STORED or base.name in self._claimed:
                continue
            if not base.sized:
                return None
            self._claimed.add(base.name)
            total += base.nbytes
        return total

    def claim_recorded(self, storages: Iterable[tuple[str, int]]) -> int:
        """Bytes of the storages that a node of a program is the first to keep, as autograd itself named them.

        Args:
            storages: the name of the tensor that has it, "" for one that only the node knows, and its bytes.
        """
        total = 0
        for name, size in storages:
            owner = self._named.get(name)
            if name and (name in self._claimed or (owner is not None and owner.kind in STORED)):
                continue
            if name:
                self._claimed.add(name)
            total += size
        return total

    def _overwritten(self, node: Node) -> str:
        """The input that a node overwrites, so that it has to be copied to be kept; "" where there is none."""
        gradient = row_of(node.op).gradient
        keeps_result = gradient is not None and gradient.from_result  # which overwrites the input
        overwrites = self._program and _writes(node) and node.has_input(0) and not keeps_result
        return node.input(0).name if overwrites else ""

    def _gathered(self, node: Node, tensor: Tensor) -> bool:
        """True where a batched product of a program copies an operand, so that its matrices lie in a row."""
        if not self._program or node.op != "MatMul" or len(node.known_inputs) < 2:
            return False
        batches = [[d for d in t.dims[:-2] if d != 1] for t in node.known_inputs if t.shape is not None]
        several = all(batches) and len([d for d in tensor.dims[:-2] if d != 1]) > 1
        return several and not tensor.contiguous and tensor.name not in self._flipped


def _flips(node: Node) -> bool:
    """True where an operator of a program swaps the last two axes and no others."""
    rank = len(node.input(0).shape or ())
    if node.op != "Transpose" or rank < 2:
        return False
    name = node.origin.rpartition(".")[2].rstrip("_")
    if name in ("mT", "mH", "adjoint", "t"):
        return True
    plain = [v for v in node.arguments.values() if not isinstance(v, Tensor)]
    if len(plain) == 1 and isinstance(plain[0], list | tuple):
        plain = list(plain[0])
    axes = [v % rank for v in plain if isinstance(v, int)]
    if name in ("transpose", "swapaxes", "swapdims"):
        return set(axes) == {rank - 2, rank - 1}
    return axes == [*range(rank - 2), rank - 1, rank - 2]


def _reads_first(node: Node) -> bool:
    """True where the result of an operator reads the storage of its first input."""
    operator = row_of(node.op)
    if node.op == "Dropout" and dropped(node):
        return False
    return operator.view in (views.always, views.at_inference) or "strided" in operator.effects


def _writes(node: Node) -> bool:
    """True where an operator of a program writes into its first input."""
    return (node.origin.endswith("_") and not node.origin.endswith("__")) or node.origin in _IN_PLACE


def _same_order(node: Node) -> bool:
    """True where a view leaves the elements in a row: it moves axes of extent 1 only, or cuts the first axis."""
    before, after = node.input(0), node.output()
    if before.shape is None or after.shape is None:
        return False
    if node.op == "Transpose":
        longer = [d for d in before.shape if d != 1]  # of one no order of axes changes the elements' order
        return longer == [d for d in after.shape if d != 1] and len(longer) <= 1
    if node.op == "Expand":
        return before.numel == after.numel
    if len(before.shape) != len(after.shape):
        return False
    changed = [axis for axis, (n, m) in enumerate(zip(before.shape, after.shape, strict=True)) if n != m]
    return all(all(d == 1 for d in before.shape[:axis]) for axis in changed)


# Activation checkpointing: stretches of a program whose results are thrown away and computed once more going back.
#
# PyTorch stops computing anew as soon as all tensors are there that the gradients need (torch.utils.checkpoint,
# ``early_stop``); the older, reentrant form runs the whole stretch.


#: The entry in ``Node.via`` of what runs in a checkpoint, followed by the number of the call.
ENTRY = "torch.utils.checkpoint.checkpoint#"

#: The attribute of a node with the entries of the selective checkpoints that keep its results.
CACHED = "cached"

#: How the entry of a checkpoint ends that runs the whole stretch: a reentrant one, or one that does not stop early.
REENTRANT = ":reentrant"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoints:
    """The changes that checkpoints make to a training step."""

    #: Position in ``Graph.nodes`` -> how often the operator runs once more.
    again: dict[int, int] = field(default_factory=dict)
    #: Positions of the operators of which nothing is kept.
    inside: frozenset[int] = frozenset()
    #: Position of the first operator of a stretch -> the tensors that enter it, which are kept instead.
    entering: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)


def checkpoints(
    graph: Graph, wrt: Sequence[frozenset[int]], keeps: Callable[[int], Sequence[Tensor | int]]
) -> Checkpoints:
    """The checkpoints of a program.

    Args:
        graph: the program.
        wrt: for each node the places of the inputs whose gradient is made.
        keeps: position of a node -> what its gradient needs.
    """
    stretches: dict[str, list[int]] = {}
    outer: dict[str, list[int]] = {}
    for position, node in enumerate(graph.nodes):
        entries = [entry for entry in node.via if entry.startswith(ENTRY)]
        for entry in entries:
            stretches.setdefault(entry, []).append(position)
        if entries:
            outer.setdefault(entries[0], []).append(position)
    again: dict[int, int] = {}
    for entry, positions in stretches.items():
        if any(wrt[p] for p in positions):
            for position in _repeated(graph, positions, entry, wrt, keeps):
                if entry not in graph.nodes[position].attrs.get(CACHED, ()):
                    again[position] = again.get(position, 0) + 1
    entering = {p[0]: _entering(graph, p) for p in outer.values() if any(wrt[q] for q in p)}
    return Checkpoints(again, frozenset(q for p in outer.values() for q in p), entering)


def _repeated(
    graph: Graph,
    positions: Sequence[int],
    entry: str,
    wrt: Sequence[frozenset[int]],
    keeps: Callable[[int], Sequence[Tensor | int]],
) -> Sequence[int]:
    """The operators of one stretch that run again, or are looked up where the checkpoint keeps them."""
    if entry.endswith(REENTRANT):
        return positions
    for index in range(len(positions) - 1, -1, -1):
        if inner := _inner(graph.nodes[positions[index]], entry):
            if any(wrt[p] for p in positions if _inner(graph.nodes[p], entry) == inner):  # it needs what enters it
                return [p for p in positions if p < positions[index] and _inner(graph.nodes[p], entry) != inner]
            continue
        needed = keeps(positions[index]) if wrt[positions[index]] else ()
        if needed:
            names = {t.name for t in graph.nodes[positions[index]].known_inputs}
            result = any(isinstance(t, int) or t.name not in names for t in needed)
            return positions[: index + 1] if result else positions[:index]
    return ()


def _inner(node: Node, entry: str) -> str:
    """The checkpoint right inside another one in which a node runs; "" for none."""
    entries = [one for one in node.via if one.startswith(ENTRY)]
    return next(iter(entries[entries.index(entry) + 1 :]), "")


def _entering(graph: Graph, positions: Sequence[int]) -> tuple[Tensor, ...]:
    """The tensors that a stretch takes from outside, stored ones left out."""
    results: set[str] = set()
    tensors: dict[str, Tensor] = {}
    for position in positions:
        node = graph.nodes[position]
        tensors.update((t.name, t) for t in node.known_inputs if t.kind not in STORED and t.name not in results)
        results.update(t.name for t in node.known_outputs)
    return tuple(tensors.values())


# One training step: a profile with the backward pass of each row, the optimizer's step, and the memory of both.


#: A user's rules for gradients, by operator.
Rules = Mapping[str, BackwardRule]


def train(profile: Profile, optimizer: str | Optimizer | None = None, rules: Rules | None = None) -> Profile:
    """The profile with the backward pass of each row, and what one training step takes.

    Args:
        profile: of a forward pass in which what depends on trained weights is not folded away.
        optimizer: "sgd", "momentum", "adam", "adamw", an Optimizer, or None for none.
        rules: the user's own gradients: operator -> function from the node and the places of the inputs whose gradient
            is wanted to Counts.

    Raises:
        InputError: there is no such optimizer.
    """
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZERS:
            raise InputError(f"unknown optimizer {optimizer!r}; known: {', '.join(OPTIMIZERS)}")
        optimizer = OPTIMIZERS[optimizer]
    with using(profile.graph.operators):
        return _with_training(profile, optimizer, rules or {})


def _with_training(profile: Profile, optimizer: Optimizer | None, own: Rules) -> Profile:
    way = gradients(profile.graph)
    places = {id(node): position for position, node in enumerate(profile.graph.nodes)}
    storages = Storages(profile.graph)
    again = checkpoints(profile.graph, way.wrt, lambda p: _needs(profile.graph.nodes[p], way.wrt[p], own) or ())
    rows: list[Row] = []
    positions: set[int] = set()
    for row in profile.rows:
        position = places[id(row.node)]
        if position in positions:
            rows.append(replace(row, backward_counts=Counts(), backward=0, recomputed=Counts(), saved_bytes=0))
            continue
        positions.add(position)
        rows.append(_trained_row(row, position, way, again, storages, profile.convention, own))
    lasting = [t for t in way.trained if t.sized]
    update = state = None
    if optimizer is not None and len(lasting) == len(way.trained):
        update = total(optimizer.step(t) for t in lasting)
        state = sum(optimizer.state(t) for t in lasting)
    failed = [row for row in rows if row.untrained]
    training = Training(
        optimizer=optimizer,
        weights=way.trained,
        update=update,
        weight_bytes=profile.sum.weight_bytes,
        gradient_bytes=sum(t.nbytes for t in lasting),
        state_bytes=state,
        saved_bytes=sum(row.saved_bytes or 0 for row in rows),
        unknown=dict(Counter(row.node.op for row in failed)),
        exact=not failed and all(row.saved_bytes is not None for row in rows),
    )
    notes = (*profile.notes, *_notes(profile, way, rows))
    return replace(profile, rows=tuple(rows), training=training, notes=notes)


def _trained_row(
    row: Row, index: int, way: Gradients, again: Checkpoints, storages: Storages, convention: Convention, rules: Rules
) -> Row:
    """The row with its backward pass for all its runs, and with what it keeps."""
    wrt, node = way.wrt[index], row.node
    repeated = again.again.get(index, 0)
    kept = (*again.entering.get(index, ()), *(node.known_outputs if node.attrs.get(CACHED) else ()))
    saved: int | None = storages.claim(node, kept)
    if not wrt and not repeated:
        return replace(row, backward_counts=Counts(), backward=0, recomputed=Counts(), saved_bytes=saved)
    if index not in again.inside:  # of which nothing else is kept
        saved = _saved_bytes(node, wrt, rules, storages)
    saved = None if saved is None or row.times is None else saved * row.times
    counts, why = _counts_of_run(row, wrt, way.joins[index], repeated, rules)
    if counts is None or row.times is None:
        why = why or "it is not known how often it runs"
        return replace(row, backward_counts=None, backward=None, recomputed=Counts(), saved_bytes=saved, untrained=why)
    counts *= row.times
    gradient = row_of(node.op).gradient
    kernel_again = gradient.again(node) if wrt and gradient is not None and gradient.again else Counts()
    return replace(
        row,
        backward_counts=counts,
        backward=_convention_count(row, wrt, counts, repeated, convention),
        recomputed=kernel_again * row.times,
        checkpointed=(row.counts or Counts()) * (repeated * row.times),
        saved_bytes=saved,
    )


def _saved_bytes(node: Node, wrt: Wrt, rules: Rules, storages: Storages) -> int | None:
    """Bytes that a node is the first to keep: as a program recorded them, else by the rule; None where unknown."""
    recorded = None if node.op in rules or _runs_otherwise(node) else node.attrs.get("saved")
    if recorded is not None:
        return storages.claim_recorded(recorded)
    needs = _needs(node, wrt, rules)
    return None if needs is None else storages.claim(node, needs)


def _counts_of_run(row: Row, wrt: Wrt, joins: int | None, repeated: int, rules: Rules) -> tuple[Counts | None, str]:
    """The counts of one run backward, with what it computes once more and joins; or None, and the reason."""
    counts, why = _backward_counts(row.node, wrt, rules) if wrt else (Counts(), "")
    if counts is None:
        return None, why
    if joins is None:
        return None, "the shape of an input is unresolved"
    if repeated and row.counts is None:
        return None, "it is computed once more, and its count is unknown"
    again = (row.counts or Counts()) * repeated
    return counts + again + Counts(add=joins * (2 if takes_or_makes(row.node) else 1)), ""


def _convention_count(row: Row, wrt: Wrt, counts: Counts, repeated: int, convention: Convention) -> int | None:
    """The backward pass in the convention; None when the convention defines none."""
    if convention.plain:
        return counts.dot(convention.weights)
    if convention.backward is None or row.times != 1:
        return None
    again = (row.count or 0) * repeated
    own = counts + (row.counts or Counts()) * -repeated
    if takes_or_makes(row.node):
        own = backward_on_elements(row.node, wrt) or Counts()
    return convention.backward(row.node, wrt, own).dot(convention.weights) + again


def _backward_counts(node: Node, wrt: Wrt, rules: Rules) -> tuple[Counts | None, str]:
    """The counts of the backward pass of one node; or None, and the reason."""
    if node.within:
        return None, "gradients through control flow are not followed"
    try:
        counts = rules[node.op](node, wrt) if node.op in rules else backward(node, wrt)
        if counts is None:
            return None, "no rule for its gradient"
        if min(counts) < 0:
            raise ValueError("a count is negative")
    except FlopwiseError as error:
        return None, str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # attributes without sense
        return None, f"its attributes or shapes make no sense: {type(error).__name__}: {error}"
    return counts, ""


def _runs_otherwise(node: Node) -> bool:
    """True where a device runs another kernel than meta tensors do: fused attention, and oneDNN's recurrent layers."""
    return node.op == "aten::lstm" or node.attrs.get(KERNEL, "math") != "math"


def _needs(node: Node, wrt: Wrt, rules: Rules) -> tuple[Tensor | int, ...] | None:
    """The tensors that a node keeps for its gradient; None where unknown."""
    gradient = row_of(node.op).gradient
    if gradient is None or node.op in rules or node.within:
        return None
    try:
        return tuple(gradient.keeps(node, wrt))
    except (FlopwiseError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def _notes(profile: Profile, way: Gradients, rows: Sequence[Row]) -> Iterator[str]:
    """Notes on the figures of a training step, one line each."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.untrained:
            groups.setdefault((row.node.op, row.untrained), []).append(row)
    for (op, why), alike in groups.items():
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        yield f"unknown backward: {op} at {alike[0].name!r}{more} ({why}); backward totals are lower bounds"
    if not way.reached:
        cure = "; was the module read with grad=True?" if profile.graph.program.recorded else ""
        yield f"nothing runs backward: no output depends on a tensor that requires a gradient{cure}"
    if not profile.convention.counts_backward:
        yield f"{profile.convention.name} counts no backward pass; see backward_macs and backward_flops"
    yield from _kernels(rows)
    yield from _inference_notes(profile.graph)


def _kernels(rows: Sequence[Row]) -> Iterator[str]:
    """Notes on the kernels of attention that are assumed, and on what they compute once more."""
    kernels = Counter(str(row.node.attrs[KERNEL]) for row in rows if row.node.attrs.get(KERNEL) is not None)
    if kernels:
        again = sum(row.recomputed_macs or 0 for row in rows)
        once_more = f"; {again:,} MACs of it run once more on the way back (recomputed_macs)" if again else ""
        listed = ", ".join(f"{name} in {count} row{'s' * (count > 1)}" for name, count in kernels.items())
        yield f"attention kernel: {listed}, which decides what is kept{once_more}; --attention assumes another"


def _inference_notes(graph: Graph) -> Iterator[str]:
    """Notes on operators that a file holds as for inference and that are counted so."""
    if graph.program.recorded:
        return
    fixed: dict[str, Callable[[Node], bool]] = {"BatchNormalization": in_training, "Dropout": dropped}
    for op, active in fixed.items():
        those = [node for node in graph.nodes if node.op == op and not active(node)]
        if those:
            yield f"as in the file: {len(those)} {op} in inference mode are counted so, forward and backward"
