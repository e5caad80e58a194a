"""The operations that were watched, as a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flopwise.graph import STORED, Module, Node, Submodule
from flopwise.operators.folding import WRITES
from flopwise.readers.torch.capture.event import Event
from flopwise.readers.torch.lower import operators
from flopwise.readers.torch.lower.node import Attributes, tensors

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
    """One node for each operation, named after the module that made it."""
    lowered = [operators.lower(e.plan.name, e.args, e.kwargs, e.outputs) for e in events]
    equal: dict[str, Mapping[str, object]] = {}
    names = _names(events, [low.op for low, _ in lowered])
    return tuple(
        [
            Node(
                low.op,
                name,
                low.inputs,
                event.outputs,
                Attributes(_attributes(event, low.attrs, equal), call),
                event.scope,
                event.plan.name,
                0,
                event.within,
                event.via,
            )
            for event, name, (low, call) in zip(events, names, lowered, strict=True)
        ]
    )


def _attributes(event: Event, attrs: Mapping[str, object], equal: dict[str, Mapping[str, Any]]) -> Mapping[str, object]:
    """The attributes of an operation; those that are equal to earlier ones are the same object."""
    if event.plan.foreign and event.plan.writes:
        attrs = {**attrs, WRITES: True}
    if event.cached:
        attrs = {**attrs, CACHED: event.cached}
    if event.saved is not None:
        return {**attrs, SAVED: event.saved}
    return equal.setdefault(repr(attrs), attrs)  # in which 1 and 1.0 are not equal


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
