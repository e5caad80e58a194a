"""A sheet as an aligned table for a terminal or a text file.

Laid out here and not by a library, because a table of 2,000 layers must come at once, and because a name is cut in its
middle and a number never.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from flopwise.report.sheet.sheet import Head, Line, Look, Sheet, is_gap, show
from flopwise.report.sheet.text import cells, pad, shorten, wrap

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
FEW_LOST = 4

#: Without a terminal, a longer name pushes its own line to the right and not the whole column.
LONGEST = 100

#: How lines and cells are set apart: ECMA-48 "select graphic rendition" codes, in the terminal's own colours.
COLORS = {"heavy": "33", "unknown": "31", "rest": "2", "dim": "2", "bold": "1"}


def render_sheet(sheet: Sheet, look: Look) -> str:
    """The table: what it is about, the lines, the total, the figures of the whole model, and the notes."""
    above = _about(sheet, look) if look.header else []
    blocks = [above, _grid(sheet, look), _summary(sheet, look), _below(sheet, look)]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def paint(text: str, how: str, look: Look) -> str:
    """The text in the terminal's colour for ``how``, a key of COLORS, where colour is wanted."""
    return f"\x1b[{COLORS[how]}m{text}\x1b[0m" if look.color and how and text else text


def _about(sheet: Sheet, look: Look) -> list[str]:
    """The parts on one line, or broken between parts; the first, which may be a long path, is shortened."""
    lines: list[str] = []
    for part in (*(shorten(p, look.width or cells(p), look.glyphs.cut) for p in sheet.about[:1]), *sheet.about[1:]):
        joined = f"{lines[-1]}{look.glyphs.dot}{part}" if lines else part
        if lines and look.width is not None and cells(joined) > look.width:
            lines.append(f"  {part}")
        else:
            lines[-1:] = [joined]
    return [paint(piece, "bold", look) for line in lines for piece in wrap(line, look.width)]


def _grid(sheet: Sheet, look: Look) -> list[str]:
    """Titles, lines and the total between rules."""
    heads, body = sheet.heads, [*sheet.lines, *([sheet.total] if sheet.total else [])]
    name = next((i for i, head in enumerate(heads) if head.key == "name"), None)
    indents = [_indent(line.indent, look) for line in body]
    text = [_cells(line, indent, heads, look) for line, indent in zip(body, indents, strict=True)]
    natural = [max([cells(head.title), *(cells(row[i]) for row in text)]) for i, head in enumerate(heads)]
    least = {i: PROSE if head.prose else TIGHT for i, head in enumerate(heads)}
    if name is not None:  # only names are shortened
        labels = (cells(row[name]) for row, line in zip(text, body, strict=True) if line.mark == "rest")
        least[name] = max([TIGHT, *(cells(indent) + TIGHT for indent in indents), *labels])
    widths = fit(heads, natural, least, look.width, sheet.squeeze)

    rule = paint(look.glyphs.rule * (sum(widths.values()) + len(GAP) * (len(widths) - 1)), "dim", look)
    titles = GAP.join(_place(heads[i].title, width, heads[i], look) for i, width in widths.items())
    lines = [paint(titles.rstrip(), "bold", look), rule] if look.header else []
    shown = [heads[i] for i in widths]
    op = next((i for i in widths if heads[i].key in ("kind", "op", "type")), None)
    start = name is None or name not in widths or _distinct(text, name, op, widths[name], look)
    for line, row, indent in zip(body, text, indents, strict=True):
        how = "bold" if line is sheet.total else line.mark
        if name is not None and look.width is not None and not heads[name].prose:
            text_op = row[op] if op is not None else ""
            row[name] = indent + _short(row[name][len(indent) :], widths[name] - cells(indent), text_op, look, start)
        lines += [rule] if line is sheet.total else []
        for piece in _broken([row[i] for i in widths], shown, list(widths.values()), look):
            placed = (_place(*of, look, how) for of in zip(piece, widths.values(), shown, strict=True))
            lines.append(paint(GAP.join(placed).rstrip(), how, look))
    lost = list(dict.fromkeys(head.alone or head.title for i, head in enumerate(heads) if i not in widths))
    if lost and (sheet.complete or sheet.squeeze):
        many = len(heads) - len(widths)
        which = ", ".join(lost) if len(lost) <= FEW_LOST else f"{many} of {len(heads)} columns"
        lines += wrap(f"too narrow for {which}: widen the terminal, or write a file with -o", look.width)
    return lines


def _broken(row: Sequence[str], heads: Sequence[Head], widths: Sequence[int], look: Look) -> Iterator[list[str]]:
    """The cells of a line, and below them what does not fit of those that are sentences."""
    if look.width is None or all(cells(text) <= width for text, width in zip(row, widths, strict=True)):
        yield list(row)
        return
    broken = (
        list(wrap(text, width, "")) if head.prose else [text]
        for text, head, width in zip(row, heads, widths, strict=True)
    )
    for pieces in zip_longest(*broken, fillvalue=""):
        yield list(pieces)


