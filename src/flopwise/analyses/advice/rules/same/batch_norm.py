"""Batch normalisation behind a convolution or a linear layer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

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
        kernel = product.input(1)
        weight = Tensor(f"{node.output().name}.weight", kernel.shape, kernel.dtype, "weight")
        bias = Tensor(f"{node.output().name}.bias", node.input(1).shape, node.input(1).dtype, "weight")
        inputs = (product.input(0), weight, bias)
        after = Node(product.op, product.name, inputs, node.outputs, product.attrs, version=product.version)
        elements = node.output().numel
        text = f"{elements:,} elements are scaled and shifted, which the convolution before can do with scaled weights"
        yield Change((maker[0], position), text, (after,), values=functools.partial(_folded, product, node))


def _folded(product: Node, norm: Node, read: Callable[[str], Any]) -> dict[str, object]:
    """Weight and bias of the convolution that does both."""
    kernel = read(product.input(1).name)
    scale, shift, mean, variance = (read(norm.input(place).name) for place in range(1, 5))
    factor = scale / (variance + norm.attrs.get("epsilon", 1e-5)) ** 0.5
    bias = read(product.input(2).name) if product.has_input(2) else 0.0
    if bare(product.op) == "Conv":
        kernel = kernel * factor.reshape(-1, 1, *[1] * (kernel.ndim - 2))
    else:  # in the weights of a ConvTranspose the groups' channels of the result come second
        groups = int(product.attrs.get("group") or 1)
        taken, made, *rest = kernel.shape
        grouped = kernel.reshape(groups, taken // groups, made, *rest)
        kernel = (grouped * factor.reshape(groups, 1, made, *[1] * len(rest))).reshape(kernel.shape)
    name = norm.output().name
    return {f"{name}.weight": kernel.astype(scale.dtype), f"{name}.bias": ((bias - mean) * factor + shift)}


def _code(change: Change) -> str:
    """The convolution that does both; "" where PyTorch's own function does not know its kind."""
    product = change.after[0]
    transposed = bare(product.op) == "ConvTranspose"
    if transposed and int(product.attrs.get("group") or 1) > 1:
        return ""
    more = ", transpose=True" if transposed else ""
    return f"torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn{more}) in place of nn.Sequential(conv, bn)"


RULE = Rule(
    name="batch-norm",
    about="Fold a batch normalisation into the weights of the convolution before it.",
    exactness="same",
    source="arithmetic, up to rounding; onnxruntime does it from level basic on, PyTorch without a compiler never",
    find=find,
    code=_code,
    trained=False,
)
