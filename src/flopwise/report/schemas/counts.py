"""Operations, parameters and shapes of models, in one convention or side by side."""

from __future__ import annotations

from flopwise.analyses import quantities
from flopwise.report.schemas.notation import By, Kind, Maybe, Member, Open
from flopwise.report.schemas.parts import (
    CONVENTION,
    COVERAGE,
    FIGURES,
    INPUTS,
    MODEL,
    NOTES,
    OPS,
    PORT,
    ROOM,
    SHAPE,
    TRAINED,
)

_TRAINING: Kind = {
    "backward": ("integer|null", "the backward pass in the convention's unit"),
    "backward_macs": ("integer|null", "its multiply-accumulates"),
    "backward_flops": ("integer|null", "its FLOPs"),
    "backward_ops": (Maybe(OPS), "its operations by class"),
    "recomputed_macs": ("integer|null", "multiply-accumulates of what is computed once more for it"),
    "saved_bytes": ("integer", "bytes that are kept for it"),
    "trained_params": ("integer", "elements of the weights that are trained"),
    "weight_bytes": ("integer", "bytes of all stored tensors"),
    "gradient_bytes": ("integer", "bytes of the gradients"),
    "optimizer": ("text|null", "the optimizer"),
    "optimizer_macs": ("integer|null", "its multiply-accumulates"),
    "optimizer_flops": ("integer|null", "its FLOPs"),
    "optimizer_ops": (Maybe(OPS), "its operations by class"),
    "state_bytes": ("integer|null", "bytes of its states"),
    "memory_bytes": ("integer|null", "weights, gradients, states and what is kept, together"),
    "unknown": (By("integer", "operator"), "operators whose gradient has no rule, and how often they occur"),
    "exact": ("flag", "true where the figures of the step are exact"),
}

_TOTALS: Kind = {
    **FIGURES,
    "needed_macs": ("integer|null", "multiply-accumulates after masking"),
    "peak_activation_bytes": ("integer|null", "most bytes of activations alive at once"),
    "state_bytes?": ("integer", "bytes of the states that the model is handed"),
    "own?": (By("integer|number|text|null", "figure"), "totals that the convention's tool defines in its own way"),
}

_LAYER: dict[str, Member] = {
    "name": ("text", "the layer's name"),
    "op": ("text", "its operator, as ONNX calls it"),
    "origin": ("text", "the operator in the words of the model's own format"),
    "scope": ("text", "path of the module that it is in"),
    "inputs": ([SHAPE], "shapes of its inputs"),
    "outputs": ([SHAPE], "shapes of its outputs"),
    **FIGURES,
    "needed_macs?": ("integer|null", "multiply-accumulates after masking, where there are masks"),
    "times?": ("integer|null", "how often a layer inside of control flow runs"),
    "within?": (["text"], "the control flow around it, the outermost first"),
    **TRAINED,
}

_SUMMARY: dict[str, Member] = {
    "model": MODEL,
    "inputs": INPUTS,
    "convention": CONVENTION,
    "totals": (_TOTALS, "the whole model"),
    "training?": (_TRAINING, "the rest of a training step (--train)"),
    "coverage": COVERAGE,
    "notes": NOTES,
}

_SUMS: dict[str, Member] = {
    "layers": ("integer", "layers in it"),
    "unknown": ("integer", "of these, without a rule"),
    **FIGURES,
    **TRAINED,
}

PROFILE: dict[str, Member] = {
    **_SUMMARY,
    "device?": (ROOM, "whether it fits a device (--device)"),
    "layers": ([_LAYER], "the layers in the order of execution, or those that are chosen (--only)"),
    "selection?": ({"only": (["text"], "the words that choose layers"), **_SUMS}, "sums of the chosen layers (--only)"),
    "by?": ("text", "what groups are made of (--by)"),
    "groups?": (
        [
            {
                "name": ("text", "the group's name"),
                "kind": ("text", "class of a module"),
                "depth": ("integer", "how deep a module lies"),
                "times?": ("integer", "how often what lies below it comes, of which it is shown once (--fold)"),
                **_SUMS,
            }
        ],
        "sums of groups of layers",
    ),
}

_VALUES: Kind = {
    "values": (["integer|null"], "the figure of each model"),
    "exact": (["flag"], "whether each is exact"),
    "difference": (["integer|null"], "each later model less the first"),
    "percent": (["number|null"], "the same in percent of the first"),
}

