"""One training step: a profile with the backward pass of each row, the optimizer's step, and the memory of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from flopwise.analyses.training.checkpoints import CACHED, Checkpoints, checkpoints
from flopwise.analyses.training.gradients import Gradients, gradients
from flopwise.analyses.training.saved import Storages
from flopwise.conventions.convention import Convention
from flopwise.errors import FlopwiseError, InputError
from flopwise.graph import Graph, Node, Tensor
from flopwise.operators.complex import takes_or_makes
from flopwise.operators.counts import Counts, total
from flopwise.operators.gradient import BackwardRule, Wrt
from flopwise.operators.gradients.movement import dropped
from flopwise.operators.gradients.reduction import in_training
from flopwise.operators.masks import KERNEL
from flopwise.operators.own import using
from flopwise.operators.tables import backward, backward_on_elements
from flopwise.operators.tables import row as row_of
from flopwise.profiles.profile import Profile
from flopwise.profiles.training import OPTIMIZERS, Optimizer, Training
from flopwise.rows import Row

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
