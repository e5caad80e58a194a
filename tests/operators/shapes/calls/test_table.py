"""Shapes of PyTorch's operators, beside what PyTorch makes of tensors without elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flopwise.operators.shapes.calls.of import Of
from flopwise.operators.shapes.calls.table import RULES
from flopwise.operators.size import UnresolvedError

torch = pytest.importorskip("torch")
F = torch.nn.functional


class Shaped(tuple[int, ...]):
    """A tensor among the arguments of a row, by its shape."""


def t(*shape: int) -> Shaped:
    return Shaped(shape)


#: Name of an operator, PyTorch's function, and the arguments of both. No size is the sum, the product or the power of
#: others by chance: 2 + 2 is 2 × 2.
CALLS: list[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    ("pixel_shuffle", torch.pixel_shuffle, (t(2, 18, 5, 7), 3), {}),
    ("pixel_shuffle", torch.pixel_shuffle, (t(75, 4, 7), 5), {}),
    ("pixel_unshuffle", torch.pixel_unshuffle, (t(2, 5, 9, 21), 3), {}),
    ("pixel_unshuffle", torch.pixel_unshuffle, (t(7, 10, 15), 5), {}),
    ("unfold", torch.Tensor.unfold, (t(3, 17, 5), 1, 4, 3), {}),
    ("unfold", torch.Tensor.unfold, (t(3, 5, 13), -1, 5, 8), {}),
    ("pad", F.pad, (t(2, 5, 7), (1, 3)), {}),
    ("pad", F.pad, (t(2, 5, 7), (1, 3, -2, 5)), {}),
    ("pad", F.pad, (t(2, 5, 7), (0, 1, 0, 2, 0, 3)), {}),
    ("repeat", torch.Tensor.repeat, (t(5, 7), 3, 2), {}),
    ("repeat", torch.Tensor.repeat, (t(5, 7), 4, 3, 2), {}),
    ("repeat_interleave", torch.repeat_interleave, (t(5, 7), 3), {"dim": 1}),
    ("expand", torch.Tensor.expand, (t(5, 1), 3, -1, 7), {}),
    ("max_pool1d", F.max_pool1d, (t(2, 5, 23), 3, 2, 1, 2), {}),
    ("max_pool2d", F.max_pool2d, (t(2, 5, 23, 19), (3, 4), (2, 3), (1, 2), (3, 2)), {}),
    ("max_pool2d", F.max_pool2d, (t(5, 23, 19), 3), {"dilation": 4}),
    ("max_pool2d", F.max_pool2d, (t(2, 5, 24, 20), 3, 4, 1, 2, True), {}),
    ("max_pool2d", F.max_pool2d, (t(2, 5, 24, 20), 3, 4, 1, 1, False), {}),
    ("max_pool3d", F.max_pool3d, (t(2, 5, 11, 13, 17), 3), {"stride": 2, "padding": 1}),
    ("avg_pool1d", F.avg_pool1d, (t(2, 5, 23), 4, 3, 2), {}),
    ("avg_pool2d", F.avg_pool2d, (t(2, 5, 23, 19), 4, 3, 2, True), {}),
    ("avg_pool2d", F.avg_pool2d, (t(2, 5, 23, 19), (5, 4)), {"ceil_mode": True}),
    ("adaptive_avg_pool2d", F.adaptive_avg_pool2d, (t(2, 5, 23, 19), (3, None)), {}),
    ("adaptive_max_pool1d", F.adaptive_max_pool1d, (t(2, 5, 23), 4), {}),
    ("im2col", F.unfold, (t(2, 5, 23, 19), (3, 4), 2, 1, 3), {}),
    ("im2col", F.unfold, (t(2, 5, 23, 19), 3), {}),
    ("split", torch.split, (t(3, 17), 5, 1), {}),
    ("split", torch.split, (t(3, 17), [4, 6, 7], 1), {}),
    ("chunk", torch.chunk, (t(17, 3), 5), {}),
    ("tensor_split", torch.tensor_split, (t(17, 3), 5), {}),
    ("tensor_split", torch.tensor_split, (t(17, 3), (2, 7, 30)), {}),
    ("unbind", torch.unbind, (t(5, 3, 7), 1), {}),
    ("cat", torch.cat, ([t(5, 3), t(5, 7), t(0)], 1), {}),
    ("stack", torch.stack, ([t(5, 3), t(5, 3)], -1), {}),
    ("flatten", torch.flatten, (t(2, 3, 5, 7), 1, 2), {}),
    ("unflatten", torch.unflatten, (t(2, 15, 7), 1, (3, -1)), {}),
    ("squeeze", torch.squeeze, (t(1, 5, 1, 7), 2), {}),
    ("squeeze", torch.squeeze, (t(1, 5, 1, 7), 1), {}),
    ("unsqueeze", torch.unsqueeze, (t(5, 7), -1), {}),
    ("movedim", torch.movedim, (t(2, 3, 5, 7), (0, 1), (-1, 0)), {}),
    ("transpose", torch.transpose, (t(2, 3, 5), 0, -1), {}),
    ("permute", torch.permute, (t(2, 3, 5), (2, 0, 1)), {}),
    ("slice", torch.ops.aten.slice, (t(3, 17), 1, 2, 15, 4), {}),
    ("narrow", torch.narrow, (t(3, 17), 1, 2, 5), {}),
    ("select", torch.select, (t(3, 17, 5), 1, 2), {}),
    ("topk", torch.topk, (t(3, 17), 5), {}),
    ("sum", torch.sum, (t(2, 3, 5), (0, -1)), {"keepdim": True}),
    ("mean", torch.mean, (t(2, 3, 5), 1), {}),
    ("arange", torch.arange, (3, 20, 4), {"device": "meta"}),
    ("eye", torch.eye, (3, 5), {"device": "meta"}),
    ("meshgrid", torch.meshgrid, (t(3), t(5), t(7)), {"indexing": "xy"}),
    ("matmul", torch.matmul, (t(2, 1, 3, 5), t(7, 5, 4)), {}),
    ("addmm", torch.addmm, (t(4), t(3, 5), t(5, 4)), {}),
    ("linear", F.linear, (t(2, 3, 5), t(7, 5)), {}),
    ("outer", torch.outer, (t(3), t(5)), {}),
    ("embedding", F.embedding, (t(2, 3), t(11, 5)), {}),
    ("view_as_complex", torch.view_as_complex, (t(3, 5, 2),), {}),
    ("view_as_real", lambda x: torch.view_as_real(torch.complex(x, x)), (t(3, 5),), {}),
]


def each(value: Any, made: Callable[[Shaped], Any]) -> Any:
    """An argument with something else in place of shapes."""
    if isinstance(value, Shaped):
        return made(value)
    return [each(one, made) for one in value] if isinstance(value, list) else value


def tensor(shape: Shaped) -> Any:
    return torch.empty(tuple(shape), device="meta")


@pytest.mark.parametrize(("name", "function", "args", "options"), CALLS, ids=[call[0] for call in CALLS])
def test_as_pytorch(name: str, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
    tensors = [each(one, tensor) for one in args]
    if name == "embedding":
        tensors[0] = tensors[0].long()
    made = function(*tensors, **options)
    expected = [tuple(one.shape) for one in (made if isinstance(made, (tuple, list)) else (made,))]
    shapes = [each(one, lambda shape: Of(tuple(shape))) for one in args]
    if name == "embedding":  # the operator takes the table first
        shapes.reverse()
    found = [tuple(shape) for shape in RULES[name](*shapes, **options)]
    assert found[: len(expected)] == expected


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("view", (Of((2, 3)), torch.Size, 3)),
        ("repeat_interleave", (Of((5, 7)), 3)),
        ("repeat_interleave", (Of((5, 7)), Of((5,)), 0)),
        ("tensor_split", (Of((5, 7)), Of((2,)))),
        ("one_hot", (Of((5,)), -1)),
        ("arange", (0, 5, -1)),
        ("arange", (0.5, 5)),
        ("upsample_nearest2d", (Of((2, 3, 5, 7)),)),
        ("getitem", (Of((5, 7)), Of((5,), flags=True))),
    ],
)
def test_what_the_data_decide_has_no_shape(name: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(UnresolvedError):
        RULES[name](*args)
