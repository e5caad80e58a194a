"""Terms as sympy expressions in the symbols' true sizes, simplified for people, and as text and LaTeX."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.terms import Atom, Polynomial, Term
from flopwise.errors import InputError

#: An expression of sympy's, or a class of these.
Expression: TypeAlias = Any

#: Sums of more terms are only rid of common factors: factoring them takes long and shows little.
MOST_FACTORED = 40

#: Words that mean something in Python, C or JavaScript, and the functions of the sources that are written.
_RESERVED = re.compile(
    "|".join(keyword.kwlist)
    + "|auto|case|char|const|default|do|double|enum|extern|float|goto|inline|int|int64_t|long|register|restrict|short"
    "|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|arguments|await|catch|debugger|delete"
    "|eval|export|extends|false|function|instanceof|let|new|null|package|private|protected|public|super|this|throw"
    "|true|typeof|undefined|var|holds(_[0-9]+)?|floor_div|min_of|max_of|bits_of|gcd_of"
)


def load_sympy() -> ModuleType:
    """The module sympy.

    Raises:
        InputError: it is not installed.
    """
    try:
        sympy: ModuleType = import_module("sympy")
    except ImportError:
        raise InputError("formulas need sympy: pip install 'flopwise[symbolic]'") from None
    return sympy


#: A word of JavaScript and C++ that formulas of language models call the tokens that are fed.
_NEW = "new"


def identifiers(names: Sequence[str], code: bool = False) -> dict[str, str]:
    """A name that can stand in a formula for each symbol.

    >>> identifiers(["batch", "past len", "past_len", "int"])
    {'batch': 'batch', 'past len': 'past_len', 'past_len': 'past_len_2', 'int': 'int_size'}
    >>> identifiers(["new"]), identifiers(["new"], code=True)
    ({'new': 'new'}, {'new': 'new_size'})

    Args:
        names: of the symbols.
        code: whether it stands in source code of another language than Python.
    """
    clean_names: dict[str, str] = {}
    for name in names:
        clean = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "size"
        clean = (
            f"n{clean}"
            if clean[0].isdigit()
            else f"{clean}_size"
            if _RESERVED.fullmatch(clean) and (code or clean != _NEW)
            else clean
        )
        number = 1
        while (unique := clean if number == 1 else f"{clean}_{number}") in clean_names.values():
            number += 1
        clean_names[name] = unique
    return clean_names


class Expressions:
    """Terms over the symbols' scales -> expressions in their sizes."""

    def __init__(self, domains: Sequence[Domain]) -> None:
        self.sympy = load_sympy()
        names = identifiers([d.name for d in domains])
        self.symbols = {
            d.name: self.sympy.Symbol(names[d.name], integer=True, **{"positive" if d.low else "nonnegative": True})
            for d in domains
        }
        self.scales = {d.name: (self.symbols[d.name] - d.offset) / d.step for d in domains}
        self._simple: dict[Term, Expression] = {}
        self._atoms: dict[Atom, Expression] = {}

    def expression(self, term: Term) -> Expression:
        """The term as a simplified sympy expression."""
        if term not in self._simple:
            self._simple[term] = self._shortest(term)
        return self._simple[term]

    def _plain(self, term: Term, atoms: dict[Atom, Expression]) -> Expression:
        """The term as it is, with the given expressions for its atoms."""
        sympy = self.sympy
        if not isinstance(term, Polynomial):
            return sympy.Integer(term)
        return sympy.Add(*(sympy.Mul(c, *(atoms[a] ** p for a, p in m)) for m, c in term.terms.items()))

    def _atom(self, atom: Atom) -> object:
        if atom not in self._atoms:
            self._atoms[atom] = self._expression_of(atom)
        return self._atoms[atom]

    def _expression_of(self, atom: Atom) -> Expression:
        sympy = self.sympy
        if atom.kind == "symbol":
            return self.scales[atom]
        if atom.kind == "bits":
            return sympy.Function("bits", integer=True, nonnegative=True)(self._inner(atom.parts[0]))
        first, second = atom.parts
        left, right = self._inner(first), self._inner(second)
        if atom.kind == "gcd":  # sympy's own is that of polynomials
            return sympy.Function("gcd", integer=True, nonnegative=True)(left, self._inner(second))
        if atom.kind == "floor":
            constant = first.terms.get((), 0) if isinstance(first, Polynomial) else 0
            if isinstance(second, int) and constant == second - 1:
                return sympy.ceiling((left - constant) / right)
            return sympy.floor(left / right)
        return (sympy.Min if atom.kind == "min" else sympy.Max)(left, right)

    def _inner(self, term: Term) -> Expression:
        atoms = {a: self._atom(a) for a in term.atoms()} if isinstance(term, Polynomial) else {}
        return self.sympy.expand(self._plain(term, atoms))

    def _shortest(self, term: Term) -> Expression:
        """The shortest of several forms: expanded, collected by a symbol, without common factors, factored."""
        sympy = self.sympy
        if not isinstance(term, Polynomial):
            return sympy.Integer(term)
        atoms: dict[Atom, Expression] = {}
        back: dict[Expression, Expression] = {}
        for atom in dict.fromkeys(term.atoms()):
            if atom.kind == "symbol":
                atoms[atom] = self.scales[atom]
            else:  # for sympy's factoring a floor is one more symbol
                stand_in = sympy.Symbol(f"f{len(back)}", integer=True)
                atoms[atom], back[stand_in] = stand_in, self._atom(atom)
        expanded = sympy.expand(self._plain(term, atoms))
        forms = [_without_common_factors(expanded, sympy), expanded]
        forms += [sympy.collect(expanded, s) for s in self.symbols.values() if expanded.has(s)]
        if len(term.terms) <= MOST_FACTORED:
            forms.insert(0, sympy.factor(expanded))
        shown = [form.xreplace(back) for form in forms]
        return min(shown, key=lambda form: len(_text_printer().doprint(form)))

    def text(self, term: Term, at: Mapping[str, int] | None = None) -> str:
        """The term in Python's notation, with floor, ceil, min and max.

        Args:
            term: what to write.
            at: a size of each symbol, at which the larger of two summands stands first; None: higher powers do.
        """
        printer = _text_printer()
        printer.sizes = self._sizes(at)
        return str(printer.doprint(self.expression(term)))

    def latex(self, term: Term, at: Mapping[str, int] | None = None) -> str:
        """The term in LaTeX's mathematics, as ``text`` writes it."""
        names = {s: _latex_name(s.name) for s in self.symbols.values()}
        printer = _latex_printer(names)
        printer.sizes = self._sizes(at)
        return str(printer.doprint(self.expression(term)))

    def _sizes(self, at: Mapping[str, int] | None) -> dict[Expression, Expression] | None:
        return None if at is None else {self.symbols[n]: self.sympy.Integer(size) for n, size in at.items()}


