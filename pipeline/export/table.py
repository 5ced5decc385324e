"""Tables for people: marks for what is measured and what is estimated, totals, and a layout that fits the terminal.

Numbers are never cut. Where the terminal is too narrow, headings are broken, columns that say nothing are left out,
texts are cut in their middle, and at last columns are left out; a line below the table says which.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from pipeline.export import Options, Rows
from pipeline.export.columns import Column, columns
from pipeline.export.courses import Courses
from pipeline.export.marks import ESTIMATED, NA

_GAP = "  "
_TOTAL = "total"
_NARROW = 12  # a text is not cut below this
_PLAIN_DRAWING = str.maketrans({"─": "-", "…": "*"})
_BOLD, _DIM, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[0m"


def write(rows: Rows, stream: BinaryIO, options: Options) -> None:
    """Write rows as a table, with the totals of all rows and a legend of the marks that occur."""
    made = columns(rows, options)
    courses = Courses(rows.course) if rows.course else None
    seen = shown = 0
    for batch in rows.slices():
        keep = batch.num_rows if options.limit is None else max(0, min(batch.num_rows, options.limit - seen))
        for column in made:
            column.take(batch, keep)
        if courses:
            courses.take(batch, keep)
        seen += batch.num_rows
        shown += keep
    lines = _lines(rows, made, options, seen, shown) if seen else ["no rows", *([rows.help] if rows.help else [])]
    if courses and seen:
        at = lines.index("") if "" in lines else len(lines)  # between the table and what is said of it
        lines[at:at] = courses.lines(options.width, is_ascii=not can_draw(options.encoding))
    text = "".join(f"{line}{options.newline}" for line in lines)
    if not can_draw(options.encoding):
        text = text.translate(_PLAIN_DRAWING)
    stream.write(text.encode(options.encoding, "replace"))


def can_draw(encoding: str) -> bool:
    """Has an encoding the characters that a table is drawn with?"""
    try:
        return bool("─…▁█".encode(encoding))
    except (UnicodeEncodeError, LookupError):
        return False


def _lines(rows: Rows, made: list[Column], options: Options, seen: int, shown: int) -> list[str]:
    totals = options.totals and seen > 1 and any(column.summed for column in made)
    layout = fit(made, rows.keys, options, totals=totals)
    totals = totals and any(column.summed for column in layout.columns)
    return [*_drawn(layout, options, totals=totals), *_below(rows, layout, options, seen, shown, totals=totals)]


# --- what fits -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Layout:
    """The columns that are shown, how wide each is, and those that are not."""

    columns: list[Column]
    widths: list[int]
    headings: list[list[str]]
    same: list[Column]
    left_out: list[Column]


def fit(made: list[Column], keys: Sequence[str], options: Options, *, totals: bool) -> Layout:
    """Choose columns and widths for the terminal."""
    content = {column: _content_width(column, totals=totals) for column in made}
    kept, same = _without_same(made) if options.compact else (made, [])
    whole = [max(content[column], cell_width(column.heading)) for column in kept]
    if options.width is None or _sum(whole) <= options.width:
        return Layout(kept, whole, [[column.heading] for column in kept], same, [])
    broken = {column: max(content[column], _longest_word(column)) for column in made}
    if _sum([broken[column] for column in kept]) > options.width:
        kept, same = _without_same(made)
    smallest = {c: w if c.is_whole else min(w, max(_NARROW, _longest_word(c))) for c, w in broken.items()}
    left_out: list[Column] = []
    for column in _least_needed(kept, keys):
        if _sum([smallest[c] for c in kept]) <= options.width:
            break
        kept = [c for c in kept if c is not column]
        left_out.append(column)
    widths = _cut([broken[c] for c in kept], [smallest[c] for c in kept], options.width)
    headings = [_broken(column.heading, width) for column, width in zip(kept, widths, strict=True)]
    return Layout(kept, widths, headings, same, sorted(left_out, key=made.index))


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _content_width(column: Column, *, totals: bool) -> int:
    """Any column without a sum may be the first one, which holds the word for the others."""
    last = (column.total() if column.summed else _TOTAL) if totals else ""
    return max(map(cell_width, [*column.cells, last]))


def _longest_word(column: Column) -> int:
    return max(map(cell_width, column.heading.split(" ")))


def _cut(widths: list[int], smallest: list[int], width: int) -> list[int]:
    """Take from the widest text, one by one, until all fit."""
    widths = list(widths)
    while _sum(widths) > width:
        wide = [i for i, least in enumerate(smallest) if widths[i] > least]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _without_same(made: list[Column]) -> tuple[list[Column], list[Column]]:
    """Columns that tell rows apart, and those that say the same in every row; the first ones if that is all of them."""
    same = [column for column in made if column.is_same()]
    kept = [column for column in made if column not in same] or made[:1]
    return kept, [column for column in same if column not in kept]


def _least_needed(kept: list[Column], keys: Sequence[str]) -> list[Column]:
    """Columns in the order in which they are left out: ids, facts, sums, keys; of each the last first; one stays."""

    def rank(column: Column) -> int:
        if column.names[0] in keys or (not keys and column is kept[0]):
            return 4
        if column.names[0].endswith(("_id", "sha256")):
            return 0
        if column.is_money:
            return 3
        return 2 if column.summed else 1

    return sorted(kept, key=lambda column: (rank(column), -kept.index(column)))[:-1]


# --- drawing -------------------------------------------------------------------------------------------------------


def _drawn(layout: Layout, options: Options, *, totals: bool) -> list[str]:
    painted = _painter(color=options.color)
    height = max(map(len, layout.headings))
    above = [[""] * (height - len(heading)) + heading for heading in layout.headings]

    def bold(cell: str, _: Column) -> str:
        return painted(cell, _BOLD)

    lines = [_row(layout, [heading[i] for heading in above], bold) for i in range(height)]
    rule = _GAP.join("─" * width for width in layout.widths)
    lines.append(rule)

    def mark(cell: str, column: Column) -> str:
        if cell.strip() == NA:
            return painted(cell, _DIM)
        is_estimate = column.is_number and cell.lstrip().startswith(ESTIMATED)  # a path may begin with a ~, too
        return painted(cell, _YELLOW) if is_estimate else cell

    rows = zip(*(column.cells for column in layout.columns), strict=True)
    lines += [_row(layout, cells, mark) for cells in rows]
    if totals:
        cells = [column.total() for column in layout.columns]
        if not layout.columns[0].summed:
            cells[0] = _TOTAL
        lines += [rule, _row(layout, cells, bold)]
    return lines


def _painter(*, color: bool) -> Callable[[str, str], str]:
    return lambda cell, style: f"{style}{cell}{_PLAIN}" if color and cell.strip() else cell


def _row(layout: Layout, cells: Sequence[str], paint: Callable[[str, Column], str]) -> str:
    """A line. Blanks at its end are left away."""
    parts = []
    for column, width, cell in zip(layout.columns, layout.widths, cells, strict=True):
        shown = cell if column.is_number else shortened(cell, width)
        blanks = " " * (width - cell_width(shown))
        parts.append(blanks + paint(shown, column) if column.is_number else paint(shown, column) + blanks)
    return _GAP.join(parts).rstrip()


def _broken(heading: str, width: int) -> list[str]:
    return textwrap.wrap(heading, width, break_long_words=False, break_on_hyphens=False) or [""]


def cell_width(text: str) -> int:
    """Columns of the terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shortened(text: str, width: int) -> str:
    """A text cut in its middle: paths and names differ at both ends."""
    if cell_width(text) <= width:
        return text
    head, tail = text[: (width - 1) // 2], text[len(text) - width // 2 :]
    while cell_width(head) + 1 + cell_width(tail) > width:
        if cell_width(head) >= cell_width(tail):
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}…{tail}"


