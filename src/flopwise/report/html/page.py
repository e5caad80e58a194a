"""HTML pages: each is one file that needs no network and no other file.

The head, the bar and the foot of all pages are ``assets/skeleton.html``. A ``Layout`` says what a kind of page adds:
the sections of its bar, its own controls, style sheets and scripts, and ``main.html`` with its sections, which may
include what several pages have (``figures.html``: the figures of a report, and its notes). Two kept
libraries draw (d3 for scales, treemaps and zooming, dagre for the layout of graphs; see ``assets/README.md``). The
figures are JSON in the page. A content security policy lets the page's own scripts run, by their hashes, and nothing
else: text from a model cannot become a script, and the page cannot load or send anything. All of it is printable
ASCII, other characters are escaped, so that no encoding on its way can change a script and with it the hash.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise._version import __version__
from flopwise.analyses.timing.catalog import devices
from flopwise.analyses.timing.device import arithmetic, fastest

if TYPE_CHECKING:
    from flopwise.report.sheet.sheet import Line, Look, Sheet
if TYPE_CHECKING:
    from flopwise._results import Json
    from flopwise.graph import Graph

#: What could end the script element that holds the JSON, or start a comment in it.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

#: Scripts that several kinds of pages draw with.
SHARED = ("modules", "flame", "roofline", "waterfall", "table")

_D3 = 'Charts with <a href="https://d3js.org">d3</a> (ISC)'
_DAGRE = 'graph layout with <a href="https://github.com/dagrejs/dagre">dagre</a> (MIT)'


@dataclass(frozen=True)
class Layout:
    """The parts that a kind of page adds to the skeleton; files are named relative to ``assets``."""

    #: The folder with ``main.html`` and, where the bar has controls beside the theme, ``controls.html``.
    folder: str
    #: Id of a section -> its link in the bar; the first link of the keyboard skips to the last of them.
    sections: Mapping[str, str]
    #: Names of the scripts in its folder, after those of every page, and of those in SHARED.
    scripts: str
    #: Its own style sheets, after ``page.css``.
    styles: Sequence[str] = ()
    #: Whether it lays out a graph.
    graph: bool = False
    controls: bool = False
    #: The pages that it shows in frames, which its policy holds for, too.
    frames: Sequence[Layout] = ()
    #: Where else its scripts may come from.
    sources: str = ""
    #: What its policy allows beside scripts, and its foot says of that.
    allows: str = ""
    promise: str = "The page holds all its data and loads nothing."

    @property
    def all_scripts(self) -> tuple[str, ...]:
        """Names of all scripts in the order in which they run; the last one marks the page as ready."""
        dagre = ("vendor/dagre.min.js",) if self.graph else ()
        own = (f"{name}.js" if name in SHARED else f"{self.folder}/{name}.js" for name in self.scripts.split())
        report = () if self.frames else ("framed.js", "state.js", "save.js")
        return ("vendor/d3.min.js", *dagre, "common.js", "theme.js", *own, *report, "ready.js")


def page(layout: Layout, title: str, data: Json) -> str:
    """A page of a kind, with its title and the data that its scripts draw."""
    code = _code(layout)
    last = list(layout.sections)[-1]
    parts = {
        "title": html.escape(title),
        "policy": html.escape(_policy(layout)),
        "style": "\n".join(_escaped(asset(name), "\\{:x} ") for name in ("page.css", *layout.styles)),
        "version": html.escape(__version__),
        "last": last,
        "last_title": layout.sections[last].lower(),
        "links": "".join(f'<a href="#{key}">{name}</a>' for key, name in layout.sections.items()),
        "controls": asset(f"{layout.folder}/controls.html") if layout.controls else "",
        "main": re.sub(r"\[\[include (\S+)\]\]\n", lambda match: asset(match[1]), asset(f"{layout.folder}/main.html")),
        "promise": layout.promise,
        "libraries": f"{_D3}, {_DAGRE}." if layout.graph else f"{_D3}.",
        "data": json.dumps(data, separators=(",", ":")).translate(_ESCAPES),
        "scripts": "\n".join(f"<script>{script}</script>" for script in code),
    }
    pieces = re.split(r"\[\[(\w+)\]\]", asset("skeleton.html"))
    text = "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))
    return text.encode("ascii", "xmlcharrefreplace").decode()


@functools.cache
def asset(name: str) -> str:
    """The text of a file in ``assets``."""
    return files("flopwise.report.html").joinpath(f"assets/{name}").read_text("utf-8")


@functools.cache
def _escaped(text: str, form: str) -> str:
    """The text with other characters as escapes of the form; in the assets they stand in strings and comments only."""
    return re.sub(r"[^\n\x20-\x7e]", lambda match: form.format(ord(match[0])), text)


def _code(layout: Layout) -> list[str]:
    """The scripts of a kind of page."""
    return [_escaped(asset(name), "\\u{:04x}") for name in layout.all_scripts]


def _policy(layout: Layout) -> str:
    """A content security policy: https://www.w3.org/TR/CSP3/."""
    scripts = dict.fromkeys(script for each in (layout, *layout.frames) for script in _code(each))
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; script-src {hashes}"
    return f"{policy} {layout.sources}".rstrip() + layout.allows


