"""Random terms as source code in three languages, beside their values."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from flopwise.analyses.formula.conditions import Guard
from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.extras.source import Way, source
from flopwise.analyses.formula.terms import Polynomial, Term, bits, floor, gcd, largest, least, symbol, value

#: Sizes that are any number, multiples with a rest, and few; names that a language or the source itself uses.
DOMAINS = [Domain("H"), Domain("new", 4, 3, 3), Domain("v0_", 1, 0, 1), Domain("batch size", 2, 1, 1, 99)]


def term(chance: random.Random, depth: int) -> Term:
    """A term with quotients, bounds and digits, which may be negative."""
    if not depth or chance.random() < 0.15:
        return chance.choice([*(symbol(d.name) for d in DOMAINS), -7, 2, 4096, (1 << 33) + 1])
    one, two = term(chance, depth - 1), term(chance, depth - 1)
    makers: list[Callable[[], Term]] = [
        lambda: one + two,
        lambda: one - two,
        lambda: one * chance.choice((2, 3, -1)),
        lambda: one * two,
        lambda: floor(one, chance.choice((2, 3, 7, 1000))),
        lambda: -floor(-one, chance.choice((2, 5))),
        lambda: floor(one, two) if isinstance(two, Polynomial) else one,
        lambda: least(one, two),
        lambda: largest(one, two),
        lambda: bits(one),
        lambda: gcd(one, two),
    ]
    return chance.choice(makers)()


def largest_within(one: Term, places: Mapping[str, int]) -> int:
    """The largest number that is met on the way to a term's value."""
    if isinstance(one, int):
        return abs(one)
    most = total = 0
    for monomial, factor in one.terms.items():
        product = abs(factor)
        for atom, power in monomial:
            parts = atom.parts if atom.kind != "symbol" else ()
            most = max(most, *(largest_within(part, places) for part in parts), 0)
            product *= abs(value(Polynomial({((atom, 1),): 1}), places)) ** power
        total += product
    return max(most, total)


def python(code: str, calls: Sequence[tuple[str, Sequence[int]]], folder: Path) -> list[int]:
    scope: dict[str, Any] = {}
    exec(code, scope)
    return [int(scope[name](*sizes)) for name, sizes in calls]


def c(code: str, calls: Sequence[tuple[str, Sequence[int]]], folder: Path) -> list[int]:
    lines = [
        f'    printf("%lld\\n", (long long){n}({", ".join(f"INT64_C({s})" for s in sizes)}));' for n, sizes in calls
    ]
    main = "\n".join(["#include <stdio.h>", "int main(void) {", *lines, "    return 0;", "}"])
    (folder / "cost.c").write_text(f"{code}\n{main}\n")
    subprocess.run(["gcc", "-w", "-o", folder / "cost", folder / "cost.c"], check=True)
    return list(map(int, subprocess.run([folder / "cost"], capture_output=True, check=True).stdout.split()))


def javascript(code: str, calls: Sequence[tuple[str, Sequence[int]]], folder: Path) -> list[int]:
    lines = [f"console.log(String(Number({name}({', '.join(map(str, sizes))}))));" for name, sizes in calls]
    (folder / "cost.mjs").write_text("\n".join([code, *lines]))
    run = subprocess.run(["node", folder / "cost.mjs"], capture_output=True, check=True, text=True)
    return [int(float(number)) for number in run.stdout.split()]


@pytest.mark.parametrize(("run", "program", "exact"), [(python, "", 256), (c, "gcc", 63), (javascript, "node", 53)])
def test_random_terms(run: Callable[..., list[int]], program: str, exact: int, tmp_path: Path) -> None:
    if program and not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    chance = random.Random(18)
    terms = {f"figure_{i}": term(chance, chance.randint(1, 4)) for i in range(40)}
    made = [term(chance, 2) for _ in range(2)]
    guards = [Guard(one, ">=") for one in made if isinstance(one, Polynomial)]
    calls: list[tuple[str, list[int]]] = []
    expected: list[int | None] = []
    for _ in range(40):
        ends = ((0, 3), (0, 40), (0, 10**5), (10**9, 10**9 + 50))
        places = {d.name: chance.randint(*(chance.choice(ends) if d.high is None else (0, 49))) for d in DOMAINS}
        sizes = [d.size(places[d.name]) for d in DOMAINS]
        met = [largest_within(guard.expression, places) for guard in guards]
        calls.append(("holds", sizes))
        inside = all(d.holds(size) for d, size in zip(DOMAINS, sizes, strict=True))
        holds = inside and all(g.holds(places) for g in guards)
        expected.append(int(holds) if max(met, default=0) < 1 << exact else None)
        for name, one in terms.items():
            calls.append((name, sizes))
            expected.append(value(one, places) if largest_within(one, places) < 1 << exact else None)
    language = {"": "python", "gcc": "c", "node": "javascript"}[program]
    results = run(source([Way(terms, DOMAINS, guards)], language), calls, tmp_path)
    wrong = [
        (call, terms.get(call[0]), result, right)
        for call, result, right in zip(calls, results, expected, strict=True)
        if right is not None and result != right
    ]
    assert not wrong, wrong[:3]
    assert sum(right is not None for right in expected) > 1000
