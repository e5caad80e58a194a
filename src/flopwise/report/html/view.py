"""The page on which files are dropped: the other pages stand in it as tabs, each in a frame that can reach nothing.

Who answers it is a script: ``local.js`` asks the server that has sent the page, ``worker.js`` flopwise itself, which
runs in the browser.
"""

from __future__ import annotations

from dataclasses import replace

from flopwise._results import Json
from flopwise.report.html import bound, compare, llm, model, trace
from flopwise.report.html import page as tables
from flopwise.report.html.page import Layout, page

#: The page of ``flopwise view``.
LOCAL = Layout(
    folder="view",
    sections={"view": "Results"},
    scripts="local link files options tabs start",
    styles=("view/page.css",),
    frames=(*(each.LAYOUT for each in (bound, compare, llm, model, tables, trace)), trace.COMPARISON_LAYOUT),
    allows="; connect-src 'self'",
    promise="Files stay on this machine: the page speaks with flopwise on its loopback address alone.",
)

#: The page that needs no installation; ``packaging/app.py`` puts what it loads beside it.
APP = replace(
    LOCAL,
    scripts="worker link files options tabs start",
    allows="; connect-src 'self'; worker-src 'self' blob:",
    sources="'self' 'wasm-unsafe-eval'",
    promise="Files stay on this machine: flopwise runs in the page itself, and nothing is sent anywhere.",
)


def render_view(layout: Layout, data: Json) -> str:
    """The page.

    Args:
        layout: ``LOCAL`` or ``APP``.
        data: ``tabs`` with their fields, the names of the files that are ``given`` from the start, and, from a server,
            the first number of its ``drops``.
    """
    return page(layout, "flopwise", {"promise": layout.promise, **data})
