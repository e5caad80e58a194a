"""Memory while a model runs."""

from __future__ import annotations

from flopwise.report.schemas.notation import By, Maybe, Member
from flopwise.report.schemas.parts import INPUTS, MODEL, NOTES, ROOM, SHAPE

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
