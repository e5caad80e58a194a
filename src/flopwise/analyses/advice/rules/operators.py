"""Rules about operators that a cheaper one replaces: the results stay the same."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from flopwise.analyses.advice.patterns import is_causal, masked_pairs, pairs_used, relates_positions
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, argument, bare, chain
from flopwise.analyses.needed import logits_of
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import is_float
from flopwise.rows import Row
from flopwise.storage.attention import Unfused, is_fused, unfused_attention


class _Statistics(NamedTuple):
    """Divisors of a normalisation: mean squares of a tensor, with an epsilon."""

    squared: Tensor
    epsilon: float
    positions: tuple[int, ...]


def normalization(subject: Subject) -> Iterator[Change]:
    """(x - mean) / sqrt(mean((x - mean)²) + ε) along the last axis, with weight and bias behind it; or without mean."""
    for position, node in subject.live("Sqrt", "aten::rsqrt"):
        statistics = _statistics(subject, node)
        taker = subject.only_taker(node.output())
        if statistics is None or taker is None:
            continue
        divided = _divided(subject, statistics.squared, node, taker)
        if divided is None:
            continue
        quotient, more = divided
        yield from _changes(subject, statistics, quotient, (position, *more))


def _statistics(subject: Subject, root: Node) -> _Statistics | None:
    """Tensor below a square root: the mean of squares over the last axis, and an epsilon."""
    added = subject.maker(root.input(0))
    if added is None or added[1].op != "Add" or argument(added[1], "alpha", 1) != 1:
        return None
    for one in added[1].known_inputs:
        epsilon, mean = _other_number(subject, added[1], one), subject.maker(one)
        if epsilon is None or mean is None or not _is_mean(subject, mean[1]):
            continue
        square = subject.maker(mean[1].input(0))
        if square is None:
            return None
        if _squares(subject, square[1]):
            return _Statistics(square[1].input(0), epsilon, (square[0], mean[0], added[0]))
    return None


def _other_number(subject: Subject, node: Node, tensor: Tensor) -> float | None:
    """The number that an operator of two factors takes beside a tensor; None where it takes another tensor."""
    others = [t for t in node.known_inputs if t.name != tensor.name]
    if others:
        elements = subject.setting(others[0])
        return elements[0] if elements is not None and len(elements) == 1 else None
    numbers = [argument(node, key) for key in ("input", "other")]
    return next((float(n) for n in numbers if isinstance(n, int | float)), None)


def _squares(subject: Subject, node: Node) -> bool:
    """True for x², x·x and a power of 2."""
    twice = node.op == "Mul" and node.has_input(1) and node.input(0).name == node.input(1).name
    power = node.op == "Pow" and node.has_input(1) and subject.setting(node.input(1)) == [2.0]
    return twice or power or node.op == "aten::square"


def _is_mean(subject: Subject, node: Node) -> bool:
    """True for the mean over the last axis, which is kept."""
    if node.op != "ReduceMean" or len(node.output().dims) != len(node.input(0).dims):
        return False
    rank = len(node.input(0).dims)
    axes = node.attrs.get("axes") or (subject.setting(node.input(1)) if node.has_input(1) else None)
    if axes is None:
        dim = argument(node, "dim", argument(node, "arg1"))
        axes = [dim] if isinstance(dim, int) else dim
    return isinstance(axes, Sequence) and [int(axis) % rank for axis in axes] == [rank - 1]


def _divided(
    subject: Subject, tensor: Tensor, root: Node, taker: tuple[int, Node]
) -> tuple[Tensor, tuple[int, ...]] | None:
    """The tensor divided by its root, and the positions of the operators that do it."""
    position, node = taker
    names = [t.name for t in node.known_inputs]
    if root.op == "aten::rsqrt":
        return (node.output(), (position,)) if node.op == "Mul" and tensor.name in names else None
    if node.op == "Div" and names == [tensor.name, root.output().name]:
        return node.output(), (position,)
    by_one = subject.setting(node.input(0)) == [1.0] or argument(node, "input") == 1.0
    one = node.op == "Reciprocal" or (node.op == "Div" and by_one)
    product = subject.only_taker(node.output()) if one else None
    if product is None or product[1].op != "Mul" or tensor.name not in {t.name for t in product[1].known_inputs}:
        return None
    return product[1].output(), (position, product[0])


def _changes(subject: Subject, statistics: _Statistics, quotient: Tensor, divided: tuple[int, ...]) -> Iterator[Change]:
    """One normalisation in place of the operators; none where others take what lies between."""
    centred = _centring(subject, statistics.squared)
    if centred is None:
        return
    source, before = centred
    centring = bool(before)
    source, quotient, casts = _narrowed(subject, source, quotient)
    factors, behind, end = _scaling(subject, quotient, source, ("Mul", "Add") if centring else ("Mul",))
    positions = [*statistics.positions, *divided, *before, *casts, *behind]
    last = [p for p in positions if end.name in {t.name for t in subject.nodes[p].known_outputs}]
    if not factors or not all(p in last or subject.is_private(p, positions) for p in positions):
        return
    op = "LayerNormalization" if centring else "RMSNormalization"
    if (
        subject.of_program and not centring and subject.processor == "cpu"
    ):  # where PyTorch takes as many passes by itself
        return
    attributes = {"axis": -1, "epsilon": statistics.epsilon}
    version = 17 if centring else 23  # of the operator set that has it
    after = Node(op, f"{end.name}.norm", (source, *factors), (end,), attributes, version=version)
    text = f"{len(positions)} passes over {source.numel:,} elements, in place of one {op}"
    text += " on a GPU" if subject.of_program and not centring and subject.processor is None else ""
    yield Change(tuple(sorted(positions)), text, (after,))


def _centring(subject: Subject, squared: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
    """The tensor whose mean is taken off, and the positions of the operators that do it: () where none is.

    None where the mean of another tensor is taken off.
    """
    centred = subject.maker(squared)
    if centred is None or centred[1].op != "Sub" or not centred[1].has_input(1):
        return squared, ()
    mean, source = subject.maker(centred[1].input(1)), centred[1].input(0)
    if mean is None or not _is_mean(subject, mean[1]):
        return squared, ()
    return (source, (mean[0], centred[0])) if mean[1].input(0).name == source.name else None


def _narrowed(subject: Subject, source: Tensor, quotient: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """The tensor before it was widened, the quotient after it is narrowed again, and the positions of both Casts.

    As they are, with (), where they are not widened.
    """
    wider, narrower = subject.maker(source), subject.only_taker(quotient)
    if wider is None or narrower is None or wider[1].op != "Cast" or narrower[1].op != "Cast":
        return source, quotient, ()
    before, after = wider[1].input(0), narrower[1].output()
    if before.dtype != after.dtype or not is_float(before.dtype):
        return source, quotient, ()
    return before, after, (wider[0], narrower[0])


def _scaling(
    subject: Subject, quotient: Tensor, source: Tensor, ops: Sequence[str]
) -> tuple[list[Tensor], list[int], Tensor]:
    """The stored rows that a quotient is multiplied by and that are added, where this is done, and the last result."""
    factors: list[Tensor] = []
    positions: list[int] = []
    end = quotient
    for op in ops:
        following = subject.only_taker(end)
        if following is None or following[1].op != op:
            break
        other = next((t for t in following[1].known_inputs if t.name != end.name), None)
        if other is None or not subject.stored(other) or other.shape != source.dims[-1:]:
            break
        factors.append(other)
        positions.append(following[0])
        end = following[1].output()
    return factors, positions, end


def _normalization_code(change: Change) -> str:
    """The normalisation as a module of PyTorch."""
    node = change.after[0]
    kind = "LayerNorm" if node.op == "LayerNormalization" else "RMSNorm"
    return f"nn.{kind}({node.input(0).dims[-1]}, eps={node.attrs['epsilon']:g})"


NORMALIZATION = Rule(
    name="normalization",
    about="Use one LayerNormalization or RMSNormalization for the operators that spell it out.",
    exactness="same",
    source="arithmetic, up to rounding; onnxruntime fuses the spellings that it knows at level extended; of PyTorch "
    "2.13's own, LayerNorm is one kernel, RMSNorm on GPUs alone",
    find=normalization,
    code=_normalization_code,
)


# Batch normalisation behind a convolution or a linear layer.


def batch_norm(subject: Subject) -> Iterator[Change]:
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
        after = Node(
            product.op,
            product.name,
            inputs,
            node.outputs,
            product.attrs,
            version=product.version,
            invocation=product.invocation,
        )
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


def _batch_norm_code(change: Change) -> str:
    """The convolution that does both; "" where PyTorch's own function does not know its kind."""
    product = change.after[0]
    transposed = bare(product.op) == "ConvTranspose"
    if transposed and int(product.attrs.get("group") or 1) > 1:
        return ""
    more = ", transpose=True" if transposed else ""
    return f"torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn{more}) in place of nn.Sequential(conv, bn)"


