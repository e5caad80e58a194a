"""Parts that several documents have."""

from __future__ import annotations

from flopwise.operators.counts import CLASSES
from flopwise.report.schemas.notation import By, Kind, Maybe, Member

#: Of a tensor: None where it is not known, a text for a symbolic dimension.
SHAPE: Kind = Maybe(["integer|text"])

MODEL: Member = (
    {
        "name": ("text", "the model's own name; empty where it has none"),
        "source": ("text", "the file, URL, callable or class that it was read from"),
        "format": ("text", "its format, as flopwise names it: onnx, torch, caffe, tflite, jax ..."),
    },
    "the model",
)

PORT: dict[str, Member] = {
    "name": ("text", "the tensor's name"),
    "dtype": ("text|null", "its element type"),
    "shape": (SHAPE, "its shape; a text is a symbolic dimension"),
    "kind?": ("text", '"state" for what an earlier call returned, such as a cache'),
}

INPUTS: Member = ([PORT], "the model's inputs, with the sizes that were counted")

CONVENTION: Member = (
    {
        "name": ("text", "the counting convention"),
        "unit": ("text", "what it counts: FLOP, MAC or OP"),
    },
    "the convention that counts are in",
)

NOTES: Member = (["text"], "what a reader of the figures should know, one sentence each")

WHAT_IF: Member = (
    [
        {
            "what": ("text", "what would be otherwise"),
            "ns": ("integer", "the time then"),
            "kind": ("text", "floor, estimate or measured"),
            "base_ns": ("integer", "the time of this kind as it is now"),
            "low_ns": ("integer|null", "of an estimate: the least that trials of its kind imply"),
            "high_ns": ("integer|null", "of an estimate: the most that trials of its kind imply"),
        }
    ],
    "other ways (--what-if)",
)

#: Operations by class; see the guide on counting.
OPS: Kind = {name: ("integer", f"operations of the class {name}") for name in CLASSES}

COVERAGE: Member = (
    {
        "nodes": ("integer", "layers"),
        "exact": ("flag", "true only where nothing is unknown, bounded, stated or undecided"),
        "unknown": (
            By("integer", "operator"),
            "operators without a rule and how often they occur: totals are lower bounds",
        ),
        "unresolved": (["text"], "tensors whose shape is not known"),
        "bounded": (["text"], "layers whose figures are upper bounds, because the data decide"),
        "stated": (["text"], "tensors whose shape rests on the file's word alone"),
    },
    "how far the totals can be trusted",
)

#: Figures of a row or a sum.
SIZES: dict[str, Member] = {
    "params": ("integer", "elements of the weights that training would change"),
    "buffers": ("integer", "elements of other stored tensors, such as running statistics"),
    "weight_bytes": ("integer", "bytes of both"),
    "activations": ("integer|null", "elements of the outputs"),
    "output_bytes": ("integer|null", "bytes of the outputs"),
}

FIGURES: dict[str, Member] = {
    "count": ("integer|null", "operations in the convention's unit; null where it cannot count"),
    "macs": ("integer|null", "multiply-accumulates of contractions"),
    "flops": ("integer|null", "all operations, a multiply-accumulate as two"),
    "ops": (Maybe(OPS), "operations by class"),
    **SIZES,
}

#: What a training step adds to a layer.
TRAINED: dict[str, Member] = {
    "backward?": ("integer|null", "the backward pass in the convention's unit"),
    "backward_macs?": ("integer|null", "its multiply-accumulates"),
    "backward_flops?": ("integer|null", "its FLOPs"),
    "recomputed_macs?": ("integer|null", "multiply-accumulates of what is computed once more for it"),
    "saved_bytes?": ("integer|null", "bytes that are kept for it"),
}

#: Whether a model fits a device (--device).
ROOM: Kind = {
    "device": ("text", "the device"),
    "devices": ("integer", "how many"),
    "memory_bytes": ("integer", "its memory"),
    "must_fit_bytes": ("integer", "what the model keeps in it"),
    "reported": ("flag", "whether its driver reports so much memory; false: on the vendor's figure"),
    "left_over_bytes": ("integer", "what is left; negative where it does not fit"),
    "fits": ("flag", "whether it fits"),
    "flash_bytes?": ("integer", "of a microcontroller: its flash, 0 where it has none of its own"),
    "stored_bytes?": ("integer", "of a microcontroller: the weights, which lie in flash"),
}
