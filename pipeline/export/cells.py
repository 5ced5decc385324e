"""Arrow arrays as text or as plain values, column by column; None stays None."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()  # a column of one batch may hold more than 2 GB
_LIST_SEPARATOR = "; "


def is_text(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def is_number(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def is_time_or_truth(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind))


def is_flat(kind: pa.DataType) -> bool:
    """Does Arrow itself know how to write these as text?"""
    simple = (pa.types.is_boolean, pa.types.is_date, pa.types.is_time, pa.types.is_duration, pa.types.is_null)
    return is_text(kind) or is_number(kind) or any(is_kind(kind) for is_kind in simple)


def without_zone(array: pa.Array) -> pa.Array:
    """Times without their zone, which are then those of UTC. Needs no time zone database."""
    return array.cast(pa.int64()).cast(pa.timestamp(array.type.unit))


def finite(array: pa.Array) -> pa.Array:
    """Floats without what is no number: NaN and infinity are no values of a cell."""
    return pc.if_else(pc.is_finite(array), array, pa.scalar(None, array.type))


def text(array: pa.Array) -> pa.Array:
    """A column as text. Times are those of UTC, a list is joined by `; `, a structure is JSON."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return text(array.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return without_zone(array).cast(TEXT)
    if is_flat(kind):
        return array.cast(TEXT)
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and is_text(kind.value_type):
        flat = array.flatten()
        if not flat.null_count:
            return pc.binary_join(array, pa.scalar(_LIST_SEPARATOR, kind.value_type)).cast(TEXT)
    return pa.array(
        [None if value is None else _one_text(value) for value in array.to_pylist(maps_as_pydicts="lossy")], TEXT
    )


def _one_text(value: Any) -> str:
    """A value of a kind that only somebody's own SQL returns."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, pa.MonthDayNano):
        return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:g}S"
    if isinstance(value, list):
        return _LIST_SEPARATOR.join(v if isinstance(v, str) else _json(v) for v in value if v is not None)
    return _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def plain(array: pa.Array) -> list[Any]:
    """A column as values for JSON: numbers, texts, truth values, lists and objects; times in ISO 8601."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return _iso(array).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_floating(kind):
        return finite(array).to_pylist()  # type: ignore[no-any-return]
    if is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_nested(kind):
        return array.to_pylist(maps_as_pydicts="lossy")  # type: ignore[no-any-return]
    return text(array).to_pylist()  # type: ignore[no-any-return]


def _iso(array: pa.Array) -> pa.Array:
    """`2026-03-01T09:00:00.123Z`: a fraction only where there is one, a zone only where one is known."""
    zone = "Z" if array.type.tz else ""
    pattern = r"^(\S+) ([\d:]{8})(?:\.0+|(\.\d+?)(?:000)*)?$"
    return pc.replace_substring_regex(text(array), pattern, rf"\1T\2\3{zone}")
