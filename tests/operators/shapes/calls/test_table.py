"""Shapes of PyTorch's operators, beside what PyTorch makes of tensors without elements."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

from flopwise.operators.shapes.calls import RULES, Of
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
    ("arange", torch.arange, (7,), {"device": "meta"}),
    ("arange", torch.arange, (), {"start": 3, "end": 20, "step": 5, "device": "meta"}),
    ("arange", torch.arange, (3, 20), {"step": 3, "device": "meta"}),
    ("eye", torch.eye, (3, 5), {"device": "meta"}),
    ("eye", torch.eye, (3,), {"device": "meta"}),
    ("zeros", torch.zeros, (3, 5), {"device": "meta"}),
    ("zeros", torch.zeros, ((3, 5),), {"device": "meta"}),
    ("zeros", torch.zeros, (), {"size": (3, 5), "device": "meta"}),
    ("full", torch.full, ((3, 5), 7), {"device": "meta"}),
    ("new_zeros", torch.Tensor.new_zeros, (t(2), 3, 5), {}),
    ("new_zeros", torch.Tensor.new_zeros, (t(2), (3, 5)), {}),
    ("new_zeros", torch.Tensor.new_zeros, (t(2),), {"size": (3, 5)}),
    ("new_full", torch.Tensor.new_full, (t(2), (3, 5), 7), {}),
    ("zeros_like", torch.zeros_like, (t(3, 5),), {}),
    ("linspace", torch.linspace, (2, 3, 5), {"device": "meta"}),
    ("meshgrid", torch.meshgrid, (t(3), t(5), t(7)), {"indexing": "xy"}),
    ("meshgrid", torch.meshgrid, ([t(3), t(5)],), {"indexing": "ij"}),
    ("affine_grid", F.affine_grid, (t(2, 2, 3), [2, 3, 5, 7]), {"align_corners": False}),
    ("affine_grid", F.affine_grid, (t(2, 3, 4), [2, 3, 5, 7, 11]), {"align_corners": False}),
    ("grid_sample", F.grid_sample, (t(2, 3, 5, 7), t(2, 11, 13, 2)), {"align_corners": False}),
    ("one_hot", lambda x, classes: F.one_hot(torch.zeros(x.shape, dtype=torch.long), classes), (t(2, 3), 5), {}),
    ("getitem", operator.getitem, (t(3, 17, 5, 7), (1, slice(2, 15, 4), None)), {}),
    ("getitem", operator.getitem, (t(3, 17, 5, 7), (..., 2, slice(-3, None))), {}),
    ("getitem", lambda x, places: x[places.long()], (t(17, 5), t(2, 3)), {}),
    ("view", torch.Tensor.view, (t(6, 5), 2, -1, 5), {}),
    ("reshape", torch.reshape, (t(6, 5),), {"shape": (10, 3)}),
    ("view_as", torch.Tensor.view_as, (t(6, 5), t(2, 15)), {}),
    ("expand_as", torch.Tensor.expand_as, (t(5, 1), t(3, 5, 7)), {}),
    ("t", torch.t, (t(3, 5),), {}),
    ("mT", lambda x: x.mT, (t(2, 3, 5),), {}),
    ("roll", torch.roll, (t(3, 5), 1, 0), {}),
    ("sort", torch.sort, (t(3, 5),), {}),
    ("histc", lambda x, bins: torch.empty(bins, device="meta"), (t(3, 5), 7), {}),
    ("searchsorted", torch.searchsorted, (t(11), t(3, 5)), {}),
    ("gather", lambda x, dim, index: torch.gather(x, dim, index.long()), (t(3, 17), 1, t(3, 5)), {}),
    ("index_select", lambda x, dim, index: torch.index_select(x, dim, index.long()), (t(3, 17, 2), 1, t(5)), {}),
    ("linalg_vector_norm", torch.linalg.vector_norm, (t(2, 3, 5), 2, (0, 2)), {"keepdim": True}),
    ("var_mean", torch.var_mean, (t(2, 3, 5), 1), {"keepdim": True}),
    ("var_mean", torch.var_mean, (t(2, 3, 5),), {"dim": (0, 1), "correction": 0}),
    (
        "scaled_dot_product_attention",
        F.scaled_dot_product_attention,
        (t(2, 3, 5, 8), t(2, 3, 7, 8), t(2, 3, 7, 11)),
        {},
    ),
    ("linalg_solve_triangular", torch.linalg.solve_triangular, (t(2, 1, 5, 5), t(3, 5, 7)), {"upper": True}),
    ("eq", torch.eq, (t(3, 1, 5), t(7, 1)), {}),
    ("adaptive_avg_pool1d", F.adaptive_avg_pool1d, (t(2, 5, 23), 4), {}),
    ("adaptive_avg_pool3d", F.adaptive_avg_pool3d, (t(2, 5, 11, 13, 17), (3, None, 4)), {}),
    ("adaptive_max_pool2d", F.adaptive_max_pool2d, (t(2, 5, 23, 19), (3, 4)), {}),
    ("adaptive_max_pool3d", F.adaptive_max_pool3d, (t(2, 5, 11, 13, 17), 3), {}),
    ("avg_pool3d", F.avg_pool3d, (t(2, 5, 11, 13, 17), 3, 2, 1), {}),
    *[
        (
            f"max_pool{rank}d_with_indices",
            getattr(F, f"max_pool{rank}d"),
            (t(2, 5, *[23, 19, 17][:rank]), 3, 2, 1, 2),
            {},
        )
        for rank in (1, 2, 3)
    ],
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
    ("shape", "settings"),
    [
        ((2, 3, 5, 7), {"size": (11, 13)}),
        ((2, 3, 5, 7), {"scale_factor": 2.5}),
        ((2, 3, 5, 7), {"scale_factor": (1.5, 3.0)}),
        ((2, 3, 5), {"scale_factor": 0.5}),
    ],
)
def test_resized_as_pytorch(shape: tuple[int, ...], settings: dict[str, Any]) -> None:
    """The operator takes sizes, or a scale for each axis."""
    expected = F.interpolate(tensor(t(*shape)), **settings).shape
    scale = settings.get("scale_factor")
    scales = [scale] * (len(shape) - 2) if isinstance(scale, float) else scale
    rule = RULES[f"upsample_nearest{len(shape) - 2}d"]
    assert rule(Of(shape), settings.get("size"), None if scales is None else list(scales)) == [tuple(expected)]


@pytest.mark.parametrize(("batch_first", "directions"), [(False, 1), (True, 1), (False, 2)])
def test_recurrent_layers_as_pytorch(batch_first: bool, directions: int) -> None:
    layer = torch.nn.LSTM(5, 7, 3, batch_first=batch_first, bidirectional=directions == 2, device="meta")
    x, state = (2, 11, 5) if batch_first else (11, 2, 5), (3 * directions, 2, 7)
    made, states = layer(tensor(t(*x)), (tensor(t(*state)), tensor(t(*state))))
    weights = [Of(tuple(weight.shape)) for weight in layer.parameters()]
    settings = [Of(state), Of(state)], weights, True, 3, 0.0, False, directions == 2, batch_first
    found = RULES["lstm"](Of(x), *settings)
    assert found == [tuple(one.shape) for one in (made, *states)]


def test_every_rule_has_a_row() -> None:
    """Those of one function share theirs."""
    rows = {RULES[name] for name, *_ in CALLS}
    others = {"_grouped_mm", "upsample_nearest2d", "lstm", "lstm_cell"}
    assert [name for name, rule in RULES.items() if rule not in rows | {RULES[name] for name in others}] == []


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
