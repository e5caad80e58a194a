"""Kernels that a compiler made of several operators: what their names say of the rows that they do the work of.

``triton_poi_fused_add_relu_3`` and ``graph_0_cpp_fused__softmax_mul_1`` list operators in the order of the alphabet,
and have no shapes; the products before and behind them in a step bound the rows that they can stand for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from flopwise.analyses.traces.kineto.tokens import Token

_KERNEL = re.compile(r"(?:graph_\d+_)?(?:cpp|triton_[a-z]+)_fused_(.+)_\d+$")

#: What a program calls -> what may stand for it in the name of a kernel, beside its own name.
_DECOMPOSED: dict[str, tuple[str, ...]] = {
    "adaptive_avg_pool2d": ("mean", "avg_pool"),
    "batch_norm": ("native_batch_norm",),
    "conv1d": ("convolution",),
    "conv2d": ("convolution",),
    "conv3d": ("convolution",),
    "gelu": ("erf", "tanh"),
    "group_norm": ("native_group_norm", "var_mean"),
    "layer_norm": ("native_layer_norm", "var_mean"),
    "linear": ("addmm", "mm"),
    "matmul": ("bmm", "mm"),
    "rms_norm": ("rsqrt",),
    "scaled_dot_product_attention": ("scaled_dot_product",),
    "silu": ("sigmoid",),
}

#: Products whose names a kernel that only brings their operands into another layout bears.
_PRODUCTS = re.compile(r"(?:^|_)(?:convolution|addmm|bmm|mm)(?=_|$)")


def listed(name: str) -> str | None:
    """The operators in the name of a fused kernel; None for the name of another event.

    >>> listed("graph_0_cpp_fused__softmax_mul_1"), listed("triton_red_fused_add_mean_0"), listed("aten::add")
    ('_softmax_mul', 'add_mean', None)
    """
    found = _KERNEL.match(name)
    return found[1].replace("_unsafe_view", "") if found else None


def is_layout(operators: str) -> bool:
    """True for a kernel that names nothing but products, which have events of their own."""
    return not _PRODUCTS.sub("", operators).strip("_")


def _names(operators: str, row: Token) -> bool:
    """True where the operators in a kernel's name tell of a row."""
    return bool(row.name) and any(name in operators for name in (row.name, *_DECOMPOSED.get(row.name, ())))


def earlier(operators: str, own: Sequence[Token], before: Sequence[Token]) -> int | None:
    """The position of the last row before the products that a kernel stands for as well; None where there is none.

    A compiler may put off work of a row until behind the next product, such as an activation until it is multiplied.

    Args:
        operators: those in the name of the kernel.
        own: the rows between the products around it that it stands for.
        before: rows before that no event stands for.
    """
    known = {row.name for row in own}
    late = [n for n, row in enumerate(before) if not row.product and row.name not in known and _names(operators, row)]
    return late[-1] if late else None


def parts(kernels: Sequence[str], rows: Sequence[Token]) -> list[list[int]]:
    """For each kernel the positions of the rows that it stands for, in order; [] where its name says none of them.

    A row that no name tells of, such as a view, is its neighbour's before it, and at the beginning that behind it.

    Args:
        kernels: the operators that the names list, in the order in which they ran.
        rows: the rows between the products around the kernels.
    """
    own: list[list[int]] = [[] for _ in kernels]
    waiting: list[int] = []
    now = -1
    for place, row in enumerate(rows):
        found = next((k for k in range(max(now, 0), len(kernels)) if _names(kernels[k], row)), None)
        if found is not None:
            now = found
            own[now] += waiting
            waiting = []
            own[now].append(place)
        elif not row.product:
            (waiting if now < 0 else own[now]).append(place)
    return own
