"""Shapes with open dimensions by other engines beside flopwise's: python benchmarks/formula_oracles.py [MODEL ...].

Engines: onnx's own inference with data propagation, onnxruntime's symbolic inference, onnxsim (what is installed of
them). Each engine's shape of each tensor, and flopwise's, are evaluated at points inside the domain that flopwise
states; the shape that flopwise reads at exactly that size decides who is right. Without a MODEL the models of the tests
are compared. A size that an engine leaves open, or under a name of its own, is "open". Differences are printed, one of
each operator.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import onnx  # noqa: E402
import sympy  # noqa: E402

import flopwise  # noqa: E402
from flopwise.analyses.formula.dim import term  # noqa: E402
from flopwise.analyses.formula.terms import value  # noqa: E402

#: Name of a tensor -> its extents: numbers, texts, None for what is open.
Shapes = dict[str, "list[int | str | None]"]

POINTS = 4


def declared(model: Any) -> Shapes:
    """The shapes in a model."""
    shapes: Shapes = {}
    for info in (*model.graph.value_info, *model.graph.output):
        kind = info.type.tensor_type
        if kind.HasField("shape"):
            shapes[info.name] = [
                d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.shape.dim
            ]
    return shapes


def by_onnx(model: Any) -> Shapes:
    """onnx's own inference, with the values of small tensors."""
    return declared(onnx.shape_inference.infer_shapes(model, data_prop=True))


def by_onnxruntime(model: Any) -> Shapes:
    """onnxruntime's symbolic inference."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    return declared(SymbolicShapeInference.infer_shapes(model, 2**31 - 1, True, False, 0))


def by_onnxsim(model: Any) -> Shapes:
    """What onnxsim leaves of the model, with its shapes."""
    import onnxsim

    return declared(onnxsim.simplify(model)[0])


ENGINES: dict[str, Callable[[Any], Shapes]] = {
    "onnx": by_onnx,
    "onnxruntime": by_onnxruntime,
    "onnxsim": by_onnxsim,
}


def evaluated(extent: int | str | None, point: Mapping[str, int]) -> int | None:
    """An extent at a point; None where it is open."""
    if not isinstance(extent, str):
        return extent
    try:
        names = {name: sympy.Symbol(name, integer=True) for name in point}
        expression = sympy.sympify(extent, locals=names)
        if {str(s) for s in expression.free_symbols} - set(point):
            return None
        return int(expression.subs({names[n]: s for n, s in point.items()}))
    except (TypeError, ValueError, SyntaxError, sympy.SympifyError):
        return None


def points(formula: flopwise.Formula) -> Iterator[dict[str, int]]:
    """Points inside the domain, small ones among them."""
    chance, found = random.Random(7), 0
    for _ in range(400):
        places = {d.name: d.place(d.low) + chance.choice((0, 1, 2, 5, chance.randint(0, 60))) for d in formula.domains}
        point = {d.name: min(d.size(places[d.name]), d.high or 1 << 40) for d in formula.domains}
        try:
            formula.point(point)
        except flopwise.FlopwiseError:
            continue
        found += 1
        yield {**point, **{n: value(t, point) for n, t in formula.tied.items()}}
        if found == POINTS:
            return


def compare(path: Path, counts: dict[str, Counter[str]], told: set[tuple[str, str]]) -> None:
    """Count, for each engine, how its shapes of one model compare."""
    try:
        formula = flopwise.formula(path)
    except flopwise.FlopwiseError as error:
        print(f"{path.name}: {error}")
        return
    assert formula.sizes is not None
    makers = {t.name: node for node in formula.sizes.nodes for t in node.known_outputs}
    ours = {t.name: t.shape for node in formula.sizes.nodes for t in node.known_outputs}
    where = list(points(formula))
    truths = []
    for point in where:
        graph = flopwise.read(path, dims=point)
        truths.append({t.name: t.shape for node in graph.nodes for t in node.known_outputs})
    for name, infer in ENGINES.items():
        try:
            theirs = infer(onnx.load(path))
        except ImportError:
            counts[name]["not installed"] += 1
            continue
        except Exception as error:  # an engine fails in its own ways
            counts[name]["models that fail"] += 1
            print(f"{name}: {path.name}: {type(error).__name__}: {' '.join(str(error).split())[:120]}")
            continue
        for tensor, shape in ours.items():
            if tensor not in theirs or shape is None:
                counts[name]["without a shape" if shape is not None else "flopwise without a shape"] += 1
                continue
            if any(len(t.get(tensor) or ()) != len(theirs[tensor]) for t in truths):
                verdict, at = "rank differs", None
            else:
                verdict, at = judged(formula, shape, theirs[tensor], [t[tensor] for t in truths], where)
            counts[name][verdict] += 1
            key = (name, makers[tensor].op)
            if verdict not in ("same", "open") and key not in told:
                told.add(key)
                mine = f"{theirs[tensor]}, here {[formula.text(term(n)) for n in shape]}, at {at}"
                print(f"{name}: {path.name}: {verdict}: {makers[tensor].op} {tensor!r}: {mine}")


def judged(
    formula: flopwise.Formula, ours: Any, theirs: list[int | str | None], truths: list[Any], where: list[dict[str, int]]
) -> tuple[str, Any]:
    """How one shape compares, and the point at which it differs."""
    is_open = False
    for truth, point in zip(truths, where, strict=True):
        places = {d.name: d.place(point[d.name]) for d in formula.domains}
        if tuple(value(term(n), places) for n in ours) != truth:
            return "flopwise WRONG", point
        values = [evaluated(n, point) for n in theirs]
        if any(v is not None and v != t for v, t in zip(values, truth, strict=True)):
            return "engine wrong", point
        is_open = is_open or None in values
    return ("open" if is_open else "same"), None


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = {name: Counter() for name in ENGINES}
    told: set[tuple[str, str]] = set()
    with tempfile.TemporaryDirectory() as folder:
        from benchmarks.formula_acceptance import examples, made

        paths = options.models
        if not paths:
            paths = [job.build() for job in (*made(Path(folder)), *examples(Path(folder))) if job.ways == (None,)]
        for path in paths:
            compare(path, counts, told)
    for name, found in counts.items():
        print(f"| {name} | {', '.join(f'{kind} {number}' for kind, number in found.most_common())} |")


if __name__ == "__main__":
    main()
