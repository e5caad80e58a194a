"""What changed, in one call: models side by side, and models against a budget."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise.analyses.budget import Budget, Verdict, check_profiles, read_budget
from flopwise.analyses.budget.budget import of_mapping
from flopwise.analyses.compare import Comparison, compare_profiles
from flopwise.api import profile
from flopwise.conventions import Convention
from flopwise.errors import InputError
from flopwise.profiles.profile import Profile

if TYPE_CHECKING:
    from flopwise.operators.tables import Rule


def compare(
    *models: object,
    inputs: Any = None,
    convention: str | Convention | Sequence[str | Convention] = "flops",
    batch_size: int | Sequence[int] | None = None,
    labels: Sequence[str] | None = None,
    rules: Mapping[str, Rule] | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **others: Any,
) -> Comparison:
    """Models side by side: totals, operators and layers, with differences to the first.

    Args:
        models: two or more models in any form that :func:`flopwise.profile` takes, or profiles; or one model with
            several conventions or batch sizes.
        inputs: as in :func:`flopwise.profile`, for all models.
        convention: the convention, or several for one model.
        batch_size: first dimension of the inputs, or several for one model.
        labels: what to call what is compared; None for file names, conventions or batch sizes.
        rules: as in :func:`flopwise.profile`.
        progress: as in :func:`flopwise.profile`.
        others: further arguments of :func:`flopwise.profile`.

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
                given = {"inputs": inputs, "batch_size": size, "progress": progress, **others}
                found = profile.profile(graph, convention=chosen, rules=rules, **given)
                graph = found.graph  # read once for all conventions
                profiles.append(found)
    if labels is None and len(sizes) > 1:
        labels = [f"batch {size}" for size in sizes]
    return comparison(profiles, labels)


def comparison(profiles: Sequence[Profile], labels: Sequence[str] | None = None) -> Comparison:
    """Profiles side by side, ready to be printed.

    Raises:
        InputError: there are fewer than two, or not as many labels.
    """
    return replace(compare_profiles(profiles, labels, _comparison_as_text), html_renderer=_comparison_as_html)


def check(
    model: object,
    budget: str | os.PathLike[str] | Mapping[str, Any] | Budget,
    inputs: Any = None,
    *,
    convention: str | Convention | None = None,
    batch_size: int | None = None,
    dims: Mapping[str, int] | None = None,
    rules: Mapping[str, Rule] | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **others: Any,
) -> list[Verdict]:
    """Whether a model keeps to a budget: a verdict on each limit that is for it.

    Args:
        model: as in :func:`flopwise.profile`.
        budget: path of a TOML file, or what such a file would hold as a mapping.
        inputs: as in :func:`flopwise.profile`; None: as the budget says.
        convention: of "count"; None: as the budget says, else flops.
        batch_size: as in :func:`flopwise.profile`; None: as the budget says.
        dims: as in :func:`flopwise.profile`; None: as the budget says.
        rules: as in :func:`flopwise.profile`.
        progress: as in :func:`flopwise.profile`.
        others: further arguments of :func:`flopwise.profile`.

    Raises:
        ModelError: the model cannot be read.
        InputError: the budget is none, or has no limit for this model.
    """
    limits = budget_of(budget)
    said = limits.settings
    name = os.fspath(model) if isinstance(model, str | os.PathLike) else type(model).__name__
    chosen = limits.of(name)  # before the work
    asked = convention or said.convention or "flops"
    seen: list[Any] = [model]

    def profiled(other: str) -> Profile:
        found = profile.profile(
            seen[0],
            said.inputs if inputs is None else inputs,
            convention=other or asked,
            rules=rules,
            batch_size=said.batch_size if batch_size is None else batch_size,
            dims={**(said.dims or {}), **(dims or {})} or None,
            progress=progress,
            **others,
        )
        seen[0] = found.graph  # read once for all conventions
        return found

    return check_profiles(name, chosen, profiled)


def budget_of(budget: str | os.PathLike[str] | Mapping[str, Any] | Budget) -> Budget:
    """The budget in a file or a mapping.

    Raises:
        InputError: it is none.
    """
    if isinstance(budget, Budget):
        return budget
    return of_mapping(budget) if isinstance(budget, Mapping) else read_budget(budget)


def _comparison_as_text(comparison: Comparison) -> str:
    from flopwise.report.commands.compare import render_comparison

    return render_comparison(comparison)


def _comparison_as_html(compared: Comparison) -> str:
    from flopwise.report.viewers.notebook import comparison_html

    return comparison_html(compared)
