"""Gradients of losses. G has one element, or one for each sample without reduction."""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.gradient import Wrt, inputs_at


def negative_log_likelihood(node: Node, wrt: Wrt) -> Counts:
    """M × 1 bit, M = numel(target): −G for each picked element; weight: M mul; ignore_index: M cmp; reduction = mean: 1
    div.
    """
    samples = node.input(1).numel
    once = Counts(bit=1, mul=int(node.has_input(2)), cmp=int("ignore_index" in node.attrs))
    return once * samples + Counts(div=int(node.attrs.get("reduction", "mean") == "mean"))


def softmax_cross_entropy(node: Node, wrt: Wrt) -> Counts:
    """the NegativeLogLikelihoodLoss of M labels; then numel(scores) × (2 add + 1 exp + 1 mul): log-softmax."""
    return negative_log_likelihood(node, wrt) + Counts(add=2, exp=1, mul=1) * node.input(0).numel


def probabilities(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """The logarithms of the probabilities, the target, and the weights of the classes."""
    logs = node.outputs[1] if len(node.outputs) > 1 else None
    yield node.input(0).nbytes if logs is None else logs
    yield from inputs_at(1, 2)(node, wrt)
