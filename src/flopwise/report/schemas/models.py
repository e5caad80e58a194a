"""Operations, parameters and shapes of models, in one convention or side by side."""

from __future__ import annotations

from flopwise.analyses import quantities
from flopwise.report.schemas.notation import (
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
    By,
    Kind,
    Maybe,
    Member,
    Open,
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


# Memory while a model runs.


MEMORY: dict[str, Member] = {
    "model": MODEL,
    "inputs": INPUTS,
    "totals": (
        {
            "weight_bytes": ("integer", "bytes of all stored tensors"),
            "weight_bytes_by_dtype": (
                By("integer|null", "type"),
                "the same by element type; null where a shape is missing",
            ),
            "output_bytes": ("integer", "bytes of all outputs of layers, where they are known"),
            "peak_activation_bytes": ("integer|null", "most bytes of activations alive at once"),
            "arena_bytes": ("integer|null", "bytes of one block that holds them all by a plan"),
            "micro_arena_bytes?": ("integer", "the same as the micro interpreter of TensorFlow Lite plans it"),
            "training": (
                Maybe(
                    {
                        "optimizer": ("text|null", "the optimizer"),
                        "weight_bytes": ("integer", "bytes of weights"),
                        "gradient_bytes": ("integer", "bytes of gradients"),
                        "state_bytes": ("integer|null", "bytes of the optimizer's states"),
                        "saved_bytes": ("integer", "bytes that are kept for the backward pass"),
                        "memory_bytes": ("integer", "all together"),
                        "exact": ("flag", "whether the figures are exact"),
                    }
                ),
                "memory of a training step (--train)",
            ),
        },
        "the whole model",
    ),
    "peak_layer": ("text|null", "the layer at which most is alive"),
    "alive": (
        [
            {
                "name": ("text", "the tensor"),
                "dtype": ("text|null", "its element type"),
                "shape": (SHAPE, "its shape"),
                "bytes": ("integer", "its bytes"),
                "made_by": ("text|null", "the layer that makes it; null for inputs"),
                "last_used_by": ("text|null", "the layer that uses it last; null where it is kept"),
                "shared_by": (["text"], "other tensors in the same memory"),
            }
        ],
        "what is alive there",
    ),
    "steps": (
        [{"layer": ("text", "the layer"), "bytes": ("integer", "bytes alive while it runs")}],
        "bytes alive at every step",
    ),
    "coverage": ({"unresolved": (["text"], "tensors whose size is not known")}, "what is missing"),
    "notes": NOTES,
    "device?": (ROOM, "whether it fits a device (--device)"),
}

PLAN: dict[str, Member] = {
    "model": MODEL,
    "inputs": INPUTS,
    "arena_bytes": ("integer", "bytes of the block"),
    "peak_activation_bytes": ("integer|null", "no plan needs less"),
    "alignment": ("integer", "offsets are multiples of it"),
    "order": ("text", "the order in which tensors were placed"),
    "steps": (["text"], "the layer of each step"),
    "tensors": (
        [
            {
                "name": ("text", "the tensor"),
                "offset": ("integer", "where it lies"),
                "bytes": ("integer", "its bytes"),
                "first": ("integer", "the step that makes it"),
                "last": ("integer", "the last step that uses it"),
                "made_by": ("text|null", "the layer that makes it; null for inputs"),
                "shared_by": (["text"], "other tensors in the same memory"),
            }
        ],
        "the activations",
    ),
}


# Elements of stored weights.


_STORED: dict[str, Member] = {
    "length": ("integer", "elements"),
    "zeros": ("integer", "of these, zero"),
    "nan": ("integer", "of these, not a number"),
    "infinite": ("integer", "of these, infinite"),
    **{
        name: ("number|integer|null", words)
        for name, words in {
            "min": "least element",
            "max": "largest element",
            "mean": "mean",
            "deviation": "standard deviation",
            "absmax": "largest magnitude",
            "l1": "sum of magnitudes",
            "l2": "root of the sum of squares",
        }.items()
    },
}

_BINS: dict[str, Member] = {
    "model": (
        {"source": ("text", "the file, URL or module"), "format": ("text", "its format")},
        "where the weights are from",
    ),
    "by": ("text", "layer or tensor"),
    "bins": ("integer", "bins of a histogram"),
}

_EFFECTIVE: Kind = Maybe(
    {
        "zeros": ("integer|null", "without zeros; null where these are unknown"),
        "search": ("integer|null", "without zero blocks of the shape that saves most"),
        "blocks": (By("integer|null", "block"), "without zero blocks, by shape"),
        "patterns": (By("integer|null", "pattern"), "with a structured pattern, by pattern"),
    }
)

HISTOGRAMS: dict[str, Member] = {
    **_BINS,
    "histograms": (
        [
            {
                "name": ("text", "layer or tensor"),
                "op": ("text|null", "the layer's operator"),
                "length": ("integer", "elements"),
                "zeros": ("integer", "of these, zero"),
                "edges": (Maybe(["number|integer"]), "the bins' edges; null without elements"),
                "counts": (Maybe(["integer"]), "elements in each bin"),
            }
        ],
        "one for each",
    ),
}

SPARSITY: dict[str, Member] = {
    "model": MODEL,
    "asked": (
        {
            "blocks": (["text"], "shapes of blocks"),
            "patterns": (["text"], "structured patterns"),
            "min_size": ("integer", "blocks are sought in tensors with more elements"),
            "min_ratio": ("number|integer", "and with a larger share of zeros"),
            "tolerance": ("number|integer", "by how much the share of zero blocks may be below that of zeros"),
            "ranks": (Maybe(["integer"]), "and of these ranks; null: of two or more"),
            "order": ("text", "whether rows and columns are as stored"),
        },
        "what was asked",
    ),
    "totals": (
        {
            "tensors": ("integer", "tensors"),
            "elements": ("integer", "their elements"),
            "zeros": ("integer", "of these, zero"),
            "ratio": ("number|integer|null", "the same as a share; null where no zeros are known"),
            "unknown": ("integer", "tensors that could not be read"),
            "macs": ("integer|null", "multiply-accumulates of the layers"),
            "effective_macs": (_EFFECTIVE, "of these, without zeros"),
        },
        "the whole model",
    ),
    "tensors": (
        [Open({"name": ("text", "the tensor")}, "text|number|integer|flag|null|object|array")],
        "the tensors",
    ),
    "layers": (
        [
            {
                "name": ("text", "the layer"),
                "op": ("text", "its operator"),
                "tensors": (["text"], "its tensors"),
                "elements": ("integer", "their elements"),
                "zeros": ("integer|null", "of these, zero; null where that is unknown"),
                "ratio": ("number|integer|null", "the same as a share"),
                "macs": ("integer|null", "its multiply-accumulates"),
                "effective_macs": (_EFFECTIVE, "of these, without zeros"),
            }
        ],
        "the layers",
    ),
    "notes": NOTES,
}

WEIGHTS: dict[str, Member] = {
    **_BINS,
    "totals": ({"bytes": ("integer", "bytes"), **_STORED}, "all together"),
    "entries": (
        [
            {
                "name": ("text", "layer or tensor"),
                "op": ("text|null", "the layer's operator"),
                "tensors": (["text"], "its tensors"),
                "shapes": ([SHAPE], "their shapes"),
                "dtypes": (["text"], "their element types"),
                "bytes": ("integer", "their bytes"),
                **_STORED,
                **{
                    f"p{rank}": ("number|integer|null", f"{rank} % of the elements are smaller")
                    for rank in (1, 5, 25, 50, 75, 95, 99)
                },
                "histogram": (Maybe(["integer"]), "elements in each bin"),
            }
        ],
        "one for each",
    ),
    "notes": NOTES,
}


# Formulas in symbolic sizes, and what is worked out from them.


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


# Advice, and the rules that give it.


ADVICE: dict[str, Member] = {
    "model": MODEL,
    "environment": (
        By("text|integer|number|null", "fact"),
        "device, engine and level that times are computed for; train of a training step",
    ),
    "advice": (
        [
            {
                "rule": ("text", "the rule"),
                "layers": (["text"], "the place"),
                "kind": ("text", '"same" result, "other" network that is to be retrained, or "run": how it is run'),
                "macs_saved": ("integer", "multiply-accumulates less"),
                "bytes_saved": ("integer", "bytes less"),
                "kept_bytes_saved": ("integer|null", "bytes less that are kept for the backward pass (--train)"),
                "time_saved_ns": ("integer|null", "time less by the roofline of the executed graph"),
                "time_share": ("number|null", "the same as a share of the whole"),
                "measured_share": (
                    "number|null",
                    "share of the time of the operators that go that is saved, as measured here (--measure)",
                ),
                "source": ("text", "where the rule is from"),
                "text": ("text", "the advice in words"),
            }
        ],
        "what saves most first",
    ),
    "notes": NOTES,
}

ADVICE_RULES: dict[str, Member] = {
    "rules": (
        [
            {
                "name": ("text", "the rule"),
                "about": ("text", "the change"),
                "exactness": ("text", '"same", "other" or "run"'),
                "source": ("text", "where it is from"),
            }
        ],
        "every rule",
    )
}
