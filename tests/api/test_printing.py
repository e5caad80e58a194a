"""Every result that is printed has its report, and every notebook's table its function."""

from __future__ import annotations

from importlib import import_module

import pytest

from flopwise.api import NOTEBOOK, REPORTS
from flopwise.report.viewers import notebook


@pytest.mark.parametrize("result", REPORTS)
def test_the_report_of_a_result_is_there(result: str) -> None:
    module, function = REPORTS[result]
    assert callable(getattr(import_module(f"flopwise.report.commands.{module}"), function))


def test_notebooks_have_a_function_for_each_result() -> None:
    assert all(callable(getattr(notebook, function)) for function in NOTEBOOK.values())
    assert NOTEBOOK.keys() <= REPORTS.keys()