BATCH_NORM = Rule(
    name="batch-norm",
    about="Fold a batch normalisation into the weights of the convolution before it.",
    exactness="same",
    source="arithmetic, up to rounding; onnxruntime does it from level basic on, PyTorch without a compiler never",
    find=batch_norm,
    code=_batch_norm_code,
    trained=False,
)


# Products with one-hot vectors.


def one_hot(subject: Subject) -> Iterator[Change]:
    """OneHot, perhaps a Cast, then a product with a matrix: row i of the matrix."""
    for position, node in subject.live("OneHot"):
        if not _is_zero_one(subject, node):
            continue
        casts, last = chain(subject, node.output(), lambda taker, _: taker.op == "Cast")
        vectors = subject.nodes[casts[-1] if casts else position].output()
        if last is None or bare(last[1].op) not in ("MatMul", "Gemm") or last[1].input(0).name != vectors.name:
            continue
        matrix, end = last[1].input(1), last[1].output()
        if len(matrix.dims) != 2 or not _is_plain(last[1]):
            continue
        indices, depth = node.input(0), matrix.dims[0]
        added = last[1].input(2) if last[1].has_input(2) else None
        activation = last[1].attrs.get("activation")
        rows, sums = (Tensor(f"{end.name}.{part}", end.shape, end.dtype) for part in ("rows", "sums"))
        sums = sums if activation else end
        rows = rows if added is not None or activation else end
        after = [Node("Gather", f"{end.name}.gather", (matrix, indices), (rows,), {"axis": 0})]
        if added is not None:
            after.append(Node("Add", f"{end.name}.add", (rows, added), (sums,)))
        if activation:  # that the engine took in
            after.append(
                Node(str(activation), f"{end.name}.activation", (sums if added is not None else rows,), (end,))
            )
        text = f"{indices.numel:,} of {depth:,} rows are picked by {rows.numel * depth:,} multiply-adds"
        yield Change((position, *casts, last[0]), text, tuple(after))