def _without_common_factors(expanded: object, sympy: ModuleType) -> object:
    """The sum with the symbols that all terms share in front; numbers stay with the terms that they belong to."""
    terms = sympy.Add.make_args(expanded)
    if len(terms) < 2:
        return expanded
    powers = [t.as_coeff_Mul()[1].as_powers_dict() for t in terms]
    shared = {b: min(p.get(b, 0) for p in powers) for b in powers[0]}
    common = [b**e for b, e in shared.items() if e]
    if not common:
        return expanded
    return sympy.Mul(*common, sympy.Add(*(t / sympy.Mul(*common) for t in terms)), evaluate=False)


def _latex_name(name: str) -> str:
    escaped = name.replace("_", r"\_")
    return name if len(name) == 1 else rf"\mathrm{{{escaped}}}"


class _Weighed:
    """A printer that puts the larger of two summands first."""

    #: Symbol -> size at which summands are compared; None: they stand as sympy sorts them.
    sizes: dict[Expression, Expression] | None = None

    def _as_ordered_terms(self, expr: Expression, order: object = None) -> object:
        sizes = self.sizes
        if sizes is None:
            return super()._as_ordered_terms(expr, order=order)  # type: ignore[misc]
        return sorted(expr.args, key=lambda part: -abs(float(part.xreplace(sizes))))


def _text_printer() -> Expression:
    from sympy.printing.str import StrPrinter

    class Text(_Weighed, StrPrinter):  # type: ignore[misc]
        """sympy's own notation, with the quotient in a floor on one line."""

        def _quotient(self, name: str, argument: Expression) -> str:
            over, under = argument.together().as_numer_denom()
            if under == 1:
                return f"{name}({self._print(over)})"
            return f"{name}({self.parenthesize(over, 50)}/{under})"

        def _print_floor(self, expr: Expression) -> str:
            return self._quotient("floor", expr.args[0])

        def _print_ceiling(self, expr: Expression) -> str:
            return self._quotient("ceil", expr.args[0])

        def _print_Min(self, expr: object) -> str:  # noqa: N802 - the printer looks for this name
            return f"min({self._numbers_last(expr)})"

        def _print_Max(self, expr: object) -> str:  # noqa: N802 - the printer looks for this name
            return f"max({self._numbers_last(expr)})"

        def _numbers_last(self, expr: Expression) -> str:
            return ", ".join(map(self._print, sorted(expr.args, key=lambda a: (a.is_number, str(a)))))

    return Text()


def _latex_printer(names: dict[Expression, str]) -> Expression:
    from sympy.printing.latex import LatexPrinter

    class Latex(_Weighed, LatexPrinter):  # type: ignore[misc]
        """sympy's own, with the quotient in a floor as one fraction."""

        def _print_floor(self, expr: Expression, exp: str | None = None) -> str:
            return self._power(rf"\left\lfloor {self._print(expr.args[0].together())} \right\rfloor", exp)

        def _print_ceiling(self, expr: Expression, exp: str | None = None) -> str:
            return self._power(rf"\left\lceil {self._print(expr.args[0].together())} \right\rceil", exp)

        def _power(self, text: str, exp: str | None) -> str:
            return text if exp is None else f"{text}^{{{exp}}}"

    return Latex({"symbol_names": names})
