"""xlsx for people with a spreadsheet: a sheet a view, numbers that are numbers, `~` in the format of estimated ones.

The mark of an estimate is the number format of its cell and not a part of its value, so that sums are right and a
measured and an estimated cell of one column are told apart. What the marks and columns mean stands in the last sheet.
Rows go to disk as they come: a workbook needs no more memory than a batch.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, BinaryIO
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.compute as pc
import xlsxwriter
from xlsxwriter.exceptions import FileCreateError

from pipeline import __version__
from pipeline.contracts import ViewColumn
from pipeline.errors import ExportError
from pipeline.export import ALWAYS, NEVER, Options, Rows, headings
from pipeline.export import cells as arrow
from pipeline.export.marks import ESTIMATED

if TYPE_CHECKING:
    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

# What Excel allows.
_MOST_ROWS = 1_048_576
_MOST_COLUMNS = 16_384
_MOST_CHARS = 32_767  # of a cell, in UTF-16
_MOST_NAME = 31
_EXACT = 10**15  # a spreadsheet keeps 15 digits of a number: a longer one is written as text, and stays whole

_CUT = " [cut: too long for a cell]"
_UNCLEAN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]"
)  # what XML 1.0 does not allow, and other controls
_NAME = re.compile(r"[\[\]:*?/\\\x00-\x1f]")
_STEP = 2_048  # rows that are Python objects at a time
_WIDTHS = (8, 60)
_FILTER = 3  # the width of the arrow beside a heading
_FIRST_DAY = 61  # 1 March 1900: before it, spreadsheets disagree on the calendar
_END_OF_DAYS = 2_958_466  # 1 January 10000
_DAYS_TO_1970 = 25_569
_MICROSECONDS = 86_400_000_000
_MADE = datetime(2000, 1, 1)  # noqa: DTZ001 - a fixed one, without a zone as the format has none: same rows, same bytes

# What stands before a number, and its digits.
_COUNT, _RATIO, _MONEY, _RATE = ("", "#,##0"), ("", "#,##0.00##"), ("$", "#,##0.00"), ("$", "#,##0.00######")
_TIME, _DAY = "yyyy-mm-dd hh:mm:ss", "yyyy-mm-dd"

Cell = tuple[Callable[..., Any], Any, "Format | None"]

_LEGEND = (
    ("12,345", "measured: the client reported this number, or an exact count was made"),
    (
        "~12,345",
        "estimated: computed from a text's size or from a price table; a sum of such cells is an estimate, too",
    ),
    ("(empty)", "n/a: not recorded by the client, or there is none. It is not zero"),
    ("..._measured", "the flag of the count of that name: TRUE measured, FALSE estimated or n/a"),
    ("..._usd", "measured and estimated money stand in two columns and are never to be added"),
    ("times", "all times are UTC; days, weeks and months are those of the zone {zone}"),
    ("the sign ~", "is the number format of its cell; the value is a plain number"),
    ("long numbers", "a whole number of more than 15 digits is a text here, as a spreadsheet would round it"),
)


def write(rows: Rows, stream: BinaryIO, options: Options) -> None:
    """Write a workbook with one sheet of rows."""
    write_all([rows], stream, options)


def write_all(results: Iterable[Rows], stream: BinaryIO, options: Options) -> None:
    """Write a workbook with a sheet a result, and one that says what it all means.

    The results are asked for one after another, each when the one before is written. Raises ExportError for more rows
    or columns than a sheet holds; an OSError of the stream passes.
    """
    with tempfile.TemporaryDirectory(prefix="agentlens-xlsx-") as folder:
        book = xlsxwriter.Workbook(
            _Once(stream),
            {
                "constant_memory": True,
                "tmpdir": folder,
                "use_zip64": True,
                "strings_to_formulas": False,
                "strings_to_urls": False,
                "strings_to_numbers": False,
            },
        )
        book.set_properties({"title": "AgentLens", "comments": f"agentlens {__version__}", "created": _MADE})
        styles = Styles(book)
        taken: set[str] = {"notes", "history"}  # the second is a name that Excel keeps for itself
        said: list[Sequence[str]] = []
        try:
            for rows in results:
                name = _sheet_name(rows.name, taken)
                _sheet(book.add_worksheet(name), rows, options, styles)
                said += _about(name, rows, options)
            _notes(book.add_worksheet("Notes"), said, styles, options.timezone)
            book.close()
        except FileCreateError as error:
            raise error.args[0] from None  # the stream's own OSError, which the library has wrapped
        finally:
            book.fileclosed = True  # what has failed is not finished by its destructor
            for sheet in book.worksheets():
                sheet._opt_close()  # noqa: SLF001 - its temporary file, which only a finished workbook closes


class _Once:
    """A stream that fails once: what its user still writes while it is taken down is nobody's error any more."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._failed = False

    def write(self, data: bytes) -> int:
        if not self._failed:
            try:
                self._stream.write(data)
            except OSError:
                self._failed = True
                raise
        return len(data)

    def tell(self) -> int:
        return 0 if self._failed else self._stream.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        return 0 if self._failed else self._stream.seek(offset, whence)

    def flush(self) -> None:
        if not self._failed:
            self._stream.flush()


