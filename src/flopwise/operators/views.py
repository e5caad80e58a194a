"""Views: operators whose first result is their first input, element by element, and may share its storage.

Each is asked only where both take the same bytes in the same element type. A copy may happen all the same where a
runtime wants one; Split, Slice and Transpose are views in PyTorch, and copies in the runtimes of files.
"""

from __future__ import annotations

from flopwise.graph import Node, Tensor


def always(node: Node) -> bool:
    """Whatever the attributes: the same elements in the same order, perhaps under another shape."""
    return True


def at_inference(node: Node) -> bool:
    """Unless a program runs it as in training, which makes a new tensor (Dropout)."""
    arguments = node.arguments
    return arguments.get("p") == 0 or not arguments.get("train", arguments.get("training", False))


def same_shape(node: Node) -> bool:
    """Where it leaves the shape as it was, it has nothing to do (Expand, Pad)."""
    return node.input(0).shape == node.output().shape


def of_one(node: Node) -> bool:
    """A single input is passed on: a sum of one, a list of one."""
    return same_shape(node) and len(node.known_inputs) == 1


def same_type(node: Node) -> bool:
    """A conversion to the type that the input has already."""
    return same_shape(node) and node.input(0).dtype is not None


def unstepped(node: Node) -> bool:
    """A slice of everything; steps could turn the order round."""
    return same_shape(node) and not node.has_input(4) and "steps" not in node.attrs


def undivided(node: Node) -> bool:
    """A split into one part."""
    return same_shape(node) and len(node.outputs) == 1


def same_order(node: Node) -> bool:
    """A transposition that moves axes of extent 1 only."""
    return _keeps_order(node.input(0), node.attrs.get("perm"))


def _keeps_order(tensor: Tensor, perm: object) -> bool:
    if not isinstance(perm, list | tuple) or tensor.shape is None or len(perm) != len(tensor.shape):
        return False
    moved = [axis for axis in perm if isinstance(axis, int) and 0 <= axis < len(perm) and tensor.shape[axis] != 1]
    return moved == sorted(moved)
