"""``flopwise.check``: a model against a budget."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from flopwise._arguments import Arguments, checked
from flopwise.analyses.budget import THOUSAND, Budget, Limit, Verdict, budget_from_mapping, check_profiles, read_budget
from flopwise.api import profile
from flopwise.conventions import Convention
from flopwise.graph import Graph
from flopwise.operators.own import Rules
from flopwise.profiles.profile import Profile


@checked
def check(
    model: object,
    budget: str | os.PathLike[str] | Mapping[str, object] | Budget,
    inputs: object = None,
    *,
    convention: str | Convention | None = None,
    batch_size: int | None = None,
    dims: Mapping[str, int] | None = None,
    rules: Rules | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **others: Any,
) -> list[Verdict]:
    """The verdict on each limit of a budget that applies to a model.

    Args:
        model: as in ``flopwise.profile``.
        budget: path of a TOML file, or what such a file would hold as a mapping.
        inputs: as in ``flopwise.profile``; None: as the budget says.
        convention: of "count"; None: as the budget says, else flops.
        batch_size: as in ``flopwise.profile``; None: as the budget says.
        dims: as in ``flopwise.profile``; None: as the budget says.
        rules: as in ``flopwise.profile``.
        progress: as in ``flopwise.profile``.
        others: further arguments of ``flopwise.profile``.

    Raises:
        ModelError: the model cannot be read.
        InputError: the budget cannot be read, or has no limit for this model.
    """
    limits = budget_of(budget)
    settings = limits.settings
    name = os.fspath(model) if isinstance(model, str | os.PathLike) else type(model).__name__
    chosen = limits.for_model(name)  # before the work
    default = convention or settings.convention or "flops"
    reading: Arguments = {
        "inputs": settings.inputs if inputs is None else inputs,
        "batch_size": settings.batch_size if batch_size is None else batch_size,
        "dims": {**(settings.dims or {}), **(dims or {})} or None,
        **others,
    }
    graphs: list[Graph] = []

    def profiled(other: str) -> Profile:
        arguments: Arguments = {"convention": other or default, "rules": rules, "progress": progress}
        if graphs:  # read once for all conventions
            counting = {name: value for name, value in others.items() if name in profile.COUNTING}
            return profile.profile(graphs[0], **arguments, **counting)
        result = profile.profile(model, **arguments, **reading)
        graphs.append(result.graph)
        return result

    return check_profiles(name, chosen, profiled, _time)


def _time(limit: Limit, counted: Profile) -> tuple[int | None, bool]:
    """The value of a figure of time: rooflines on a device in µs, or measured time over the engine's floor in ‰."""
    from flopwise.api.bound import bound

    if limit.device:
        floor = bound(counted, device=limit.device)
        return math.ceil(floor.roofline_ns / 1e3), all(row.status != "unknown" for row in floor.rows)
    engine = bound(counted).engine
    if engine is None or engine.measured_ns is None or not engine.hot_ns:
        return None, True
    return math.ceil(THOUSAND * engine.measured_ns / engine.hot_ns), engine.complete


def budget_of(budget: str | os.PathLike[str] | Mapping[str, object] | Budget) -> Budget:
    """The budget in a file or a mapping.

    Raises:
        InputError: it is not a budget.
    """
    if isinstance(budget, Budget):
        return budget
    return budget_from_mapping(budget) if isinstance(budget, Mapping) else read_budget(budget)
