"""The sparsity of a model in one call: read it, count it, and read its weights once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from flopwise._arguments import Arguments, checked
from flopwise.answers.sparsity.asking import Order, SparsityQuery, sparsity_query
from flopwise.answers.sparsity.model import Sparsity, sparsity_of, sparsity_of_stored
from flopwise.errors import InputError, ModelError, UntrustedError
from flopwise.formats.format import ends_in
from flopwise.formats.options import TorchOptions, is_given
from flopwise.formats.sources.location import is_callable, shown
from flopwise.formats.table import format_of, in_folder, is_one_model, open_stored
from flopwise.profiles.profile import Profile


@checked
def sparsity(
    model: object,
    inputs: object = None,
    *,
    blocks: str | Iterable[str | Sequence[int]] = (),
    patterns: str | Iterable[str | Sequence[int]] = (),
    order: Order = "stored",
    tensors: Sequence[str] | None = None,
    min_size: int = 4096,
    min_ratio: float = 0.4,
    tolerance: float = 0.1,
    ranks: Iterable[int] | None = None,
    threads: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **options: object,
) -> Sparsity:
    """Zeros of a model's weights: single ones, blocks, N:M patterns, whole channels, and the MACs that they save.

    A weight is seen as a matrix: rows are outputs, columns are what an output sums over. In weights that are sparse
    enough, the largest block of zeros is searched for. The model may also be a file of tensors alone.

    Args:
        model: as in ``flopwise.profile``, or a Profile.
        inputs: as in ``flopwise.profile``.
        blocks: count zero blocks of R rows and C columns, such as "4x1" or (4, 1).
        patterns: test N:M patterns along the reduction, such as 2:4: at most N of M neighbours differ from zero.
        order: reduction of a convolution: channel before kernel position, or after it, as sparse matrix units take 2:4.
        tensors: read these weights only, without totals of MACs; default: all.
        min_size: search tensors with more elements.
        min_ratio: search tensors with a larger share of zeros.
        tolerance: how far the share of zero blocks may be below the share of zeros.
        ranks: ranks of the tensors to search; default: all from 2 on (onnx-tool: 2 and 4).
        threads: how many threads count; None: one for each core.
        progress: called with the name of each step.
        options: further arguments of ``flopwise.profile`` (``dims``, ``batch_size``, ``weights`` ...).

    Raises:
        ModelError: the model or a weight cannot be read.
        InputError: a block, a pattern or a threshold makes no sense, or a weight is not there.
    """
    if threads is not None and threads < 1:
        raise InputError(f"{threads} threads: give 1 or more")
    query = sparsity_query(blocks, patterns, min_size, min_ratio, tolerance, ranks, order)
    if isinstance(model, str | os.PathLike) and os.path.isdir(model) and not is_one_model(os.fspath(model)):
        model = in_folder(os.fspath(model))
    format = format_of(model)
    if not isinstance(model, Profile) and not format.has_graph:
        for name, value in {"inputs": inputs, **options}.items():
            if is_given(value) and name not in _ABOUT_COUNTS:
                raise InputError(f"{shown(str(model))}: holds tensors and no operators; {name} does not apply")
        result = _stored_sparsity(model, query, tensors, threads, progress, "the file holds no operators")
    else:
        try:
            profile = _profile(model, inputs, options, progress)
        except ModelError as error:
            # The net beside weights is often one for training on a database, and code is not run for its weights.
            if not isinstance(error, UntrustedError) and not ends_in(model, format.weights):
                raise
            result = _stored_sparsity(
                model, query, tensors, threads, progress, f"its operators cannot be read ({error})"
            )
        else:
            result = sparsity_of(profile, query, tensors, threads, progress)
    return result


def _stored_sparsity(
    model: object,
    query: SparsityQuery,
    tensors: Sequence[str] | None,
    threads: int | None,
    progress: Callable[[str], None],
    why: str,
) -> Sparsity:
    """The zeros of a file whose tensors alone are looked at, for a reason."""
    with open_stored(model) as stored:
        weights = [tensor for tensor in stored.tensors if tensor.role == "weight"]
        result = sparsity_of_stored(stored.model, stored.format, weights, why, query, tensors, threads, progress)
        return replace(result, notes=(*stored.notes_by_now(), *result.notes))


#: Arguments of ``profile`` that only say how operations are added up.
_ABOUT_COUNTS = frozenset({"convention", "rules", "fold"})


def _profile(model: object, inputs: object, options: Arguments, progress: Callable[[str], None]) -> Profile:
    """The profile of a model whose weights can be read."""
    from flopwise.api.profile import given_profile, profile

    if isinstance(model, Profile):
        return given_profile(model, {"inputs": inputs, **options})
    format = format_of(model)
    if not is_callable(model) or format.module is None:
        return profile(model, inputs, progress=progress, **options)
    own = TorchOptions(arguments=options.pop("arguments", None))
    module = format.module(model, own, progress, in_memory=True)  # with the elements of its weights
    result = profile(module, inputs, progress=progress, **options)
    return replace(result, graph=replace(result.graph, source=str(model)))
