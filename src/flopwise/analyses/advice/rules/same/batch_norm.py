"""Batch normalisation behind a convolution or a linear layer."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, bare
from flopwise.graph import Node, Tensor


def find(subject: Subject) -> Iterator[Change]:
    """A BatchNormalization by stored statistics that alone takes what a convolution makes."""
    for position, node in subject.live("BatchNormalization"):
        if node.attrs.get("training_mode") or not all(subject.stored(t) for t in node.known_inputs[1:]):
            continue
        maker = subject.maker(node.input(0))
        if maker is None or bare(maker[1].op) not in ("Conv", "ConvTranspose") or maker[1].attrs.get("activation"):
            continue
        taker = subject.only_taker(node.input(0))
        product = maker[1]
        if taker is None or not all(subject.stored(t) for t in product.known_inputs[1:]):
            continue
        bias = Tensor(f"{node.name}.bias", node.input(1).shape, node.input(1).dtype, "weight")
        inputs = (product.input(0), product.input(1), bias)
        after = Node(product.op, product.name, inputs, node.outputs, product.attrs, version=product.version)
        elements = node.output().numel
        text = f"{elements:,} elements are scaled and shifted, which the convolution before can do with scaled weights"
        yield Change((maker[0], position), text, (after,))


RULE = Rule(
    name="batch-norm",
    about="Fold a batch normalisation into the weights of the convolution before it.",
    exactness="same",
    source="arithmetic, up to rounding; onnxruntime does it from level basic on, PyTorch without a compiler never",
    find=find,
)
