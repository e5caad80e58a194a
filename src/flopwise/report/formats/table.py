"""A sheet as an aligned table for a terminal or a text file.

Laid out here and not by a library, because a table of 2,000 layers must come at once, and because a name is cut in its
middle and a number never.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from flopwise.report.sheet.sheet import UNICODE, Head, Line, Look, Sheet, is_gap

# Text in a terminal: how many cells it takes, how it is shortened, filled, wrapped and painted.


#: How lines and cells are set apart: ECMA-48 "select graphic rendition" codes, in the terminal's own colours.
COLORS = {"heavy": "33", "unknown": "31", "rest": "2", "dim": "2", "bold": "1"}


def paint(text: str, how: str, look: Look) -> str:
    """The text in the terminal's colour for ``how``, a key of COLORS, where colour is wanted."""
    return f"\x1b[{COLORS[how]}m{text}\x1b[0m" if look.color and how and text else text


def cells(text: str) -> int:
    """The terminal cells that the text takes: East Asian wide characters take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _start(text: str, width: int) -> str:
    """The longest beginning of the text that takes at most ``width`` cells."""
    if text.isascii():
        return text[: max(width, 0)]
    taken = 0
    for position, character in enumerate(text):
        taken += _cells(character)
        if taken > width:
            return text[:position]
    return text


def shorten(text: str, width: int, cut: str = UNICODE.cut, start: bool = True) -> str:
    """The text in at most ``width`` cells, its middle left out, or its ``start``: names differ at their ends.

    >>> shorten("/model/layers.11/mlp/down_proj/MatMul", 24)
    '/model/la…wn_proj/MatMul'
    >>> shorten("/model/layers.11/mlp/down_proj/MatMul", 24, start=False)
    '…11/mlp/down_proj/MatMul'
    """
    if cells(text) <= width:
        return text
    room = width - len(cut)
    if room < 2:
        return _start(text, width)
    head = room * 2 // 5 if start else 0
    return _start(text, head) + cut + _start(text[::-1], room - head)[::-1]


def pad(text: str, width: int, right: bool = False) -> str:
    """The text filled with spaces to ``width`` cells; a longer text stays as it is."""
    space = " " * (width - cells(text))
    return space + text if right else text + space


def widest(rows: Iterable[Sequence[str]]) -> list[int]:
    """The cells that each column of a table takes; [] without rows."""
    return [max(map(cells, column)) for column in zip(*rows, strict=True)]


def aligned(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool], cut: str | None = None) -> list[str]:
    """A line's texts, each filled to the width of its column.

    Args:
        texts: one for each column.
        widths: of the columns, in cells.
        right: for each column whether its texts stand at the right; those are never shortened.
        cut: what stands for the middle of a text that is too long; None to leave it whole.
    """
    return [
        pad(text if at_right or cut is None else shorten(text, width, cut), width, at_right)
        for text, width, at_right in zip(texts, widths, right, strict=True)
    ]


def wrap(text: str, width: int | None, indent: str = "  ") -> Iterator[str]:
    """The text in lines of at most ``width`` cells, the second and later ones indented."""
    if width is None or cells(text) <= width:
        yield text
        return
    line, lead = "", ""
    for word in text.split(" "):
        if line and cells(lead) + cells(line) + 1 + cells(word) <= width:
            line += " " + word
            continue
        if line:
            yield lead + line
            lead = indent
        while cells(word) > max(width - len(lead), 2):  # a word of several lines
            part = _start(word, max(width - len(lead), 2))
            yield lead + part
            word, lead = word[len(part) :], indent
        line = word
    yield lead + line


#: In the short form of a figure: the same in another unit.
CONVERTED = " = "

#: Spaces between two columns.
GAP = "  "

#: A column of text is shortened to this at most while columns of little importance are still there, and then to that.
EASY, TIGHT = 28, 10

#: A column of sentences, which are broken into lines and never cut, is not narrower than this.
PROSE = 24

#: Columns up to this rank are kept while their names can still be shortened.
CORE = 5

#: Columns above this rank give way to names even where names are to be shortened first.
SPARE = 9

#: So many columns that are left out are named; of more, how many there are is said.
LOST = 12

#: Without a terminal, a longer name pushes its own line to the right and not the whole column.
LONGEST = 100


def render_sheet(sheet: Sheet, look: Look) -> str:
    """The table: what it is about, the lines, the total, the figures of the whole model, and the notes."""
    above = _about(sheet, look) if look.header else []
    blocks = [above, _grid(sheet, look) if sheet.heads else [], _summary(sheet, look), _below(sheet, look)]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _about(sheet: Sheet, look: Look) -> list[str]:
    """The parts on one line, or broken between parts; the first, which may be a long path, is shortened."""
    lines: list[str] = []
    row: list[str] = []
    used, gap = 0, cells(look.glyphs.dot)
    for part in (*(shorten(p, look.width or cells(p), look.glyphs.cut) for p in sheet.about[:1]), *sheet.about[1:]):
        width = cells(part)
        if row and look.width is not None and used + gap + width > look.width:
            lines.append(look.glyphs.dot.join(row))
            row, used = [f"  {part}"], width + 2
        else:
            used += gap + width if row else width
            row.append(part)
    lines += [look.glyphs.dot.join(row)] if row else []
    lines[:0] = [sheet.verdict] if sheet.verdict else []
    return [paint(piece, "bold", look) for line in lines for piece in wrap(line, look.width)]


def _grid(sheet: Sheet, look: Look) -> list[str]:
    """Titles, lines and the total between rules."""
    heads, body = sheet.heads, [*sheet.lines, *([sheet.total] if sheet.total else [])]
    indents = [_indent(line.indent, look) for line in body]
    rows = _rows(sheet, body, indents, look)
    natural = widest([[head.title for head in heads], *rows])
    widths = fit(heads, natural, _least(sheet, body, rows, indents), look.width, sheet.squeeze)
    _shorten_names(heads, rows, indents, widths, look)
    shown = [heads[i] for i in widths]
    columns = _Columns([*widths.values()], [head.right for head in shown], [head.prose for head in shown], look)
    rule = paint(look.glyphs.rule * (sum(widths.values()) + len(GAP) * (len(widths) - 1)), "dim", look)
    titles = GAP.join(columns.placed([head.title for head in shown]))
    lines = [paint(titles.rstrip(), "bold", look), rule] if look.header else []
    for line, row in zip(body, rows, strict=True):
        lines += [rule] if line is sheet.total else []
        lines += columns.lines([row[i] for i in widths], "bold" if line is sheet.total else line.mark)
    return [*lines, *_lost(sheet, widths, look)]


def _rows(sheet: Sheet, body: Sequence[Line], indents: Sequence[str], look: Look) -> list[list[str]]:
    """The texts of the lines, names with their indents and in their short form."""
    rows, name = [sheet.texts(line, look) for line in body], _index(sheet.heads, "name")
    if name is not None:
        for row, line, indent in zip(rows, body, indents, strict=True):
            row[name] = indent + (look.text(line.short) or row[name])
    return rows


def _index(heads: Sequence[Head], *keys: str) -> int | None:
    """The first column with one of these keys."""
    return next((i for i, head in enumerate(heads) if head.key in keys), None)


def _least(sheet: Sheet, body: Sequence[Line], rows: Sequence[Sequence[str]], indents: Sequence[str]) -> dict[int, int]:
    """The least width of each column of text: names keep their indents, and lines that stand for others stay whole."""
    least, name = {i: PROSE if head.prose else TIGHT for i, head in enumerate(sheet.heads)}, _index(sheet.heads, "name")
    if name is not None:
        labels = (cells(row[name]) for row, line in zip(rows, body, strict=True) if line.mark == "rest")
        least[name] = max([TIGHT, *(cells(indent) + TIGHT for indent in {*indents}), *labels])
    return least


class _Columns(NamedTuple):
    """The columns of a table: widths in cells, where the texts stand, and whether they are sentences."""

    widths: Sequence[int]
    right: Sequence[bool]
    prose: Sequence[bool]
    look: Look

    def placed(self, texts: Sequence[str]) -> list[str]:
        """The texts of a line, filled to the widths of their columns."""
        cut = None if self.look.width is None else self.look.glyphs.cut
        return aligned(texts, self.widths, self.right, cut)

    def lines(self, texts: Sequence[str], how: str) -> Iterable[str]:
        """A line, painted, and below it what does not fit of its sentences.

        Zeros are pale where colour allows and the line has none of its own, to let the other figures stand out.
        """
        for piece in self._broken(texts):
            placed = self.placed(piece)
            if self.look.color and not how:
                zeros = [right and text in ("0", "0.0") for text, right in zip(piece, self.right, strict=True)]
                pairs = zip(placed, zeros, strict=True)
                placed = [paint(text, "dim", self.look) if zero else text for text, zero in pairs]
            yield paint(GAP.join(placed).rstrip(), how, self.look)

    def _broken(self, texts: Sequence[str]) -> Iterable[Sequence[str]]:
        if self.look.width is None or not any(self.prose):
            return [texts]
        cells = zip(texts, self.widths, self.prose, strict=True)
        return zip_longest(
            *([*wrap(text, width, "")] if prose else [text] for text, width, prose in cells), fillvalue=""
        )


def _indent(indent: str, look: Look) -> str:
    """The indent, at most a third of the terminal: a model may nest its modules very deeply."""
    if not indent or look.width is None or cells(indent) <= look.width // 3:
        return indent
    return look.glyphs.cut + indent[-(look.width // 3) :]


def _shorten_names(
    heads: Sequence[Head], rows: Sequence[list[str]], indents: Sequence[str], widths: Mapping[int, int], look: Look
) -> None:
    """Shorten the names that are wider than their column, but for sentences.

    A layer's operator at the end of its name is dropped first where it has its own column. A name is cut in its middle
    if that distinguishes as many lines as if its start is cut.

    Args:
        heads: the columns.
        rows: the texts of each line.
        indents: the first characters of each name, which are kept.
        widths: of the columns that are shown, in cells.
        look: how the table should look.
    """
    name, op = _index(heads, "name"), next((i for i in widths if heads[i].key in ("kind", "op", "type")), None)
    if look.width is None or name is None or name not in widths or heads[name].prose:
        return
    width = widths[name]
    if max((cells(row[name]) for row in rows), default=0) <= width:
        return

    def shortened(text: str, kind: str, room: int, start: bool) -> str:
        if kind and cells(text) > room and text.endswith("/" + kind):
            text = text[: -len(kind)] + look.glyphs.cut
        return shorten(text, room, look.glyphs.cut, start)

    kinds = ["" if op is None else row[op] for row in rows]
    pairs = {(row[name], kind) for row, kind in zip(rows, kinds, strict=True)}
    middle, end = (len({shortened(text, kind, width, start) for text, kind in pairs}) for start in (True, False))
    for row, indent, kind in zip(rows, indents, kinds, strict=True):
        room = width - cells(indent)
        row[name] = indent + shortened(row[name][len(indent) :], kind, room, middle >= end)


def fit(
    heads: Sequence[Head], natural: Sequence[int], least: dict[int, int], width: int | None, squeeze: bool = False
) -> dict[int, int]:
    """Index -> width of the columns that are shown, so that a line fits.

    Numbers and shapes keep their width; names give way, then columns do, those of the highest rank first.

    Args:
        heads: the columns.
        natural: how wide each would be.
        least: how wide a column of text must be.
        width: of the terminal; None keeps all.
        squeeze: whether names give way entirely before any column does, but for those above SPARE.
    """
    if width is None:
        return {i: w if heads[i].right else min(w, LONGEST) for i, w in enumerate(natural)}
    shown = list(range(len(heads)))

    def floors(text: int) -> dict[int, int]:
        return {i: min(natural[i], max(text, least[i])) if heads[i].kind == "text" else natural[i] for i in shown}

    def free(widths: dict[int, int]) -> int:
        return width - sum(widths.values()) - len(GAP) * (len(widths) - 1)

    for text, core in ((EASY, SPARE if squeeze else CORE), (TIGHT, 0)):
        while len(shown) > 1 and free(floors(text)) < 0:
            last = max(shown, key=lambda i: (heads[i].rank, i))
            if heads[last].rank <= core:
                break
            shown.remove(last)
    widths = floors(TIGHT)
    room, growing = free(widths), [i for i in shown if widths[i] < natural[i]]
    while room > 0 and growing:  # the narrowest grows first, so that short names are whole soon
        narrowest = min(growing, key=widths.__getitem__)
        widths[narrowest] += 1
        room -= 1
        growing = [i for i in growing if widths[i] < natural[i]]
    return widths if room >= 0 else {i: min(w, width) for i, w in widths.items()}


def _lost(sheet: Sheet, widths: Collection[int], look: Look) -> Iterator[str]:
    """A remark on the columns that are left out for want of width."""
    titles = list(dict.fromkeys(head.alone or head.title for i, head in enumerate(sheet.heads) if i not in widths))
    if titles:
        number = f"{len(sheet.heads) - len(widths)} of {len(sheet.heads)} columns"
        lost = ", ".join(titles) if len(titles) <= LOST else number
        yield from wrap(f"left out at this width: {lost} (-o FILE has all)", look.width)


def _summary(sheet: Sheet, look: Look) -> list[str]:
    """Each figure of the whole model, with every digit and, where there is room, in short."""
    widths = widest([(f.title, f.exact) for f in sheet.summary])
    exact = [GAP.join(aligned((f.title, f.exact), widths, (False, True))) for f in sheet.summary]
    # the short form where it says more, or less
    brief = ["" if f.short in (f.exact, f"{f.exact} B") else f.short for f in sheet.summary]
    both = [f"{line}{GAP}{short}".rstrip() for line, short in zip(exact, brief, strict=True)]
    if look.width is None or max(map(cells, both), default=0) <= look.width:
        return both
    lines: list[str] = []
    for line, complete, f in zip(exact, both, sheet.summary, strict=True):
        if CONVERTED not in f.short:
            lines.append(line)
        elif cells(complete) <= look.width:
            lines.append(complete)
        else:  # without it the figure could not be compared with those beside it
            lines += [line, *wrap(f"  {f.short}", look.width, "    ")]
    return lines


def _below(sheet: Sheet, look: Look) -> list[str]:
    lines = [(note, "unknown") if is_gap(note) else (f"note: {note}", "") for note in sheet.notes]
    if sheet.hint and look.width is not None:
        lines.append((sheet.hint, "dim"))
    return [paint(piece, how, look) for note, how in lines for piece in wrap(note, look.width)]