# A report of tables as one HTML page: they sort and filter; figures and notes stand above and below them.


LAYOUT = Layout(
    folder="sheet",
    sections={"summary": "Summary", "tables": "Tables"},
    scripts="tables",
    styles=("bound/page.css", "sheet/page.css"),
)


def render_sheets(sheets: Sequence[Sheet], look: Look) -> str:
    """The page of a report's sheets, one below the other."""
    look = look._replace(width=None)
    about = next((sheet.about for sheet in sheets if sheet.about), ("report",))
    data = {"title": about[0], "sheets": [_sheet(sheet, look) for sheet in sheets]}
    return page(LAYOUT, f"{about[0]} – flopwise", data)


def _sheet(sheet: Sheet, look: Look) -> Json:
    """A sheet as texts; numbers stand at the right."""

    def cells(line: Line) -> list[str]:
        return sheet.texts(line, look)

    return {
        **fields(sheet, "verdict about summary"),
        "heads": [[head.title, head.right, head.prose] for head in sheet.heads],
        "lines": [[cells(line), line.mark, len(line.indent)] for line in sheet.lines],
        "total": cells(sheet.total) if sheet.total else None,
        "notes": sheet.notes,
    }


# Devices to choose on a chart of arithmetic intensity: peak arithmetic and memory bandwidth of each.


def ridges(graph: Graph) -> Json:
    """The element type of most weight bytes, and the devices that compute it: name, FLOP/s, bytes/s, type used."""
    dtype = weight_type(graph)
    return {"dtype": dtype, "devices": [list(device) for device in _ridges(dtype)]}


def weight_type(graph: Graph) -> str:
    """The element type that most bytes of the weights have; without weights that of an input; else float32."""
    nbytes: Counter[str] = Counter()
    for tensor in {id(t): t for node in graph.nodes for t in node.known_inputs if t.kind == "weight"}.values():
        nbytes[tensor.dtype or "float32"] += tensor.nbytes or 0
    inputs = [t.dtype for t in graph.inputs if t.dtype and "float" in t.dtype]
    return nbytes.most_common(1)[0][0] if nbytes else inputs[0] if inputs else "float32"


@functools.cache
def _ridges(dtype: str) -> tuple[tuple[str, float, float, str], ...]:
    """Name, FLOP/s, bytes/s and type of arithmetic of each device that has a figure of both."""
    pairs = [(d, fastest(d, arithmetic((dtype,))), d.bandwidth("dram", None, True)) for d in devices()]
    return tuple(
        (d.name, peak.value, memory.value, peak.dtype or dtype) for d, peak, memory in pairs if peak and memory
    )
