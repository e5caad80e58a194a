"""Einsum: the products of two operands that engines make, one after the other."""

from __future__ import annotations

import random
import string
from types import SimpleNamespace
from typing import Any

import pytest
from tests.formats.models import model, node
from tests.operators.nodes import gradient_of

import flopwise
from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.einsum import einsum
from flopwise.operators.gradients.linear import einsum_keeps

torch = pytest.importorskip("torch")


def product(equation: str, *shapes: tuple[int, ...], **attrs: Any) -> Node:
    inputs = tuple(Tensor(f"x{i}", shape, "float32") for i, shape in enumerate(shapes))
    return Node("Einsum", "e", inputs, (Tensor("y", (), "float32"),), {"equation": equation, **attrs})


def executed(equation: str, *shapes: tuple[int, ...]) -> int:
    """The multiply-adds that PyTorch's kernels do."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        torch.einsum(equation, *(torch.empty(shape, device="meta") for shape in shapes))
    return int(counter.get_total_flops()) // 2


def equations(seed: int) -> tuple[str, list[tuple[int, ...]]]:
    """A random equation of one to five operands, some broadcast, with the shapes of these."""
    dice = random.Random(seed)
    labels = string.ascii_letters[: dice.randint(1, 6)]
    extents = {label: dice.randint(2, 5) for label in labels}
    terms = ["".join(dice.choices(labels, k=dice.randint(0, 4))) for _ in range(dice.randint(1, 5))]
    terms = ["".join(dict.fromkeys(term)) if dice.random() < 0.8 else term for term in terms]
    used = sorted(set("".join(terms)))
    right = "".join(dice.sample(used, dice.randint(0, len(used))))
    dots = dice.random() < 0.3
    shapes = []
    for place, term in enumerate(terms):
        once = [extents[c] if term.count(c) > 1 or dice.random() < 0.9 else 1 for c in term]
        if dots and dice.random() < 0.7:
            terms[place], once = f"...{term}", [*([3] if dice.random() < 0.7 else []), 2, *once]
        shapes.append(tuple(once))
    return f"{','.join(terms)}->{'...' if '...' in ''.join(terms) else ''}{right}", shapes


@pytest.mark.parametrize("seed", range(200))
def test_as_pytorch_multiplies(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From left to right, which it leaves only where opt_einsum is installed."""
    monkeypatch.setattr(torch.backends.opt_einsum, "enabled", False)  # timm.optim sets it there
    equation, shapes = equations(seed)
    assert einsum(product(equation, *shapes)).mac == executed(equation, *shapes)


def test_in_the_order_of_opt_einsum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for it takes the last two first; PyTorch asks it from three operands on."""
    last_first = SimpleNamespace(contract_path=lambda equation, *operands, optimize: ([(1, 2), (0, 1)], None))
    for name, value in (("_opt_einsum", last_first), ("enabled", True), ("is_available", lambda: True)):
        monkeypatch.setattr(torch.backends.opt_einsum.m, name, value)
    shapes = (2, 16), (16, 32), (32, 3)
    counted = flopwise.profile(lambda x, v, w: torch.einsum("bi,ij,jk->bk", x, v, w), [torch.empty(s) for s in shapes])
    assert counted.total("macs") == 16 * 32 * 3 + 2 * 16 * 3 == executed("bi,ij,jk->bk", *shapes)
    assert "einsum: 'einsum' multiplies operands two at a time, as opt_einsum says" in counted.notes
    direct = flopwise.profile(
        lambda x, v, w: torch.ops.aten.einsum("bi,ij,jk->bk", [x, v, w]), [torch.empty(s) for s in shapes]
    )
    assert direct.total("macs") == 2 * 16 * 32 + 2 * 32 * 3


def test_the_order_is_said() -> None:
    nodes = [
        node("Einsum", "x x x", "y", "chain", equation="ij,jk,kl->il"),
        node("Einsum", "y y", "z", equation="ij,ij->ij"),
    ]
    net = model(nodes, {"x": (4, 4)})
    said = "einsum: 'chain' multiplies operands two at a time, from left to right, as PyTorch and onnxruntime do"
    assert said in flopwise.profile(net).notes
    assert not [note for note in flopwise.profile(net, convention="onnx-tool").notes if note.startswith("einsum")]


@pytest.mark.parametrize(
    "path", [[0], [0, 1], [0, 0, 0, 1], [0, 3, 0, 1], [1, 2, 0, 2], [-1, 0, 0, 1], "ab", 7, [0.5] * 4]
)
def test_a_path_that_is_none(path: Any) -> None:
    with pytest.raises(ShapeError, match="path"):
        einsum(product("ij,jk,kl->il", (2, 3), (3, 4), (4, 5), path=path))


def test_thousands_of_operands() -> None:
    count = 3000
    assert einsum(product(",".join(["i"] * count) + "->", *([(7,)] * count))) == Counts(mac=7, mul=7 * (count - 2))


@pytest.mark.parametrize(
    ("equation", "shapes", "wanted", "expected"),
    [
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], {0, 1, 2}, Counts(mac=2 * 24 + 2 * 40)),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], {2}, Counts(mac=40)),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], {0}, Counts(mac=24 + 40)),
        ("ij,ij->ij", [(2, 3), (2, 3)], {0, 1}, Counts(mul=12)),
        ("i,j->ij", [(2,), (3,)], {0, 1}, Counts(mul=12, add=12)),
        ("ij,k->k", [(2, 3), (4,)], {0, 1}, Counts(mul=8, add=4)),
        ("ij->i", [(2, 3)], {0}, Counts()),
    ],
)
def test_gradients(equation: str, shapes: list[tuple[int, ...]], wanted: set[int], expected: Counts) -> None:
    assert gradient_of("Einsum").rule(product(equation, *shapes), frozenset(wanted)) == expected


def test_what_is_kept_for_gradients() -> None:
    """Of a chain the operands and the product between; what is multiplied by a constant alone is not needed."""
    chain = product("ij,jk,kl->il", (2, 3), (3, 4), (4, 5))
    x, v, w = chain.known_inputs
    assert list(einsum_keeps(chain, frozenset({0, 1, 2}))) == [x, v, 2 * 4 * 4, w]
    assert list(einsum_keeps(chain, frozenset({2}))) == [2 * 4 * 4]
    assert list(einsum_keeps(chain, frozenset({0}))) == [v, w]
