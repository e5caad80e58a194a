"""Every document by its name, with the command that writes it."""

from __future__ import annotations

from typing import NamedTuple

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
    SHAPE,
    TRAINED,
)


class Document(NamedTuple):
    """A JSON document."""

    #: The command that writes it.
    command: str
    kind: dict[str, Member] | Open


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
    "needed_macs": ("integer|null", "multiply-accumulates that masks leave"),
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
    "needed_macs?": ("integer|null", "multiply-accumulates that masks leave, where there are masks"),
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

_PROFILE: dict[str, Member] = {
    **_SUMMARY,
    "layers": ([_LAYER], "the layers in the order of execution"),
    "by?": ("text", "what groups are made of (--by)"),
    "groups?": (
        [
            {
                "name": ("text", "the group's name"),
                "kind": ("text", "class of a module"),
                "depth": ("integer", "how deep a module lies"),
                "layers": ("integer", "layers in it"),
                "unknown": ("integer", "of these, without a rule"),
                **FIGURES,
                **TRAINED,
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

_COMPARED = ("count", "macs", "flops", "params", "buffers", "weight_bytes", "activations", "output_bytes")

_COMPARE: dict[str, Member] = {
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
        [{"op": ("text", "the operator"), **dict.fromkeys(("layers", *_COMPARED), (_VALUES, "its figure"))}],
        "sums by operator",
    ),
    "layers": (
        [
            {
                "names": (["text|null"], "the layer's name in each model; null where it has none"),
                "op": ("text", "its operator"),
                "matched_by": (["text|null"], "how it was found in each model: name, structure, same"),
                "changed": ("flag", "whether a figure differs"),
                **dict.fromkeys(_COMPARED, (_VALUES, "its figure")),
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

_DEVICE: Kind = {
    "id": ("text", "the name that --device takes"),
    "name": ("text", "the device's full name"),
    "aliases": (["text"], "other names that --device takes"),
    "kind": ("text", "cpu, gpu, tpu, npu or mcu"),
    "vendor": ("text", "its vendor"),
    "cores": ("integer|null", "cores of a CPU"),
    "memory_bytes": ("integer|null", "memory as the vendor states it"),
    "memory_reported": (
        Maybe(
            {
                "bytes": ("integer", "bytes"),
                "kind": ("text", "where the figure comes from"),
                "source": ("text", "its source"),
                "url": ("text|null", "the source's address"),
            }
        ),
        "memory as the device's driver reports it",
    ),
    "clock": (
        Maybe(
            {
                "rated": ("integer", "MHz of the figures"),
                "highest": ("integer", "MHz at most"),
                "source": ("text", "the source"),
                "url": ("text|null", "its address"),
            }
        ),
        "clocks, where the device runs above the rated one",
    ),
    "caches": (By("integer", "level"), "bytes of each cache"),
    "figures": (
        [
            {
                "what": ("text", "matrix, vector, dram, l1, l2, link, network ..."),
                "dtype": ("text|null", "element type of arithmetic"),
                "via": ("text", "the kind of a link"),
                "devices": ("integer|null", "how many devices a link joins"),
                "value": ("number|integer", "the figure"),
                "unit": ("text", "its unit"),
                "dense": ("flag", "false for figures that need structured sparsity"),
                "kind": ("text", "datasheet, derived or measured"),
                "above_rated_mhz": ("integer|null", "the clock of a figure above the rated clock"),
                "verified": ("flag", "whether the source was opened and read"),
                "source": ("text", "the source"),
                "url": ("text|null", "its address"),
            }
        ],
        "peaks, each with its source",
    ),
    "note": ("text|null", "what else is to be known"),
}

_FORMULA_FIGURES: dict[str, Member] = dict.fromkeys(
    (*_COMPARED, "input_bytes"), ("text|null", "a formula in Python's notation; null where there is none")
)
_FORMULA_OPS: Kind = Maybe(By("text|null", "class"))
_FORMULA_TOTALS: Kind = {
    **_FORMULA_FIGURES,
    "peak_activation_bytes": ("text|null", "most bytes of activations alive at once"),
    "state_bytes": ("text|null", "bytes of the states that the model is handed"),
    "ops": (_FORMULA_OPS, "operations by class"),
}
_POINT: Kind = By("integer", "symbol")

_WORK: dict[str, Member] = {
    "macs": ("integer", "multiply-accumulates"),
    "flops": ("integer", "FLOPs"),
    "bytes": ("integer", "bytes that must move"),
}
_STEP: dict[str, Member] = {
    "params": ("integer", "parameters"),
    "trained_params": ("integer", "of these, trained"),
    "forward_flops": ("integer", "FLOPs of the forward pass"),
    "backward_flops": ("integer", "FLOPs of the backward pass, with what is computed once more"),
    "optimizer_flops": ("integer", "FLOPs of the optimizer"),
    "weight_bytes": ("integer", "bytes of weights"),
    "gradient_bytes": ("integer", "bytes of gradients"),
    "state_bytes": ("integer", "bytes of the optimizer's states"),
    "saved_bytes": ("integer", "bytes that are kept for the backward pass"),
    "memory_bytes": ("integer", "all together"),
}
_FLOORS: Kind = Maybe(
    {
        "prefill_ns": ("integer|null", "least time of the prompt"),
        "decode_ns": ("integer|null", "least time of a step"),
        "tokens_per_s": ("integer|null", "tokens per second at most, all sequences together"),
    }
)
_SERVING: dict[str, Member] = {
    "devices": ("integer", "devices of the split"),
    "tp": ("integer", "ranks of tensor parallelism"),
    "pp": ("integer", "stages of the pipeline"),
    "ep": ("integer", "ranks of expert parallelism"),
    "cp": ("integer", "ranks of context parallelism"),
    "dp": ("integer", "replicas"),
    "max_batched_tokens": ("integer", "tokens of the largest step (--max-batched-tokens)"),
    "memory_fraction": ("number", "share of the device that the engine may use (--memory-fraction)"),
    "block_size": ("integer", "tokens of a block of the cache (--block-size)"),
    "shared_prefix": ("integer", "tokens that all sequences share (--shared-prefix)"),
    "per_device": (
        {
            "weight_bytes": ("integer", "weights of the fullest device"),
            "cache_bytes": ("integer", "its part of the cache"),
            "cache_bytes_per_token": ("integer", "of these, for each token"),
            "workspace_bytes": ("integer", "what its largest step keeps alive"),
            "workspace_tokens": ("integer", "tokens of that step"),
            "must_fit_bytes": ("integer", "weights, cache and workspace"),
            "memory_bytes": ("integer|null", "memory that the engine may use"),
            "reported": ("flag|null", "whether that rests on what the driver reports; false: on the vendor's figure"),
            "left_over_bytes": ("integer|null", "what is left; negative where it does not fit"),
            "fits": ("flag|null", "whether it fits"),
        },
        "the fullest device",
    ),
    "max_sequences": ("integer|null", "sequences at most at this length"),
    "max_context": ("integer|null", "tokens at most at this batch"),
    "communication_bytes_per_token": ("integer", "bytes that the device sends for each token"),
    "floors": (_FLOORS, "least times, while devices compute and send at once"),
    "floors_without_overlap?": (_FLOORS, "least times, where they do not"),
    "most_tokens_per_s?": ("integer|null", "tokens per second at most with the most sequences"),
}

_SIDE: Kind = {
    "model": ("text|null", "the model that the time was put on"),
    "format": ("text", "the trace's format"),
    "step": ("text", "the step that is shown"),
    "steps": ("integer", "steps in the trace"),
    "window_ns": ("integer", "from the beginning of the step to its end"),
    "covered_ns": ("integer", "time of all lanes"),
    "busy_ns": ("integer", "time in which something ran, all lanes added"),
    "wall_ns": ("integer", "time in which something ran, each instant once"),
}

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
        "zeros": ("integer", "without zeros"),
        "search": ("integer|null", "without zero blocks of the shape that saves most"),
        "blocks": (By("integer", "block"), "without zero blocks, by shape"),
        "patterns": (By("integer", "pattern"), "with a structured pattern, by pattern"),
    }
)

#: Name of a document -> what is in it.
DOCUMENTS: dict[str, Document] = {
    "advice": Document(
        "advise",
        {
            "model": MODEL,
            "environment": (
                By("text|integer|number|null", "fact"),
                "device, engine and level that times are computed for",
            ),
            "advice": (
                [
                    {
                        "rule": ("text", "the rule"),
                        "layers": (["text"], "the place"),
                        "kind": ("text", '"same" result, or "other" network that is to be retrained'),
                        "macs_saved": ("integer", "multiply-accumulates less"),
                        "bytes_saved": ("integer", "bytes less"),
                        "time_saved_ns": ("integer|null", "time less by the roofline of the executed graph"),
                        "time_share": ("number|null", "the same as a share of the whole"),
                        "measured_share": ("number|null", "what was measured (--measure)"),
                        "source": ("text", "where the rule is from"),
                        "text": ("text", "the advice in words"),
                    }
                ],
                "what saves most first",
            ),
            "notes": NOTES,
        },
    ),
    "advice-rules": Document(
        "advise --rules",
        {
            "rules": (
                [
                    {
                        "name": ("text", "the rule"),
                        "about": ("text", "the change"),
                        "exactness": ("text", '"same" or "other"'),
                        "source": ("text", "where it is from"),
                    }
                ],
                "every rule",
            )
        },
    ),
    "bound": Document(
        "bound",
        {
            "model": MODEL,
            "environment": (
                {
                    "device": (
                        {
                            "id": ("text", "its name in the table of devices"),
                            "name": ("text", "its full name"),
                            "kind": ("text", "cpu, gpu ..."),
                            "cores": ("integer|null", "cores of a CPU"),
                        },
                        "the device",
                    ),
                    "threads": ("integer|null", "threads that were assumed"),
                    "engine": (Maybe(Open({}, "text|number|integer|flag|null")), "the engine that measured"),
                    "machine": (Maybe(Open({}, "text|number|integer|flag|null|object|array")), "the machine it ran on"),
                    "sessions": ("integer", "how often it was started"),
                    "roof": ("text", "compute or memory: what limits the whole"),
                    "compute_ns": ("integer|null", "time of the arithmetic at its peak"),
                    "memory_ns": ("integer|null", "time of the bytes at theirs"),
                    "must_move": (
                        {
                            "weights": ("integer", "bytes of weights"),
                            "inputs": ("integer", "bytes of inputs"),
                            "outputs": ("integer", "bytes of outputs"),
                            "level": ("text", "the level of memory that they come from"),
                        },
                        "bytes that must move at least",
                    ),
                    "peaks": (
                        [
                            {
                                "what": ("text", "matrix, vector, dram ..."),
                                "dtype": ("text|null", "element type of arithmetic"),
                                "value": ("number|integer", "the peak"),
                                "unit": ("text", "its unit"),
                                "kind": ("text", "datasheet, derived or measured"),
                                "source": ("text", "its source"),
                                "url": ("text|null", "the source's address"),
                                "verified": ("flag", "whether the source was opened and read"),
                            }
                        ],
                        "the peaks that times rest on",
                    ),
                },
                "where",
            ),
            "floors": (
                {
                    "physical_ns": ("integer|null", "no device of this kind is faster"),
                    "engine_ns": ("integer|null", "sum of the engine's own kernels, operands in caches"),
                    "streamed_ns": ("integer|null", "the same, operands from memory"),
                    "critical_path_ns": ("integer|null", "the longest chain of kernels"),
                    "at_measured_peaks_ns": ("integer|null", "the physical floor at peaks that were measured here"),
                },
                "least times",
            ),
            "measured_ns": ("integer|null", "the model's own time"),
            "noise": ("number|null", "spread of the measurement"),
            "coverage": (
                {
                    "nodes": ("integer", "rows"),
                    "measured": ("integer", "of these, measured"),
                    "macs_share": ("number|null", "share of the multiply-accumulates that was measured"),
                },
                "how much was measured",
            ),
            "verdict": ("text", "how good the measurement is; roofline where there is none"),
            "rows": (
                [
                    {
                        "name": ("text", "the row"),
                        "op": ("text", "its operator"),
                        "time_ns": ("integer|null", "measured time"),
                        "floor_ns": ("integer|null", "least time"),
                        "physical_ns": ("integer|null", "least time of the device"),
                        "roof": ("text", "compute, memory or none: what limits it"),
                        "status": ("text", "measured, roofline, ..."),
                        "roofline_ns": ("integer|null", "time by the roofline"),
                        "macs": ("integer|null", "multiply-accumulates"),
                        "flops": ("integer|null", "FLOPs"),
                        "bytes": ("integer|null", "bytes that must move"),
                        "dtypes": (["text"], "element types"),
                        "streamed_ns": ("integer|null", "measured time, operands from memory"),
                        "layers": (["text"], "the model's layers in it, where they are several or named otherwise"),
                    }
                ],
                "the rows",
            ),
            "notes": NOTES,
            "what_if?": (
                [
                    {
                        "what": ("text", "what would be otherwise"),
                        "ns": ("integer|null", "the time then"),
                        "kind": ("text", "floor, estimate or measured"),
                    }
                ],
                "other ways (--what-if)",
            ),
        },
    ),
    "check": Document(
        "check",
        {
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
        },
    ),
    "compare": Document("compare", _COMPARE),
    "devices": Document("devices", {"devices": ([_DEVICE], "the devices")}),
    "flops": Document(
        "flops",
        Open(
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
        ),
    ),
    "formula": Document(
        "formula",
        {
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
        },
    ),
    "formula-solution": Document(
        "formula --solve",
        {
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
        },
    ),
    "formula-source": Document(
        "formula --source",
        {"language": ("text", "c, javascript or python"), "source": ("text", "functions that compute the figures")},
    ),
    "formula-values": Document(
        "formula --at",
        {
            "model": MODEL,
            "convention": CONVENTION,
            "values": ([Open({"at": (_POINT, "the sizes")}, "integer|null")], "the figures at each point"),
            "lower_bounds": (["text"], "figures that are lower bounds"),
            "notes": NOTES,
        },
    ),
    "histograms": Document(
        "weights --bins-json",
        {
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
        },
    ),
    "layers": Document(
        "layers",
        {
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
        },
    ),
    "llm": Document(
        "llm",
        {
            "model": (
                {
                    "name": ("text", "class of the model"),
                    "source": ("text", "its configuration"),
                    "dtype": ("text", "element type of its arithmetic"),
                    "kv_dtype": ("text|null", "element type of the cache, where another one was asked for"),
                },
                "the model",
            ),
            "batch": ("integer", "sequences at once"),
            "logits": ("text", "positions of the prompt that are scored: last or all"),
            "params": ("integer", "parameters"),
            "active_params": ("integer", "of these, those that a token touches"),
            "weight_bytes": ("integer", "bytes of the weights"),
            "prefill": (
                {
                    "tokens": ("integer", "tokens of a prompt"),
                    **_WORK,
                    "needed_macs": (
                        "integer",
                        "multiply-accumulates that an engine needs: masks, last logits, known rewrites",
                    ),
                    "attention_macs": ("integer", "multiply-accumulates between tokens"),
                    "activation_bytes": ("integer|null", "most bytes of activations alive at once"),
                },
                "all prompts at once",
            ),
            "decode": (
                Maybe(
                    {
                        "past": ("integer", "tokens in the cache"),
                        **_WORK,
                        "needed_macs": ("integer", "multiply-accumulates that an engine needs"),
                        "attention_macs": ("integer", "multiply-accumulates between tokens"),
                        "activation_bytes": ("integer|null", "most bytes of activations alive at once"),
                        "weight_bytes": ("integer", "bytes of weights that the step reads at most"),
                        "expected_weight_bytes": ("integer", "the same as expected where experts are chosen evenly"),
                    }
                ),
                "one step, a token for each sequence; null for a model without steps",
            ),
            "generate": ({"tokens": ("integer", "tokens after each prompt"), **_WORK}, "all steps"),
            "request": ({"tokens": ("integer", "tokens of a sequence"), **_WORK}, "prompts and steps"),
            "cache": (
                {
                    "tokens": ("integer", "tokens of a prompt"),
                    "bytes": ("integer", "bytes of the cache after the prompts"),
                    "bytes_per_token": ("integer", "bytes that a token adds"),
                    "final_bytes": ("integer", "bytes at the end of the request"),
                },
                "keys and values, or other states",
            ),
            "memory_bytes": ("integer", "weights, cache at the end and activations, in the reference program"),
            "rule_of_thumb": ({"forward_flops": ("integer", "2 FLOPs a parameter and token")}, "for comparison"),
            "rewrites": (
                By(
                    {
                        "macs": ("integer", "multiply-accumulates of a step"),
                        "generate_macs": ("integer", "of all steps"),
                    },
                    "rewrite",
                ),
                "what known rewrites would cost (--rewrite)",
            ),
            "conventions?": (By(Open({}, "integer|text|null"), "convention"), "counts of engines' own formulas (-c)"),
            "speculation?": (
                {
                    "draft": ("text", "the draft model"),
                    "source": ("text", "where it is from"),
                    "acceptance": ("number", "the share of guesses that are accepted"),
                    "guesses": ("integer", "guesses of a round"),
                    "tokens_per_round": ("number", "tokens that a round gives on average"),
                    "draft_weight_bytes": ("integer", "bytes of the draft's weights"),
                    "draft_cache_bytes": ("integer", "bytes of its cache at the end of the request"),
                    "draft_macs": ("integer", "multiply-accumulates of a step of the draft"),
                    "check_macs": ("integer", "multiply-accumulates of the model's check of a round"),
                    "round_macs": ("integer", "of a round, all guesses and the check"),
                    "round_ns": ("integer|null", "the least time of a round on the device"),
                },
                "a draft model whose guesses the model checks (--draft)",
            ),
            "serving?": (_SERVING, "memory and least times on devices"),
            "verdict?": ("text", "the verdict in words"),
            "splits?": ([_SERVING], "other splits of the model, where none was given"),
            "device?": (Open({}, "text|number|integer|flag|null|object|array"), "the request on one device"),
            "curve?": (
                [Open({"context": ("integer", "tokens")}, "integer|null")],
                "figures by the length of the context",
            ),
            "exact": ("flag", "whether the counts are exact"),
            "notes": NOTES,
        },
    ),
    "llm-train": Document(
        "llm --train",
        {
            "model": (
                {
                    "name": ("text", "class of the model"),
                    "source": ("text", "its configuration"),
                    "dtype": ("text", "element type of its arithmetic"),
                },
                "the model",
            ),
            "batch": ("integer", "sequences of a step"),
            "sequence": ("integer", "tokens of a sequence"),
            "optimizer": ("text", "the optimizer"),
            "checkpointing": ("text", "what is computed once more: none, full, selective"),
            "adapters?": ("text", "what is trained beside a frozen base"),
            **_STEP,
            "recomputed_flops": ("integer", "FLOPs of what is computed once more"),
            "model_flops": ("integer", "FLOPs of forward and backward without these"),
            "flops": ("integer", "all FLOPs"),
            "rank": (
                Maybe(
                    {
                        "devices": ("integer", "devices together"),
                        **{name: ("integer", f"ranks of {name}") for name in ("dp", "fsdp", "tp", "pp", "ep")},
                        "stage": ("integer", "the stage of the pipeline with the most memory"),
                        **_STEP,
                    }
                ),
                "the rank with the most memory",
            ),
            "rules_of_thumb": (By("integer", "formula"), "FLOPs of a step as formulas in use have them"),
            "run?": (Open({}, "text|number|integer"), "a run's utilisation (--tokens-per-s, --measured)"),
            "device?": (Open({}, "text|number|integer|flag|null"), "whether it fits on a device"),
            "exact": ("flag", "whether the figures are exact"),
            "notes": NOTES,
        },
    ),
    "memory": Document(
        "memory",
        {
            "model": MODEL,
            "inputs": INPUTS,
            "totals": (
                {
                    "weight_bytes": ("integer", "bytes of all stored tensors"),
                    "weight_bytes_by_dtype": (By("integer", "type"), "the same by element type"),
                    "output_bytes": ("integer|null", "bytes of all outputs of layers"),
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
                                "memory_bytes": ("integer|null", "all together"),
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
            "device?": (Open({}, "text|number|integer|flag|null|object|array"), "a device beside it (--device)"),
        },
    ),
    "plan": Document(
        "memory --plan",
        {
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
        },
    ),
    "profile": Document("profile", _PROFILE),
    "profiles": Document(
        "profile DIRECTORY",
        {
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
        },
    ),
    "published": Document(
        "zoo published",
        {
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
        },
    ),
    "shapes": Document(
        "shapes",
        {
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
        },
    ),
    "sparsity": Document(
        "sparsity",
        {
            "model": MODEL,
            "asked": (
                {
                    "blocks": (["text"], "shapes of blocks"),
                    "patterns": (["text"], "structured patterns"),
                    "min_size": ("integer", "tensors with fewer elements are left out"),
                    "min_ratio": ("number|integer", "tensors with a smaller share of zeros are left out"),
                    "tolerance": ("number|integer", "magnitudes up to this count as zero"),
                    "ranks": (Maybe(["integer"]), "ranks of the tensors that are looked at"),
                    "order": ("text", "whether rows and columns are as stored"),
                },
                "what was asked",
            ),
            "totals": (
                {
                    "tensors": ("integer", "tensors"),
                    "elements": ("integer", "their elements"),
                    "zeros": ("integer", "of these, zero"),
                    "ratio": ("number|integer", "the same as a share"),
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
                        "zeros": ("integer", "of these, zero"),
                        "ratio": ("number|integer", "the same as a share"),
                        "macs": ("integer|null", "its multiply-accumulates"),
                        "effective_macs": (_EFFECTIVE, "of these, without zeros"),
                    }
                ],
                "the layers",
            ),
            "notes": NOTES,
        },
    ),
    "table": Document(
        "table",
        {
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
        },
    ),
    "trace": Document(
        "trace",
        {
            "model": ("text|null", "the model that the time was put on"),
            "trace": (
                {
                    "format": ("text", "kineto, onnxruntime or tensorrt"),
                    "device": ("text|null", "the device that it names"),
                    "steps": ("integer", "steps in it"),
                    "step": ("text", "the step that is shown"),
                    "window_ns": ("integer", "from the beginning of the step to its end"),
                    "split": ("text|null", "how segments were divided (--split), which is an estimate"),
                },
                "the trace",
            ),
            "totals": (
                {
                    "rows_ns": ("integer", "on single layers"),
                    "segments_ns": ("integer", "on several layers together"),
                    "remainder_ns": ("integer", "on no layer"),
                    "covered_ns": ("integer", "the sum of the three"),
                    "busy_ns": ("integer", "time in which something ran, all lanes added"),
                    "wall_ns": ("integer", "time in which something ran, each instant once"),
                    "mfu": ("number|null", "model FLOPs utilisation, where the device's peak is known"),
                },
                "times, whose parts add up to the nanosecond",
            ),
            "matched": (
                {
                    "rows": ("integer", "layers with a time"),
                    "of": ("integer", "layers"),
                    "product_time_share": (
                        "number|integer|null",
                        "share of the products' time on layers of their shapes",
                    ),
                },
                "how much of the model was found",
            ),
            "rows": (
                [
                    {
                        "name": ("text", "the layer; without a model an operator with its shapes"),
                        "op": ("text", "its operator"),
                        "phase": ("text", "forward or backward"),
                        "time_ns": ("integer|null", "its time"),
                        "launches": ("integer", "events that it took"),
                        "flops": ("integer|null", "its FLOPs"),
                        "bytes": ("integer|null", "bytes that it must move"),
                        "floor_ns": ("integer|null", "its least time on the device"),
                        "status": ("text", "matched, segment, folded, ..."),
                        "median_ns": ("integer|null", "median over the steps"),
                        "spread": ("number|integer|null", "spread over the steps"),
                    }
                ],
                "the layers",
            ),
            "segments": (
                [
                    {
                        "name": ("text", "the segment"),
                        "phase": ("text", "forward or backward"),
                        "time_ns": ("integer", "its time"),
                        "launches": ("integer", "events that it took"),
                        "flops": ("integer|null", "its FLOPs"),
                        "layers": (["text"], "its layers"),
                    }
                ],
                "layers that share a time",
            ),
            "remainder": (By("integer", "kind"), "nanoseconds of no layer: layout, copies, optimiser, gaps ..."),
            "notes": NOTES,
        },
    ),
    "trace-comparison": Document(
        "trace A B",
        {
            "before": (_SIDE, "the first trace"),
            "after": (_SIDE, "the second"),
            "changes": (
                [
                    {
                        "name": ("text", "the layer"),
                        "op": ("text", "its operator"),
                        "phase": ("text", "forward or backward"),
                        "layers": (["text"], "the layers in it"),
                        "verdict": ("text", "slower, faster, same, added or gone"),
                        "before_ns": ("integer|null", "its time in the first"),
                        "after_ns": ("integer|null", "its time in the second"),
                        "more_ns": ("integer", "the second less the first"),
                        "spread_ns": ("integer|null", "spread over the steps of both"),
                    }
                ],
                "layer by layer",
            ),
            "notes": NOTES,
        },
    ),
    "weights": Document(
        "weights",
        {
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
        },
    ),
}
