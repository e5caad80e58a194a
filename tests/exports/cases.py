"""What is exported, and how the parameters in the file differ from the module's. Nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Exporter = Literal["dynamo", "torchscript"]


@dataclass(frozen=True)
class Case:
    """One export of one model."""

    model: str
    exporter: Exporter
    #: Operator set; None: what the exporter takes by itself.
    opset: int | None = None
    #: How transformers models compute attention.
    attention: str = "eager"
    #: Whether the dynamo exporter folds and fuses; the TorchScript exporter always does.
    optimize: bool = True
    #: Free dimension -> the size to profile; the export sees other sizes. Empty: fixed shapes.
    dims: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [self.model, self.exporter, self.attention if self.attention != "eager" else ""]
        parts += [f"opset{self.opset}" if self.opset else "", "" if self.optimize else "unoptimized"]
        return "-".join([p for p in parts if p] + (["dynamic"] if self.dims else []))


MODELS = (
    "resnet",
    "mobilenet_v3",
    "efficientnet",
    "convnext",
    "vit",
    "swin",
    "bert",
    "gpt2",
    "t5",
    "llama",
    "lstm",
)

#: (model, exporter) -> parameters in the file less those of the module, and why. Folded batch norms come on top: each
#: leaves its shift as a bias, and its scale disappears in the weights of the convolution before it.
DIFFERENCES: dict[tuple[str, Exporter], tuple[int, str]] = {
    ("swin", "dynamo"): (24 * (49 * 49 - 13 * 13), "24 heads' tables of relative positions are stored looked up"),
    ("swin", "torchscript"): (24 * (49 * 49 - 13 * 13), "the same"),
    ("gpt2", "dynamo"): (-(64 - 16) * 64, "rows of the position table beyond the traced sequence are cut off"),
    ("gpt2", "torchscript"): (100 * 64, "the output layer, tied to the embedding, is stored again transposed"),
    ("t5", "dynamo"): (2 * 4 * (16 * 16 - 32), "the relative positions of both stacks are stored looked up"),
    ("t5", "torchscript"): (
        100 * 64 + 2 * 4 * 16 * 16,
        "the tied output layer is stored again, and so are the zeros in place of cross attention's positions",
    ),
    ("llama", "torchscript"): (16 * 16, "angles of the rotary embedding, not marked as a table"),
}

#: The same for exports with free dimensions, where nothing that depends on the sequence can be stored.
DYNAMIC_DIFFERENCES: dict[tuple[str, Exporter], tuple[int, str]] = {
    ("t5", "torchscript"): (100 * 64, "the output layer, tied to the embedding, is stored again transposed"),
    ("llama", "torchscript"): (8, "frequencies of the rotary embedding: the file does not tell a buffer from a weight"),
}

_TEXT = {"batch": 3, "sequence": 24}

#: Older and newer operator sets, where exporters spell the same computation in other operators.
OPSETS = (
    Case("bert", "dynamo", 17),
    Case("bert", "dynamo", 23, attention="sdpa"),
    Case("llama", "dynamo", 18, attention="sdpa"),
    Case("llama", "dynamo", 23, attention="sdpa"),
    Case("llama", "dynamo", 24),
    Case("convnext", "dynamo", 21),
    Case("lstm", "dynamo", 17),
    Case("bert", "torchscript", 13),
    Case("llama", "torchscript", 14),
    Case("lstm", "torchscript", 11),
    Case("mobilenet_v3", "torchscript", 11),
    Case("swin", "torchscript", 17),
)

DYNAMIC = (
    Case("resnet", "dynamo", dims={"batch": 3}),
    Case("bert", "dynamo", dims=_TEXT),
    Case("llama", "dynamo", dims=_TEXT),
    Case("resnet", "torchscript", dims={"batch": 3}),
    Case("bert", "torchscript", dims=_TEXT),
    Case("t5", "torchscript", dims=_TEXT),
    Case("llama", "torchscript", dims=_TEXT),
    Case("lstm", "torchscript", dims=_TEXT),
)

CASES = (
    *(Case(model, exporter) for model in MODELS for exporter in ("dynamo", "torchscript")),
    Case("resnet", "dynamo", optimize=False),
    *OPSETS,
    *DYNAMIC,
)
