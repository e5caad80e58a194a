"""The names of PyTorch's events: what an annotation says, which operators are units, what is no layer's work."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.executed import aligned
from flopwise.analyses.traces.kineto.records import ENCODERS, Extents, Operator
from flopwise.formats.torch.lower.elements import MOVEMENT
from flopwise.formats.torch.lower.layers import LOSSES
from flopwise.formats.torch.lower.operators import LOWERINGS
from flopwise.profiles.profile import Profile

OPTIMISER, LOADING, LOSS = "optimiser", "data loading", "loss"
ACCUMULATION, COPIES, LAYOUT = "accumulate gradients", "copies", "layout"
COMMUNICATION, COMPILER, GRAPHS, COMPILED = "communication", "compiler", "CUDA graphs", "compiled kernels"
UNMATCHED, OTHER_THREADS = "unmatched", "other threads"

#: Beginning of the name of an annotation -> what the operators in it are part of.
_CONTEXTS = {"Optimizer.": OPTIMISER, "enumerate(DataLoader)": LOADING}

_COPIES = frozenset(("to", "_to_copy", "copy", "item", "_local_scalar_dense", "is_nonzero", "pin_memory", "lift_fresh"))

_COMPILER = re.compile(
    r"TorchDynamo|Torch-Compiled Region|CompiledFunction|AOTDispatcher|Pregraph ?[Bb]ytecode|Inductor|Runtime Wrapper"
)
_COMPILED = re.compile(r"triton_|graph_\d+_|cpp_fused_|## Call CompiledFxGraph")
#: What begins the name of the annotation around compiled code.
CALL = "## Call CompiledFxGraph"

_COMMUNICATION = re.compile(r"nccl|rccl|gloo|c10d|record_param_comms", re.IGNORECASE)
_GRAPHS = re.compile(r"(cuda|hip|cu)GraphLaunch")

#: Namespaces of PyTorch's own operators.
_OWN = frozenset(("aten", "prim", "prims", "profiler", "inductor", "flopwise"))

#: Names of kernels of matrix products -> the product.
_PRODUCTS = (
    (re.compile(r"implicit_?gemm|fprop|winograd", re.IGNORECASE), "convolution"),
    (re.compile(r"matmul_ogs|fused_moe|moe_?gemm|grouped_?gemm", re.IGNORECASE), "_grouped_mm"),
    (re.compile(r"^Cijk_|gemm|nvjet|_mm_kernel|scaled_mm|cutlass.*tensorop", re.IGNORECASE), "linear"),
)

#: Kernels that add up the parts of the product before them.
_PARTS = re.compile(r"split_?k_?(kernel|reduce)", re.IGNORECASE)

#: A node of the backward pass as files of 2021 name it, without the engine's own event around it.
_GRADIENT = re.compile(r"(^|: )\w+Backward\d*$|^torch::autograd::|^autograd::")


def context_of(annotation: str) -> str:
    """The part of a training step that an annotation stands for; "" for others."""
    return next((context for start, context in _CONTEXTS.items() if annotation.startswith(start)), "")


@functools.cache
def is_gradient(name: str) -> bool:
    """True for an operator of the backward pass by its name.

    >>> is_gradient("ConvolutionBackward0"), is_gradient("aten::convolution_backward")
    (True, False)
    """
    return bool(_GRADIENT.search(name))


@functools.cache
def is_compiled_gradient(name: str) -> bool:
    """True for the whole of a backward pass that was compiled."""
    return name.endswith("CompiledFunctionBackward")


@functools.cache
def is_unit(name: str) -> bool:
    """True for an operator that does the work of a row, or of several, rather than standing around such operators."""
    space, _, bare = name.rpartition("::")
    base = bare.rstrip("_")
    if is_gradient(name):
        return not is_compiled_gradient(name)
    return base in ENCODERS or (space == "aten" and (base in LOWERINGS or base.endswith("_backward")))


@functools.cache
def is_custom(name: str) -> bool:
    """True for an operator that is none of PyTorch's own, such as those of libraries for serving.

    >>> is_custom("vllm::unified_attention"), is_custom("aten::mm"), is_custom("ConvolutionBackward0")
    (True, False, False)
    """
    space, separator, _ = name.rpartition("::")
    return bool(separator) and space not in _OWN and not is_gradient(name) and not _COMMUNICATION.search(name)


@functools.cache
def computes(name: str) -> bool:
    """True for an operator of PyTorch that does the work of a row, and does not only make or move elements."""
    return is_unit(name) and name.rpartition("::")[2].rstrip("_") not in MOVEMENT


@functools.cache
def product_of(name: str) -> str:
    """The product that a kernel computes by its name, as a program calls it; "" for others.

    >>> [product_of(name) for name in ("Cijk_Alik_Bljk_BBS", "sm90_xmma_gemm_bf16", "_matmul_ogs_NNT", "rope")]
    ['linear', 'linear', '_grouped_mm', '']
    """
    return next((product for pattern, product in _PRODUCTS if pattern.search(name)), "")


def adds_parts(kernel: str) -> bool:
    """True for a kernel that adds up the parts of a product that another one computed just before.

    >>> adds_parts("void cublasLt::splitKreduce_kernel<32, 16>(...)"), adds_parts("sm90_xmma_gemm_bf16_execute_kernel")
    (True, False)
    """
    return bool(_PARTS.search(kernel))


def bare(kernel: str) -> str:
    """The name of a kernel without its result, namespace, template and arguments; one that is mangled as it is.

    >>> bare("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)")
    'rotary_embedding_kernel'
    """
    return re.split(r"[<(]", kernel)[0].rpartition("::")[2].rpartition(" ")[2] or kernel


def is_graph(launch: str) -> bool:
    """True for the call of the driver that starts a CUDA graph."""
    return bool(_GRAPHS.match(launch))


@functools.cache
def remainder_of(name: str) -> str:
    """The name under which the time of an operator is reported that no row does."""
    base = name.rpartition("::")[2].rstrip("_")
    if "AccumulateGrad" in name:
        return ACCUMULATION
    if _COMPILED.match(name):
        return COMPILED
    if _COMPILER.search(name):
        return COMPILER
    if _COMMUNICATION.search(name):
        return COMMUNICATION
    if base in _COPIES:
        return COPIES
    if base.startswith(("_foreach", "_fused_")):
        return OPTIMISER
    if base in LOSSES:
        return LOSS
    return LAYOUT if base in MOVEMENT else UNMATCHED


@functools.cache
def remainder_of_kernel(name: str, launch: str, copy: bool) -> str:
    """The same of a kernel that no operator started."""
    if copy:
        return COPIES
    if _COMMUNICATION.search(name):
        return COMMUNICATION
    if _GRAPHS.match(launch):
        return GRAPHS
    return COMPILED if _COMPILED.match(name) else UNMATCHED


# Rows of a model for the operators of a trace: by operators and shapes, in the order of execution.
#
# Nothing is run. What a profiler saw and what a profile counts are two sequences of operators; the cheapest way to turn
# one into the other pairs those that are the same. A pair is of the same operator, and of the same shapes where both
# have any; a product only pairs with one of exactly its shapes, or, under another name, of exactly its multiply-adds.


#: What a program calls -> other names under which a profiler may see it.
_SYNONYMS: dict[str, frozenset[str]] = {
    "getitem": frozenset(("slice", "select", "index", "unsqueeze")),
    "contiguous": frozenset(("clone",)),
    "float": frozenset(("to", "_to_copy")),
    "half": frozenset(("to", "_to_copy")),
    "bfloat16": frozenset(("to", "_to_copy")),
    "type_as": frozenset(("to", "_to_copy")),
    "unflatten": frozenset(("view",)),
    "flatten": frozenset(("reshape", "view")),
    "reshape": frozenset(("view", "_unsafe_view")),
    "concat": frozenset(("cat",)),
    "swapaxes": frozenset(("transpose",)),
    "true_divide": frozenset(("div",)),
    "divide": frozenset(("div",)),
    "multiply": frozenset(("mul",)),
    "subtract": frozenset(("sub",)),
    "matmul": frozenset(("mm", "bmm", "linear")),
    "linear": frozenset(("addmm", "mm", "matmul")),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), frozenset(("convolution",))),
    "scaled_dot_product_attention": frozenset(
        f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn")
    )
    | {"_scaled_dot_product_flash_attention_for_cpu"},
    "setitem": frozenset(("copy", "fill", "index_put")),
}

#: What ends the names of the inputs that hold a cache of keys and values, whatever the argument is called.
CACHE = (".keys", ".values")

#: Operators of ONNX that compute products: a file may write as two what a program writes as one.
_TOKENS_OF_PRODUCTS = {"MatMul": "Gemm"}


#: A pair of products is worth so many pairs of others: no view keeps a product from its row.
_PRODUCT = 4


class Token(NamedTuple):
    """An operator, as far as two of them are compared."""

    #: As a program of PyTorch calls it ("conv2d"); "" where it is of no program.
    name: str
    #: In ONNX's vocabulary.
    op: str
    #: Shapes of its tensors: axes of one element in front left out, and what has no axes.
    shapes: tuple[Extents, ...]
    #: Multiply-adds of convolutions, matrix products, attention; 0 of what computes none, -1 for an unknown number.
    macs: int
    #: Dotted path of the module that it ran in; None where that is not known.
    module: str | None = None
    #: Whether it appends to a cache of keys and values.
    cache: bool = False
    #: Whether it is several rows that multiply one operand, which a program may compute at once.
    several: bool = False
    #: Whether it is one of these.
    sibling: bool = False

    @property
    def product(self) -> bool:
        """True for what computes products."""
        return self.macs != 0


def token(name: str, op: str, shapes: Sequence[Extents], macs: int, module: str | None) -> Token:
    """A token with shapes that can be compared."""
    bare = (_without_leading_ones(shape) for shape in shapes if shape)
    return Token(name, _TOKENS_OF_PRODUCTS.get(op, op), tuple(filter(None, bare)), macs, module)


def tokens_of(profile: Profile) -> list[Token]:
    """The rows of a profile as tokens."""
    tokens = []
    for row in profile.rows:
        origin = row.node.origin.split(".")
        name = origin[1].rstrip("_") if len(origin) > 1 and origin[0] == "aten" else ""
        shapes = [
            tuple(int(size) for size in each.dims)
            for t in row.node.known_inputs
            for each in (t.items or (t,))
            if each.shape is not None
        ]
        cache = any(t.kind == "state" and t.name.endswith(CACHE) for t in row.node.known_inputs)
        tokens.append(token(name, row.node.op, shapes, row.macs or 0, row.node.module)._replace(cache=cache))
    return tokens


def siblings(profile: Profile) -> list[tuple[int, ...]]:
    """Rows that multiply one operand by weights of their own, as those of queries, keys and values: their positions."""
    together: dict[str, list[int]] = {}
    for place, row in enumerate(profile.rows):
        if row.node.op in ("Gemm", "MatMul") and row.macs and row.node.known_inputs[0].name:
            together.setdefault(row.node.known_inputs[0].name, []).append(place)
    return [tuple(places) for places in together.values() if len(places) > 1]


def align(seen: Sequence[Token], rows: Sequence[Token], shapes: bool = True) -> list[int | None]:
    """For each operator that was seen the position of its row, in increasing order; None for one without.

    Args:
        seen: the operators of a trace.
        rows: those of a model.
        shapes: whether shapes must agree; without, operators pair by their names alone.
    """
    gains: dict[tuple[Token, Token], int] = {}

    def gain(one: int, other: int) -> int:
        pair = seen[one], rows[other]
        if pair not in gains:
            gains[pair] = _gain(*pair, shapes)
        return gains[pair]

    return aligned(gain, len(seen), len(rows))


def _gain(seen: Token, row: Token, shapes: bool) -> int:
    """The worth of a pair; 0 for one that is none."""
    if not _is_same_operator(seen, row) or (seen.module is not None and seen.module != row.module):
        return 0
    if not shapes or not seen.shapes or not (row.shapes or row.several):
        return _PRODUCT * 2 + 4 * row.several - 2 * row.sibling if seen.product and row.product else 2
    if seen.product != row.product:
        return 0
    return _gain_of_products(seen, row) if seen.product else _gain_of_shapes(seen, row)


def pairs_by_name(name: str, row: Token) -> bool:
    """True for a product that a kernel of a name may compute."""
    return row.product and (name == row.name or name in _SYNONYMS.get(row.name, ()))


def _is_same_operator(seen: Token, row: Token) -> bool:
    """True for one operator; a row that is of no program has only its name in ONNX's vocabulary."""
    if not row.name:
        return seen.op == row.op
    return seen.name == row.name or seen.name in _SYNONYMS.get(row.name, ())


