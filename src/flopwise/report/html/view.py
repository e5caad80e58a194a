"""The page on which files are dropped: the other pages stand in it as tabs, each in a frame that can reach nothing.

Who answers it is a script: ``local.js`` asks the server that has sent the page.
"""

from __future__ import annotations

from flopwise.report.formats.json import Json
from flopwise.report.html import bound, compare, llm, model, sheet, trace, traces
from flopwise.report.html.page import Layout, page

#: The page of ``flopwise view``.
LOCAL = Layout(
    folder="view",
    sections={"view": "Results"},
    scripts="local files options tabs start",
    styles=("view/page.css",),
    frames=tuple(each.LAYOUT for each in (bound, compare, llm, model, sheet, trace, traces)),
    allows="; connect-src 'self'",
    promise="Files stay on this machine: the page speaks with flopwise on its loopback address alone.",
)


def render_view(layout: Layout, data: Json) -> str:
    """The page.

    Args:
        layout: ``LOCAL``.
        data: ``tabs`` with their fields, and the names of the files that are ``given`` from the start.
    """
    return page(layout, "flopwise", {"promise": layout.promise, **data})