def _is_plain(product: Node) -> bool:
    """True where factors are multiplied as they are, and nothing is scaled."""
    ones = (product.attrs.get(name, 1.0) == 1.0 for name in ("alpha", "beta"))
    return all(ones) and not any(product.attrs.get(name) for name in ("transA", "transB"))


def _is_zero_one(subject: Subject, node: Node) -> bool:
    """True where the last axis is new and holds 0 and 1."""
    if subject.of_program:
        return True
    axis = node.attrs.get("axis", -1)
    values = subject.setting(node.input(2)) if node.has_input(2) else None
    return values == [0.0, 1.0] and axis in (-1, len(node.output().dims) - 1)


def _one_hot_code(change: Change) -> str:
    """Rows by their number in PyTorch."""
    matrix = change.after[0].input(0)
    return f"F.embedding(indices, matrix) in place of F.one_hot(indices, {matrix.dims[0]}).to(matrix.dtype) @ matrix"


ONE_HOT = Rule(
    name="one-hot",
    about="Pick rows of a matrix by their number (Gather), in place of multiplying it by one-hot vectors.",
    exactness="same",
    source="arithmetic: equal for indices within the range (a Gather refuses others, a OneHot gives zeros)",
    find=one_hot,
    code=_one_hot_code,
)


# Upsampling before a 1x1 convolution.


#: Ways of interpolating whose weights sum up to one, so that they and a 1x1 convolution may change places.
_MODES = frozenset({"nearest", "linear", "bilinear", "cubic"})


def upsampling(subject: Subject) -> Iterator[Change]:
    """A Resize to larger extents whose result a 1x1 convolution alone takes."""
    for position, node in subject.live("Resize", "Upsample"):
        source, large = node.input(0), node.output()
        mode = node.attrs.get("mode", "nearest")
        crop = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        taker = subject.only_taker(large)
        if taker is None or mode not in _MODES or crop or not large.numel > source.numel:
            continue
        between: tuple[int, ...] = ()
        if taker[1].op.endswith("::ReorderInput"):
            between = (taker[0],)
            taker = subject.only_taker(taker[1].output())
        if taker is None or not _is_pointwise(taker[1]) or source.dims[:2] != large.dims[:2]:
            continue
        product = taker[1]
        if mode != "nearest" and product.attrs.get("activation"):
            continue
        end = product.output()
        shape = (*end.dims[:2], *source.dims[2:])
        small = Tensor(f"{end.name}.small", shape, end.dtype)
        inputs = (source, *product.inputs[1:])
        attributes = dict(product.attrs)
        first = Node(product.op, product.name, inputs, (small,), attributes, version=product.version)
        resized, values = _resized(node, end)
        second = Node(
            node.op, node.name, (small, *resized), (end,), node.attrs, version=node.version, invocation=node.invocation
        )
        factor = large.numel // source.numel
        text = f"the convolution runs on {factor} times the positions that differ"
        yield Change((position, *between, taker[0]), text, (first, second), values=values, fixed=_sizes(node))