def _sheet_name(name: str, taken: set[str]) -> str:
    """A name that Excel takes, and that no other sheet has."""
    base = _NAME.sub("_", name)[:_MOST_NAME].strip("' ") or "rows"
    chosen, n = base, 1
    while chosen.lower() in taken:
        n += 1
        end = f" ({n})"
        chosen = base[: _MOST_NAME - len(end)] + end
    taken.add(chosen.lower())
    return chosen


class Styles:
    """The formats of a workbook's cells, each made once."""

    def __init__(self, book: xlsxwriter.Workbook) -> None:
        self._book = book
        self._numbers: dict[tuple[tuple[str, str], bool], Format] = {}
        self.heading: Format = book.add_format({"bold": True, "bottom": 1, "text_wrap": False})
        self.wrapped: Format = book.add_format({"text_wrap": True, "valign": "top"})
        self.text: Format = book.add_format({"num_format": "@"})
        self.time: Format = book.add_format({"num_format": _TIME})
        self.day: Format = book.add_format({"num_format": _DAY})

    def number(self, pattern: tuple[str, str], *, measured: bool) -> Format:
        """The format of a number, with the mark of an estimate before its sign."""
        key = (pattern, measured)
        if key not in self._numbers:
            before = pattern[0] if measured else f"{ESTIMATED}{pattern[0]}"
            below = f"-{pattern[0]}" if measured else f"{ESTIMATED}-{pattern[0]}"
            signed = f'"{before}"{pattern[1]};"{below}"{pattern[1]}' if before else pattern[1]
            self._numbers[key] = self._book.add_format({"num_format": signed})
        return self._numbers[key]


def _sheet(sheet: Worksheet, rows: Rows, options: Options, styles: Styles) -> None:
    names = [_text(name) for name in headings(rows.columns, options)]
    if len(names) > _MOST_COLUMNS:
        raise ExportError(f"{rows.name} has {len(names):,} columns; a sheet holds {_MOST_COLUMNS:,}")
    flags = rows.flag_positions()
    columns = [
        Column(column, flags.get(i), styles, sheet, is_flag=i in set(flags.values()))
        for i, column in enumerate(rows.columns)
    ]
    for position, name in enumerate(names):
        sheet.write_string(0, position, name, styles.heading)
    at = 1
    for batch in _steps(rows, options.limit):
        if at + batch.num_rows > _MOST_ROWS:
            hint = "take fewer with --since, --project or --limit, or write it as parquet or csv"
            raise ExportError(f"{rows.name} has more rows than the {_MOST_ROWS - 1:,} that a sheet holds", hint=hint)
        made = [list(column.cells(batch, i)) for i, column in enumerate(columns)]
        for cells in zip(*made, strict=True):
            for position, cell in enumerate(cells):
                if cell is not None:
                    cell[0](at, position, cell[1], cell[2])
            at += 1
    for position, (name, column) in enumerate(zip(names, columns, strict=True)):
        least, most = _WIDTHS
        sheet.set_column(position, position, min(most, max(least, len(name) + _FILTER, column.width + 1)))
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, at - 1, len(names) - 1)


def _steps(rows: Rows, limit: int | None) -> Iterator[pa.RecordBatch]:
    for batch in rows.first(limit):
        for start in range(0, batch.num_rows, _STEP):
            yield batch.slice(start, _STEP)


