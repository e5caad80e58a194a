"""The operations that were watched, as a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from flopwise.formats.torch.lower import operators
from flopwise.formats.torch.lower.node import tensors
from flopwise.formats.torch.lower.operators import UNSEEN_OPERATOR
from flopwise.formats.torch.record.names import OUT
from flopwise.formats.torch.record.recorder import UNSEEN, Event
from flopwise.graph import STORED, Invocation, Module, Node, Submodule, Tensor
from flopwise.operators.folding import WRITES
from flopwise.operators.tables import row

#: Operators that no module is named after, because many modules have them beside what they are for.
_MOVING_NAMES = """
    Reshape Flatten Squeeze Unsqueeze Transpose Concat Split Expand Tile Slice Cast Identity ConstantOfShape Gather
    Shape Range Pad
"""
_MOVING = frozenset(_MOVING_NAMES.split())


#: The attribute under which a program hands over the storages that autograd keeps: name of the tensor, and bytes.
SAVED = "saved"


#: The attribute under which it names the checkpoints that keep the results of a node.
CACHED = "cached"


def nodes_of(events: Sequence[Event]) -> tuple[Node, ...]:
    """One node for each operation, named after the module that made it; attributes that are equal are one object."""
    lowered = [operators.lower(e.plan.name, e.args, e.kwargs, e.outputs) for e in events]
    names = _names(events, [low.op for low, _ in lowered])
    equal: dict[str, Mapping[str, object]] = {}
    nodes = []
    for event, name, (low, call) in zip(events, names, lowered, strict=True):
        attrs: Mapping[str, object] = low.attrs
        if event.plan.foreign and event.plan.writes:
            attrs = {**attrs, WRITES: True}
        if event.cached:
            attrs = {**attrs, CACHED: event.cached}
        if event.saved is None:
            attrs = equal.setdefault(repr(attrs), attrs)  # in which 1 and 1.0 are not equal
        saved = attrs if event.saved is None else {**attrs, SAVED: event.saved}
        path = event.scope, event.plan.name, 0, event.within, Invocation(event.via, call.named)
        nodes.append(Node(low.op, name, low.inputs, event.outputs, saved, *path))
    return tuple(nodes)


def unused(nodes: Sequence[Node], modules: Sequence[Submodule]) -> list[Node]:
    """One node for each module whose own weights no operation used, so that they are seen and counted as weights."""
    used = {t.name for node in nodes for t in node.known_inputs if t.kind in STORED}
    steps = {m.path: Module(m.path, m.kind.rpartition(".")[2]) for m in modules}
    dead: list[Node] = []
    for module in modules:
        left = tuple([t for t in module.tensors.values() if t.kind != "constant" and t.name not in used])
        if left:
            used.update(t.name for t in left)
            parts = module.path.split(".") if module.path else []
            paths = ["", *(".".join(parts[: i + 1]) for i in range(len(parts)))]
            scope = tuple([steps[p] for p in paths if p in steps])
            dead.append(Node("torch::Unused", module.path or "weights", left, (), {}, scope, module.kind))
    return dead


def _names(events: Sequence[Event], ops: Sequence[str]) -> list[str]:
    """The path of the module where it does one thing, else the path and the operator; and a number if need be."""
    paths = [e.scope[-1].path if e.scope else "" for e in events]
    kinds: dict[str, set[str]] = {}
    on_weights: dict[str, set[str]] = {}
    for event, path, op in zip(events, paths, ops, strict=True):
        if op not in _MOVING:
            varies = any(t.kind not in STORED for t in tensors(event.args))
            (kinds if varies else on_weights).setdefault(path, set()).add(op)
    kinds = {**on_weights, **kinds}
    times: Counter[str] = Counter()
    names: list[str] = []
    for event, op, path in zip(events, ops, paths, strict=True):
        if path and op not in _MOVING and kinds.get(path) == {op}:
            name = path
        else:
            base = event.plan.name.partition(".")[2].strip("_")
            name = f"{path}.{base}" if path else base
        times[name] += 1
        names.append(name if times[name] == 1 else f"{name}:{times[name]}")
    return names


def dense_experts(nodes: Sequence[Node]) -> Iterator[str]:
    """A note for each stack of experts that all tokens are multiplied with, although a few are chosen for each."""
    routed = {
        (node.input(0).dims[-1], node.output().dims[-1])
        for node in nodes
        if node.op == "TopK" and node.has_input(0) and node.input(0).dims and node.output().dims
    }
    for experts, chosen in sorted((e, k) for e, k in routed if isinstance(e, int) and isinstance(k, int) and k < e):
        stacks = [node for node in nodes if _multiplies_all(node, experts)]
        if stacks:
            products = f"{len(stacks)} products multiply" if len(stacks) > 1 else "1 product multiplies"
            yield (
                f"mixture of experts: {products} every token with all {experts} experts, although the routing chooses "
                f"{chosen} for each; the first is {stacks[0].name!r}"
            )


def _multiplies_all(node: Node, experts: int) -> bool:
    """True if a node is a batched product of tokens with the weights of ``experts`` experts."""
    if node.op not in ("MatMul", "aten::addbmm", "Gemm", "Einsum") or len(node.known_inputs) < 2:
        return False
    left, right = node.input(0), node.input(1)
    stacked = all(len(t.dims) == 3 and t.dims[0] == experts for t in (left, right))
    return stacked and any(t.kind in STORED for t in (left, right))


# Memory that a program reads although nothing that was seen has written into it: what filled it is unknown.

#: Functions whose result holds whatever was in memory.
_EMPTY = frozenset(
    f"aten.{name}"
    for name in ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
)


def filled_unseen(events: Sequence[Event], nodes: Sequence[Node]) -> tuple[list[Node], list[str]]:
    """An operator of unknown cost for each empty tensor that another operator computes with, and a note on it.

    Args:
        events: the operations of a run.
        nodes: the same as operators of the graph.
    """
    #: Names of empty tensors and of all that was made of them without computing -> the operator that made the memory.
    empty: dict[str, Node] = {}
    readers: dict[str, tuple[Node, str]] = {}
    for event, node in zip(events, nodes, strict=True):
        if event.plan.name in _EMPTY:
            empty.update((t.name, node) for t in node.known_outputs if t.numel)
        elif empty and event.plan.way != "like":
            read = [t.name for t in _read(event) if t.name in empty]
            claim = row(node.op).claim if read else "unknown"
            if claim == "nothing":
                if all(t.name in empty for t in node.known_inputs if t.shape):
                    empty.update((t.name, empty[read[0]]) for t in node.known_outputs)
            elif claim != "unknown":
                for name in read:
                    readers.setdefault(empty[name].name, (empty[name], node.name))
    unseen = [
        Node(
            UNSEEN_OPERATOR,
            f"{maker.name} (filled)",
            maker.outputs,
            (),
            modules=maker.modules,
            origin=UNSEEN.name,
            invocation=Invocation(maker.via),
        )
        for maker, _ in readers.values()
    ]
    notes = [
        f"{reader!r} reads the memory that {maker.name!r} made, and no operation that flopwise sees has filled it "
        "(an extension in C++, numpy, another thread): what did is not counted"
        for maker, reader in readers.values()
    ]
    return unseen, notes


def _read(event: Event) -> Iterator[Tensor]:
    """The tensors whose elements an operation reads: all but those that it writes into, or multiplies by 0."""
    writes = {OUT.name, *(target.name for target in event.plan.writes)}
    places = {target.position for target in event.plan.writes}
    if event.kwargs.get("beta") == 0:  # torch.addmm and the like
        places.add(0)
        writes.add("input")
    yield from tensors(*[a for place, a in enumerate(event.args) if place not in places])
    yield from tensors(*[a for name, a in event.kwargs.items() if name not in writes])
