"""Small models made by hand, for the reports to be about. Their rules are made by hand too, so that no figure moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import flopwise
from flopwise.conventions import Convention, Display
from flopwise.graph import Graph, Kind, Module, Node, Shape, Tensor
from flopwise.operators.counts import CLASSES, Counts
from flopwise.profiles.profile import Profile

#: Names that mean something to a terminal, to CSV, Markdown, LaTeX or Graphviz, or to somebody far away.
NASTY = (
    "plain",
    "a|b",
    'a,"b"',
    "a & b % c_d #e $f {g} ~h ^i",
    "new\nline\r",
    "\x1b[31mred\x1b[0m\x07",
    "back\\slash\\n",
    "\u202eflipped",
    "畳み込み層/卷积",
    "[0] *x* `y` <b>",
    "-- a--b",
    "\udc80 surrogate",
)


def _each(counts: Counts) -> Callable[[Node], Counts]:
    return lambda node: counts * node.output().numel


def _matmul(node: Node) -> Counts:
    return Counts(mac=node.output().numel * node.input(0).dims[-1])


RULES: dict[str, Callable[[Node], Counts]] = {
    "Conv": lambda node: Counts(mac=27, add=1) * node.output().numel,
    "BatchNormalization": _each(Counts(mac=1)),
    "Relu": _each(Counts(cmp=1)),
    "Gelu": _each(Counts(mul=3, add=1, erf=1)),
    "Add": _each(Counts(add=1)),
    "Softmax": _each(Counts(cmp=1, add=2, exp=1, div=1)),
    "Flatten": _each(Counts()),
    "MatMul": _matmul,
    "Gemm": lambda node: _matmul(node) + Counts(add=node.output().numel),
}

#: A convention with classes and a short form of its own.
THREE = Convention(
    name="three",
    unit="OP",
    summary="Products twice, sums once, the rest once.",
    source="made for this test",
    weights=Counts(mac=2, **{name: 1 for name in CLASSES if name != "mac"}),
    display=Display(
        classes={
            "products": Counts(mac=1),
            "sums": Counts(add=1),
            "rest": Counts(**{name: 1 for name in CLASSES if name not in ("mac", "add")}),
        },
        human=lambda number: f"{number / 1000:.1f} thousand",
    ),
)


def tensor(name: str, shape: Shape | None, kind: Kind = "activation") -> Tensor:
    return Tensor(name, shape, "float32", kind)


def scope(*modules: str) -> tuple[Module, ...]:
    """Modules with their classes: scope("encoder:Encoder", "encoder.fc:Linear")."""
    return tuple(Module(*m.split(":")) for m in modules)


def graph(nodes: list[Node], inputs: list[Tensor], outputs: list[Tensor], name: str, source: str = "") -> Graph:
    return Graph(name, "hand", source, tuple(inputs), tuple(outputs), tuple(nodes))


def conv_net(pool: str = "acme::Mystery") -> Graph:
    """Convolution, batch norm, ReLU, an operator that nobody knows, and a classifier."""
    x, c, n, r = (tensor("image", (1, 3, 8, 8), "input"), *(tensor(k, (1, 4, 8, 8)) for k in "cnr"))
    m, f, y = tensor("m", (1, 4, 2, 2)), tensor("f", (1, 16)), tensor("logits", (1, 10))
    w, b = tensor("w", (4, 3, 3, 3), "weight"), tensor("b", (4,), "weight")
    scale, bias = tensor("scale", (4,), "weight"), tensor("bias", (4,), "weight")
    mean, var = tensor("mean", (4,), "buffer"), tensor("var", (4,), "buffer")
    fw, fb = tensor("fw", (10, 16), "weight"), tensor("fb", (10,), "weight")
    nodes = [
        Node("Conv", "conv1", (x, w, b), (c,)),
        Node("BatchNormalization", "bn1", (c, scale, bias, mean, var), (n,)),
        Node("Relu", "relu1", (n,), (r,)),
        Node(pool, "pool1", (r,), (m,), origin="Mystery"),
        Node("Flatten", "flatten", (m,), (f,)),
        Node("Gemm", "fc", (f, fw, fb), (y,)),
    ]
    return graph(nodes, [x], [y], "convnet", "models/convnet.onnx")


def transformer(layers: int = 2, tokens: int = 5) -> Graph:
    """Blocks of two linear layers with an activation and a residual sum, in modules with classes."""
    h = x = tensor("tokens", (1, tokens, 8), "input")
    nodes: list[Node] = []
    for i in range(layers):
        block = ("model:Model", f"model.layers.{i}:Block")
        mlp = (*block, f"model.layers.{i}.mlp:MLP")
        a, g, b, s = (tensor(f"{k}{i}", (1, tokens, n)) for k, n in zip("agbs", (32, 32, 8, 8), strict=True))
        up, down = tensor(f"up{i}", (8, 32), "weight"), tensor(f"down{i}", (32, 8), "weight")
        path = f"/model/layers.{i}"
        up_scope = scope(*mlp, f"model.layers.{i}.mlp.up:Linear")
        down_scope = scope(*mlp, f"model.layers.{i}.mlp.down:Linear")
        nodes += [
            Node("MatMul", f"{path}/mlp/up/MatMul", (h, up), (a,), modules=up_scope),
            Node("Gelu", f"{path}/mlp/act/Gelu", (a,), (g,), modules=scope(*mlp)),
            Node("MatMul", f"{path}/mlp/down/MatMul", (g, down), (b,), modules=down_scope),
            Node("Add", f"{path}/Add", (h, b), (s,), modules=scope(*block)),
        ]
        h = s
    y = tensor("y", (1, tokens, 8))
    nodes.append(Node("Softmax", "/Softmax", (h,), (y,)))
    return graph(nodes, [x], [y], "transformer")


def unresolved() -> Graph:
    """A tensor without a shape between two layers."""
    x, a, h, y = tensor("x", (2, 8), "input"), tensor("a", (2, 8)), tensor("h", None), tensor("y", (2, 4))
    nodes = [
        Node("Relu", "before", (x,), (a,)),
        Node("acme::Lost", "lost", (a,), (h,)),
        Node("MatMul", "after", (h, tensor("w", (8, 4), "weight")), (y,)),
    ]
    return graph(nodes, [x], [y], "unresolved")


def nasty() -> Graph:
    """A chain of layers with every nasty name: of a layer, its result, its module and, once, its operator."""
    h = x = tensor("in" + NASTY[5], (1, 4), "input")
    nodes: list[Node] = []
    for i, name in enumerate(NASTY):
        out = tensor(f"{name}{i}", (1, 4))
        op = "Relu" if i else f"acme::{NASTY[5]}"
        nodes.append(Node(op, name, (h,), (out,), modules=(Module(name, name),) * (i % 2)))
        h = out
    return graph(nodes, [x], [h], NASTY[5] + NASTY[4])


def profiled(model: Graph, convention: str | Convention = "flops", notes: tuple[str, ...] | None = None) -> Profile:
    """A profile by the rules above; with notes, those and no others."""
    profile = flopwise.profile(model, convention=convention, rules=RULES)
    return profile if notes is None else replace(profile, notes=notes)


#: The notes of ``conv_net`` in a report.
MYSTERY = ("unknown: acme::Mystery at 'pool1' (no rule); totals are lower bounds",)


def mystery(convention: str | Convention = "flops") -> Profile:
    return profiled(conv_net(), convention, MYSTERY)
