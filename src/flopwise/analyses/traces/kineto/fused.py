"""Kernels and operators that are none of PyTorch's own: what their names say of the rows that they do the work of.

``triton_poi_fused_add_relu_3`` and ``graph_0_cpp_fused__softmax_mul_1`` list operators in the order of the alphabet,
``vllm::unified_attention`` and ``rotary_embedding_kernel`` tell a part of a model. They have no shapes, or shapes of
their own; the products before and behind them in a step bound the rows that they can stand for.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.records import Operator
from flopwise.analyses.traces.kineto.tokens import Token

_KERNEL = re.compile(r"(?:graph_\d+_)?(cpp|triton_[a-z]+)_fused_(.+)_\d+$")

#: Kinds of fused kernels that may compute a product themselves: what a GPU runs point by point or as a reduction has
#: the products' names for what follows them, such as adding a bias.
_MULTIPLYING = ("cpp", "triton_tem")

#: What begins the names of kernels of processors in a trace.
_GRAPH = re.compile(r"^graph_\d+_")

#: What a program calls -> what may stand for it in the name of a kernel, beside its own name.
_DECOMPOSED: dict[str, tuple[str, ...]] = {
    "adaptive_avg_pool2d": ("mean", "avg_pool2d"),
    "batch_norm": ("native_batch_norm",),
    "conv1d": ("convolution",),
    "conv2d": ("convolution",),
    "conv3d": ("convolution",),
    "dropout": ("native_dropout",),
    "gelu": ("erf", "tanh"),
    "group_norm": ("native_group_norm", "var_mean"),
    "layer_norm": ("native_layer_norm", "var_mean"),
    "linear": ("addmm", "mm"),
    "matmul": ("bmm", "mm"),
    "relu": ("threshold_backward",),
    "relu6": ("hardtanh",),
    "rms_norm": ("rsqrt",),
    "scaled_dot_product_attention": ("scaled_dot_product", "safe_softmax"),
    "silu": ("sigmoid",),
}

#: What a product that a compiler took apart computes between its parts.
_BETWEEN_PRODUCTS: dict[str, tuple[str, ...]] = {"scaled_dot_product_attention": ("safe_softmax",)}

_ATTENTION, _ROTARY, _EXPERTS = ("attention", "attn", "fmha"), ("rotary", "rope"), ("moe", "experts")

#: The same in kernels that people wrote by hand, and in their operators.
_WRITTEN: dict[str, tuple[str, ...]] = {
    "scaled_dot_product_attention": _ATTENTION,
    "matmul": _ATTENTION,
    "softmax": _ATTENTION,
    "neg": _ROTARY,
    "sub": _ROTARY,
    "cat": _ROTARY,
    "rsqrt": ("rmsnorm", "rms", "norm"),
    "rms_norm": ("rmsnorm", "rms", "norm"),
    "layer_norm": ("layernorm", "norm"),
    "silu": ("silu", "swiglu", "act"),
    "topk": ("topk", *_EXPERTS),
    "sort": ("sort", "routing", "bitmatrix", "align", *_EXPERTS),
    "_grouped_mm": _EXPERTS,
    "grouped_mm": _EXPERTS,
    "embedding": ("embedding", "gather"),
}

#: What the names of such kernels say of anything.
_COMMON = frozenset(("add", "copy", "float", "half", "max", "mean", "mul", "pow", "sum", "to", "view"))

#: What appends to a cache of keys and values.
_CACHE = ("cache", "kvcache", "kv")

#: Products whose names a kernel that only brings their operands into another layout bears.
_PRODUCTS = re.compile(r"(?:^|_)(?:convolution|addmm|bmm|mm)(?=_|$)")

#: Words in the name of a kernel, mangled or not.
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class Text(NamedTuple):
    """The words in the name of a kernel or an operator."""

    #: In lower case, between underscores.
    words: str
    #: Whether a compiler put the kernel together of operators that the words list.
    listed: bool = True
    #: Whether it may compute the products that the words list.
    multiplies: bool = True


def text_of(operator: Operator, nodes: Mapping[str, str]) -> Text | None:
    """The words of what is no single operator of PyTorch; None for others.

    Args:
        operator: a call, or a kernel of a CUDA graph.
        nodes: name of a compiled kernel -> the operators in it, where a file tells them.
    """
    told = listed(operator.name), nodes.get(_GRAPH.sub("", operator.name))
    if told != (None, None):
        kernel = _KERNEL.match(operator.name)
        multiplies = kernel is None or kernel[1] in _MULTIPLYING
        return Text(_between("_".join(filter(None, told)).split("_")), multiplies=multiplies)
    if not is_written(operator):
        return None
    return Text(_between(word.lower() for word in _WORD.findall(names.bare(operator.name))), listed=False)


def text_of_gradient(operator: Operator, nodes: Mapping[str, str]) -> Text | None:
    """The same of an operator of a compiled backward pass: those of PyTorch that are left name a row's operator."""
    if operator.base.endswith(("_backward", "_backward_data")):
        return Text(_between(operator.base.split("_")))
    return text_of(operator, nodes)


