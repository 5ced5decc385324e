"""CSV for spreadsheets and for programs: RFC 4180, UTF-8, the columns of the contract, n/a an empty cell.

Whole columns become text by Arrow, without a step per row: a row is an element-wise join of columns, and a batch the
join of its rows, whose buffer is written as it stands.
"""

from __future__ import annotations

from decimal import Decimal
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import ExportError
from pipeline.export import Options, Rows, headings
from pipeline.export.cells import TEXT, finite, is_flat, is_text, text, without_zone

# What a spreadsheet would run: OWASP's list of first characters (= + - @, also full-width ones), behind blanks too.
_FORMULA = r"^[\s\pZ\x{FEFF}]*[=+\-@\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]|^[\t\r\n]"
# What it would read as a number and write back as another text: leading zeros, an exponent, more than its 15 digits,
# zeros at the end of a decimal (version 1.10).
_NUMBER_LIKE = r"^\s*(?:0\d+(?:\.\d*)?|(?:\d+\.?\d*|\.\d+)[eE][+\-]?\d+|\d{16,}(?:\.\d*)?|\d*\.\d{15,}|\d*\.\d*0)\s*$"
_DEFUSE = f"{_FORMULA}|{_NUMBER_LIKE}"
_DIGITS = 15
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}]"
_QUOTE = r'[",\r\n]|^$'  # an empty text is quoted, which tells it from n/a
_SPECIAL = f"{_DEFUSE}|{_CONTROL}|{_QUOTE}"


def write(rows: Rows, stream: BinaryIO, options: Options) -> None:
    """Write rows as CSV, the header first. A flag that is NULL is `false`, as what is not known is not measured."""
    flags = set(rows.flag_positions().values())
    if flags and min(flags) != len(rows.columns) - len(flags):
        raise ExportError(f"{rows.name}: the flags are not the last columns")
    header = _cells(pa.array(headings(rows.columns, options), TEXT))
    _write_lines(pc.binary_join(_one_list(header), pa.scalar(",", TEXT)), stream, options.newline)
    for batch in rows.first(options.limit):
        columns = [_column(column, is_flag=i in flags) for i, column in enumerate(batch.columns)]
        _write_lines(_joined(columns), stream, options.newline)


def _joined(columns: list[pa.Array]) -> pa.Array:
    """One text a row. A lone n/a is written as an empty text, since readers skip an empty line."""
    if len(columns) == 1:
        return columns[0].fill_null('""')
    return pc.binary_join_element_wise(*columns, pa.scalar(",", TEXT), null_handling="replace", null_replacement="")


def _one_list(texts: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(texts)], pa.int64()), texts)


def _write_lines(lines: pa.Array, stream: BinaryIO, newline: str) -> None:
    stream.write(pc.binary_join(_one_list(lines), pa.scalar(newline, TEXT))[0].as_buffer())
    stream.write(newline.encode())


def _column(array: pa.Array, *, is_flag: bool) -> pa.Array:
    """A column as it stands between the commas."""
    kind = array.type
    if is_flag:
        return text(array.fill_null(False))
    if pa.types.is_timestamp(kind):
        return text(without_zone(array).cast(pa.timestamp("ms"), safe=False))
    if pa.types.is_floating(kind):
        return _without_exponent(_fifteen_digits(finite(array)))
    if pa.types.is_decimal(kind):
        return _without_exponent(text(array))
    if is_flat(kind) and not is_text(kind):
        return text(array)
    return _cells(text(array))


def _fifteen_digits(numbers: pa.Array) -> pa.Array:
    """Floats as text with the 15 significant digits that a spreadsheet keeps: more would not survive it."""
    written = text(numbers)
    long = pc.greater(pc.utf8_length(written), _DIGITS + 1).fill_null(False)
    if not pc.any(long).as_py():
        return written
    rounded = [repr(float(f"{number:.{_DIGITS}g}")) for number in numbers.filter(long).to_pylist()]
    return pc.replace_with_mask(written, long, pa.array(rounded, TEXT))


def _without_exponent(numbers: pa.Array) -> pa.Array:
    """`0.0000001` for `1e-7`: the same digits, as money is written."""
    short = pc.match_substring_regex(numbers, "[eE]").fill_null(False)
    if not pc.any(short).as_py():
        return numbers
    written = [format(Decimal(number), "f") for number in numbers.filter(short).to_pylist()]
    return pc.replace_with_mask(numbers, short, pa.array(written, TEXT))


def _cells(texts: pa.Array) -> pa.Array:
    """Texts that no spreadsheet runs or changes, quoted where they must be. Most columns need nothing."""
    if not pc.any(pc.match_substring_regex(texts, _SPECIAL)).as_py():
        return texts
    clean = pc.replace_substring_regex(texts, _CONTROL, "\N{REPLACEMENT CHARACTER}")
    defused = pc.if_else(pc.match_substring_regex(clean, _DEFUSE), _around("'", clean, ""), clean)
    doubled = pc.replace_substring(defused, '"', '""')
    return pc.if_else(pc.match_substring_regex(defused, _QUOTE), _around('"', doubled, '"'), defused)


def _around(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(before, TEXT), texts, pa.scalar(after, TEXT), pa.scalar("", TEXT))
