"""``flopwise.compare``: models side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flopwise._arguments import Arguments, checked
from flopwise.analyses.compare.comparison import Comparison, compare_profiles
from flopwise.api import profile
from flopwise.conventions import Convention
from flopwise.errors import InputError
from flopwise.operators.own import Rules
from flopwise.profiles.profile import Profile


@checked
def compare(
    *models: object,
    inputs: object = None,
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
    if not (models and used and sizes):
        raise InputError("nothing to compare: give models, conventions or batch sizes")
    if sum(len(several) > 1 for several in (models, used, sizes)) > 1:
        raise InputError("one thing at a time: several models, or one model with several conventions or batch sizes")
    profiles: list[Profile] = []
    for model in models:
        for size in sizes:
            reading: Arguments = {"inputs": inputs, "batch_size": size, **others}
            if isinstance(model, Profile):
                counted = {"rules": rules, "convention": None if used == ["flops"] else convention}
                profiles.append(profile.given_profile(model, {**reading, **counted}))
                continue
            first = profile.profile(model, convention=used[0], rules=rules, progress=progress, **reading)
            counting = {name: value for name, value in others.items() if name in profile.COUNTING}
            profiles.append(first)
            profiles += [  # read once for all conventions
                profile.profile(first.graph, convention=other, rules=rules, progress=progress, **counting)
                for other in used[1:]
            ]
    if labels is None and len(sizes) > 1:
        labels = [f"batch {size}" for size in sizes]
    return comparison(profiles, labels)


def comparison(profiles: Sequence[Profile], labels: Sequence[str] | None = None) -> Comparison:
    """Profiles side by side, ready to be printed.

    Raises:
        InputError: there are fewer than two, or not as many labels.
    """
    return compare_profiles(profiles, labels)
