"""The code that ``--show`` prints for PyTorch, run beside the program in which the rule found the waste."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import flopwise
from flopwise.analyses.advice.rule import Rule
from flopwise.analyses.advice.rules import RULES

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn

#: Rules whose code is another network, which test_other_networks.py holds against the counts.
OTHER_NETWORKS = {rule.name for rule in RULES if rule.code is not None and rule.exactness == "other"}


class Wasteful(nn.Module):  # type: ignore[misc, name-defined]
    """A program with its modules and tensors."""

    def __init__(self, run: Callable[..., Any], parts: dict[str, Any]) -> None:
        super().__init__()
        self.run = run
        for name, part in parts.items():
            self.add_module(name, part) if isinstance(part, nn.Module) else self.register_buffer(name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.run(self, *inputs)


class Case(NamedTuple):
    """A wasteful program, its input, and what the names in the code stand for."""

    run: Callable[..., Any]
    parts: dict[str, Any]
    example: Any
    #: From the program and its input.
    names: Callable[[Any, Any], dict[str, Any]]


def _random(*shape: int) -> Any:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


def _layer_norm(m: Any, x: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5) * m.ones + m.zeros


def _rms_norm(m: Any, x: Any) -> Any:
    wide = x.float()
    return m.ones.half() * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def _attention(m: Any, x: Any) -> Any:
    return (x @ x.mT / x.shape[-1] ** 0.5).masked_fill(m.mask[:6, :6] == 0, float("-inf")).softmax(-1) @ x


def _recomputed(m: Any, x: Any) -> Any:
    return torch.cat((x, x[:, :1].sigmoid()), 1) @ m.weight, x @ m.weight


def _encoder(m: Any, ids: Any, attention_mask: Any) -> Any:
    scores = m.table[ids] @ m.table[ids].mT + (1 - attention_mask[:, None].float()) * -1e9
    return (scores.softmax(-1) @ m.table[ids])[:, :3]


STAND = {"ones": torch.ones(32), "zeros": torch.zeros(32)}
TABLE, IMAGE, ROWS = _random(50, 32), _random(1, 8, 6, 6), _random(2, 6, 32)
IDS = torch.arange(12).reshape(2, 6)
NORM = nn.BatchNorm2d(8).eval()
NORM.running_mean.fill_(0.3)
POINT = nn.Conv2d(8, 4, 1)
RESIZED = functools.partial(F.interpolate, scale_factor=2, mode="bilinear")

CASES: dict[str, Case] = {
    "normalization": Case(_layer_norm, STAND, ROWS, lambda m, x: {}),
    "normalization of roots": Case(_rms_norm, STAND, ROWS.half(), lambda m, x: {}),
    "batch-norm": Case(
        lambda m, x: m.bn(m.conv(x)),
        {"conv": nn.Conv2d(8, 8, 3), "bn": NORM},
        IMAGE,
        lambda m, x: {"conv": m.conv, "bn": m.bn},
    ),
    "batch-norm of the transposed": Case(
        lambda m, x: m.bn(m.conv(x)),
        {"conv": nn.ConvTranspose2d(8, 8, 3), "bn": NORM},
        IMAGE,
        lambda m, x: {"conv": m.conv, "bn": m.bn},
    ),
    "one-hot": Case(
        lambda m, x: F.one_hot(x, 50).float() @ m.matrix,
        {"matrix": TABLE},
        IDS,
        lambda m, x: {"indices": x, "matrix": m.matrix},
    ),
    "upsampling": Case(
        lambda m, x: m.conv(RESIZED(x)),
        {"conv": POINT},
        IMAGE,
        lambda m, x: {"conv": m.conv, "resized": RESIZED, "x": x},
    ),
    "all-logits": Case(
        lambda m, x: m.head(torch.tanh(m.table[x])),
        {"head": nn.Linear(32, 50), "table": TABLE},
        IDS,
        lambda m, x: {"head": m.head, "hidden": torch.tanh(m.table[x])},
    ),
    "unrolled": Case(
        lambda m, x: functools.reduce(lambda h, part: torch.tanh(part @ m.weight + h), x.unbind(1), 0.0),
        {"weight": _random(32, 32)},
        ROWS,
        lambda m, x: {"x": x, "weight": m.weight, "dim": 1},
    ),
    "masked-attention": Case(
        _attention,
        {"mask": torch.tril(torch.ones(8, 8))},
        ROWS,
        lambda m, x: {"q": x, "k": x, "v": x, "mask": m.mask[:6, :6] == 0},
    ),
    "recomputed-rows": Case(
        _recomputed,
        {"weight": _random(32, 32)},
        ROWS,
        lambda m, x: {"rows": x, "new": x[:, :1].sigmoid(), "weight": m.weight, "old": x @ m.weight},
    ),
    "oversized-gather": Case(
        lambda m, x: F.embedding(x, m.matrix)[:, :3],
        {"matrix": TABLE},
        IDS,
        lambda m, x: {"indices": x, "matrix": m.matrix, "cut": lambda rows: rows[:, :3]},
    ),
    "cast-pairs": Case(lambda m, x: x.double().float() + 1, {}, ROWS, lambda m, x: {"x": x, "other": torch.float64}),
    "cast-pairs around a move": Case(
        lambda m, x: x.double().flatten(1).float() + 1,
        {},
        ROWS,
        lambda m, x: {"x": x, "other": torch.float64, "moved": lambda t: t.flatten(1)},
    ),
}


def test_each_code_is_run() -> None:
    """Rules without code ask for nothing that PyTorch has words for: to leave out, to store, to choose sizes."""
    of_cases = {name.partition(" ")[0] for name in CASES} | OTHER_NETWORKS | {"padding-tokens"}
    assert of_cases == {rule.name for rule in RULES if rule.code is not None}


@pytest.mark.parametrize("name", CASES)
def test_the_code_gives_what_the_program_gives(name: str) -> None:
    case = CASES[name]
    program = Wasteful(case.run, case.parts).eval()
    found = [e for e in flopwise.advise(program, (case.example,)).suggestions if e.rule.name == name.split(" ")[0]]
    assert found, "not found"
    rule, change = found[0].rule, found[0].change
    assert isinstance(rule, Rule)
    assert rule.code is not None
    assert change is not None
    new, _, old = rule.code(change).partition(" in place of ")
    names = {"torch": torch, "F": F, "nn": nn, **case.names(program, case.example)}
    with torch.no_grad():
        results = [_called(eval(code, names), case.example) for code in (new, old) if code]
        expected = [program(case.example)] if not old or isinstance(eval(new, names), nn.Module) else []
    for result in (*results[1:], *expected):
        torch.testing.assert_close(result, results[0], rtol=2e-3 if results[0].dtype == torch.half else 1e-5, atol=1e-5)


def _called(result: Any, example: Any) -> Any:
    """What a module makes of the input, a row for each step, or what the code gives itself."""
    if isinstance(result, nn.Module):
        return result.to(example.dtype)(example)
    return torch.stack(tuple(result)) if isinstance(result, list | tuple) else result


def test_batches_without_padding() -> None:
    """Columns that a mask takes out of every sequence change nothing that counts."""
    (rule,) = (rule for rule in RULES if rule.name == "padding-tokens")
    assert rule.code is not None
    program = Wasteful(_encoder, {"table": TABLE})
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0]])
    batch = {"ids": IDS, "attention_mask": mask}
    new, _, _ = rule.code(None).partition(" in place of ")  # type: ignore[arg-type]
    shorter = eval(new, {"mask": mask, "batch": batch})
    assert {name: tuple(t.shape) for name, t in shorter.items()} == {"ids": (2, 4), "attention_mask": (2, 4)}
    torch.testing.assert_close(program(*batch.values()), program(*shorter.values()))
