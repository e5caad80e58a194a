"""Formulas of a step in the batch, the tokens in the state and the tokens fed, of every causal and encoder-decoder
model type of transformers, reduced; and whether their values equal ``flopwise profile``.

    python benchmarks/llm_formula_sweep.py [TYPE ...]

A formula is complete where every layer has one, no figure is a lower bound, and it holds for every batch, past and new
from the smallest on. What is not complete is listed with its conditions. It takes about ten minutes.
"""

from __future__ import annotations

import contextlib
import logging
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from limited import limited

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SECONDS = 300

#: Sizes of batch, past and new: the smallest, one token after a short and a long state, and prompts.
POINTS = ((1, 0, 1), (1, 1, 1), (2, 5, 1), (1, 700, 1), (2, 0, 7), (3, 9, 4), (1, 40, 65))

FIGURES = ("count", "macs", "params", "weight_bytes", "output_bytes", "state_bytes")


def _model(kind: str) -> Any:
    import tests.torch_vision  # noqa: F401 - before a model of transformers asks for torchvision
    import torch
    from tests.language_steps import WAYS, light_model

    torch.set_num_threads(1)
    for way in WAYS:
        try:
            model = light_model(kind, way)
            import flopwise
            from flopwise.formats.torch.language.state import step

            flopwise.profile(model, step(model, 0, 5, 2).inputs)
            with contextlib.suppress(flopwise.InputError):  # it keeps nothing between calls
                flopwise.profile(model, step(model, 3, 1, 2).inputs)
        except Exception as error:  # the sizes do not fit together
            refusal = error
            continue
        return model
    raise refusal


def one(kind: str) -> str:
    """What the formula of a type is: "complete", "narrow" with its conditions, "open", "wrong" or "none" with why."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    try:
        model = _model(kind)
    except Exception as error:
        return f"not reduced: {type(error).__name__}: {' '.join(str(error).split())[:160]}"
    import flopwise
    from flopwise.formats.torch.language.state import step

    start = time.process_time()
    past = "past"
    try:
        step(model, 3, 1, 1)
    except flopwise.FlopwiseError:
        past = None  # nothing is kept between calls that a caller could hand back
    try:
        formula = flopwise.formula(model, past=past, new="new")
    except flopwise.FlopwiseError as error:
        return f"none: {error}"
    seconds = time.process_time() - start
    wrong, outside = [], []
    chance = random.Random(kind)
    more = tuple((chance.randint(1, 4), chance.randint(0, 600), chance.choice((1, 2, 33, 130))) for _ in range(3))
    for batch, before, new in (*POINTS, *more):
        if past is None and before:
            continue
        try:
            call = step(model, before, new, batch)
            profile = flopwise.profile(model, call.inputs)
        except Exception:
            continue
        sizes = {"batch": batch, "new": new} | ({"past": before} if past else {})
        try:
            formula.point(sizes)
        except flopwise.InputError:
            outside.append(tuple(sizes.values()))
            continue
        values = formula.at(**sizes)
        for figure in FIGURES:
            ours = values[figure] if figure != "state_bytes" else formula.value(figure, **sizes)
            theirs = profile.total(figure) if figure != "state_bytes" else call.state_bytes
            if (figure == "state_bytes" and not before) or figure in values.lower_bounds:
                continue
            if ours != theirs:
                wrong.append(f"{figure} {ours} for {theirs} at {tuple(sizes.values())}")
    shown = f"{seconds:.1f} s; " + "; ".join(formula.conditions)
    if wrong:
        return f"wrong: {len(wrong)}: {wrong[0]}; {shown}"
    if not formula.exact or formula.at_least():
        unknown = {r.node.op for r in formula.rows if r.missing or r.note}
        return f"open: {sorted(unknown)[:6]} {formula.at_least()} {shown} {formula.notes[-1:]}"
    if not formula.everywhere:
        return f"forks: {shown}"
    if outside:
        return f"narrow: {outside[:3]} {shown}"
    bounds = [note for note in formula.notes if note.startswith("upper bounds")]
    return f"complete{', bounds' if bounds else ''}: {shown}"


def _limited(kind: str) -> tuple[str, str]:
    """A type and what came of it, which is printed at once."""
    result = limited(one, kind, SECONDS)
    print(f"{kind:34} {result}"[:600], flush=True)
    return kind, result


def main() -> None:
    from concurrent.futures import ThreadPoolExecutor

    from llm_sweep import types

    kinds = sys.argv[1:] or types()
    with ThreadPoolExecutor(2) as pool:
        results = dict(pool.map(_limited, kinds))
    counts = Counter(result.partition(":")[0] for result in results.values())
    print(len(results), "types:", dict(counts))


if __name__ == "__main__":
    main()