def is_written(operator: Operator) -> bool:
    """True for a kernel of a CUDA graph, or another library's operator: neither PyTorch's own nor a compiler's."""
    return operator.context == names.GRAPHS or names.is_custom(operator.name)


def _between(words: Iterable[str]) -> str:
    return f"_{'_'.join(filter(None, words))}_"


def listed(name: str) -> str | None:
    """The operators in the name of a fused kernel; None for the name of another event.

    >>> listed("graph_0_cpp_fused__softmax_mul_1"), listed("triton_red_fused_add_mean_0"), listed("aten::add")
    ('_softmax_mul', 'add_mean', None)
    """
    found = _KERNEL.match(name)
    return found[2].replace("_unsafe_view", "") if found else None


def is_layout(text: Text) -> bool:
    """True for a kernel that names nothing but products, which have events of their own."""
    return text.listed and not _PRODUCTS.sub("", text.words.strip("_")).strip("_")


def tells_of(text: Text, row: Token) -> bool:
    """True where the words of a kernel's name tell of a row."""
    told = (row.name, *_DECOMPOSED.get(row.name, ()))
    if not text.listed:
        told = _CACHE if row.cache else _WRITTEN.get(row.name, () if row.name in _COMMON else told)
    if row.product and not text.multiplies:
        told = _BETWEEN_PRODUCTS.get(row.name, ())
    return bool(row.name) and any(f"_{word.strip('_')}_" in text.words for word in told)


def _is_next(kernels: Sequence[Text], now: int, row: Token, told: set[tuple[str, str | None]]) -> bool:
    """True where a kernel did a row's like already, in another module, and one of the same name follows."""
    others = {module for name, module in told if name == row.name}
    return bool(others - {row.module}) and kernels[now] in kernels[now + 1 :]


def _of_module(rows: Sequence[Token], own: list[int], told: Container[str], module: str | None) -> list[int]:
    """The last rows of a kernel that are of a module and that its name does not tell of, taken from it."""
    first = len(own)
    while first and rows[own[first - 1]].module == module and rows[own[first - 1]].name not in told:
        first -= 1
    taken = own[first:] if first else []
    del own[len(own) - len(taken) :]
    return taken


def parts(kernels: Sequence[Text], rows: Sequence[Token]) -> list[list[int]]:
    """For each kernel the positions of the rows that it stands for, in order; [] where its name says none of them.

    A row that no name tells of, such as a view, is its neighbour's before it, and at the beginning that behind it;
    where people wrote the kernels, that behind it also if both are of one module.

    Args:
        kernels: their words, in the order in which they ran.
        rows: the rows between the products around the kernels.
    """
    own: list[list[int]] = [[] for _ in kernels]
    waiting: list[int] = []
    told: set[tuple[str, str | None]] = set()
    now = -1
    for place, row in enumerate(rows):
        start = max(now, 0)
        if now >= 0 and _is_next(kernels, now, row, told):
            start = now + 1
        found = next((k for k in range(start, len(kernels)) if tells_of(kernels[k], row)), None)
        if found is not None:
            if found != now:
                if now >= 0 and not kernels[found].listed:
                    waiting = _of_module(rows, own[now], {name for name, _ in told}, row.module)
                told = set()
            told.add((row.name, row.module))
            now = found
            own[now] += waiting
            waiting = []
            own[now].append(place)
        elif not row.product:
            (waiting if now < 0 else own[now]).append(place)
    return own