def _cells(line: Line, indent: str, heads: Sequence[Head], look: Look) -> list[str]:
    """The cells of a line as text, nested lines with their indent and short name."""
    row = [show(value, head, look) for value, head in zip(line.values, heads, strict=True)]
    if not indent and not line.short:
        return row
    return [
        indent + (look.text(line.short) or text) if head.key == "name" else text
        for text, head in zip(row, heads, strict=True)
    ]


def _indent(indent: str, look: Look) -> str:
    """The indent, at most a third of the terminal: a model may nest its modules very deeply."""
    if look.width is None or cells(indent) <= look.width // 3:
        return indent
    return look.glyphs.cut + indent[-(look.width // 3) :]


def _short(name: str, width: int, op: str, look: Look, start: bool = True) -> str:
    """A layer's name in at most ``width`` cells; its operator, which has its own column, is dropped first."""
    cut = look.glyphs.cut
    if op and cells(name) > width and name.endswith("/" + op):
        name = name[: -len(op)] + cut
    return shorten(name, width, cut, start)


def _distinct(text: Sequence[Sequence[str]], name: int, op: int | None, width: int, look: Look) -> bool:
    """Whether names shortened in the middle distinguish as many lines as names shortened at the start."""
    if look.width is None or all(cells(row[name]) <= width for row in text):
        return True
    pairs = {(row[name], row[op] if op is not None else "") for row in text}
    middle, end = (len({_short(each, width, of, look, start) for each, of in pairs}) for start in (True, False))
    return middle >= end


def _place(text: str, width: int, head: Head, look: Look, how: str = "") -> str:
    """One cell, filled to its width; zeros are pale where colour allows, to let the other figures stand out."""
    if not head.right:
        return pad(text if look.width is None else shorten(text, width, look.glyphs.cut), width)
    placed = pad(text, width, right=True)
    return paint(placed, "dim", look) if text in ("0", "0.0") and not how else placed


def fit(
    heads: Sequence[Head], natural: Sequence[int], least: dict[int, int], width: int | None, squeeze: bool = False
) -> dict[int, int]:
    """Index -> width of the columns that are kept, so that a line fits.

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
    kept = list(range(len(heads)))

    def floors(text: int) -> dict[int, int]:
        return {i: min(natural[i], max(text, least[i])) if heads[i].kind == "text" else natural[i] for i in kept}

    def free(widths: dict[int, int]) -> int:
        return width - sum(widths.values()) - len(GAP) * (len(widths) - 1)

    for text, core in ((EASY, SPARE if squeeze else CORE), (TIGHT, 0)):
        while len(kept) > 1 and free(floors(text)) < 0:
            last = max(kept, key=lambda i: (heads[i].rank, i))
            if heads[last].rank <= core:
                break
            kept.remove(last)
    widths = floors(TIGHT)
    room, growing = free(widths), [i for i in kept if widths[i] < natural[i]]
    while room > 0 and growing:  # the narrowest grows first, so that short names are whole soon
        narrowest = min(growing, key=widths.__getitem__)
        widths[narrowest] += 1
        room -= 1
        growing = [i for i in growing if widths[i] < natural[i]]
    return widths if room >= 0 else {i: min(w, width) for i, w in widths.items()}


def _summary(sheet: Sheet, look: Look) -> list[str]:
    """Each figure of the whole model, with every digit and, where there is room, in short."""
    first = max((cells(f.title) for f in sheet.summary), default=0)
    second = max((cells(f.exact) for f in sheet.summary), default=0)
    exact = [f"{pad(f.title, first)}{GAP}{pad(f.exact, second, right=True)}" for f in sheet.summary]
    # the short form where it says more, or less
    brief = ["" if f.short in (f.exact, f"{f.exact} B") else f.short for f in sheet.summary]
    both = [f"{line}{GAP}{short}".rstrip() for line, short in zip(exact, brief, strict=True)]
    if look.width is None or max(map(cells, both), default=0) <= look.width:
        return both
    lines: list[str] = []
    for line, whole, f in zip(exact, both, sheet.summary, strict=True):
        if CONVERTED not in f.short:
            lines.append(line)
        elif cells(whole) <= look.width:
            lines.append(whole)
        else:  # without it the figure could not be compared with those beside it
            lines += [line, *wrap(f"  {f.short}", look.width, "    ")]
    return lines


def _below(sheet: Sheet, look: Look) -> list[str]:
    lines = [(note, "unknown") if is_gap(note) else (f"note: {note}", "") for note in sheet.notes]
    if sheet.hint and look.width is not None:
        lines.append((sheet.hint, "dim"))
    return [paint(piece, how, look) for note, how in lines for piece in wrap(note, look.width)]