COMPARE: dict[str, Member] = {
    "models": (
        [
            {
                "label": ("text", "what columns call the model"),
                "model": MODEL,
                "inputs": INPUTS,
                "convention": CONVENTION,
                "coverage": COVERAGE,
                "notes": NOTES,
            }
        ],
        "the models that are compared",
    ),
    "totals": (By(_VALUES, "figure"), "the whole models"),
    "operators": (
        [{"op": ("text", "the operator"), **dict.fromkeys(("layers", *quantities.FIGURES), (_VALUES, "its figure"))}],
        "sums by operator",
    ),
    "layers": (
        [
            {
                "names": (["text|null"], "the layer's name in each model; null where it has none"),
                "op": ("text", "its operator"),
                "matched_by": (["text|null"], "how it was found in each model: name, structure, same"),
                "changed": ("flag", "whether a figure differs"),
                **dict.fromkeys(quantities.FIGURES, (_VALUES, "its figure")),
            }
        ],
        "layers side by side",
    ),
    "differences?": (
        [
            {
                "conventions": (["text"], "the two conventions"),
                "unit": ("text", "the unit of the causes"),
                "totals": (["integer"], "the totals in that unit"),
                "difference": ("integer|null", "the second less the first"),
                "factor_of_two": (
                    "integer|null",
                    "what to add for the difference of the two numbers as they are printed",
                ),
                "causes": (
                    [
                        {
                            "layers": ("text", "which layers"),
                            "reason": ("text", "what the conventions do with them"),
                            "number": ("integer", "how many layers"),
                            "counts": (["integer|null"], "what each convention counts in them"),
                            "difference": ("integer|null", "the second less the first"),
                            "unknown": ("flag", "whether one of them cannot count them"),
                            "names": (["text"], "names of the layers"),
                        }
                    ],
                    "causes that add up to the difference, the largest first",
                ),
            }
        ],
        "why conventions differ, where they do",
    ),
}

CHECK: dict[str, Member] = {
    "ok": ("flag", "whether no limit is broken"),
    "limits": (
        [
            {
                "model": ("text", "the model"),
                "limit": (["text"], "the limit's place in the budget"),
                "figure": ("text", "what is limited"),
                "convention": ("text|null", "the convention of a count"),
                "layers": ("text|null", "pattern of the layers that it is for"),
                "layer": ("text|null", "the layer that comes nearest to it or breaks it"),
                "value": ("integer|number|null", "the value"),
                "exact": ("flag", "false where it is a lower bound"),
                "most": ("integer|number", "the limit"),
                "unit": ("text|null", "the unit of both"),
                "broken": ("flag", "whether it is broken"),
                "why": ("text|null", "by how much, or why it cannot be said"),
            }
        ],
        "each limit on each model",
    ),
}

FLOPS: Open = Open(
    {
        "model": MODEL,
        "inputs": INPUTS,
        "convention": CONVENTION,
        "total": ("integer|null", "the total in the convention's unit"),
        "coverage": COVERAGE,
        "notes": NOTES,
        "layers?": (
            [Open({"name": ("text", "the layer")}, "integer|number|text|null|array")],
            "the lines (--full)",
        ),
    },
    "integer|null",
)

LAYERS: dict[str, Member] = {
    "model": MODEL,
    "inputs": INPUTS,
    "layers": (
        [
            {
                "name": ("text", "the layer"),
                "op": ("text", "its operator"),
                "origin": ("text", "the operator in the words of the model's own format"),
                "scope": ("text", "path of the module that it is in"),
                "inputs": ([PORT], "its inputs"),
                "outputs": ([PORT], "its outputs"),
                "type?": ("text", "the layer's type in Benanza's words"),
            }
        ],
        "the layers in the order of execution",
    ),
}

PROFILES: dict[str, Member] = {
    "convention": CONVENTION,
    "models": (
        [
            {
                "path": ("text", "the model's file"),
                **{key: member for key, member in _SUMMARY.items() if key != "convention"},
            }
        ],
        "the models, as in flopwise.profile/1 without their layers",
    ),
    "totals": (By("integer|null", "figure"), "all models together"),
    "exact": ("flag", "whether all of it is exact"),
    "errors": (["text"], "models that could not be read, one line each"),
}

PUBLISHED: dict[str, Member] = {
    "reproduced": ("integer", "figures that are reproduced"),
    "versions": (By("text", "source"), "what reproduced them"),
    "figures": (
        [
            {
                "source": ("text", "who published the figure"),
                "model": ("text", "the model, in the source's words"),
                "quantity": ("text", "operations or parameters"),
                "stated": ("text", "the figure as it is printed there"),
                "unit": ("text", "its prefix: G, M or none"),
                "input": ("text", "the input that it is for"),
                "year": ("integer", "year of publication"),
                "page": ("text|null", "the page, pinned"),
                "build": ("text|null", "what makes the model here"),
                "convention": ("text|null", "the convention that reproduces it"),
                "count": ("integer|null", "what is counted in it"),
                "note": ("text|null", "why it is not reproduced"),
            }
        ],
        "the figures",
    ),
}

SHAPES: dict[str, Member] = {
    "model": MODEL,
    "inputs": INPUTS,
    "tensors": (
        [
            {
                "name": ("text", "the tensor"),
                "kind": ("text", "input, activation, output, state ..."),
                "dtype": ("text|null", "its element type"),
                "shape": (SHAPE, "its shape"),
                "op": ("text|null", "the operator that makes it"),
                "layer": ("text|null", "the layer that makes it"),
                "items?": ([SHAPE], "the shapes of a sequence's elements"),
                "bound?": ("flag", "whether the shape is an upper bound"),
            }
        ],
        "the tensors",
    ),
    "unresolved": (["text"], "tensors whose shape is not known"),
    "notes": NOTES,
}

TABLE: dict[str, Member] = {
    "models": (
        [
            Open(
                {
                    "name": ("text", "the model"),
                    "source": ("text", "where it was read from"),
                    "inputs": INPUTS,
                    "convention": CONVENTION,
                    "exact": ("flag", "false where figures are lower bounds"),
                },
                "integer|number|text|null",
            )
        ],
        "one for each model, with the columns that were asked for",
    )
}
