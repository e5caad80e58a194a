"""A small transformer, built by hand: what repeats, what each layer does and a table that all blocks take."""

from __future__ import annotations

from typing import Any

from flopwise.graph import Graph, Module, Node, Tensor

WIDTH, LENGTH, WORDS = 16, 8, 1000


def _tensor(name: str, *shape: int, kind: Any = "activation") -> Tensor:
    return Tensor(name, shape, "float32", kind)


def transformer(blocks: int = 12, wide_at: int = -1) -> Graph:
    """A decoder of blocks that are alike: attention with a table of positions, and an MLP.

    Args:
        blocks: how many blocks.
        wide_at: the block whose MLP is twice as wide.
    """
    nodes: list[Node] = []

    def layer(op: str, name: str, inputs: tuple[Tensor, ...], *shape: int, classes: tuple[str, ...] = ()) -> Tensor:
        path = name.split(".")
        kinds = (*classes, *[""] * len(path))
        scope = tuple(Module(".".join(path[: i + 1]), kinds[i]) for i in range(len(path)))
        out = _tensor(f"{name}:{len(nodes)}", *shape)
        nodes.append(Node(op, f"{name}.{op.lower()}", inputs, (out,), {}, scope))
        return out

    ids = Tensor("ids", (LENGTH,), "int64", "input")
    flow = layer("Gather", "embed", (_tensor("table", WORDS, WIDTH, kind="weight"), ids), LENGTH, WIDTH)
    positions = layer("Cos", "rotary", (_tensor("angles", LENGTH, WIDTH, kind="constant"),), LENGTH, WIDTH)
    for b in range(blocks):
        block, kind = f"layers.{b}", ("ModuleList", "Block")
        attention, mlp = (*kind, "Attention"), (*kind, "MLP")

        def weight(name: str, *shape: int, at: str = block) -> Tensor:
            return _tensor(f"{at}.{name}", *shape, kind="weight")

        query, key, value = (
            layer(
                "MatMul", f"{block}.attn.{n}", (flow, weight(n, WIDTH, WIDTH)), LENGTH, WIDTH, classes=(*attention, "")
            )
            for n in "qkv"
        )
        query = layer("Mul", f"{block}.attn", (query, positions), LENGTH, WIDTH, classes=attention)
        turned = layer("Transpose", f"{block}.attn", (key,), WIDTH, LENGTH, classes=attention)
        scores = layer("MatMul", f"{block}.attn", (query, turned), LENGTH, LENGTH, classes=attention)
        scores = layer("Softmax", f"{block}.attn", (scores,), LENGTH, LENGTH, classes=attention)
        mixed = layer("MatMul", f"{block}.attn", (scores, value), LENGTH, WIDTH, classes=attention)
        out = layer("MatMul", f"{block}.attn.o", (mixed, weight("o", WIDTH, WIDTH)), LENGTH, WIDTH, classes=attention)
        flow = layer("Add", block, (flow, out), LENGTH, WIDTH, classes=kind)
        inner = 4 * WIDTH * (2 if b == wide_at else 1)
        up = layer("MatMul", f"{block}.mlp.up", (flow, weight("up", WIDTH, inner)), LENGTH, inner, classes=mlp)
        up = layer("Relu", f"{block}.mlp", (up,), LENGTH, inner, classes=mlp)
        down = layer("MatMul", f"{block}.mlp.down", (up, weight("down", inner, WIDTH)), LENGTH, WIDTH, classes=mlp)
        flow = layer("Add", block, (flow, down), LENGTH, WIDTH, classes=kind)
    head = layer("MatMul", "head", (flow, _tensor("head", WIDTH, WORDS, kind="weight")), LENGTH, WORDS)
    return Graph("decoder", "hand", "decoder.py", (ids,), (head,), tuple(nodes))
