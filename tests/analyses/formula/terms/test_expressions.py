"""Terms as people read them."""

from __future__ import annotations

import sys

import pytest

from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.expressions import Expressions, load_sympy
from flopwise.analyses.formula.terms import Term, largest, least, symbol
from flopwise.errors import InputError

N, H, K = symbol("N"), symbol("H"), symbol("k")
PLAIN = Expressions([Domain("N"), Domain("H")])
SCALED = Expressions([Domain("N"), Domain("k", step=32), Domain("seq_len", step=8, offset=1)])


@pytest.mark.parametrize(
    ("term", "text", "latex"),
    [
        (7, "7", "7"),
        (N * (3 * H + 6), "3*N*(H + 2)", r"3 N \left(H + 2\right)"),
        (N * (13476298752 + 262144 * H), "262144*N*(H + 51408)", None),
        (N * H + 5, "H*N + 5", None),
        ((H + 31) // 32, "ceil(H/32)", r"\left\lceil \frac{H}{32} \right\rceil"),
        ((H // 32) * (H // 32), "floor(H/32)**2", r"\left\lfloor \frac{H}{32} \right\rfloor^{2}"),
        ((H - 75) // 32, "floor((H - 75)/32)", r"\left\lfloor \frac{H - 75}{32} \right\rfloor"),
        ((3 * H + 1) // 8, "floor((3*H + 1)/8)", None),
        (N * least(H, 150), "N*min(H, 150)", r"N \min\left(150, H\right)"),
        (largest(H - 5, 9), "max(H - 5, 9)", None),
    ],
)
def test_plain(term: Term, text: str, latex: str | None) -> None:
    assert PLAIN.text(term) == text
    if latex:
        assert PLAIN.latex(term) == latex


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (K, "k/32"),
        (32 * 32 * N * K * K, "N*k**2"),
        (8 * K, "k/4"),
        ((K + 1) // 2, "ceil(k/64)"),
        (8 * symbol("seq_len") + 1, "seq_len"),
        (symbol("seq_len"), "(seq_len - 1)/8"),
    ],
)
def test_scaled(term: Term, text: str) -> None:
    assert SCALED.text(term) == text


def test_long_names_stand_upright() -> None:
    assert SCALED.latex(8 * symbol("seq_len") + 1) == r"\mathrm{seq\_len}"


def test_without_sympy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(InputError, match=r"pip install 'flopwise\[symbolic\]'"):
        load_sympy()
