"""Budgets in pytest: the fixture and marker ``flopwise_budget``, and the option ``--flopwise-update``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from flopwise.analyses.budget import Verdict

#: The budget of a test that names none, beside the configuration of pytest.
BUDGET = "budget.toml"

Check = Callable[..., "Sequence[Verdict]"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes budgets instead of checking them."""
    group = parser.getgroup("flopwise")
    group.addoption(
        "--flopwise-update", action="store_true", help="write today's figures into the budgets of flopwise_budget"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "flopwise_budget(budget=None, **limits): the budget that the fixture flopwise_budget checks models against: "
        'a TOML file, or limits such as params="25.6 M"',
    )


@pytest.fixture
def flopwise_budget(request: pytest.FixtureRequest) -> Check:
    """A function that fails the test when a model breaks its budget.

    ``flopwise_budget(model, budget=None, **limits)``: the model and further keyword arguments are those of
    ``flopwise.check``; limits are keys of [model] in a budget. Without limits and without a budget, those of the
    marker count, and else the file budget.toml in the root directory of pytest.
    """
    marker = request.node.get_closest_marker("flopwise_budget")
    config = request.config

    def check(model: object, budget: Any = None, **options: object) -> Sequence[Verdict]:
        from flopwise.analyses.budget import FIGURES
        from flopwise.analyses.quantities import ALIASES
        from flopwise.errors import FlopwiseError

        limits = {key: options.pop(key) for key in list(options) if key in FIGURES or key in ALIASES}
        if budget is None and not limits and marker is not None:
            budget, limits = next(iter(marker.args), marker.kwargs.get("budget")), _without(marker.kwargs, "budget")
        if budget is not None and limits:
            raise pytest.UsageError("flopwise_budget takes a budget or limits, not both")
        path = None if limits or isinstance(budget, dict) else os.path.join(config.rootpath, budget or BUDGET)
        _check_names(options)
        try:
            return _checked(model, path or budget or {"model": limits}, options, config.getoption("--flopwise-update"))
        except FlopwiseError as error:
            message = str(error)
        pytest.fail(message.replace("--update", "pytest --flopwise-update"), pytrace=False)

    return check


def _check_names(options: dict[str, Any]) -> None:
    """Fail the test unless all arguments are limits or arguments of ``flopwise.check``."""
    import inspect

    import flopwise
    from flopwise.analyses.budget import FIGURES
    from flopwise.analyses.quantities import ALIASES
    from flopwise.errors import did_you_mean
    from flopwise.formats.options import OWNERS

    functions = (flopwise.check, flopwise.profile)
    arguments = {*OWNERS, *(name for function in functions for name in inspect.signature(function).parameters)}
    for key in options:
        if key not in arguments:
            hint = did_you_mean(key, [*FIGURES, *ALIASES, *sorted(arguments)])
            pytest.fail(f"flopwise_budget: no limit and no argument {key!r}{hint}", pytrace=False)


def _without(limits: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in limits.items() if name != key}


def _checked(model: object, budget: Any, options: dict[str, Any], update: bool) -> Sequence[Verdict]:
    """The verdicts; the test fails when one is broken.

    Raises:
        FlopwiseError: the model cannot be read, or the budget makes no sense.
    """
    from flopwise.api.check import check
    from flopwise.report.commands.check import verdicts_report
    from flopwise.report.report import as_text

    if update and isinstance(budget, str) and not os.path.exists(budget):
        _make(budget, model, options)
    verdicts = check(model, budget, **options)
    if update and isinstance(budget, str):
        _update(budget, verdicts)
    elif any(v.broken for v in verdicts):
        pytest.fail(as_text(verdicts_report(verdicts)), pytrace=False)
    return verdicts


def _make(path: str, model: object, options: dict[str, Any]) -> None:
    """A new budget with the figures of the model."""
    import flopwise
    from flopwise.analyses.budget import new_budget
    from flopwise.cli.output import write

    write(new_budget(flopwise.profile(model, **{**options, "convention": options.get("convention") or "flops"})), path)


def _update(path: str, verdicts: Sequence[Verdict]) -> None:
    from flopwise.analyses.budget import updated
    from flopwise.cli.output import write

    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    write(updated(text, verdicts, path), path)
