"""The code blocks of README and docs, as a reader would copy them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]

#: ``<!-- not run: REASON -->`` on the line before a block.
_NOT_RUN = re.compile(r"^\s*<!-- not run: (.+?) -->\s*$")
_FENCE = re.compile(r"^(\s*)```(\S*)(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, where it stands, and why it is not run, if it is not."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def transcript(self) -> bool:
        """Commands after ``$`` with what they print."""
        return self.language in ("", "console", "text") and self.text.startswith("$ ")

    @property
    def commands(self) -> list[tuple[str, str | None]]:
        """Each command with the output that stands below it; None where none stands there."""
        if not self.transcript:
            joined = self.text.replace("\\\n", " ")
            return [(line, None) for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        commands: list[tuple[str, str | None]] = []
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            while command.endswith("\\"):
                more, _, output = output.partition("\n")
                command = f"{command.removesuffix(chr(92))} {more.strip()}"
            commands.append((command, output.rstrip() or None))
        return commands


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, those in lists and tabs too."""
    result: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    start, indent, language, reason = 0, "", "", ""
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if not start:
            start, indent, language = number, fence[1], fence[2]
            before = _NOT_RUN.match(lines[number - 2]) if number > 1 else None
            reason = before[1] if before else ""
        else:
            text = "\n".join(row.removeprefix(indent) for row in lines[start : number - 1])
            result.append(Block(page, start, language, text, reason))
            start = 0
    assert not start, f"{page}: a fence is open from line {start}"
    return result
