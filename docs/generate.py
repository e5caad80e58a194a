"""Write the generated pages of docs/reference/ from the tables that count; with --check, say if they are stale."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from advice import advice_page
from engines import engines_page
from listings import listings
from measured import measured_page
from pages import conventions_page, formats_page, gradients_page, json_page, operators_page
from published import published_page, source_page

from flopwise.analyses.zoo.published.figures import sources

HERE = Path(__file__).parent / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "operators.md": operators_page,
    "conventions.md": conventions_page,
    "gradients.md": gradients_page,
    "formats.md": formats_page,
    "json.md": json_page,
    "published.md": published_page,
    **{f"published/{source.name}.md": partial(source_page, source) for source in sources().values()},
    "measured.md": measured_page,
    "engines.md": engines_page,
    "advice.md": advice_page,
    **listings(),
}


def main() -> int:
    stale = [name for name, page in PAGES.items() if not _current(HERE / name, page())]
    if "--check" in sys.argv:
        for name in stale:
            print(f"docs/reference/{name} is stale: run python docs/generate.py", file=sys.stderr)
        return int(bool(stale))
    for name in stale:
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"wrote docs/reference/{name}")
    return 0


def _current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    raise SystemExit(main())