def _gain_of_products(seen: Token, row: Token) -> int:
    """The worth of two products: of one's shapes, or, under another name or in another form, of one's multiply-adds.

    A compiler calls other operators on operands in another order, an engine calls them without axes of one element.
    """
    worth = 0
    if _without_vectors(seen.shapes) == _without_vectors(row.shapes):
        worth = 6
    elif seen.macs == row.macs and (
        row.several or seen.name != row.name or _squeezed(seen.shapes) == _squeezed(row.shapes)
    ):
        worth = 5
    return _PRODUCT * worth - (row.sibling if worth else 0)


def _gain_of_shapes(seen: Token, row: Token) -> int:
    """The worth of two operators that compute no products: of one's shapes, or of one's largest shape."""
    one, other = _without_vectors(seen.shapes), _without_vectors(row.shapes)
    if one == other:
        return 6
    largest, own = (max(each, key=lambda shape: (math.prod(shape), shape)) for each in (one, other))
    if largest == own:
        return _PRODUCT * 4 if row.name == "embedding" else 4  # its table is as telling as a product's weights
    return 3 if sorted(largest) == sorted(own) else 0


def _without_vectors(shapes: Sequence[Extents]) -> Counter[tuple[int, ...]]:
    """Shapes by how often they appear, without those of one axis where there are others: biases, scales."""
    counter = Counter(shape for shape in shapes if shape)
    wide = Counter({shape: number for shape, number in counter.items() if len(shape) > 1})
    return wide or counter


