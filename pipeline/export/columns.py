"""Columns of a table for people: cells with their marks, and totals, taken from batch after batch."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.contracts import ViewColumn
from pipeline.errors import ConfigError
from pipeline.export import NEVER, Options, Rows, headings
from pipeline.export import cells as arrow
from pipeline.export.marks import NA, Number, cost, count, money, rate

_COST = ("measured_usd", "estimated_usd")
_UNITS = {"tokens", "bytes", "ms"}  # that a heading names, where the column's name does not
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Control characters, and those that turn the direction of the text around them: a transcript may hold any.
_BLANKS = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(eq=False)
class Column(ABC):
    """A column that is shown. `names` are the columns of the contract that it shows."""

    names: tuple[str, ...]
    heading: str
    cells: list[str] = field(default_factory=list)
    is_number: bool = True
    is_whole: bool = True  # cut, it would say nothing or something else: a number, a time
    is_money: bool = False
    summed: bool = False

    @abstractmethod
    def take(self, batch: pa.RecordBatch, keep: int) -> None:
        """Add all rows of a batch to the total, and the first `keep` of them to the cells."""

    @abstractmethod
    def total(self) -> str:
        """The sum of all rows as it is shown, or nothing for a column that has none."""

    def is_same(self) -> bool:
        """Does it say the same in each of several rows, so that saying it once is enough?"""
        if set(self.cells) == {NA}:
            return True
        if len(self.cells) < 2 or len(set(self.cells)) > 1:
            return False
        return not self.summed or self.total() == self.cells[0]  # a sum says more, but for that of zeros


def columns(rows: Rows, options: Options, *, one_cost: bool = True) -> list[Column]:
    """What is shown of a result: flags have become marks, and with `one_cost` the two money columns one."""
    flags = rows.flag_positions()
    hidden = set(flags.values())
    names = [column.name for column in rows.columns]
    written = headings(rows.columns, options)
    zone = _zone(options.timezone)
    has_cost = one_cost and set(_COST) <= set(names)
    made: list[Column] = []
    for i, column in enumerate(rows.columns):
        if i in hidden or (has_cost and column.name == _COST[1]):
            continue
        if has_cost and column.name == _COST[0]:
            made.append(CostColumn(i, names.index(_COST[1]), summed=column.total))
        else:
            made.append(PlainColumn(i, flags.get(i), column, _heading(column, written[i]), zone))
    return made


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigError(f"there is no time zone {name!r}", hint="a name such as Europe/Berlin or UTC") from error


def _heading(column: ViewColumn, name: str) -> str:
    words = clean(name).replace("_", " ")
    return f"{words} ({column.unit})" if column.unit in _UNITS and column.unit not in words.split() else words


class PlainColumn(Column):
    """One column of the contract."""

    def __init__(self, position: int, flag: int | None, column: ViewColumn, heading: str, zone: ZoneInfo) -> None:
        super().__init__(names=(column.name,), heading=heading, summed=column.total)
        self._position = position
        self._flag = flag
        self._never = column.measured == NEVER or column.name == _COST[1]
        self._zone = zone
        self._unit = column.unit or ""
        self._sum = Sum()
        self.is_money = self._unit == "USD" or column.name.endswith("_usd")

    def take(self, batch: pa.RecordBatch, keep: int) -> None:
        values = batch.column(self._position)
        self.is_number = arrow.is_number(values.type)
        self.is_whole = self.is_number or arrow.is_time_or_truth(values.type)
        self.summed = self.summed and self.is_number
        if not self.is_number:
            self.cells += _texts(values.slice(0, keep), self._zone)
            return
        measured = self._measured(batch)
        if self.summed:
            self._sum.add(values, measured)
        pairs = zip(values.slice(0, keep).to_pylist(), measured.slice(0, keep).to_pylist(), strict=True)
        self.cells += [self._cell(value, measured=is_measured) for value, is_measured in pairs]

    def _measured(self, batch: pa.RecordBatch) -> pa.Array:
        if self._flag is not None:
            return batch.column(self._flag).fill_null(False)
        return pa.repeat(pa.scalar(not self._never), batch.num_rows)

    def _cell(self, value: Number | None, *, measured: bool) -> str:
        if self.is_money:
            return money(value, measured=measured)
        if self._unit.startswith("USD") and value is not None:
            return rate(value)
        return count(value, measured=measured)

    def total(self) -> str:
        return self._cell(self._sum.known, measured=self._sum.measured) if self.summed else ""


class CostColumn(Column):
    """`measured_usd` and `estimated_usd` in one column, side by side and never added."""

    def __init__(self, measured: int, estimated: int, *, summed: bool) -> None:
        super().__init__(names=_COST, heading="cost", is_money=True, summed=summed)
        self._positions = (measured, estimated)
        self._sums = (Sum(), Sum())
        self._complete = True

    def take(self, batch: pa.RecordBatch, keep: int) -> None:
        parts = [batch.column(position) for position in self._positions]
        for total, part in zip(self._sums, parts, strict=True):
            total.add(part, part.is_valid())
        self._complete &= bool(pc.all(pc.or_(*(part.is_valid() for part in parts)), min_count=0).as_py())
        self.cells += [cost(*pair) for pair in zip(*(part.slice(0, keep).to_pylist() for part in parts), strict=True)]

    def total(self) -> str:
        known = [total.known for total in self._sums]
        return cost(*known, complete=self._complete) if self.summed else ""


@dataclass(slots=True)
class Sum:
    """A sum of what is known. It is measured if every part of it is known and measured; of no parts it is n/a."""

    known: Number | None = None
    measured: bool = True

    def add(self, values: pa.Array, measured: pa.Array) -> None:
        part = pc.sum(values).as_py()
        if part is not None:
            self.known = part if self.known is None else self.known + part
        self.measured &= bool(pc.all(pc.and_(values.is_valid(), measured), min_count=0).as_py())


def _texts(values: pa.Array, zone: ZoneInfo) -> list[str]:
    kind = values.type
    if pa.types.is_boolean(kind):
        words: Mapping[bool | None, str] = {True: "yes", False: "no", None: NA}
        return [words[value] for value in values.to_pylist()]
    if pa.types.is_timestamp(kind) and kind.tz:
        moments = arrow.without_zone(values).cast(pa.timestamp("s"), safe=False).cast(pa.int64()).to_pylist()
        return [NA if moment is None else _moment(moment, zone) for moment in moments]
    if pa.types.is_timestamp(kind):
        return [NA if text is None else text.rpartition(":")[0] for text in arrow.text(values).to_pylist()]
    return [NA if text is None else clean(text) for text in arrow.text(values).to_pylist()]


def _moment(seconds: int, zone: ZoneInfo) -> str:
    try:
        return f"{(_EPOCH + timedelta(seconds=seconds)).astimezone(zone):%Y-%m-%d %H:%M}"
    except OverflowError:  # beyond the years that a calendar of Python has
        return "infinity" if seconds > 0 else "-infinity"


def clean(text: str) -> str:
    """A text of any origin as one harmless line."""
    return _INVISIBLE.sub("", _BLANKS.sub(" ", text))