def _sizes(node: Node) -> tuple[str, ...]:
    """Name of the tensor that says the sizes of the result; () where it takes scales."""
    return (node.input(3).name,) if node.has_input(3) else ()


def _resized(node: Node, end: Tensor) -> tuple[tuple[Tensor | None, ...], Callable[[object], dict[str, Any]] | None]:
    """Inputs of a Resize beside its tensor, and elements of new stored ones: its sizes, with other channels."""
    rest = node.inputs[1:]
    if not node.has_input(3) or node.input(3).dims[0] != len(end.dims):
        return rest, None
    sizes = Tensor(f"{end.name}.sizes", (len(end.dims),), "int64", "constant")

    def values(read: object) -> dict[str, object]:
        import numpy as np

        return {sizes.name: np.array(end.dims, np.int64)}

    return (*rest[:2], sizes), values


def _is_pointwise(node: Node) -> bool:
    """True for a 1x1 convolution of stride 1 without padding."""
    if bare(node.op) != "Conv" or not node.has_input(1) or set(node.input(1).dims[2:]) != {1} or node.has_input(3):
        return False
    ones = (set(node.attrs.get("strides") or (1,)), set(node.attrs.get("pads") or (0,)))
    return ones == ({1}, {0})


UPSAMPLING = Rule(
    name="upsampling",
    about="Upsample behind a 1x1 convolution, and not before it.",
    exactness="same",
    source="arithmetic: weights of interpolation sum up to one, so that the two change places; up to rounding",
    find=upsampling,
    code=lambda change: "resized(conv(x)) in place of conv(resized(x))",
)


# Scores of the vocabulary for every position, where the next token needs those of the last.


def all_logits(subject: Subject) -> Iterator[Change]:
    """The product that scores the vocabulary, against one of a single position."""
    logits = logits_of(subject.profile)
    if logits is None or logits.positions < 2 or _sees_all(subject):
        return
    node = subject.profile.rows[logits.place].node
    position = next(p for p, other in enumerate(subject.nodes) if other is node)
    source, result = node.input(0), node.output()
    if len(source.dims) != 3:
        return
    batch, _, width = source.dims
    last = Tensor(f"{source.name}.last", (batch, 1, width), source.dtype)
    scores = Tensor(result.name, (batch, 1, result.dims[-1]), result.dtype)
    after = Node(
        node.op,
        node.name,
        (last, *node.inputs[1:]),
        (scores,),
        node.attrs,
        version=node.version,
        invocation=node.invocation,
    )
    text = f"{logits.positions:,} positions are scored over {int(result.dims[-1]):,} entries; the next token needs one"
    yield Change((position,), text, (after,))


def _sees_all(subject: Subject) -> bool:
    """True for an encoder: each position sees those behind it, so that it does not generate."""
    fused = [each for each in subject.profile.rows if is_fused(each.node) and each.macs]
    unfused = [each for each in unfused_attention(subject.graph) if each.pairs]
    if not fused and not unfused:
        return False
    return all(map(_fused_beyond_causal, fused)) and all(_beyond_causal(subject, each) for each in unfused)


def _fused_beyond_causal(attention: Row) -> bool:
    """True where a mask leaves more pairs than a causal one does."""
    queries = int(attention.node.input(0).dims[-2])
    return 2 * queries * (attention.needed_macs or 0) > (queries + 1) * (attention.macs or 0)


def _beyond_causal(subject: Subject, attention: Unfused) -> bool:
    """The same of an attention operator by operator; a mask that follows from positions counts as causal."""
    queries = int(subject.nodes[attention.scores[0]].output().dims[-2])
    used = pairs_used(subject, attention)
    causal = attention.causal is not None and relates_positions(subject, attention)
    return not causal and 2 * queries * used > (queries + 1) * attention.pairs


ALL_LOGITS = Rule(
    name="all-logits",
    about="Score the vocabulary for the last position alone, where the model generates.",
    exactness="same",
    source="arithmetic: of generation; training and perplexity need all positions. transformers: logits_to_keep",
    find=all_logits,
    code=lambda change: "head(hidden[:, -1:]) in place of head(hidden)[:, -1:]",
    trained=False,
)


# Pairs of a query and a key that are multiplied, and then masked.