# --- below ---------------------------------------------------------------------------------------------------------


def _below(rows: Rows, layout: Layout, options: Options, seen: int, shown: int, *, totals: bool) -> list[str]:
    """What a reader must know: the marks, rows and columns that are not shown, the notes of the contract."""
    cells = [cell for c in layout.columns for cell in (*c.cells, *([c.total()] if totals and c.summed else []))]
    numbers = [cell for c in layout.columns if c.is_number for cell in (*c.cells, c.total() if totals else "")]
    marks = []
    if any(ESTIMATED in cell for cell in numbers) or any(ESTIMATED in c.cells[0] for c in layout.same if c.is_number):
        marks.append(f"{ESTIMATED} estimated")
    if NA in cells or any(c.cells[0] == NA for c in layout.same):
        marks.append(f"{NA} not recorded, or there is none")
    said = [", ".join(marks)] if marks and options.legend else []
    if shown < seen:
        said.append(f"{shown:,} of {seen:,} rows{'; the totals are of all' if totals else ''}")
    if layout.same:
        known = ", ".join(f"{c.heading} {c.cells[0]}" for c in layout.same if c.cells[0] not in ("", NA))
        unknown = ", ".join(c.heading for c in layout.same if c.cells[0] == NA)
        parts = [known, f"{NA}: {unknown}" if unknown else ""]
        said.append(f"in every row{' shown' if shown < seen else ''}: " + "; ".join(filter(None, parts)))
    if layout.left_out:
        said.append("too narrow for: " + ", ".join(column.heading for column in layout.left_out))
    if rows.notes:
        said.append(rows.notes)
    lines = [line for text in said for line in textwrap.wrap(text, options.width or 120, break_on_hyphens=False)]
    return ["", *lines] if lines else []
