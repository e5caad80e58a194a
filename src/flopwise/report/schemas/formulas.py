"""Formulas in symbolic sizes, and what is worked out from them."""

from __future__ import annotations

from flopwise.analyses import quantities
from flopwise.report.schemas.notation import By, Kind, Maybe, Member, Open
from flopwise.report.schemas.parts import CONVENTION, MODEL, NOTES, PORT

_FORMULA_FIGURES: dict[str, Member] = dict.fromkeys(
    (*quantities.FIGURES, "input_bytes"), ("text|null", "a formula in Python's notation; null where there is none")
)

_FORMULA_OPS: Kind = Maybe(By("text|null", "class"))

_FORMULA_TOTALS: Kind = {
    **_FORMULA_FIGURES,
    "peak_activation_bytes": ("text|null", "most bytes of activations alive at once"),
    "state_bytes": ("text|null", "bytes of the states that the model is handed"),
    "ops": (_FORMULA_OPS, "operations by class"),
}

_POINT: Kind = By("integer", "symbol")

FORMULA: dict[str, Member] = {
    "model": MODEL,
    "inputs": ([PORT], "the inputs with symbols in their shapes"),
    "convention": CONVENTION,
    "symbols": (
        [
            {
                "name": ("text", "the symbol as the model has it"),
                "written": ("text", "the symbol as formulas write it"),
                "low": ("integer", "the formulas hold from here on"),
                "high": ("integer|null", "and up to here"),
                "step": ("integer", "in steps of so many"),
            }
        ],
        "the open sizes",
    ),
    "conditions": (["text"], "what has to hold of the sizes"),
    "totals": (_FORMULA_TOTALS, "the whole model"),
    "ways?": (
        [
            {
                "conditions": (["text"], "when this way is taken"),
                "totals": (_FORMULA_TOTALS, "the whole model on this way"),
                "verified_at": ([_POINT], "sizes at which it was compared with a profile"),
            }
        ],
        "other ways through a program that branches by its sizes",
    ),
    "closed?": ("flag", "whether the ways are all that there are"),
    "layers": (
        [
            {
                "name": ("text", "the layer"),
                "op": ("text", "its operator"),
                "scope": ("text", "path of the module that it is in"),
                **_FORMULA_FIGURES,
                "ops": (_FORMULA_OPS, "operations by class"),
            }
        ],
        "the layers",
    ),
    "coverage": (
        {
            "nodes": ("integer", "layers"),
            "unknown": (By("integer", "operator"), "operators without a rule, and how often they occur"),
            "without_formula": (["text"], "layers whose cost no formula says"),
            "unresolved": (["text"], "tensors whose shape is not known"),
        },
        "how far the formulas go",
    ),
    "verified_at": ([_POINT], "sizes at which the formulas were compared with profiles"),
    "notes": NOTES,
}

FORMULA_SOLUTION: dict[str, Member] = {
    "model": MODEL,
    "figure": ("text", "what is limited"),
    "most": ("integer", "the limit"),
    "symbol": ("text", "the size that is asked for"),
    "solutions": (
        [
            {
                "at": (_POINT, "the other sizes"),
                "size": ("integer|null", "the largest size; null where none fits"),
                "value": ("integer|null", "the figure there"),
                "certain": ("flag", "false where larger sizes may fit as well"),
            }
        ],
        "one for each point of the other sizes",
    ),
}

FORMULA_SOURCE: dict[str, Member] = {
    "language": ("text", "c, javascript or python"),
    "source": ("text", "functions that compute the figures"),
}

FORMULA_VALUES: dict[str, Member] = {
    "model": MODEL,
    "convention": CONVENTION,
    "values": ([Open({"at": (_POINT, "the sizes")}, "integer|null")], "the figures at each point"),
    "lower_bounds": (["text"], "figures that are lower bounds"),
    "notes": NOTES,
}