def _squeezed(shapes: Sequence[Extents]) -> list[tuple[int, ...]]:
    return [tuple(size for size in shape or () if size != 1) for shape in shapes]


def _without_leading_ones(shape: Extents) -> Extents:
    place = next((place for place, size in enumerate(shape or ()) if size != 1), len(shape or ()))
    return shape[place:] if shape else None


# Kernels and operators that are none of PyTorch's own: what their names say of the rows that they do the work of.
#
# ``triton_poi_fused_add_relu_3`` and ``graph_0_cpp_fused__softmax_mul_1`` list operators in the order of the alphabet,
# ``vllm::unified_attention`` and ``rotary_embedding_kernel`` tell a part of a model. They have no shapes, or shapes of
# their own; the products before and behind them in a step bound the rows that they can stand for.


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
_FUSED_PRODUCTS = re.compile(r"(?:^|_)(?:convolution|addmm|bmm|mm)(?=_|$)")

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
    return Text(_between(word.lower() for word in _WORD.findall(bare(operator.name))), listed=False)


def text_of_gradient(operator: Operator, nodes: Mapping[str, str]) -> Text | None:
    """The same of an operator of a compiled backward pass: those of PyTorch that are left name a row's operator."""
    if operator.base.endswith(("_backward", "_backward_data")):
        return Text(_between(operator.base.split("_")))
    return text_of(operator, nodes)


def is_written(operator: Operator) -> bool:
    """True for a kernel of a CUDA graph, or another library's operator: neither PyTorch's own nor a compiler's."""
    return operator.context == GRAPHS or is_custom(operator.name)


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
    return text.listed and not _FUSED_PRODUCTS.sub("", text.words.strip("_")).strip("_")


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
