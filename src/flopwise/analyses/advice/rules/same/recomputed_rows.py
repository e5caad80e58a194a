"""Rows that were multiplied by the same weights before: keys and values of earlier tokens, computed again."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, argument, bare, replaced
from flopwise.graph import Node, Tensor


def find(subject: Subject) -> Iterator[Change]:
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
    after.append(Node("Concat", f"{end.name}.join", tuple(results), (end,), concat.attrs, version=concat.version))
    alone = subject.is_private(place, (position,))
    rows = sum(t.numel // int(t.dims[-1]) for t in concat.known_inputs if t.name in earlier)
    every = node.input(0).numel // int(node.input(0).dims[-1])
    text = f"{rows:,} of {every:,} rows were multiplied by the same weights before, by {_names(earlier)}"
    return Change((place, position) if alone else (position,), text, tuple(after))


def _names(earlier: dict[str, tuple[int, Node]]) -> str:
    """Names of the earlier products."""
    return ", ".join(dict.fromkeys(node.name or bare(node.op) for _, node in earlier.values()))


def _code(change: Change) -> str:
    """The product of the new rows alone in PyTorch, for two parts."""
    axis = _axis(change.after[-1])
    return f"torch.cat((old, new @ weight), {axis}) in place of torch.cat((rows, new), {axis}) @ weight"


RULE = Rule(
    name="recomputed-rows",
    about="Keep products of rows by weights, such as keys of earlier tokens, in place of computing them again.",
    exactness="same",
    source="arithmetic: each row of a product depends on its own row alone",
    find=find,
    code=_code,
)