class Column:
    """One column of a sheet: which cells its values become, and how wide they are."""

    def __init__(
        self, column: ViewColumn, flag: int | None, styles: Styles, sheet: Worksheet, *, is_flag: bool
    ) -> None:
        self.width = 0
        self._flag = flag
        self._is_flag = is_flag
        self._sheet = sheet
        self._never = column.measured == NEVER or column.name == "estimated_usd"
        self._is_money = column.unit == "USD" or column.name.endswith("_usd")
        self._is_rate = not self._is_money and (column.unit or "").startswith("USD")
        self._styles = styles

    def cells(self, batch: pa.RecordBatch, position: int) -> Iterator[Cell | None]:
        """The cells of the column, None for an empty one."""
        array = batch.column(position)
        kind = array.type
        if pa.types.is_dictionary(kind):
            array = array.dictionary_decode()
            kind = array.type
        if pa.types.is_boolean(kind):
            return self._truths(array.fill_null(False) if self._is_flag else array)
        if arrow.is_number(kind):
            return self._numbers(array, batch)
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return self._times(array)
        return self._texts(array)

    def _truths(self, array: pa.Array) -> Iterator[Cell | None]:
        write = self._sheet.write_boolean
        for value in array.to_pylist():
            yield None if value is None else (write, value, None)

    def _numbers(self, array: pa.Array, batch: pa.RecordBatch) -> Iterator[Cell | None]:
        if self._flag is not None:
            flags = batch.column(self._flag).fill_null(False).to_pylist()
        else:
            flags = [not self._never] * len(array)
        write = self._sheet.write_number
        for value, measured in zip(array.to_pylist(), flags, strict=True):
            if value is None or not isfinite(value):
                yield None
            elif abs(value) >= _EXACT and not isinstance(value, float):
                yield self._as_text(str(value))
            else:
                pattern = self._pattern(value)
                self.width = max(self.width, len(f"{value:,.2f}"))
                plain = float(value) if isinstance(value, Decimal) else value
                yield write, plain, self._styles.number(pattern, measured=measured)

    def _pattern(self, value: float | Decimal) -> tuple[str, str]:
        if self._is_rate:
            return _RATE
        if self._is_money:  # of less than a cent, the digits that say something
            return _RATE if 0 < abs(float(value)) < 0.01 else _MONEY
        return _COUNT if value == int(value) else _RATIO

    def _times(self, array: pa.Array) -> Iterator[Cell | None]:
        """Moments as the days since 1900 that a spreadsheet counts, without a zone: those of UTC."""
        is_day = pa.types.is_date32(array.type)
        style, write = self._styles.day if is_day else self._styles.time, self._sheet.write_number
        if is_day:
            days: list[float | None] = array.cast(pa.int32()).to_pylist()
        else:
            micros = array.cast(pa.timestamp("us", getattr(array.type, "tz", None)), safe=False).cast(pa.int64())
            days = pc.divide(micros.cast(pa.float64(), safe=False), float(_MICROSECONDS)).to_pylist()
        self.width = max(self.width, len(_DAY if is_day else _TIME))
        for i, day in enumerate(days):
            if day is None:
                yield None
            elif _FIRST_DAY <= day + _DAYS_TO_1970 < _END_OF_DAYS:
                yield write, day + _DAYS_TO_1970, style
            else:
                yield self._as_text(arrow.text(array.slice(i, 1))[0].as_py())

    def _texts(self, array: pa.Array) -> Iterator[Cell | None]:
        texts = arrow.text(array)
        longest = pc.max(pc.utf8_length(texts)).as_py()
        self.width = max(self.width, longest or 0)
        for value in texts.to_pylist():
            yield None if value is None else self._as_text(value)

    def _as_text(self, value: str) -> Cell:
        return self._sheet.write_string, _text(value), self._styles.text


def _text(value: str) -> str:
    """A text as a cell may hold it: nothing that XML forbids, and no longer than a cell is."""
    clean = _UNCLEAN.sub("\N{REPLACEMENT CHARACTER}", value).replace("\r\n", "\n").replace("\r", "\n")
    if len(clean) > _MOST_CHARS // 2 and len(clean.encode("utf-16-le")) // 2 > _MOST_CHARS:
        room = clean.encode("utf-16-le")[: 2 * (_MOST_CHARS - len(_CUT))]
        clean = room.decode("utf-16-le", "ignore") + _CUT
    if clean.startswith("<r>") and clean.endswith("</r>"):
        # What looks so is written as it stands, for rich text: then let it be rich text that says this.
        return f'<r><t xml:space="preserve">{escape(clean)}</t></r>'
    return clean


# --- the last sheet ------------------------------------------------------------------------------------------------


def _about(sheet: str, rows: Rows, options: Options) -> Iterator[Sequence[str]]:
    """A line a column of what the contract says of it."""
    if rows.help or rows.notes:
        yield sheet, "(a row)", "", "", " ".join(filter(None, (rows.help, rows.notes))), ""
    words: Mapping[str | None, str] = {None: "", ALWAYS: "measured", NEVER: "estimated"}
    for name, column in zip(headings(rows.columns, options), rows.columns, strict=True):
        measured = words.get(column.measured, f"says {column.measured}")
        yield sheet, name, column.unit or "", measured, column.doc, column.null or ""


def _notes(sheet: Worksheet, said: Sequence[Sequence[str]], styles: Styles, zone: str) -> None:
    at = 0
    for mark, meaning in _LEGEND:
        sheet.write_string(at, 0, mark, styles.heading)
        sheet.write_string(at, 1, meaning.format(zone=_text(zone)))
        at += 1
    at += 1
    names = ("sheet", "column", "unit", "measured or estimated", "what it is", "empty when")
    for position, name in enumerate(names):
        sheet.write_string(at, position, name, styles.heading)
    for row in said:
        at += 1
        for position, value in enumerate(row):
            if value:
                sheet.write_string(at, position, _text(value), styles.wrapped if position > 3 else None)
    for position, width in enumerate((18, 30, 22, 24, 80, 40)):
        sheet.set_column(position, position, width)
