"""A profile as one HTML page that needs nothing else: no network, no other file.

The page is put together from the files in ``assets``: a template, a style sheet, scripts, and two kept libraries (d3
for scales, treemaps and zooming, dagre for the layout of graphs; see ``assets/README.md``). The figures are JSON in the
page. A content security policy lets the page's own scripts run, by their hashes, and nothing else: text from a model
cannot become a script, and the page cannot load or send anything. All of it is printable ASCII, other characters are
escaped, so that no encoding on its way can change a script and with it the hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from flopwise._version import __version__
from flopwise.report.html.data import page_data

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: The scripts of the page, in the order in which they run.
SCRIPTS = (
    "vendor/d3.min.js",
    "vendor/dagre.min.js",
    "common.js",
    "base.js",
    "theme.js",
    "summary.js",
    "treemap.js",
    "operators.js",
    "depth.js",
    "memory.js",
    "table.js",
    "layers.js",
    "graph.js",
    "start.js",
)

#: What could end the script element that holds the JSON, or start a comment in it.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render(profile: Profile, title: str) -> str:
    """The page of a profile."""
    return page("page.html", ("page.css",), SCRIPTS, title, page_data(profile))


def page(template: str, styles: Sequence[str], scripts: Sequence[str], title: str, data: Mapping[str, Any]) -> str:
    """A page from the files of these names in ``assets``, with the data in it."""
    code = [_escaped(asset(name), "\\u{:04x}") for name in scripts]
    parts = {
        "title": html.escape(title),
        "policy": html.escape(_policy(code)),
        "style": "\n".join(_escaped(asset(name), "\\{:x} ") for name in styles),
        "version": html.escape(__version__),
        "data": json.dumps(data, separators=(",", ":")).translate(_ESCAPES),
        "scripts": "\n".join(f"<script>{script}</script>" for script in code),
    }
    pieces = re.split(r"\[\[(\w+)\]\]", asset(template))
    whole = "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))
    return whole.encode("ascii", "xmlcharrefreplace").decode()


def _escaped(text: str, form: str) -> str:
    """The text with other characters as escapes of the form; in the assets they stand in strings and comments only."""
    return re.sub(r"[^\n\x20-\x7e]", lambda found: form.format(ord(found[0])), text)


def asset(name: str) -> str:
    """The text of a file in ``assets``."""
    return files("flopwise.report.html").joinpath(f"assets/{name}").read_text("utf-8")


def _policy(scripts: list[str]) -> str:
    """A content security policy: https://www.w3.org/TR/CSP3/."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; script-src {hashes}"
