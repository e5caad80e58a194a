"""``flopwise.compare``: models side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise.analyses.compare.comparison import Comparison, compare_profiles
from flopwise.api import profile
from flopwise.conventions import Convention
from flopwise.errors import InputError
from flopwise.profiles.profile import Profile

if TYPE_CHECKING:
    from flopwise.operators.own import Rules


def compare(
    *models: object,
    inputs: Any = None,
    convention: str | Convention | Sequence[str | Convention] = "flops",
    batch_size: int | Sequence[int] | None = None,
    labels: Sequence[str] | None = None,
    rules: Rules | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **others: Any,
) -> Comparison:
    """Models side by side: totals, operators and layers, with differences to the first.

    Args:
        models: two or more models in any form that ``flopwise.profile`` takes, or profiles; or one model with
            several conventions or batch sizes.
        inputs: as in ``flopwise.profile``, for all models.
        convention: the convention, or several for one model.
        batch_size: first dimension of the inputs, or several for one model.
        labels: what to call what is compared; None for file names, conventions or batch sizes.
        rules: as in ``flopwise.profile``.
        progress: as in ``flopwise.profile``.
        others: further arguments of ``flopwise.profile``.

    Raises:
        ModelError: a model cannot be read.
        InputError: there is nothing to compare, or more than one thing differs.
    """
    used = [convention] if isinstance(convention, str | Convention) else list(convention)
    sizes = [batch_size] if batch_size is None or isinstance(batch_size, int) else list(batch_size)
    if sum(len(several) > 1 for several in (models, used, sizes)) > 1:
        raise InputError("one thing at a time: several models, or one model with several conventions or batch sizes")
    profiles: list[Profile] = []
    for model in models:
        for size in sizes:
            if isinstance(model, Profile):
                profiles.append(model)
                continue
            graph: Any = model
            for chosen in used:
                arguments = {"inputs": inputs, "batch_size": size, "progress": progress, **others}
                result = profile.profile(graph, convention=chosen, rules=rules, **arguments)
                graph = result.graph  # read once for all conventions
                profiles.append(result)
    if labels is None and len(sizes) > 1:
        labels = [f"batch {size}" for size in sizes]
    return comparison(profiles, labels)


def comparison(profiles: Sequence[Profile], labels: Sequence[str] | None = None) -> Comparison:
    """Profiles side by side, ready to be printed.

    Raises:
        InputError: there are fewer than two, or not as many labels.
    """
    return replace(compare_profiles(profiles, labels, _comparison_as_text), html_renderer=_comparison_as_html)


def _comparison_as_text(comparison: Comparison) -> str:
    from flopwise.report.commands.compare import comparison_report
    from flopwise.report.report import as_text

    return as_text(comparison_report(comparison))


def _comparison_as_html(compared: Comparison) -> str:
    from flopwise.report.viewers.notebook import comparison_html

    return comparison_html(compared)