def masked_attention(subject: Subject) -> Iterator[Change]:
    """Attentions operator by operator under a stored mask."""
    macs = {id(row.node): row.macs or 0 for row in subject.profile.rows}
    for attention in unfused_attention(subject.graph):
        gone = attention.pairs - pairs_used(subject, attention)
        if gone <= 0:
            continue
        executed = sum(macs.get(id(subject.nodes[place]), 0) for place in attention.places)
        text = f"{gone:,} of {attention.pairs:,} pairs are multiplied, and then masked"
        yield Change(attention.places, text, _fused(subject, attention), vain=executed * gone // attention.pairs)


def _fused(subject: Subject, attention: Unfused) -> tuple[Node, ...]:
    """A fused attention that leaves the pairs out, where the mask is causal; () under other masks."""
    flags = masked_pairs(subject, attention)
    if flags is None or not is_causal(flags):
        return ()
    scores, sums = subject.nodes[attention.scores[0]], subject.nodes[attention.sums[-1]]
    tensors = (scores.input(0), scores.input(1), sums.input(1))
    return (Node("Attention", scores.name, tensors, sums.outputs, {"is_causal": 1}),)


def _masked_attention_code(change: Change) -> str:
    """A causal attention in PyTorch's words; "" for other masks."""
    if not change.after:
        return ""
    fused = "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    return f"{fused} in place of (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(mask, float('-inf')).softmax(-1) @ v"


MASKED_ATTENTION = Rule(
    name="masked-attention",
    about="Use a fused attention that leaves masked pairs out (is_causal, GroupQueryAttention).",
    exactness="same",
    source="arithmetic; FlashAttention (Dao et al., 2022, section 3) skips masked blocks",
    find=masked_attention,
    code=_masked_attention_code,
)


# Rows that are picked, and then cut off.


def oversized_gather(subject: Subject) -> Iterator[Change]:
    """A Gather of rows and a Slice of what it picked, against a Slice of the indices and a Gather of these rows."""
    for position, node in subject.live("Gather"):
        if node.attrs.get("axis", 0) != 0 or not node.output().resolved:
            continue
        taker, indices = subject.only_taker(node.output()), node.input(1)
        if taker is None or taker[1].op != "Slice" or not taker[1].output().resolved:
            continue
        end, rank = taker[1].output(), len(indices.dims)
        if not _cuts_rows(subject, taker[1], rank):
            continue
        rest = taker[1].inputs[1:]
        cut = Tensor(f"{indices.name}.{end.name}", end.dims[:rank], indices.dtype)
        after = (
            Node("Slice", f"{end.name}.indices", (indices, *rest), (cut,), version=taker[1].version),
            Node(
                "Gather",
                node.name,
                (node.input(0), cut),
                (end,),
                node.attrs,
                version=node.version,
                invocation=node.invocation,
            ),
        )
        text = f"{indices.numel:,} rows are picked and {cut.numel:,} are used"
        yield Change((position, taker[0]), text, after)


def _cuts_rows(subject: Subject, cut: Node, rank: int) -> bool:
    """True where a Slice cuts along axes of the indices alone, which come first."""
    parts = argument(cut, "arg1")
    if cut.origin == "aten.getitem" and isinstance(parts, tuple):
        return len(parts) <= rank and all(isinstance(part, slice) for part in parts)
    axes = subject.setting(cut.input(3)) if cut.has_input(3) else None
    return axes is not None and all(0 <= axis < rank for axis in axes)


OVERSIZED_GATHER = Rule(
    name="oversized-gather",
    about="Cut off indices before rows are picked by them, not rows behind.",
    exactness="same",
    source="arithmetic",
    find=oversized_gather,
    code=lambda change: "F.embedding(cut(indices), matrix) in place of cut(F.embedding(indices, matrix))",
)


# Tokens that are padding in every sequence of a batch.


def padding_tokens(subject: Subject) -> Iterator[Change]:
    """The whole model, against itself without the tokens that the given mask takes out of every sequence."""
    if subject.unpadded is None:
        return
    shorter = {t.name: t for t in subject.unpadded.graph.inputs}
    sizes = [(t.dims[1], shorter[t.name].dims[1]) for t in subject.graph.inputs if t.shape != shorter[t.name].shape]
    tokens, used = sizes[0]
    text = f"{tokens - used} of {tokens} tokens are padding in every sequence: cut them off"
    yield Change(tuple(range(len(subject.nodes))), text, tuple(subject.unpadded.graph.nodes))


PADDING_TOKENS = Rule(
    name="padding-tokens",
    about="Cut batches to their longest sequence (of an attention mask that is given with -i NAME:DTYPE:SHAPE:DATA).",
    exactness="same",
    source="arithmetic: what is masked reaches no token that counts",
    find=padding_tokens,
    executed=False,
    code=lambda change: "{name: tensor[:, mask.any(0)] for name, tensor in batch.items()} in place of batch",
)
